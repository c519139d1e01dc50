#!/bin/bash
# Replay: pywb serves the WARC files of a crawl by the crawl's own indexes, and each answer is compared with the body
# that warcio reads from the files. Revisits must be answered with the body of the capture that they name.
#
#   scripts/replay.sh DIR [NUMBER [INDEX]]   NUMBER captures of each kind (response, revisit), spread over the index (200)
#
# INDEX is what "drumbeat index" wrote: index.cdxj, or index.idx of ZipNum. Without it, pywb has the index of each file.
# Captures of one second whose URLs have one SURT key (http://a/ and http://www.a/) are one to pywb: any may answer.
# DIR has the directory warc of a stopped crawl. Needs Python 3.8 or later with venv; pywb goes into a directory that is
# deleted at the end. Exit code 0: each replayed body is right. Everything listens on loopback.
set -euo pipefail
case ${1-} in "" | -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit $(($# == 0 ? 2 : 0)) ;; esac
dir=$(realpath "$1") number=${2:-200} index=${3:+$(realpath "$3")}
[[ -d $dir/warc ]] || { echo "replay.sh: $dir/warc is missing: DIR must be the directory of a crawl" >&2; exit 2; }
work=$(mktemp -d) server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pywb==2.10.0
[[ -n $index ]] || { mkdir "$work/index"; ln -s "$dir"/warc/*.cdxj "$work/index/"; }
cat >"$work/config.yaml" <<EOF
collections:
  crawl:
    index_paths: ${index:-$work/index/}
    archive_paths: $dir/warc/
EOF
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
(cd "$work" && exec venv/bin/wayback --bind 127.0.0.1 --port "$port" >pywb.log 2>&1) &
server=$!
for _ in $(seq 100); do
	! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	kill -0 "$server" 2>/dev/null || { cat "$work/pywb.log" >&2; exit 1; }
	sleep 0.1
done

"$work/venv/bin/python" - "$dir" "$port" "$number" <<'EOF'
import glob, json, os, sys, urllib.error, urllib.request
from warcio.archiveiterator import ArchiveIterator

directory, port, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
lines, equal = [], {}
for name in glob.glob(os.path.join(directory, "warc", "*.cdxj")):
    with open(name, encoding="ascii") as f:
        for line in f:
            key, stamp, data = line.split(" ", 2)
            data = json.loads(data)
            if data["url"].startswith("http") and "type" not in data and data["status"] == "200":
                lines.append((stamp, data))
                equal.setdefault((key, stamp), []).append(data)
                data["equal"] = equal[key, stamp]

def body(data):
    """Returns the decoded body of a capture, or of the one that a revisit names."""
    with open(os.path.join(directory, "warc", data["filename"]), "rb") as f:
        f.seek(int(data["offset"]))
        record = next(iter(ArchiveIterator(f)))
        if record.rec_type != "revisit":
            return record.content_stream().read()
        url, date = (record.rec_headers.get_header("WARC-Refers-To-" + x) for x in ("Target-URI", "Date"))
    stamp = "".join(c for c in date if c.isdigit())
    for s, d in lines:
        if d["url"] == url and s == stamp and d["mime"] != "warc/revisit":
            return body(d)
    raise SystemExit(f"replay: {data['url']} is a revisit of {url} at {date}, which is not in the index")

faults, opener = 0, urllib.request.build_opener()
for kind in ("response", "revisit"):
    of_kind = [x for x in lines if (x[1]["mime"] == "warc/revisit") == (kind == "revisit")]
    some = of_kind[:: max(1, len(of_kind) // number)][:number]
    wrong = 0
    for stamp, data in some:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/crawl/{stamp}id_/{data['url']}", headers={"Accept-Encoding": "identity"})
        try:
            with opener.open(request) as answer:
                got, why = answer.read(), "another body"
                if answer.headers.get("Content-Encoding") == "gzip":
                    import gzip
                    got = gzip.decompress(got)
        except (urllib.error.URLError, OSError) as error:
            got, why = None, error
        if not any(got == body(d) for d in data["equal"]):
            wrong += 1
            if wrong <= 5:
                print(f"replay: {kind} {data['url']}: {why}", file=sys.stderr)
    print(f"replay: {len(some)} of {len(of_kind)} captures of kind {kind}: {wrong} wrong")
    faults += wrong
sys.exit(1 if faults or not lines else 0)
EOF
