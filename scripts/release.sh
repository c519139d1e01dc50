#!/usr/bin/env bash
# Builds the files of a release into dist/: static binaries, archives, Debian packages, bills of materials,
# checksums. docs/contribute/releasing.md has the whole list of a release.
#
#   scripts/release.sh [ARCH...]      amd64 and arm64 by default
#
# VERSION            default: git describe
# SOURCE_DATE_EPOCH  default: the time of the commit
# MAINTAINER         of the Debian packages; default: the author of the commit
# DEB=no             leaves out the Debian packages
# SBOM=no            leaves out the bills of materials
#
# The same commit, Go release and variables give the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Not in go.mod: Go fetches them through the module proxy. MIT and Apache licences.
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0
cyclonedx=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0

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

build() {
	GOOS=linux GOARCH=$1 go build -trimpath -buildvcs=false \
		-ldflags="-s -w -buildid= -X drumbeat/cmd/term.release=$VERSION" -o "$2" .
}

# Builds a tool, the same bytes anywhere, in $tmp.
tool() {
	GOBIN=$tmp timeout 600 go install -trimpath "$1" 2>"$tmp/log" && return
	tail -3 "$tmp/log" >&2
	echo "release: $1 can't be fetched or built; $2=no leaves out $3" >&2
	return 1
}

# Its serial number follows from the binary, and its time is that of the commit.
bill() {
	local binary=dist/drumbeat-linux-$1 sum
	sum=$(sha256sum "$binary")
	"$tmp/cyclonedx-gomod" bin -json -std -output-version 1.5 -version "$VERSION" \
		-serial "${sum:0:8}-${sum:8:4}-8${sum:13:3}-8${sum:17:3}-${sum:20:12}" "$binary" 2>"$tmp/log" |
		sed -E "s/^(    \"timestamp\": )\"[^\"]*\"/\\1\"$(date -ud "@$SOURCE_DATE_EPOCH" +%FT%TZ)\"/" \
			>"dist/drumbeat-$VERSION-linux-$1.cdx.json" || { cat "$tmp/log" >&2; return 1; }
}

for arch in "${archs[@]}"; do build "$arch" "dist/drumbeat-linux-$arch"; done

if [ "${SBOM:-yes}" = no ]; then
	echo "release: bills of materials are left out" >&2
else
	tool "$cyclonedx" SBOM "the bills of materials"
	for arch in "${archs[@]}"; do bill "$arch"; done
fi

# The program prints these files, so it must run here.
own=dist/drumbeat-linux-$(go env GOHOSTARCH)
if ! [ -x "$own" ]; then
	own=$tmp/own
	build "$(go env GOHOSTARCH)" "$own"
fi
"$own" man >"$tmp/drumbeat.1"
for shell in bash zsh fish; do "$own" completion "$shell" >"$tmp/completion.$shell"; done

archive() {
	local name=drumbeat-$VERSION-linux-$1 dir
	dir=$tmp/$name
	mkdir "$dir"
	cp "dist/drumbeat-linux-$1" "$dir/drumbeat"
	cp LICENSE README.md packaging/systemd/drumbeat.service packaging/systemd/drumbeat@.service packaging/systemd/drumbeat.env packaging/systemd/cluster.env "$tmp/drumbeat.1" "$dir"
	scripts/notices.sh "$dir/drumbeat" >"$dir/NOTICES"
	chmod 644 "$dir"/*
	chmod 755 "$dir" "$dir/drumbeat"
	tar -C "$tmp" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
		--mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
}

# Needs the folder that archive leaves.
package() {
	export ARCH=$1 STAGE=$tmp/drumbeat-$VERSION-linux-$1
	local version=${VERSION#v}
	printf 'drumbeat (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- %s  %s\n' "${version/-/\~}" \
		"$MAINTAINER" "$(date -Rud "@$SOURCE_DATE_EPOCH")" >"$STAGE/changelog" # nfpm makes the same version
	scripts/changelog.sh >"$STAGE/CHANGELOG.md"
	cp "$tmp"/completion.* "$STAGE"
	gzip -9n "$STAGE"/{changelog,CHANGELOG.md,NOTICES,drumbeat.1}
	"$tmp/nfpm" package --packager deb --config packaging/deb/nfpm.yaml --target dist
}

for arch in "${archs[@]}"; do archive "$arch"; done

if [ "${DEB:-yes}" = no ]; then
	echo "release: Debian packages are left out" >&2
else
	tool "$nfpm" DEB "the Debian packages"
	for arch in "${archs[@]}"; do package "$arch"; done
fi

(cd dist && sha256sum -- * >"$tmp/sums" && mv "$tmp/sums" SHA256SUMS)
cat dist/SHA256SUMS
