#!/usr/bin/env bash
# Runs every fuzz target for a while and prints a table; see docs/contribute/testing.md.
#
#	scripts/fuzz.sh [-t 30s] [-p 1] [-j 1] [-o DIR] [package|target|package.target ...]
#
#	-t  how long each target runs; more than seeds need to be read, so 10s at least makes sense
#	-p  workers of a target (each is a process of its own)
#	-j  targets at once
#	-o  where the outputs and the table go; a temporary directory, deleted if all is well, by default
#
# The exit code is 1 when a target fails. The input that made it fail is then in the package's testdata/fuzz, which makes
# it a test case from then on: commit it with the fix. Inputs that reach new code are kept in Go's build cache.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=30s workers=1 jobs=1 out=
while getopts t:p:j:o: opt; do
	case $opt in
	t) time=$OPTARG ;;
	p) workers=$OPTARG ;;
	j) jobs=$OPTARG ;;
	o) out=$OPTARG ;;
	*) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))

keep=$out
[ -n "$out" ] || out=$(mktemp -d)
mkdir -p "$out"

# targets prints "package target", one a line: what the arguments choose, or all.
targets() {
	grep -rn --include='*_test.go' -E '^func Fuzz[A-Za-z0-9_]*\(' . |
		sed -E 's!^\./(.*):[0-9]+:func (Fuzz[A-Za-z0-9_]*)\(.*!\1 \2!' |
		while read -r file target; do
			pkg=$(dirname "$file")
			[ $# -eq 0 ] && echo "$pkg $target"
			for want; do
				case $want in
				"$pkg" | "./$pkg" | "$target" | "$pkg.$target") echo "$pkg $target"; break ;;
				esac
			done
		done | sort -u
}

# run fuzzes one target and leaves a line of the table in OUT/NAME.row.
run() {
	local pkg=$1 target=$2 name log start rc=0 took stats result=ok
	name=$(tr / - <<<"${pkg#.}" | sed 's/^$/root/').$target
	log=$out/$name.log
	start=$SECONDS
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -parallel "$workers" -fuzzminimizetime 1s -timeout 0 "./$pkg" >"$log" 2>&1 || rc=$?
	took=$((SECONDS - start))
	stats=$(sed -nE 's/.*execs: ([0-9]+) .*new interesting: ([0-9]+) \(total: ([0-9]+)\).*/\1 \2 \3/p' "$log" | tail -1)
	if [ $rc -ne 0 ]; then
		result="FAILED, see $log"
		# Go's own clock may run out inside an input, which it then reports without one: no finding.
		if grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; then
			result=ok
		fi
	fi
	printf '%s\t%s\t%s\t%s\n' "$name" "${took}s" "$(tr ' ' '\t' <<<"${stats:-0 0 0}")" "$result" >"$out/$name.row"
	printf '%-34s %6s %12s execs  %s\n' "$name" "${took}s" "${stats%% *}" "$result"
}

list=$(targets "$@")
[ -n "$list" ] || { echo "fuzz: no target matches: $*" >&2; exit 2; }
rm -f "$out"/*.row
while read -r pkg target; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
	run "$pkg" "$target" &
done <<<"$list"
wait

printf '\n%-34s %7s %12s %6s %6s  %s\n' target time executions new total result | tee "$out/summary.txt"
sort "$out"/*.row | while IFS=$'\t' read -r name took execs new total result; do
	printf '%-34s %7s %12s %6s %6s  %s\n' "$name" "$took" "$execs" "$new" "$total" "$result"
done | tee -a "$out/summary.txt"
if grep -q FAILED "$out"/*.row; then
	echo "fuzz: failures; the outputs are in $out" >&2
	exit 1
fi
[ -n "$keep" ] || rm -rf "$out"
