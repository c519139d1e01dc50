#!/bin/bash
# Real HTML: documentation of Debian packages, served under 20 host names by nginx with gzip and HTTPS and a DNS server
# of its own, crawled by drumbeat. The result is compared with a walk over the files, and the WARC files are read by
# npm's warcio. Exit code 0: no difference that isn't explained.
#
#   scripts/realweb.sh [crawl]   all of it
#   scripts/realweb.sh race      fetch a larger web, of plain HTTP, alternately with wget2, drumbeat and a bare loop,
#                                and compare their speed and CPU time. By default the crawlers find its hosts from one
#                                seed; it is made by a generator and needs no packages but wget2 and libnss-wrapper,
#                                without which wget2 does not take part
#
#   --hosts N          host names (20)
#   --packages A,B     Debian packages, or directories with an index.html (python3-doc,postgresql-doc-15);
#                      for race each as NAME[:SUBDIRECTORY][*HOSTS]
#   --host-delay D     drumbeat's delay between two visits to a host (5ms)
#   --limit D          stop a crawl after so long (10m)
#   --web WEB          for race:
#                      discover        48 hosts of 1 to 60,000 pages, found from the seeds (default of race)
#                      discover-full   400 hosts
#                      discover-small  24 hosts, for CI
#                      webs of Debian packages, with a seed for each host (--packages has others):
#                      core  48 hosts, pages compressed
#                      full  140 hosts of very unequal size, a third of them without compression
#                      one   one host; the bare loop has one connection, drumbeat --linger 0s
#   --seeds N          for discover: start from the roots of 1, 2 or 3 hosts (1)
#   --bad-hosts        for discover: compare drumbeat with and without bad hosts beside: a slow one, one that never
#                      answers, and one with a million URLs and an hour of Crawl-delay
#   --contenders A,B   for discover: some of wget2, bare, bare-nostore, drumbeat, drumbeat-nostore; with --bad-hosts also
#                      drumbeat-lists, drumbeat-bad
#   --pairs N          for race: run each contender N times (5)
#   --check            for race: exit with 1 if drumbeat misses pages, fetches others, or misses one of these targets:
#   --least-wget2 X    at least X times the pages/s of wget2 (core and full: 1.5, else no target)
#   --least-bare X     at least X times the pages/s of the bare loop
#   --least-nostore X  at least X times the pages/s of the bare loop, both without store; not for discover
#   --most-cpu X       at most X times the CPU time per page of the bare loop
#   --most-bad X       for discover: the bad hosts may cost this share of the pages/s, such as 0.05
#   --out DIR          for race: also put the report into DIR, as text and JSON
#   --kills N          kill -9 drumbeat so often on the way and let it resume (0)
#   --keep DIR         work in DIR and leave it there; else all files go
#   --no-warcio        don't read the WARC files with warcio (no npm needed)
#   -- FLAGS           further flags of drumbeat crawl
#
# Needs Go, and for crawl Node.js with npm. Debian packages that are missing are installed with apt-get, for which
# it must run as root or with sudo. Everything listens on loopback, on ports that are free.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

command=crawl hosts=20 packages=python3-doc,postgresql-doc-15 delay=5ms limit=10m kills=0 keep= warcio=yes pairs=5 race=() extra=()
race_web= race_packages= discover=()
case ${1-} in crawl | race) command=$1; shift ;; esac
while (($#)); do
	case $1 in
	--) shift; for flag in "$@"; do extra+=("--flags=$flag"); done; break ;;
	--no-warcio) warcio=no; shift; continue ;;
	--check | --bad-hosts) race+=("$1"); shift; continue ;;
	-h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
	--hosts | --packages | --host-delay | --limit | --kills | --keep | --pairs | --out | --web | --seeds | --contenders | --least-* | --most-*)
		[[ $# -ge 2 ]] || { echo "realweb.sh: $1 wants a value" >&2; exit 2; } ;;
	*) echo "realweb.sh: unknown argument $1; --help says more" >&2; exit 2 ;;
	esac
	case $1 in
	--hosts) hosts=$2 ;;
	--packages) packages=$2 race_packages=$2 ;;
	--host-delay) delay=$2 ;;
	--limit) limit=$2 ;;
	--kills) kills=$2 ;;
	--keep) keep=$2 ;;
	--pairs) pairs=$2 ;;
	--web) race_web=$2 ;;
	--least-* | --most-* | --seeds | --contenders) race+=("$1=$2") ;;
	--out) race+=("--out=$(realpath -m "$2")") ;;
	esac
	shift 2
done

if [[ $command == race && ! $race_web ]]; then
	race_web=discover
	[[ ! $race_packages ]] || race_web=core
fi
generated= # the web is made by a generator
[[ $race_web != discover* ]] || generated=yes
case $command/$generated in
crawl/yes) echo "realweb.sh: --web $race_web is for race" >&2; exit 2 ;;
*/yes) packages= ;;
esac

# Debian packages.
missing=()
set -f # names may end in *HOSTS
if [[ $command == race ]]; then
	case $race_web in
	discover*) ;;
	core) packages='python3-doc*22,postgresql-doc-15*20,libstdc++-12-doc*6' ;;
	full) packages='python3-doc*30,debian-policy*18,exim4-doc-html*18,postgresql-doc-15*18,git-doc*15,bind9-doc*13'
		packages+=',python-django-doc*12,sqlite3-doc*12,libstdc++-12-doc*3,openjdk-17-doc:api*1' ;;
	one) packages='libstdc++-12-doc*1' race=(--least-wget2=0 "${race[@]}") ;;
	*) echo "realweb.sh: --web $race_web: want discover, discover-full, discover-small, core, full or one" >&2; exit 2 ;;
	esac
	packages=${race_packages:-$packages}
	if [[ ! $generated || ${race[*]} != *--bad-hosts* && ${race[*]-} != *--contenders* || ${race[*]-} == *--contenders=*wget2* ]]; then
		command -v wget2 >/dev/null || missing+=(wget2)
		dpkg-query -W libnss-wrapper >/dev/null 2>&1 || missing+=(libnss-wrapper)
	fi
fi
for p in ${packages//,/ }; do
	p=${p%%[:\**]*}
	[[ $p == */* ]] || dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
PATH=$PATH:/usr/sbin:/sbin
[[ $generated ]] || command -v nginx >/dev/null || missing+=(nginx-light)
if ((${#missing[@]})); then
	echo "realweb.sh: installing ${missing[*]}" >&2
	as_root=()
	[[ $(id -u) == 0 ]] || as_root=(sudo)
	# RUNLEVEL=1: no nginx service is started. No file of a package's documentation may be left out by local rules.
	install=("${as_root[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get
		-o 'DPkg::options::=--path-include=/usr/share/doc/*' install -qq -y --no-install-recommends "${missing[@]}")
	"${install[@]}" >/dev/null || { "${as_root[@]}" apt-get update -qq && "${install[@]}" >/dev/null; } || [[ $generated ]]
fi

# Working directory and processes. The Go tool ends its children itself, whatever ends it.
tool=
if [[ $keep ]]; then
	work=$keep
	mkdir -p "$work"
	[[ -z $(ls -A "$work") ]] || { echo "realweb.sh: $work is not empty" >&2; exit 2; }
else
	work=$(mktemp -d "${TMPDIR:-/tmp}/realweb.XXXXXX")
fi
cleanup() {
	trap '' INT TERM
	if [[ $tool ]] && kill "$tool" 2>/dev/null; then wait "$tool" || true; fi
	[[ $keep ]] || rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# In the background and waited for, so that a signal to this script is dealt with at once.
run() {
	"$@" &
	tool=$!
	local code=0
	wait "$tool" || code=$?
	tool=
	return "$code"
}

mkdir "$work/bin" "$work/web"
cd "$root"
export CGO_ENABLED=0
go build -o "$work/bin/realweb" ./bench/realweb
web=(--work "$work/web" --hosts "$hosts" --packages "$packages")
go build -o "$work/bin/drumbeat" .
if [[ $generated ]]; then
	names=$(dpkg-query --listfiles libnss-wrapper 2>/dev/null | grep -m 1 '/libnss_wrapper\.so$' || true)
	run "$work/bin/realweb" discover --work "$work/web" --web "$race_web" --drumbeat "$work/bin/drumbeat" --names "$names" \
		--pairs "$pairs" --limit "$limit" "${race[@]}" "${extra[@]}"
	exit
fi
if [[ $command == race ]]; then
	names=$(dpkg-query --listfiles libnss-wrapper | grep -m 1 '/libnss_wrapper\.so$')
	run "$work/bin/realweb" race --work "$work/web" --web "$race_web" --packages "$packages" --drumbeat "$work/bin/drumbeat" --names "$names" \
		--pairs "$pairs" --limit "$limit" "${race[@]}" "${extra[@]}"
	exit
fi
if [[ $warcio == yes ]]; then
	mkdir "$work/node"
	cp scripts/package.json scripts/checkwarc.mjs "$work/node/"
	(cd "$work/node" && run npm install --no-package-lock --no-audit --no-fund --loglevel=error >/dev/null)
fi
code=0
run "$work/bin/realweb" crawl "${web[@]}" --drumbeat "$work/bin/drumbeat" --host-delay "$delay" --limit "$limit" --kills "$kills" \
	"${extra[@]}" || code=$?
if [[ $warcio == yes && -d $work/web/crawl/warc ]]; then
	run node "$work/node/checkwarc.mjs" "$work/web/crawl/warc" "$work/web/expected.ndjson" || code=$?
fi
[[ -z $keep ]] || echo "realweb.sh: all files are in $work"
exit "$code"
