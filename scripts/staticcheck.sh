#!/usr/bin/env bash
# Runs staticcheck, of a pinned version that isn't part of go.mod, over the whole tree, tests included. A finding is a
# failure; where the tool can't be had (no network and not in the module cache) that is said, and is none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tool=honnef.co/go/tools/cmd/staticcheck@v0.8.2
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
if ! GOBIN=$bin go install "$tool" 2>"$bin/log"; then
	echo "left out: $tool can't be had: $(tail -1 "$bin/log")"
	exit 0
fi
"$bin/staticcheck" ./...
