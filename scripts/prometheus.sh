#!/usr/bin/env bash
# Checks packaging/prometheus with promtool (package prometheus of Debian and Ubuntu): the configuration, the
# alert rules and their tests; also the configuration of the compose file. Without promtool it says so and
# succeeds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../packaging/prometheus"
tool=${PROMTOOL:-promtool}
if ! command -v "$tool" >/dev/null; then
	echo "   left out: promtool is not installed"
	exit 0
fi
"$tool" check config --lint-fatal prometheus.yml
"$tool" check config --syntax-only ../docker/prometheus.yml # its rules are at a path of the container
"$tool" check rules --lint-fatal alerts.yml
"$tool" test rules alerts_test.yml
