"""The tables of a demo have what its servers were asked for. `drumbeat` must be in PATH."""

from __future__ import annotations

import collections
import html
import re
import shutil
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import drumbeat


def rows(table: Any, *columns: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for batch in table.to_batches(columns=list(columns) or None):
        found += batch.to_pylist()
    return found


class TestCrawl(unittest.TestCase):
    directory: Path
    crawl: drumbeat.Crawl

    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        web = ["--pages=1000", "--hosts=100", "--plds=40", f"--server-log={cls.directory}/requests"]
        drumbeat.run("demo", "--quiet", "--admin=none", f"--dir={cls.directory}/c.1", *web)
        cls.crawl = drumbeat.Crawl(cls.directory / "c.1")

    def test_pages(self) -> None:
        lines = (self.directory / "requests").read_text().splitlines()
        requested = [line.split()[2] for line in lines if "/robots" not in line]
        got = [row["url"] for row in rows(self.crawl.pages(), "url")]
        self.assertGreater(len(got), 500)
        self.assertCountEqual(got, requested)

    def test_links(self) -> None:
        targets = {row["to_url"] for row in rows(self.crawl.links(), "to_url")}
        pages = rows(self.crawl.pages(), "url", "depth", "fetch_redirect")
        targets |= {page["fetch_redirect"] for page in pages}
        found = {page["url"] for page in pages if page["depth"] > 0}
        self.assertGreater(len(found), 500)
        self.assertLessEqual(found, targets)

    def test_texts(self) -> None:
        texts = rows(self.crawl.texts(), "url", "text")
        pages = rows(self.crawl.pages(), "url", "fetch_status", "content_mime_type")
        found = [p["url"] for p in pages if p["content_mime_type"] == "text/html" and p["fetch_status"] == 200]
        self.assertCountEqual([text["url"] for text in texts], found)
        page = max(texts, key=lambda text: len(text["text"]))
        body = html.unescape(re.sub("<[^>]*>", "", self.crawl.get(page["url"]).decode()))
        for word in page["text"].split():
            self.assertIn(word, body)
        self.assertTrue(self.crawl.get(page["url"], "--head").startswith(b"HTTP/1.1 200"))

    def test_changes(self) -> None:
        changes = rows(self.crawl.changes(), "change", "url", "token")
        pages = [row["url"] for row in rows(self.crawl.pages(), "url", "fetch_status") if row["fetch_status"] == 200]
        self.assertCountEqual([row["url"] for row in changes if row["change"] == "new"], pages)
        at = len(changes) // 3
        self.assertEqual(rows(self.crawl.changes(f"--since={changes[at]['token']}"), *changes[0]), changes[at + 1 :])
        self.assertEqual(self.crawl.changes(f"--since={changes[-1]['token']}").count_rows(), 0)

    def test_ranks(self) -> None:
        """PageRank is the fixed point of following links with probability 0.85."""
        ranks = {row["host"]: row["pagerank"] for row in rows(self.crawl.table("host-ranks"), "host", "pagerank")}
        to = collections.defaultdict(list)
        for edge in rows(self.crawl.table("host-edges"), "from_host", "to_host"):
            to[edge["from_host"]].append(edge["to_host"])
        ends = sum(rank for host, rank in ranks.items() if host not in to)
        want = dict.fromkeys(ranks, (0.15 + 0.85 * ends) / len(ranks))
        for host, targets in to.items():
            for target in targets:
                want[target] += 0.85 * ranks[host] / len(targets)
        self.assertGreater(len(ranks), 50)
        for host, rank in ranks.items():
            self.assertAlmostEqual(rank / want[host], 1, places=4)

    def test_connect(self) -> None:
        database = self.crawl.connect("pages", "host-ranks")
        query = "SELECT url FROM pages JOIN host_ranks ON url_host_name = host"
        known = {row["host"] for row in rows(self.crawl.table("host-ranks"), "host")}
        want = [row["url"] for row in rows(self.crawl.pages()) if row["url_host_name"] in known]
        self.assertCountEqual([url for (url,) in database.sql(query).fetchall()], want)

    def test_flags(self) -> None:
        """Flags make another table; the first one stays."""
        plain = self.crawl.texts().schema.names
        self.assertIn("markdown", self.crawl.texts("--fields=markdown").schema.names)
        self.assertEqual(self.crawl.texts().schema.names, plain)
        self.assertNotIn("markdown", plain)

    def test_tables_alone(self) -> None:
        links = self.crawl.links().count_rows()
        alone = drumbeat.Crawl(tables=self.directory / "c.1.tables", command="no-such-program")
        self.assertEqual(alone.links().count_rows(), links)
        with self.assertRaisesRegex(drumbeat.Error, "no table robots in"):
            alone.table("robots")
        with self.assertRaisesRegex(drumbeat.Error, "tables only"):
            alone.get("http://a.test/")

    def test_errors(self) -> None:
        for directory, kind, message in (
            (self.directory / "c.1", "nope", "must be one of"),
            (self.directory / "c.2", "pages", "holds no crawl"),
        ):
            with self.subTest(kind), self.assertRaisesRegex(drumbeat.Error, message):
                drumbeat.Crawl(directory).table(kind)
        with self.assertRaisesRegex(drumbeat.Error, "cannot start no-such-program"):
            drumbeat.run("version", command="no-such-program")
        with self.assertRaisesRegex(drumbeat.Error, "not stored"):
            self.crawl.get("http://a.test/never")
        with self.assertRaises(ValueError):
            drumbeat.Crawl()
        with self.assertRaises(ValueError):
            self.crawl.pages("pages")

    def test_damage(self) -> None:
        """A damaged record is left out with a warning, and the others are there."""
        copy = self.directory / "damaged"
        shutil.copytree(self.directory / "c.1", copy)
        place = max(rows(self.crawl.pages()), key=lambda row: row["warc_record_offset"] * (row["fetch_status"] == 200))
        with open(copy / "warc" / place["warc_filename"], "r+b") as file:
            file.seek(place["warc_record_offset"] + place["warc_record_length"] // 2)
            file.write(bytes(8))
        crawl = drumbeat.Crawl(copy)
        with self.assertWarns(drumbeat.Incomplete):
            damaged = crawl.links()
        self.assertGreater(damaged.count_rows(), 500)

    def test_tables_of_a_crawl_with_out(self) -> None:
        with mock.patch("drumbeat.subprocess.run") as run, warnings.catch_warnings():
            run.return_value = mock.Mock(returncode=0, stdout=b"", stderr=b"")
            drumbeat.Crawl("a", "b", out=("c", "d")).get("http://a.test/")
        self.assertEqual(run.call_args.args[0][1:6], ("get --dir=a --dir=b --out=c --out=d").split())


if __name__ == "__main__":
    unittest.main()
