#!/bin/bash
# How URLseen's rate grows with the number of disks, when the disks bind: `drumbeat bench drum` on 1, 2 and 4
# loop devices, each limited to a rate by the kernel (blkio throttling).
#
#   scripts/disks.sh [FLAGS of bench drum]
#
#   RATE=N      bytes per second of each device, for reads and for writes (10000000)
#   SLOW=I      device I gets a tenth of that
#   DIRS=N      directories on each device but the slow one, which has one (1); each gets an equal share
#   SETS='A B'  sets of devices, by default '1 1,2 1,2,3,4'
#
# Needs root, Go, losetup, mkfs.ext4, and cgroups of version 1 with blkio (mounted in /sys/fs/cgroup/blkio). Only
# requests that bypass the page cache are limited; bench drum's form "ours" makes no others. Takes 12 GB of
# sparse files in TMPDIR, and some minutes.
set -euo pipefail
case ${1-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
rate=${RATE:-10000000} slow=${SLOW:-} count=${DIRS:-1} sets=${SETS:-1 1,2 1,2,3,4}
blkio=/sys/fs/cgroup/blkio
[[ $(id -u) == 0 && -w $blkio/blkio.throttle.write_bps_device ]] ||
	{ echo "disks.sh: needs root and the blkio controller in $blkio" >&2; exit 1; }
cd "$(dirname "$0")/.."
work=$(mktemp -d "${TMPDIR:-/tmp}/disks.XXXXXX")
group=$blkio/$(basename "$work")
loops=()
cleanup() {
	set +e
	for i in 1 2 3 4; do mountpoint -q "$work/$i" && umount "$work/$i"; done
	for loop in "${loops[@]}"; do losetup -d "$loop"; done
	rmdir "$group"
	rm -rf "$work"
}
trap cleanup EXIT
mkdir "$group"
CGO_ENABLED=0 go build -o "$work/drumbeat" .
for i in 1 2 3 4; do
	truncate -s 3G "$work/image$i"
	loops+=("$(losetup -f --show "$work/image$i")")
	device=${loops[-1]}
	mkfs.ext4 -q -E lazy_itable_init=1,nodiscard "$device"
	mkdir "$work/$i"
	mount -o noatime "$device" "$work/$i"
	bytes=$rate
	[[ $i != "$slow" ]] || bytes=$((rate / 10))
	for what in read write; do
		echo "$(stat -c %Hr:%Lr "$device") $bytes" >"$group/blkio.throttle.${what}_bps_device"
	done
done
(($#)) || set -- --quick --ram 64MiB --adders 8 --workers 4
for set in $sets; do
	dirs=
	for i in ${set//,/ }; do
		for n in $(seq "$([[ $i == "$slow" ]] && echo 1 || echo "$count")"); do
			mkdir -p "$work/$i/$n"
			dirs+=${dirs:+,}$work/$i/$n
		done
	done
	echo "devices $set:"
	(echo $BASHPID >"$group/cgroup.procs" && exec "$work/drumbeat" bench drum --forms ours --quiet --dir "$dirs" "$@") |
		grep -E '^(Benchmark|  *ours )'
done
