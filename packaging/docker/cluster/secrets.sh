#!/bin/sh
# Makes the secrets of compose.yaml in the folder secrets, or in that of the first argument: a CA that nobody else uses,
# certificates of the NATS servers and of the nodes for ten years, and passwords. Existing ones stay.
set -eu
umask 077
dir=${1:-$(dirname "$0")/secrets}
mkdir -p "$dir"
cd "$dir"
if [ -e grafana-password ]; then
	echo "$dir has secrets"
	exit 0
fi
sign() { # NAME CN EXTENSIONS
	printf '%s\n' "$3" >"$1.ext"
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -subj "/CN=$2" -out "$1.csr" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile "$1.ext" -out "$1.pem" 2>/dev/null
	rm "$1.csr" "$1.ext"
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -days 3650 -subj "/CN=drumbeat CA" -out ca.pem 2>/dev/null
# A NATS server is a client of the others, too.
sign nats nats "subjectAltName=DNS:nats0,DNS:nats1,DNS:nats2,DNS:localhost,IP:127.0.0.1
extendedKeyUsage=serverAuth,clientAuth"
sign node node "extendedKeyUsage=clientAuth"
printf drumbeat >s3-user
openssl rand -hex 24 | tr -d '\n' >s3-password
openssl rand -hex 16 | tr -d '\n' >grafana-password
printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' "$(cat s3-user)" "$(cat s3-password)" >s3-credentials
# Containers read them with users of their own. The folder is closed to all others.
chmod 644 nats.key nats.pem node.key node.pem ca.pem s3-user s3-password s3-credentials grafana-password
