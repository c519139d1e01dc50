#!/usr/bin/env bash
# Prints the licences and notices of the code that is linked into a Go binary: the standard library and the
# modules. Most of these licences require that a binary comes with their text.
#
#   scripts/notices.sh BINARY
set -euo pipefail
binary=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# notice NAME FILE...
notice() {
	local name=$1 file
	shift
	[ $# -gt 0 ] || { echo "notices: $name has no licence" >&2; exit 1; }
	for file; do
		printf '%s\n%s: %s\n\n' "$(printf '=%.0s' {1..80})" "$name" "${file##*/}"
		cat "$file"
		echo
	done
}

notice "Go standard library" "$(go env GOROOT)"/{LICENSE,PATENTS}
notice "model of languages, from py3langid 0.4.0" internal/langid/LICENSE.model
notice "stop words, from Snowball" internal/textquality/LICENSE.stopwords
go version -m "$binary" | awk '$1 == "dep" {print $2, $3}' | while read -r module version; do
	# Code that a module copied from elsewhere has its licence below.
	mapfile -t files < <(find "$(go list -m -f '{{.Dir}}' "$module")" -name testdata -prune -o -type f \
		! -name '*.go' -regextype posix-extended -iregex '.*/(licen[cs]e|copying|notice|patents)[^/]*' -print | LC_ALL=C sort)
	notice "$module $version" "${files[@]}"
done
