#!/usr/bin/env bash
# Runs the crawl of compose.yaml in the synthetic web of test.yaml, takes its parts away one after the other, and judges
# the result by the web's log and the WARC files alone. It ends by itself: after 6 to 20 minutes, 30 at most, or at the
# first fault. Its steps take four; then hosts wait whose robots.txt failed in one of them, for 1, 2, 4 or 8 minutes.
#
#   ./test.sh                    # as any user; docs/contribute/real-cluster.md
#
# It needs podman and podman-compose 1.6 (ENGINE=docker COMPOSE="docker compose": Docker, as root), Go, and of Debian the
# packages iptables (netavark runs it), prometheus, busybox-static and nftables. All images are built here from programs,
# without a registry: this tree's, the NATS server of go.mod, versitygw as the object store, Debian's Prometheus. Grafana
# is left out. Containers and volumes have names of their own and are removed at the end; KEEP=1 keeps the directory. The
# images stay.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root=$(cd ../../.. && pwd)
engine=${ENGINE:-podman}
read -ra compose <<<"${COMPOSE:-podman-compose}"
TEST_DIR=$(mktemp -d -t drumbeat-test.XXXXXX)
chmod 711 "$TEST_DIR" # users of containers pass
export TEST_DIR TEST_PAGES=${PAGES:-8000}
export CONTACT=test@example.org S3_PASSWORD=drumbeat-secret GRAFANA_PASSWORD=none
nodes=(node0 node1 node2)
end=$((SECONDS + 1800)) # nothing waits beyond

# Rootless containers are in namespaces of the engine's, where this user is root.
inside=()
[ "$engine" = podman ] && [ "$(id -u)" != 0 ] && inside=(podman unshare)

step() { echo "$(date +%T) $*"; }
die() {
	echo "FAILED: $*" >&2
	mkdir -p "$TEST_DIR/logs"
	for s in "${nodes[@]}" nats0 nats1 nats2 s3 prometheus web; do
		"$engine" logs "$(id_of $s)" >"$TEST_DIR/logs/$s" 2>&1 || true
		echo "--- $s: $(state $s '{{.State.Status}} {{.State.ExitCode}}' 2>&1)" >&2
		tail -n 4 "$TEST_DIR/logs/$s" >&2
	done
	KEEP=1
	exit 1
}
wait_for() { # SECONDS COMMAND…
	local until=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $until ] && [ $SECONDS -lt $end ] || die "waited too long: $*"
		sleep 1
	done
}
run() { # COMMAND…: says what it printed only if it fails
	"$@" >"$TEST_DIR/said" 2>&1 || { cat "$TEST_DIR/said" >&2; die "$*"; }
}
dc() { "${compose[@]}" -p drumbeat-test -f compose.yaml -f test.yaml "$@" </dev/null; }
id_of() { "$engine" ps -aq --filter label=com.docker.compose.project=drumbeat-test --filter "label=com.docker.compose.service=$1"; }
state() { "$engine" inspect -f "$2" "$(id_of "$1")"; } # SERVICE FORMAT
cleanup() {
	dc down -v --timeout 5 >/dev/null 2>&1 || true
	"${inside[@]}" umount "$TEST_DIR/node1" 2>/dev/null || true
	if [ -n "${KEEP:-}" ]; then
		echo "logs and pages stay in $TEST_DIR"
	else
		"${inside[@]}" rm -rf "$TEST_DIR" 2>/dev/null || true
	fi
}
trap cleanup EXIT
trap 'echo "FAILED in line $LINENO" >&2' ERR

# Programs become images. One with a Dockerfile of its own here gets its last part: all but the compilation.
program() { # DIRECTORY PROGRAM…: copies programs and their libraries
	local dir=$1 p
	shift
	mkdir -p "$dir/bin" "$dir/tmp"
	for p; do
		cp "$p" "$dir/bin/"
		{ ldd "$p" 2>/dev/null | grep -oE '/[^ ]+' || true; } | sort -u | while read -r lib; do
			mkdir -p "$dir$(dirname "$lib")" && cp -L "$lib" "$dir$lib"
		done
	done
	cp "$(type -P busybox)" "$dir/bin/busybox"
	for p in sh sleep mkdir wget; do ln -sf busybox "$dir/bin/$p"; done
}
image() { # NAME DIRECTORY ENTRYPOINT
	printf 'FROM scratch\nCOPY . /\nENV PATH=/bin\nENTRYPOINT ["%s"]\n' "$3" >"$2.Dockerfile"
	build "$1" "$2.Dockerfile" "$2"
}
build() { # NAME DOCKERFILE DIRECTORY
	local format=()
	[ "$engine" = podman ] && format=(--format docker) # the other has no health checks
	run "$engine" build -q "${format[@]}" -t "$1" -f "$2" "$3"
}
images() {
	local b=$TEST_DIR/build
	mkdir -p "$b/drumbeat/root-fs/tmp" "$b/drumbeat/root-fs/etc" "$b/drumbeat/data"
	chmod 1777 "$b/drumbeat/root-fs/tmp" "$b/drumbeat/data"
	if [ -z "${PROGRAMS:-}" ]; then
		PROGRAMS=$b/programs
		mkdir "$PROGRAMS"
		export CGO_ENABLED=0
		run go build -C "$root" -trimpath -o "$PROGRAMS/drumbeat" .
		run go build -C "$root" -trimpath -o "$PROGRAMS/nats-server" github.com/nats-io/nats-server/v2
		run env GOBIN="$PROGRAMS" "$root/scripts/versitygw.sh"
		run go test -C "$root" -trimpath -c -o "$TEST_DIR/judge" ./cmd
	else
		cp "$PROGRAMS/judge" "$TEST_DIR/judge"
	fi
	cp "$PROGRAMS/drumbeat" "$b/drumbeat/root-fs/"
	sed -n '/^FROM scratch/,$ { s/--from=build //; s/--chown=65532:65532 //; p }' ../Dockerfile |
		sed 's|^COPY /root-fs|COPY root-fs|; s|^COPY /data|COPY data|' >"$b/Dockerfile"
	build drumbeat-cluster "$b/Dockerfile" "$b/drumbeat"
	program "$b/nats" "$PROGRAMS/nats-server"
	image drumbeat-test-nats "$b/nats" /bin/nats-server
	program "$b/s3" "$PROGRAMS/versitygw"
	image drumbeat-test-s3 "$b/s3" /bin/versitygw
	program "$b/prometheus" "$(type -P prometheus)"
	image drumbeat-test-prometheus "$b/prometheus" /bin/prometheus
	rm -rf "$b"
}

# What the script knows of the run.
healthy() { # SERVICE…
	local s
	for s; do
		if [ "$engine" = podman ]; then # without systemd nothing runs its health checks
			podman healthcheck run "$(id_of "$s")" || return 1
		else
			[ "$(state "$s" '{{.State.Health.Status}}')" = healthy ] || return 1
		fi
	done
}
status() { # SERVICE STATUS
	[ "$(state "$1" '{{.State.Status}}')" = "$2" ]
}
drumbeat() { # NODE ARGUMENTS
	local s=$1
	shift
	"$engine" exec "$(id_of "$s")" /drumbeat "$@"
}
requests() { wc -l <"$TEST_DIR/web/requests"; }
asked() { [ "$(requests)" -ge "$1" ]; } # NUMBER: the web has had as many requests
more() { # SECONDS NUMBER: waits for so many requests more
	wait_for "$1" asked $(($(requests) + $2))
}
prometheus() { "$engine" exec "$(id_of prometheus)" wget -qO- "http://127.0.0.1:9090/api/v1/$1"; }
targets() { [ "$(prometheus targets | grep -o '"health":"up"' | wc -l)" = "$1" ]; }

# What it takes away.
now() { date -u +%FT%T.%NZ; }
lost() { echo "$1 $2 $(now)" >>"$TEST_DIR/kills"; } # NODE FROM: it may have lost what no checkpoint had
kill9() { # SERVICE: waits until its restart policy has started it again
	local pid from
	pid=$(state "$1" '{{.State.Pid}}')
	from=$(now)
	"${inside[@]}" kill -9 "$pid"
	wait_for 60 restarted "$1" "$pid"
	case $1 in node*) lost "$1" "$from" ;; esac
}
restarted() { # SERVICE PID
	[ "$(state "$1" '{{.State.Status}} {{.State.Pid}}')" != "running $2" ] && status "$1" running
}
stop() { run "$engine" stop -t 20 "$(id_of "$1")"; }
start() { run "$engine" start "$(id_of "$1")"; }
wipe() { # SERVICE: removes the files of a NATS server
	local dir
	dir=$("$engine" volume inspect --format '{{.Mountpoint}}' "drumbeat-test_$1")
	run "${inside[@]}" sh -c 'rm -rf "$1"/*' - "$dir"
}
in_net() { # COMMAND…, in the network of the nodes
	"${inside[@]}" nsenter -t "$(state net '{{.State.Pid}}')" -n "$@"
}
cut_off() { # its packets to brokers and store are lost; it still reaches the web
	run in_net nft -f - <<<"table inet cut { chain out { type filter hook output priority 0;
		meta skuid 65533 oifname != \"lo\" drop; }; }"
}
reconnect() { run in_net nft delete table inet cut; }

step "images"
images
cp -r "$root/packaging" "$TEST_DIR/"
cd "$TEST_DIR/packaging/docker/cluster"
mkdir secrets "$TEST_DIR"/{web,s3,s3/pages,sidecar,node0,node1,node2}
chmod 1777 "$TEST_DIR"/{web,node0,node2}
"${inside[@]}" mount -t tmpfs -o size=512M,mode=1777 tmpfs "$TEST_DIR/node1"

step "secrets"
cluster() { run "$engine" run --rm --user 0 -v "$PWD/secrets:/data" drumbeat-cluster cluster "$@"; }
cluster init --nodes 3 cluster.json
cluster secrets cluster.json . --server nats0 --server nats1 --server nats2
run "${inside[@]}" sh -c 'chmod 644 secrets/*'

step "all parts start"
run dc up -d --no-build
wait_for 120 healthy nats0 nats1 nats2 s3 prometheus "${nodes[@]}"
wait_for 60 targets 3
prometheus rules | grep '"name":"DrumbeatDown"' >/dev/null || die "Prometheus has no rules"
! prometheus rules | grep '"health":"err"' >/dev/null || die "a rule of Prometheus fails"
more 60 500

step "kill -9 of a node"
kill9 node1
wait_for 30 healthy node1
more 60 200
step "a NATS server is away"
stop nats1
more 60 200
step "two NATS servers are away: the nodes rest when their leases end"
stop nats2
sleep 22
start nats1
more 60 200
start nats2
step "a NATS server loses its files"
stop nats0
wipe nats0
start nats0
wait_for 60 healthy nats0 nats1 nats2
more 60 200
step "the object store is away"
stop s3
sleep 15
start s3
more 60 200
step "node 2 reaches neither brokers nor store, but the web"
cut_off
sleep 25
reconnect
more 60 200
step "the disk of node 1 is full: it returns to its last checkpoint"
from=$(now)
run "${inside[@]}" sh -c '! cat /dev/zero >"$1/ballast" 2>/dev/null' - "$TEST_DIR/node1"
sleep 8
run "${inside[@]}" rm "$TEST_DIR/node1/ballast"
lost node1 "$from"
more 60 200
step "kill -9 of a NATS server, the store and Prometheus"
for s in nats0 s3 prometheus; do kill9 $s; done
more 60 200
step "all NATS servers lose their files"
for s in nats0 nats1 nats2; do stop $s; done
for s in nats0 nats1 nats2; do wipe $s; done
for s in nats0 nats1 nats2; do start $s; done
more 90 200
step "kill -9 of all nodes"
for s in "${nodes[@]}"; do kill9 $s; done

step "the end, after $(requests) requests"
ended() { # SERVICE…: they have ended in order
	local s
	for s; do [ "$(state "$s" '{{.State.Running}} {{.State.ExitCode}}')" = "false 0" ] || return 1; done
}
wait_for 1500 ended "${nodes[@]}"
echo "alerts, also pending ones: $(prometheus 'query?query=sum(max_over_time(ALERTS[20m]))by(alertname,instance)' |
	grep -oE '"(alertname|instance)":"[^"]*"' | cut -d'"' -f4 | paste -sd' ')"
stop web
ended web || die "the nodes asked for URLs that they must not fetch: $("$engine" logs "$(id_of web)" 2>&1 | tail -n 2)"
step "audit"
run "$engine" run --rm --user 0 --network drumbeat-test_default -v "$TEST_DIR:/t" -v "$PWD/secrets:/secrets:ro" \
	-e AWS_ACCESS_KEY_ID=drumbeat -e AWS_SECRET_ACCESS_KEY="$S3_PASSWORD" drumbeat-cluster \
	cluster audit --deep --cluster-file /secrets/cluster.json /t/node0/crawl /t/node1/crawl /t/node2/crawl
step "the judge"
"$TEST_DIR/judge" -test.run '^TestClusterLogs$' -test.v -cluster.logs "$TEST_DIR" -cluster.pages "$TEST_PAGES"
step "passed after $SECONDS s"
