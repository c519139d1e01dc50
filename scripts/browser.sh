#!/usr/bin/env bash
# Opens the dashboard in Chromium, the tests of admin/e2e, and has Chromium render pages, those of internal/render,
# crawl and cmd. Screenshots go to ${CI_ARTIFACTS:-screenshots}.
#
# Chromium is CHROMIUM, or chromium in PATH; without it root installs Debian's package with apt-get. Where that
# fails, the script says so and succeeds. axe-core is AXE, its file axe.min.js; without AXE npm fetches it, and
# without npm the tests run without it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
chromium=${CHROMIUM:-chromium}
axe=4.10.2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! command -v "$chromium" >/dev/null && [ "$chromium" = chromium ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	install=(timeout 300 apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core)
	"${install[@]}" >"$work/log" 2>&1 ||
		{ timeout 120 apt-get update -qq && "${install[@]}"; } >>"$work/log" 2>&1 ||
		tail -3 "$work/log" >&2
fi
if ! command -v "$chromium" >/dev/null; then
	echo "   left out: $chromium is not installed"
	exit 0
fi
if [ -z "${AXE:-}" ] && command -v npm >/dev/null; then
	if (cd "$work" && timeout 120 npm pack --silent "axe-core@$axe" && tar xzf "axe-core-$axe.tgz" package/axe.min.js) >"$work/log" 2>&1; then
		AXE=$work/package/axe.min.js
	fi
fi
if [ -z "${AXE:-}" ]; then echo "   left out: axe-core, which npm would fetch"; fi
shots=${CI_ARTIFACTS:-screenshots}
mkdir -p "$shots"
shots=$(cd "$shots" && pwd)
AXE=${AXE:-} CHROMIUM=$chromium go test ./admin/e2e -count=1 -timeout 10m "$@" -args -browser -shots "$shots"
CHROMIUM=$chromium go test ./internal/render ./crawl ./cmd -run '^TestRender' -count=1 -timeout 10m
