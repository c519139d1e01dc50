#!/usr/bin/env bash
# Makes the pictures of the README, docs/pictures/*.webp, from a crawl of the synthetic web: the terminal and the
# dashboard, each in light and dark.
#
#   scripts/pictures.sh [DIR]
#
# DIR replaces docs/pictures. Needs Go, tmux, curl, unshare, cwebp (Debian: webp), DejaVu fonts, and CHROMIUM or
# chromium in PATH. It takes three minutes, stays on loopback, and shows no path or name of this machine.
set -euo pipefail
case ${1-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "${1:-docs/pictures}"
out=$(cd "${1:-docs/pictures}" && pwd)
chromium=${CHROMIUM:-chromium}
for program in go tmux curl unshare cwebp "$chromium"; do
	command -v "$program" >/dev/null || { echo "pictures: $program is not installed" >&2; exit 1; }
done

port=18053 admin=127.0.0.1:17878 columns=112 rows=40
work=$(mktemp -d)
web=
finish() {
	tmux -L "pictures-$$" kill-server 2>/dev/null || true
	if [ -n "$web" ]; then kill "$web" 2>/dev/null || true; wait "$web" 2>/dev/null || true; fi
	for _ in $(seq 50); do rm -rf "$work" 2>/dev/null && break; sleep 0.2; done # the crawl may still end
}
trap finish EXIT
root=$PWD
CGO_ENABLED=0 go build -o "$work/drumbeat" .
cd "$work"

./drumbeat demo --serve $port --pages 300000 --hosts 5000 --plds 900 --quiet >web.log 2>&1 &
web=$!
until grep -q -- --resolver web.log; do
	kill -0 "$web" 2>/dev/null || { cat web.log >&2; exit 1; }
	sleep 0.2
done
grep -o 'https\?://[^ ]*' web.log >seeds.txt

# The command on the picture is short: what leads it to the synthetic web, with its delays, is in variables.
cat >start <<EOF
PS1='$ ' PATH=$work:$PATH
export DRUMBEAT_ALLOW_NET=127.0.0.0/8 DRUMBEAT_RESOLVER=127.0.0.1:$((port + 2)) DRUMBEAT_PORTS=8080
export DRUMBEAT_MAP_PORT=80=$port,8080=$port,443=$((port + 1)) DRUMBEAT_ADMIN=$admin DRUMBEAT_LOG_LEVEL=error
export DRUMBEAT_HOST_DELAY=3s DRUMBEAT_SERVER_DELAY=50ms DRUMBEAT_PLD_DELAY=20ms
export DRUMBEAT_NETWORK_RATE=0 DRUMBEAT_RAM=1GiB DRUMBEAT_DISK=4GiB
EOF
t=(tmux -L "pictures-$$" -f /dev/null)
LC_ALL=C.UTF-8 "${t[@]}" new-session -d -x $columns -y $rows \
	"unshare --user --map-root-user --uts sh -c 'hostname crawler; exec bash --noprofile --rcfile start -i'"
sleep 1
"${t[@]}" send-keys 'drumbeat crawl --seeds seeds.txt --contact you@example.org --dir web' Enter
for i in $(seq 300); do # the charts have three minutes of history
	sleep 1
	[ "$i" -ge 170 ] && curl -sf "http://$admin/healthz" >/dev/null && break
	[ "$i" -lt 300 ] || { "${t[@]}" capture-pane -p >&2; exit 1; }
done

"${t[@]}" capture-pane -p | sed -e 's/[[:space:]]*$//' >screen
sed -i -e :a -e '/^\n*$/{$d;N;ba' -e '}' screen # without empty lines at its end
# terminal NAME COLOUR BACKGROUND FRAME writes the terminal as a page.
terminal() {
	{
		printf '<meta charset=utf-8><style>body{margin:0;background:%s;color:%s}pre{margin:0;padding:14px 16px;border:1px solid %s;' "$3" "$2" "$4"
		printf 'font:14px/18px "DejaVu Sans Mono",monospace}</style><pre>'
		sed -e 's/&/\&amp;/g' -e 's/</\&lt;/g' screen
		printf '</pre>'
	} >"$1.html"
}
terminal terminal-light '#1f2328' '#ffffff' '#d0d7de'
terminal terminal-dark '#e6edf3' '#0d1117' '#30363d'

# The browser is nice, so that the crawl keeps its pace.
(cd "$root" && CHROMIUM=$chromium nice -n 19 go test ./admin/e2e -count=1 -run '^TestPicture$' -args -browser -shots "$work" \
	-picture "http://$admin/" >"$work/test.log" 2>&1) || { cat "$work/test.log" >&2; exit 1; }
flags=(--headless=new --disable-gpu --hide-scrollbars --force-device-scale-factor=1.5 --user-data-dir="$work/browser" --no-first-run
	--disable-background-networking --window-size="980,$(($(wc -l <screen) * 18 + 30))")
if [ "$(id -u)" = 0 ]; then flags+=(--no-sandbox); fi
for theme in light dark; do
	timeout 60 "$chromium" "${flags[@]}" --screenshot="$work/terminal-1280-$theme.png" "file://$work/terminal-$theme.html" 2>chromium.log ||
		{ cat chromium.log >&2; exit 1; }
	for name in dashboard terminal; do
		cwebp -quiet -near_lossless 40 -m 6 "$work/$name-1280-$theme.png" -o "$out/$name-$theme.webp"
	done
done
if grep -qF "$(hostname)" screen; then echo "pictures: the terminal shows the name of this machine" >&2; exit 1; fi
ls -l "$out"/*.webp
