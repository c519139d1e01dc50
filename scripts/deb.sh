#!/usr/bin/env bash
# Installs the Debian package in a container with systemd, upgrades it while a crawl and two nodes of a cluster run,
# removes and purges it, and checks each step. docs/contribute/releasing.md.
#
#   scripts/deb.sh OLD.deb NEW.deb      as root, with debootstrap; 3 minutes, 600 MB in $TMPDIR
#
# The container is a namespace of this machine without a network. It crawls demo --serve.
set -euo pipefail
old=$(realpath "$1") new=$(realpath "$2")
root=$(mktemp -d) init=
trap '[ -z "$init" ] || kill -9 "$init" || true; sleep 1; rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase --include=systemd,dbus,needrestart,iproute2 bookworm "$root" >"$root.log" ||
	{ tail -5 "$root.log" >&2; exit 1; }
rm "$root.log"
cp "$old" "$root/root/old.deb"
cp "$new" "$root/root/new.deb"
cat >"$root/root/boot" <<'BOOT'
cd /
umount -l /mnt 2>/dev/null || true
mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
container=other exec /lib/systemd/systemd --system --log-target=null
BOOT
cat >"$root/root/check" <<'CHECK'
set -eu
export DEBIAN_FRONTEND=noninteractive
fail() { echo "FAILED: $*"; exit 1; }
pid() { systemctl show -P MainPID "$1"; }
runs() { for unit in "$@"; do systemctl is-active -q "$unit" || fail "$unit does not run"; done; }
install() { dpkg -i "/root/$1.deb" >/run/dpkg 2>&1 || fail "$(cat /run/dpkg)"; }
pages() { drumbeat ctl --dir /var/lib/drumbeat/node-0 status | awk '$1 == "pages" { print $2 }' | tr -d ',;'; }
until systemctl is-system-running 2>/dev/null | grep -Eq 'running|degraded'; do sleep 1; done
ip link set lo up
install old
id drumbeat >/dev/null
[ -z "$(dpkg -V drumbeat)" ] || fail "files differ from the package"
[ "$(systemctl is-enabled drumbeat || true)" = disabled ] || fail "the service is enabled"
for unit in drumbeat drumbeat@; do # a container cannot raise its limit
	mkdir -p "/etc/systemd/system/$unit.service.d"
	printf '[Service]\nLimitNOFILE=4096\nRestartSec=2s\n' >"/etc/systemd/system/$unit.service.d/limit.conf"
done
systemctl daemon-reload
systemd-run -q --unit=web /usr/bin/drumbeat demo --serve 18777 --pages 60000 --hosts 300 --plds 100
sleep 4
journalctl -u web -o cat --no-pager | sed -n '/^ *http/p' | tr -d ' ' >/etc/drumbeat/seeds.txt
cat >/etc/drumbeat/drumbeat.env <<ENV
DRUMBEAT_CONTACT=you@example.org
DRUMBEAT_SEEDS=/etc/drumbeat/seeds.txt
DRUMBEAT_ALLOW_NET=127.0.0.0/8
DRUMBEAT_RESOLVER=127.0.0.1:18779
DRUMBEAT_PORTS=8080
DRUMBEAT_MAP_PORT=80=18777,8080=18777,443=18778
DRUMBEAT_RAM=1GiB
DRUMBEAT_DISK=10GB
DRUMBEAT_RATE=20
DRUMBEAT_HOST_DELAY=100ms
DRUMBEAT_SERVER_DELAY=50ms
DRUMBEAT_CONNECTIONS=100
ENV
(cat /etc/drumbeat/drumbeat.env && echo DRUMBEAT_CLUSTER_FILE=/etc/drumbeat/cluster.json &&
	echo DRUMBEAT_CLUSTER_LEASE=5s) >/etc/drumbeat/cluster.env
printf 'DRUMBEAT_CLUSTER=embed\nDRUMBEAT_CLUSTER_LISTEN=127.0.0.1:4222\n' >/etc/drumbeat/node-0.env
echo DRUMBEAT_CLUSTER=nats://127.0.0.1:4222 >/etc/drumbeat/node-1.env
drumbeat cluster init --nodes 2 /etc/drumbeat/cluster.json >/dev/null
chown drumbeat: /etc/drumbeat/cluster.json
systemctl enable --now drumbeat@0 2>/dev/null
sleep 2
systemctl enable --now drumbeat@1 2>/dev/null
systemctl start drumbeat
sleep 20
runs drumbeat drumbeat@0 drumbeat@1
sums=$(md5sum /etc/drumbeat/*) one=$(pid drumbeat) nodes="$(pid drumbeat@0) $(pid drumbeat@1)" had=$(pages)
install new
runs drumbeat drumbeat@0 drumbeat@1
[ "$nodes" = "$(pid drumbeat@0) $(pid drumbeat@1)" ] || fail "the upgrade has restarted a node"
[ "$one" != "$(pid drumbeat)" ] || fail "the upgrade has not restarted the crawl"
[ "$sums" = "$(md5sum /etc/drumbeat/*)" ] || fail "the upgrade has changed the configuration"
needrestart -b -r l 2>/dev/null | grep -q 'SVC: drumbeat@0' || fail "needrestart does not report the nodes"
sleep 12
[ "$(pages)" -gt "$had" ] || fail "node 0 fetches nothing after the upgrade"
for node in 1 0; do # as the operator does
	systemctl restart "drumbeat@$node"
	sleep 12
done
runs drumbeat@0 drumbeat@1
[ "$(readlink "/proc/$(pid drumbeat@0)/exe")" = /usr/bin/drumbeat ] || fail "a restarted node has the old program"
dpkg -r drumbeat >/run/dpkg 2>&1 || fail "$(cat /run/dpkg)"
for unit in drumbeat drumbeat@0 drumbeat@1; do
	! systemctl is-active -q "$unit" || fail "$unit runs after the removal"
done
[ -z "$(find /etc/systemd/system -name 'drumbeat*' -type l)" ] || fail "a unit is enabled after the removal"
dpkg -P drumbeat >/run/dpkg 2>&1 || fail "$(cat /run/dpkg)"
[ ! -e /etc/drumbeat/cluster.env ] || fail "a purge leaves the configuration"
[ -d /var/lib/drumbeat/node-1/warc ] || fail "a purge removes a crawl"
echo "passed: installed, upgraded without a restart of nodes, removed, purged"
CHECK
unshare --mount --pid --fork --uts --ipc --net sh -c 'mount --make-rprivate / && mount --bind "$0" "$0" && cd "$0" &&
	pivot_root . mnt && exec chroot . /bin/sh /root/boot' "$root" 2>/dev/null &
unshare=$!
sleep 3
init=$(pgrep -P "$unshare")
nsenter -t "$init" --mount --pid --uts --ipc --net --root chroot / bash /root/check
