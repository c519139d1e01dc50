#!/usr/bin/env bash
# Builds the files of a release into dist/: static binaries, archives, Debian packages, bills of materials,
# checksums. docs/RELEASING.md has the whole list of a release.
#
#   scripts/release.sh [ARCH...]      amd64 and arm64 by default
#
# VERSION            default: git describe
# SOURCE_DATE_EPOCH  default: the time of the commit
# MAINTAINER         of the Debian packages; default: the author of the commit
# DEB=no             leaves out the Debian packages
#
# The same commit, Go release and variables give the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Not in go.mod: Go fetches it through the module proxy. MIT licence.
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0

commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
VERSION=${VERSION:-$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || echo "v0.0.0-g$commit")}
if ! [[ $VERSION =~ ^v[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$ ]]; then
	echo "release: VERSION $VERSION: must be vMAJOR.MINOR.PATCH, with an optional suffix" >&2
	exit 2
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
MAINTAINER=${MAINTAINER:-$(git log -1 --format='%an <%ae>')}
export VERSION SOURCE_DATE_EPOCH MAINTAINER
export CGO_ENABLED=0 GOFLAGS='' GOAMD64=v1 GOARM64=v8.0 LC_ALL=C
archs=("$@")
[ $# -gt 0 ] || archs=(amd64 arm64)

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
rm -rf dist
mkdir dist

for arch in "${archs[@]}"; do
	GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false \
		-ldflags="-s -w -buildid= -X drumbeat/cmd/term.release=$VERSION" -o "dist/drumbeat-linux-$arch" .
	go run ./internal/sbom "dist/drumbeat-linux-$arch" "$VERSION" >"dist/drumbeat-$VERSION-linux-$arch.cdx.json"
done

# The manual page comes from the program, so only from a binary that runs here.
own=dist/drumbeat-linux-$(go env GOHOSTARCH)
if ! { [ -x "$own" ] && "$own" man >"$tmp/drumbeat.1" 2>/dev/null && [ -s "$tmp/drumbeat.1" ]; }; then
	rm -f "$tmp/drumbeat.1"
	echo "release: no manual page: $own man does not print one" >&2
fi

archive() {
	local name=drumbeat-$VERSION-linux-$1 dir
	dir=$tmp/$name
	mkdir "$dir"
	cp "dist/drumbeat-linux-$1" "$dir/drumbeat"
	cp LICENSE README.md packaging/systemd/drumbeat.service packaging/systemd/drumbeat.env "$dir"
	[ ! -f "$tmp/drumbeat.1" ] || cp "$tmp/drumbeat.1" "$dir"
	chmod 644 "$dir"/*
	chmod 755 "$dir" "$dir/drumbeat"
	tar -C "$tmp" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
		--mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
}

package() {
	export ARCH=$1 STAGE=$tmp/drumbeat-$VERSION-linux-$1
	cp packaging/deb/nfpm.yaml "$STAGE/nfpm.yaml"
	if [ -f "$STAGE/drumbeat.1" ]; then
		gzip -9n "$STAGE/drumbeat.1"
		# shellcheck disable=SC2016 # nfpm expands it
		echo '  - {src: "${STAGE}/drumbeat.1.gz", dst: /usr/share/man/man1/, expand: true, file_info: {mode: 0644}}' \
			>>"$STAGE/nfpm.yaml"
	fi
	"$tmp/nfpm" package --packager deb --config "$STAGE/nfpm.yaml" --target dist
}

for arch in "${archs[@]}"; do archive "$arch"; done

if [ "${DEB:-yes}" = no ]; then
	echo "release: Debian packages are left out" >&2
elif GOBIN=$tmp timeout 600 go install "$nfpm" 2>"$tmp/log"; then
	for arch in "${archs[@]}"; do package "$arch"; done
else
	tail -3 "$tmp/log" >&2
	echo "release: $nfpm can't be fetched or built; DEB=no leaves out the Debian packages" >&2
	exit 1
fi

(cd dist && sha256sum -- * >"$tmp/sums" && mv "$tmp/sums" SHA256SUMS)
cat dist/SHA256SUMS
