"""Other programs read what `drumbeat publish` makes of a demo. `drumbeat` must be in PATH."""

from __future__ import annotations

import base64
import collections
import gzip
import hashlib
import json
import re
import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any

import duckdb

import drumbeat

try:
    import warcio
except ImportError:
    warcio = None

NAME = "NEWS-2026-49"  # as in the examples of the page
PAGES = [Path(__file__).with_name("publish.md"), Path(__file__).parents[2] / "docs/howto/results/publish.md"]
INDEXES = f"cc-index/collections/{NAME}/indexes"

# Queries of the kinds that Common Crawl publishes for its table, with functions of Presto.
QUERIES = {
    "partitions": "SELECT COUNT(*) AS n, crawl, subset FROM T GROUP BY crawl, subset ORDER BY n DESC",
    "statuses": "SELECT fetch_status, COUNT(*) AS n FROM T GROUP BY fetch_status ORDER BY n DESC",
    "types": """SELECT content_mime_type, content_mime_detected, COUNT(*) AS n FROM T WHERE subset = 'warc'
        GROUP BY content_mime_type, content_mime_detected""",
    "domains": "SELECT url_host_registered_domain AS domain, COUNT(*) AS n FROM T WHERE url_host_tld = 'test' GROUP BY 1",
    "parts of hosts": """SELECT part, COUNT(part) AS n, histogram(place) AS places
        FROM T, UNNEST(reverse(split(url_host_name, '.'))) WITH ORDINALITY AS t (part, place) GROUP BY part""",
    "parts of paths": "SELECT part, COUNT(*) AS n FROM T, UNNEST(split(url_path, '/')) AS t (part) GROUP BY part",
    "lengths of hosts": "SELECT cardinality(split(url_host_name, '.')) AS length, COUNT(*) AS n FROM T GROUP BY 1",
    "similar": """SELECT url_host_2nd_last_part AS part, levenshtein_distance('site10', url_host_2nd_last_part) AS d,
        COUNT(*) AS n FROM T GROUP BY 1, 2 HAVING d <= 2""",
    "robots": "SELECT url_path, COUNT(*) AS n FROM T WHERE subset = 'robotstxt' GROUP BY url_path",
    "home pages": """SELECT url, content_languages FROM T WHERE subset = 'warc' AND url_query IS NULL
        AND regexp_like(url_path, '^/?(?:index\\.(?:html?|php))?$') AND contains(ARRAY ['eng'], content_languages)""",
    "languages": """SELECT content_languages, SUM(COUNT(*)) OVER (PARTITION BY content_languages) AS n,
        if(COUNT(*) > 0, ln(COUNT(*) / CAST(SUM(COUNT(*)) OVER () AS DOUBLE)), 0) AS share
        FROM T WHERE subset = 'warc' GROUP BY content_languages""",
    "paths of URLs": "SELECT url_extract_path(url) AS path, COUNT(*) AS n FROM T GROUP BY path",
    "sample": "SELECT url FROM T TABLESAMPLE BERNOULLI (100%) WHERE subset IN ('warc', 'crawldiagnostics')",
    "records": "SELECT url, warc_filename, warc_record_offset, warc_record_length FROM T",
}


class TestPublished(unittest.TestCase):
    out: Path
    lines: list[dict[str, str]]

    @classmethod
    def setUpClass(cls) -> None:
        directory = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, directory)
        drumbeat.run("demo", "--quiet", "--admin=none", f"--dir={directory}/c", "--pages=1000", "--hosts=100", "--plds=40")
        cls.out = directory / "public"
        drumbeat.run("publish", f"{directory}/c", f"--name={NAME}", f"-o{cls.out}")
        cls.lines = []
        keys = []
        for block in (cls.out / INDEXES / "cluster.idx").read_text().splitlines():
            _, name, offset, length, _ = block.split("\t")
            data = (cls.out / INDEXES / name).read_bytes()[int(offset) : int(offset) + int(length)]
            for line in gzip.decompress(data).decode().splitlines():
                keys.append(line[: line.index("{")])
                cls.lines.append(json.loads(line[line.index("{") :]))
        assert keys == sorted(keys) and len(keys) > 500

    def test_places(self) -> None:
        """Each line leads to its record alone."""
        for line in self.lines:
            offset, length = int(line["offset"]), int(line["length"])
            record = gzip.decompress((self.out / line["filename"]).read_bytes()[offset : offset + length])
            head, _, block = record.partition(b"\r\n\r\n")
            fields = dict(field.split(": ", 1) for field in head.decode().split("\r\n")[1:])
            self.assertEqual(fields["WARC-Target-URI"], line["url"])
            self.assertEqual(fields["WARC-Record-ID"], f"<urn:uuid:{line['recordid']}>")
            self.assertEqual(len(block), int(fields["Content-Length"]) + 4)
            self.assertEqual(block.split(b" ", 2)[1].decode(), line["status"])

    def query(self) -> duckdb.DuckDBPyConnection:
        """Runs the statements of the page in docs/, which has a view and the macros."""
        page = next(page for page in PAGES if page.exists()).read_text()
        database = duckdb.connect()
        for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL):
            for statement in block.replace("'public/", f"'{self.out}/").split(";"):
                if statement.strip() and not statement.strip().startswith("CREATE"):
                    self.assertGreater(len(database.execute(statement).fetchall()), 0, statement)
                elif statement.strip():
                    database.execute(statement)
        return database

    def test_queries(self) -> None:
        database = self.query()

        def run(name: str) -> list[tuple[Any, ...]]:
            return database.execute(QUERIES[name].replace("FROM T", 'FROM "ccindex"."ccindex"')).fetchall()

        for name in QUERIES:
            self.assertGreater(len(run(name)), 0, name)
        subsets = collections.Counter(line["filename"].split("/")[4] for line in self.lines)
        self.assertEqual({subset: n for n, _, subset in run("partitions")}, dict(subsets))
        self.assertEqual(dict(run("statuses")), collections.Counter(int(line["status"]) for line in self.lines))
        hosts = [line["url"].split("/")[2].split(":")[0].split(".") for line in self.lines]
        self.assertEqual(dict(run("lengths of hosts")), collections.Counter(map(len, hosts)))
        parts = collections.Counter(part for host in hosts for part in host)
        self.assertEqual({part: n for part, n, _ in run("parts of hosts")}, dict(parts))
        paths = collections.Counter("/" + line["url"].split("/", 3)[3].split("?")[0] for line in self.lines)
        self.assertEqual(dict(run("paths of URLs")), dict(paths))
        places = {(line["url"], line["filename"], int(line["offset"]), int(line["length"])) for line in self.lines}
        self.assertEqual(set(run("records")), places)

    @unittest.skipIf(warcio is None, "warcio is not installed")
    def test_warcio(self) -> None:
        """warcio reads all records, with their digests, at the places of the index."""
        from warcio.archiveiterator import ArchiveIterator
        from warcio.bufferedreaders import ChunkedDataReader

        found, kinds, verified = set(), collections.Counter[str](), 0
        for path in sorted(self.out.glob("crawl-data/*/segments/*/*/*.gz")):
            with path.open("rb") as stream:
                records = ArchiveIterator(stream, check_digests=True)
                for record in records:
                    problems, payload = record.digest_checker, record.raw_stream
                    if record.http_headers and record.http_headers.get_header("Transfer-Encoding") == "chunked":
                        # warcio compares the digest of a payload with that of its chunks.
                        problems, payload = None, ChunkedDataReader(payload)
                    digest = base64.b32encode(hashlib.sha1(payload.read()).digest()).decode()
                    if problems is None:
                        self.assertEqual(record.rec_headers["WARC-Payload-Digest"], f"sha1:{digest}")
                    else:
                        self.assertEqual(problems.problems, [])
                        verified += problems.passed is True
                    kinds[f"{path.parent.name} {record.rec_type}"] += 1
                    place = records.get_record_offset(), records.get_record_length()
                    found.add((str(path.relative_to(self.out)), record.rec_headers["WARC-Target-URI"], *place))
        want = {(line["filename"], line["url"], int(line["offset"]), int(line["length"])) for line in self.lines}
        self.assertLessEqual(want, found)
        self.assertGreater(verified, 1000)
        pages = kinds["warc response"]
        self.assertGreater(pages, 300)
        self.assertEqual(kinds["wat metadata"], pages)
        texts = [line for line in self.lines if "/warc/" in line["filename"] and line.get("mime-detected") == "text/html"]
        self.assertEqual(kinds["wet conversion"], len(texts))


if __name__ == "__main__":
    unittest.main()
