#!/usr/bin/env bash
# The package in python/: its types by mypy, its tests against the servers of a demo, and its notebook by nbclient.
#
#   scripts/python.sh
#
# Needs Go, and Python 3.10 or later with venv; packages go into a directory that is deleted at the end. Without Python or the
# packages it says so and succeeds. The crawls stay on loopback. PYTHON is the program to use instead of python3.
set -euo pipefail
case ${1-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
python=${PYTHON:-python3}
if ! "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
	echo "   left out: the Python package, because Python 3.10 or later with venv is not installed"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$(dirname "${BASH_SOURCE[0]}")/.."
"$python" -m venv "$work/venv"
export PATH="$work/bin:$work/venv/bin:$PATH"
export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# Longer than a minute or two is a network that drops packets.
if ! timeout 300 pip install --retries 1 --no-compile pyarrow duckdb flit_core mypy nbclient ipykernel >"$work/pip" 2>&1; then
	tail -1 "$work/pip"
	echo "   left out: the Python package, because the packages that it needs cannot be installed"
	exit 0
fi
if ! timeout 60 pip install --retries 1 --no-compile warcio >"$work/pip" 2>&1; then
	echo "   left out: the test of published files by warcio, because it cannot be installed"
fi
go build -o "$work/bin/drumbeat" .
cp -r python "$work/python" # builds and runs write into their directory
cp docs/howto/results/publish.md "$work/python/tests" # its queries are run
cd "$work/python"
pip install --no-index --no-build-isolation .
mypy .
timeout 300 python -m unittest discover tests
cd notebooks
for notebook in *.ipynb; do
	timeout 300 jupyter execute --timeout 120 "$notebook" 2>"$work/notebook" || { cat "$work/notebook" >&2; exit 1; }
	echo "$notebook ran"
done
