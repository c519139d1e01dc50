#!/usr/bin/env bash
# Runs one part of the nightly tests with a seed of its own; see docs/contribute/testing.md.
#
#	scripts/night.sh crash|kill|cluster|soak|mutants|fuzz SEED
#
# DRUMBEAT_NIGHT is the time that a part may take, in minutes; default 300.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() { sed -n '/^#\t/s/^#\t//p' "$0" >&2; exit 2; }
[ $# -eq 2 ] || usage
part=$1 seed=$2 minutes=${DRUMBEAT_NIGHT:-300}
echo "seed $seed"

case $part in
crash) go test ./crawl -run '^(TestCutsInTurn|TestCutsAtRandom)$' -v -timeout "${minutes}m" -args -long -seed "$seed" -turns 20 -cuts 20000 -finish 200 ;;
kill) go test ./crawl -run '^(TestKill|TestKillRecrawl)$' -v -timeout "${minutes}m" -args -long -seed "$seed" -kills 1008 ;;
cluster) go test ./crawl -run '^(TestClusterCuts|TestClusterCutsInTurn|TestClusterObjectStoreCuts)$' -v -timeout "${minutes}m" -args -long -seed "$seed" ;;
soak) go test ./internal/soak -run '^TestSoak$' -v -timeout "${minutes}m" -args -soak "$((minutes / 2))m" -seed "$seed" ;;
mutants) go test ./internal/mutate -run '^TestMutants$' -v -timeout "${minutes}m" -args -mutants all ;;
fuzz) scripts/fuzz.sh -t 2m -j "$(nproc 2>/dev/null || echo 2)" ;;
*) usage ;;
esac
