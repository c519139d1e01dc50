"""The results of a drumbeat crawl as Arrow.

The command ``drumbeat`` reads the crawl and writes tables in Parquet; this package opens them:

    crawl = drumbeat.Crawl("DIR")
    for batch in crawl.texts().to_batches(columns=["url", "text"]):
        ...
    crawl.connect("pages", "host-ranks").sql("SELECT ... FROM pages JOIN host_ranks ...").arrow()

docs/reference/tables.md and docs/howto/results/texts.md of drumbeat list the columns.
"""

from __future__ import annotations

import os
import subprocess
import warnings
from pathlib import Path
from typing import Union
from urllib.parse import quote

import duckdb
import pyarrow.dataset

__all__ = ["Crawl", "Error", "Incomplete", "run"]
__version__ = "0.1.0"

PathLike = Union[str, "os.PathLike[str]"]

_DAMAGED = 5  # the exit code of a command that left out damaged records


class Error(Exception):
    """The command failed, or a table is missing. The text is the command's."""


class Incomplete(UserWarning):
    """The command left out damaged records of the crawl."""


def run(*arguments: PathLike, command: PathLike = "drumbeat") -> bytes:
    """Runs the command and returns its standard output.

    It raises Error if the command cannot be started or fails, and warns with Incomplete if it left out damaged
    records.
    """
    try:
        done = subprocess.run([command, *arguments], stdin=subprocess.DEVNULL, capture_output=True)
    except OSError as e:
        raise Error(f"cannot start {os.fspath(command)}: {e.strerror}; build it, and name it with command=") from e
    messages = done.stderr.decode(errors="replace").strip()
    if done.returncode == _DAMAGED:
        warnings.warn(messages, Incomplete, stacklevel=2)
    elif done.returncode:
        raise Error(messages or f"{os.fspath(command)} ended with {done.returncode}")
    return done.stdout


class Crawl:
    """A crawl, or its tables.

    directories: all directories of the crawl, as for the command; it may be running. Without any, tables must have been
    made before, by the command or by another Crawl.
    tables: the directory of the tables, with one directory for each. Default: that of the crawl with .tables.
    out: the output directories, if the crawl has --out.
    command: the program drumbeat.

    A table has the rows of the crawl's last checkpoint when its method is called. The method writes its files again if the
    crawl has made a checkpoint since, so read a table to its end before you ask for it again.
    """

    def __init__(
        self,
        *directories: PathLike,
        tables: PathLike | None = None,
        out: PathLike | tuple[PathLike, ...] = (),
        command: PathLike = "drumbeat",
    ) -> None:
        if tables is None:
            if not directories:
                raise ValueError("a Crawl needs a directory, or tables")
            first = Path(directories[0]).absolute()
            tables = first.with_name(first.name + ".tables")
        self._tables, self._command = Path(tables), command
        outs = out if isinstance(out, tuple) else (out,)
        self._places = [f"--dir={os.fspath(d)}" for d in directories] + [f"--out={os.fspath(d)}" for d in outs]
        self._stored = bool(directories)

    def pages(self, *flags: str) -> pyarrow.dataset.Dataset:
        """A row for each stored response, with its place in the WARC files. flags: such as "--languages"."""
        return self.table("pages", *flags)

    def links(self) -> pyarrow.dataset.Dataset:
        """A row for each link of a stored page."""
        return self.table("links")

    def texts(self, *flags: str) -> pyarrow.dataset.Dataset:
        """A row for each HTML page with status 2xx. flags: of extract, such as "--fields=text,markdown"."""
        return self.table("texts", *flags)

    def changes(self, *flags: str) -> pyarrow.dataset.Dataset:
        """A row for each change, in the order of time. flags: such as "--texts", or "--since=" and the token of a row."""
        return self.table("changes", *flags)

    def table(self, kind: str, *flags: str) -> pyarrow.dataset.Dataset:
        """Any table of export, or texts. A table that was made with other flags is another one."""
        return pyarrow.dataset.dataset([os.fspath(p) for p in self._parts(kind, flags)], format="parquet")

    def connect(self, *kinds: str) -> duckdb.DuckDBPyConnection:
        """A database in memory with a view of each table. Its name has _ for -, as in host_ranks."""
        database = duckdb.connect()
        for kind in kinds:
            parts = [os.fspath(p) for p in self._parts(kind, ())]
            database.read_parquet(parts).create_view(kind.replace("-", "_"))
        return database

    def get(self, url: str, *flags: str) -> bytes:
        """The body of a stored page, without content coding. flags: such as "--head", "--record" or "--at=2026-11-23"."""
        if not self._stored:
            raise Error("this Crawl has tables only: name the directory of the crawl")
        return run("get", *self._places, *flags, "--", url, command=self._command)

    def _parts(self, kind: str, flags: tuple[str, ...]) -> list[Path]:
        """The files of a table, which is made first if the crawl is there."""
        if not kind or not all(f.startswith("--") for f in flags):
            raise ValueError('a table needs its name, and flags as in "--languages"')
        directory = self._tables / quote(kind + "".join(flags), safe="=,")
        if self._stored:
            verb = ["extract"] if kind == "texts" else ["export", kind]
            run(*verb, *self._places, *flags, f"--output={directory}", "--format=parquet", command=self._command)
        parts = sorted(directory.glob("[!_.]*.parquet"))
        if not parts:
            raise Error(f"no table {kind} in {self._tables}: {directory} has no parts")
        return parts
