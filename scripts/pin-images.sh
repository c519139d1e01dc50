#!/usr/bin/env bash
# Checks that the images of packaging/docker are pinned by digest: NAME:TAG@sha256:... The tag says which version
# it is, the digest which bytes, for all architectures.
#
#   scripts/pin-images.sh          checks, without network
#   scripts/pin-images.sh pin      asks the registries for the digests of images without one, and writes them; needs
#                                  Docker with buildx
#   scripts/pin-images.sh update   the same for all images: tags such as golang:1.26.8 are built again with fixes
#
# FILES="a b" checks or changes other files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

built=(scratch drumbeat-cluster drumbeat-nats drumbeat-test-nats drumbeat-test-s3 drumbeat-test-prometheus) # no image of a registry

read -ra files <<<"${FILES:-$(find packaging/docker -name 'Dockerfile*' ! -name '*.dockerignore' -o -name '*.yaml' -path '*docker*' | sort | tr '\n' ' ')}"
among() { local x=$1 y; shift; for y; do [ "$x" = "$y" ] && return 0; done; return 1; }

# Prints the images of a file: those of FROM, but for stages of the same file, and those of "image:".
images() {
	awk 'toupper($1) == "FROM" {
			i = 2; while ($i ~ /^--/) i++
			if (!($i in stage)) print $i
			if (toupper($(i + 1)) == "AS") stage[$(i + 2)]
		}
		$1 == "image:" { gsub(/["\047]/, "", $2); print $2 }' "$1"
}

digest() { docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$1"; }

mode=${1:-check} faults=0 seen=0
declare -A digests
for file in "${files[@]}"; do
	while read -r image; do
		among "$image" "${built[@]}" && continue
		seen=$((seen + 1)) tag=${image%%@*} has=
		[[ $image == *@* ]] && has=${image#*@}
		if [ "$mode" = update ] || { [ "$mode" = pin ] && [ -z "$has" ]; }; then
			new=$(digest "$tag")
			sed -i "s|$image\([[:space:]\"']\|\$\)|$tag@$new\1|" "$file"
			echo "$file: $tag: ${has:-no digest} is now $new"
			has=$new
		fi
		if ! [[ $has =~ ^sha256:[0-9a-f]{64}$ && $tag =~ :[^/]+$ ]]; then
			echo "$file: $image is not pinned as NAME:TAG@sha256:DIGEST" >&2
			faults=$((faults + 1))
		elif [ "${digests[$tag]:-$has}" != "$has" ]; then
			echo "$file: $tag has another digest in another file" >&2
			faults=$((faults + 1))
		fi
		digests[$tag]=$has
	done < <(images "$file")
done
if [ "$seen" = 0 ]; then
	echo "pin-images: no image in ${files[*]}" >&2
	exit 1
fi
[ "$faults" = 0 ]
