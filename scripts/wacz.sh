#!/bin/bash
# WACZ: drumbeat crawls a synthetic web and writes a WACZ, which the validator of py-wacz must accept.
#
#   scripts/wacz.sh [DIR]   DIR is a stopped crawl of your own, instead of the synthetic one
#
# Needs Go, and Python 3.8 or later with venv; py-wacz goes into a directory that is deleted at the end. Exit code 0:
# the file is valid. Everything listens on loopback.
set -euo pipefail
case ${1-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dir=${1-$work/crawl}
cd "$(dirname "$0")/.."
go build -o "$work/drumbeat" .
[[ -n ${1-} ]] || "$work/drumbeat" demo --pages 2000 --quiet --dir "$dir" >"$work/log" || { cat "$work/log" >&2; exit 1; }
"$work/drumbeat" export wacz --dir "$dir" -o "$work/site.wacz"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check wacz==0.6.0
"$work/venv/bin/wacz" validate --file "$work/site.wacz" | tee "$work/said"
grep -q "Validation succeeded" "$work/said"
