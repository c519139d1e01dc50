#!/usr/bin/env bash
# Runs the crawl of compose.yaml in the synthetic web of test.yaml, stops and kills parts of it, and checks the result. It
# needs Docker with compose 2.24.4 or newer. After the images are there it takes 10 minutes. Its containers and volumes have
# a project of their own, drumbeat-test, and are removed at the end. Its secrets stay in secrets/.
#
#   ./test.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export CONTACT=test@example.org
nodes=(node0 node1 node2)
dc() { docker compose -p drumbeat-test -f compose.yaml -f test.yaml "$@" </dev/null; }
die() {
	echo "FAILED: $*" >&2
	dc ps -a >&2 || true
	dc logs --tail 5 >&2 || true
	exit 1
}
step() { echo "$(date +%T) $*"; }
wait_for() { # SECONDS COMMAND…
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || die "waited too long: $*"
		sleep 2
	done
}
run() { # COMMAND…: says what it printed only if it fails
	local said
	said=$("$@" 2>&1) || { echo "$said" >&2; die "$*"; }
}
state() { docker inspect -f "$2" "$(dc ps -aq "$1")"; } # SERVICE FORMAT
all() { # FORMAT VALUE SERVICE…: the services have the value
	local format=$1 value=$2 s
	shift 2
	for s; do [ "$(state "$s" "$format")" = "$value" ] || return 1; done
}
broker=(--cluster tls://nats0:4222 --cluster-ca /run/secrets/ca --cluster-cert /run/secrets/node-cert --cluster-key /run/secrets/node-key)
fetched() { # PAGES: all nodes together have fetched as many
	local n
	n=$(dc exec -T node0 /drumbeat cluster status "${broker[@]}" /cluster/cluster.json 2>/dev/null | sed -nE '1s/.* ([0-9,]+) pages,.*/\1/p')
	[ "${n//,/}" -ge "$1" ] 2>/dev/null
}
prometheus() { dc exec -T prometheus wget -qO- "http://127.0.0.1:9090/api/v1/$1"; }
scraped() { [ "$(prometheus targets | grep -o '"health":"up"' | wc -l)" = 3 ]; }
drumbeat() { # ARGUMENTS, with the directories of all nodes
	docker run --rm --network drumbeat-test_default -v drumbeat-test_cluster:/cluster:ro -v drumbeat-test_node0:/n0 -v drumbeat-test_node1:/n1 \
		-v drumbeat-test_node2:/n2 -v "$PWD/secrets/s3-credentials:/s3:ro" -e AWS_SHARED_CREDENTIALS_FILE=/s3 drumbeat-cluster "$@"
}
trap 'dc down -v --timeout 20 >/dev/null 2>&1' EXIT

step "secrets, images, containers"
./secrets.sh
dc down -v --timeout 20 >/dev/null 2>&1
run dc build init # the image of all nodes
run dc up -d
step "health checks, Prometheus"
wait_for 180 all '{{.State.Health.Status}}' healthy "${nodes[@]}" nats0 nats1 nats2 s3 prometheus grafana
wait_for 60 scraped
prometheus rules | grep '"name":"DrumbeatDown"' >/dev/null || die "Prometheus has no rules"
! prometheus rules | grep '"health":"err"' >/dev/null || die "a rule of Prometheus fails"
dc exec -T nats0 wget -qO- http://127.0.0.1:8222/varz | grep '"tls_verify": true' >/dev/null || die "NATS does not ask for certificates"

step "stop all nodes, go on"
wait_for 300 fetched 1500
run dc stop "${nodes[@]}"
all '{{.State.ExitCode}}' 11 "${nodes[@]}" || die "a node did not stop in order"
run dc up -d
step "kill a node, Prometheus, and a NATS server"
wait_for 300 fetched 3000
run dc kill -s KILL node1 prometheus
run dc up -d
wait_for 300 fetched 4500
run dc kill -s KILL nats1
wait_for 300 fetched 5500
step "remove the containers but for the web, go on"
run dc rm -sf "${nodes[@]}" nats0 nats1 nats2 s3
run dc up -d
step "the end"
wait_for 1200 all '{{.State.Status}}' exited "${nodes[@]}"
all '{{.State.ExitCode}}' 0 "${nodes[@]}" || die "a node did not end in order"
[ "$(dc logs init | grep -c kept)" -ge 1 ] || die "init made the cluster's file again"
run dc stop web
all '{{.State.ExitCode}}' 0 web || die "the nodes asked for URLs that they must not fetch"
said=$(dc logs --no-log-prefix web | grep -E '^fetched')
[[ $said =~ ^fetched\ ([0-9]+)\ of\ ([0-9]+)\  && ${BASH_REMATCH[1]} = "${BASH_REMATCH[2]}" ]] || die "the web says: $said"
want=${BASH_REMATCH[2]}
run drumbeat cluster audit --deep --cluster-file /cluster/cluster.json /n0/crawl /n1/crawl /n2/crawl
stored=$(for n in 0 1 2; do drumbeat export pages --dir "/n$n/crawl" --format jsonl -o - 2>/dev/null; done |
	grep -oE '"url":"[^"]*"' | sort -u | wc -l)
[ "$stored" = "$want" ] || die "the object store has $stored URLs, the web $want"
step "passed: $said; the object store has all $stored"
