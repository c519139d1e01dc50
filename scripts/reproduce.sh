#!/usr/bin/env bash
# Verifies that a release is made of this commit: builds it again and compares the checksums.
#
#   scripts/reproduce.sh [SHA256SUMS] [ARCH...]
#
# With the SHA256SUMS of a release, it builds once and compares with that file. Without, it builds twice and compares
# the two. Each build is from a clone of its own, in a folder of its own, with an empty build cache, so nothing of
# an earlier build gets into it. A dirty tree is no matter: the commit is built.
#
# VERSION, SOURCE_DATE_EPOCH, MAINTAINER, DEB, GOTOOLCHAIN: as for release.sh; use those of the release. A build takes
# some minutes and 1 GB in TMPDIR.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

given=
if [ -n "${1:-}" ] && [ -f "$1" ]; then
	given=$(realpath "$1")
	shift
fi
tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp" && rm -rf "$tmp"' EXIT
commit=$(git rev-parse HEAD)
echo "reproduce: commit $commit, $(go version | cut -d' ' -f3)"

# build NAME ARCH... builds in the folder NAME and prints the path of its SHA256SUMS.
build() {
	local dir=$tmp/$1
	shift
	mkdir -p "$dir"
	git clone -q . "$dir/clone"
	git -C "$dir/clone" -c advice.detachedHead=false checkout -q "$commit"
	if ! GOCACHE=$dir/cache "$dir/clone/scripts/release.sh" "$@" >"$dir/log" 2>&1; then
		cat "$dir/log" >&2
		return 1
	fi
	rm -rf "$dir/cache"
	echo "$dir/clone/dist/SHA256SUMS"
}

new=$(build one "$@")
[ -n "$given" ] || given=$(build "another one" "$@")
same=0 faults=0
while read -r sum name; do
	want=$(awk -v name="$name" '$2 == name { print $1 }' "$given")
	if [ "$want" = "$sum" ]; then
		same=$((same + 1))
		continue
	fi
	echo "reproduce: $name: ${want:-not in the list}, but the build has $sum" >&2
	faults=$((faults + 1))
done <"$new"
while read -r _ name; do
	grep -q "  $name\$" "$new" || echo "reproduce: not compared, because it was not built here: $name"
done <"$given"
if [ "$faults" != 0 ] || [ "$same" = 0 ]; then
	echo "reproduce: $faults files differ, $same are the same" >&2
	exit 1
fi
echo "reproduce: all $same files that were built are the same"
