#!/bin/bash
# DuckDB: it must count in exported Parquet files what a synthetic web has, and run the queries of docs/howto.
#
#   scripts/duckdb.sh
#
# Needs Go, and Python 3.9 or later with venv; DuckDB goes into a directory that is deleted at the end. Exit code 0: all
# counts are equal, and all queries ran. The crawl stays on loopback.
set -euo pipefail
case ${1-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$(dirname "$0")/.."
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'duckdb>=1.1'
go test ./cmd -count=1 -run '^TestDuckDB$' -v -duckdb "$work/venv/bin/python"
