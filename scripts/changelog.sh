#!/usr/bin/env bash
# Prints CHANGELOG.md with the changes in changelog/, one file each, as list items under "Unreleased", by kind.
#
#	scripts/changelog.sh          print
#	scripts/changelog.sh --write  replace CHANGELOG.md by that, and remove the files
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
'' | --write) ;;
*) sed -n '/^#\t/s/^#\t//p' "$0" >&2; exit 2 ;;
esac

heading='## Unreleased'
joined() {
	if grep -qx "$heading" CHANGELOG.md; then
		sed "/^$heading\$/,\$d" CHANGELOG.md
	else
		sed '/^## /,$d' CHANGELOG.md
	fi
	printf '%s\n\n' "$heading"
	for kind in Security Removed Changed New Faster Fixed; do # what an operator must act upon comes first
		for file in changelog/*.md; do
			if [ -e "$file" ] && grep -q "^$kind: " "$file"; then sed '1s/^/- /; 2,$s/^/  /' "$file"; fi
		done
	done
	if grep -qx "$heading" CHANGELOG.md; then
		sed "1,/^$heading\$/d" CHANGELOG.md | sed '1{/^$/d}'
	else
		echo
		sed -n '/^## /,$p' CHANGELOG.md
	fi
}

if [ "${1:-}" = --write ]; then
	joined >CHANGELOG.md.new
	mv CHANGELOG.md.new CHANGELOG.md
	rm -f changelog/*.md
else
	joined
fi
