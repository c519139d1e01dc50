package get

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/cmdtest"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

func TestMain(m *testing.M) { cmdtest.Main[commands](m) }

// commands are those that the tests here run.
type commands struct {
	Get Command `cmd:""`
}

func wantExit(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	return cmdtest.WantExit[commands](t, code, "", args...)
}

var fetched = time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC)

// world is a crawl of one directory whose WARC files the test writes.
type world struct {
	t     *testing.T
	dir   string
	opt   warc.Options
	w     *warc.Writer
	e     *warc.Encoder
	gen   uint64
	state *warc.State // of the last checkpoint
}

func newWorld(t *testing.T, format warc.Format) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	fsys := disk.OS()
	w.must(fsys.MkdirAll(w.dir + "/state"))
	w.must(disk.WriteIdentity(fsys, w.dir, disk.Identity{Crawl: "0123", Kind: state.KindState, Number: 0, Count: 1}))
	secret := weburl.Secret{1}
	w.must(os.WriteFile(w.dir+"/"+state.SecretName, []byte(secret.Hex()+"\n"), 0o600))
	set := disk.Set{FS: fsys, Paths: []string{w.dir}}
	w.opt = warc.Options{Set: set, State: set, Format: format}
	var err error
	w.w, err = warc.Open(w.opt, nil)
	w.must(err)
	t.Cleanup(func() { _ = w.w.Close() })
	w.e = w.w.NewEncoder()
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// stored is a response of a world.
type stored struct {
	url, head, body, kind string
	after                 time.Duration
	original              string // URL; the response is a revisit
}

func (w *world) add(r stored) {
	w.t.Helper()
	x := &warc.Exchange{URL: []byte(r.url), Date: fetched.Add(r.after),
		Head: []byte("HTTP/1.1 200 OK\r\n" + r.head + "\r\n"), Body: []byte(r.body), Status: 200, MIME: "text/html",
		Kind: r.kind, Chunked: strings.Contains(r.head, "chunked"), Encoded: strings.Contains(r.head, "Encoding")}
	var p warc.Prepared
	w.must(w.e.Prepare(&p, x))
	if r.original != "" {
		w.must(w.e.Revisit(&p, warc.Original{URL: []byte(r.original), Date: fetched}))
	}
	_, err := w.w.Append(&p, fetched)
	w.must(err)
}

// save makes a checkpoint; roll closes the files before.
func (w *world) save(roll bool) {
	w.t.Helper()
	if roll {
		w.must(w.w.Roll())
	}
	w.gen++
	f := w.w.Freeze()
	tails, err := disk.CreateTails(w.opt.State, w.gen)
	w.must(err)
	st, err := f.Save(tails)
	w.must(err)
	w.must(tails.Close())
	w.state = st
	raw, err := json.Marshal(st)
	w.must(err)
	secret := weburl.NewHasher(weburl.Secret{1}).ContentKey([]byte(state.SecretCheckText))
	parts := map[string]json.RawMessage{}
	for _, name := range state.Structures {
		parts[name] = json.RawMessage("{}") // get reads none of them
	}
	parts[state.NameWARC] = raw
	data, err := state.EncodeManifest(&state.Manifest{Gen: w.gen, Crawl: "0123", Parts: parts,
		Frozen: state.Frozen{SecretCheck: secret}})
	w.must(err)
	w.must(os.WriteFile(w.dir+"/"+state.ManifestName, data, 0o600))
	w.must(f.Commit())
}

const text = "<html><title>T</title><body><p>one</p><script>no</script><p>two  three</p>"

// codingsCases are the cases of TestCodings.
var codingsCases = []struct {
	args []string
	want string
}{
	{[]string{"http://b.test/again", "--head"},
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nX: own\r\n\r\n"},
	{[]string{"http://b.test/again", "--text"}, "T\none\ntwo three\n"},
	{[]string{"http://b.test/again", "--markdown"}, "one\n\ntwo three\n"},
	{[]string{"HTTP://A.test/new"}, "new"},
	{[]string{"http://a.test/new", "--at=2026-11-24T01:20:00Z"}, "old"},
	{[]string{"http://a.test/robots.txt"}, "as page"},
}

// codedBodies are responses with the text in all codings, then redirects, revisits and others.
func codedBodies(t *testing.T) []stored {
	var gz, br, zs, raw, zl bytes.Buffer
	must := func(_ int, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	g := gzip.NewWriter(&gz)
	must(g.Write([]byte(text)))
	must(0, g.Close())
	b := brotli.NewWriter(&br)
	must(b.Write([]byte(text)))
	must(0, b.Close())
	z, err := zstd.NewWriter(&zs)
	must(0, err)
	must(z.Write([]byte(text)))
	must(0, z.Close())
	f, err := flate.NewWriter(&raw, 6)
	must(0, err)
	must(f.Write([]byte(text)))
	must(0, f.Close())
	l := zlib.NewWriter(&zl)
	must(l.Write([]byte(text)))
	must(0, l.Close())
	half := gz.String()[:len(gz.String())/2]
	chunks := fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", len(half), half, gz.Len()-len(half),
		gz.String()[len(half):])
	return []stored{
		{url: "http://a.test/plain", body: text},
		{url: "http://a.test/gzip", head: "Content-Encoding: gzip\r\n", body: gz.String()},
		{url: "http://a.test/br", head: "Content-Encoding: br\r\n", body: br.String()},
		{url: "http://a.test/zstd", head: "Content-Encoding: zstd\r\n", body: zs.String()},
		{url: "http://a.test/deflate", head: "Content-Encoding: deflate\r\n", body: raw.String()},
		{url: "http://a.test/zlib", head: "Content-Encoding: deflate\r\n", body: zl.String()},
		{url: "http://a.test/chunks", head: "Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n", body: chunks},
		{url: "http://b.test/again", head: "Content-Encoding: gzip\r\nX: own\r\n", body: gz.String(),
			original: "http://a.test/gzip"}, {url: "http://a.test/lost", body: text, original: "http://a.test/none"},
		{url: "http://a.test/new", body: "old"}, {url: "http://a.test/new", body: "new", after: time.Hour},
		{url: "http://a.test/robots.txt", body: "as robots", kind: warc.KindRobots},
		{url: "http://a.test/robots.txt", body: "as page"}, {url: "http://a.test/empty", head: "Location: /new\r\n"},
	}
}

// TestCodings: get prints the decoded body whatever its framing and coding, from open and final files, gz and zst.
func TestCodings(t *testing.T) {
	all := codedBodies(t)
	for _, format := range []warc.Format{warc.Gzip, warc.Zstd} {
		for _, roll := range []bool{false, true} {
			t.Run(fmt.Sprint(format, roll), func(t *testing.T) {
				w := newWorld(t, format)
				for _, r := range all {
					w.add(r)
				}
				w.save(roll)
				for _, r := range all[:8] {
					if out, errs := wantExit(t, 0, "get", "--dir="+w.dir, r.url); out != text || errs != "" {
						t.Errorf("%s: %q, %s", r.url, out, errs)
					}
				}
				for _, tt := range codingsCases {
					if out, _ := wantExit(t, 0,
						append([]string{"get", "--dir=" + w.dir}, tt.args...)...); out != tt.want {
						t.Errorf("%q: %q, want %q", tt.args, out, tt.want)
					}
				}
				if out, errs := wantExit(t, 0, "get", "--dir="+w.dir, "http://a.test/empty"); out != "" ||
					!strings.Contains(errs, "the body is empty") {
					t.Errorf("an empty body: %q, %q", out, errs)
				}
				if out, _ := wantExit(t, 0, "get", "--dir="+w.dir, "http://b.test/again",
					"--record"); !strings.HasPrefix(out, "WARC/1.1\r\nWARC-Type: revisit\r\n") ||
					!strings.HasSuffix(out, "X: own\r\n\r\n\r\n\r\n") {
					t.Errorf("the record is %q", out)
				}
				if _, errs := wantExit(t, term.ExitFailure, "get", "--dir="+w.dir,
					"http://a.test/lost"); !strings.Contains(errs,
					"revisit; its body belongs to http://a.test/none") {
					t.Error(errs)
				}
			})
		}
	}
}

// TestMistakes: what is not there gives an error that says what to do.
func TestMistakes(t *testing.T) {
	w := newWorld(t, warc.Gzip)
	w.add(stored{url: "http://a.test/", body: text})
	w.save(true)
	for _, tt := range []struct {
		code int
		args []string
		want string
	}{
		{term.ExitFailure, []string{"--dir=" + w.dir, "http://a.test/none"}, "drumbeat explain url --dir"},
		{term.ExitUsage, []string{"--dir=" + w.dir, "mailto:a"}, "mailto"},
		{term.ExitUsage, []string{"--dir=" + w.dir, "http://a.test/", "--at=soon"}, "soon"},
		{term.ExitDirectory, []string{"--dir=" + w.dir + "/none", "http://a.test/"}, "does not exist"},
		{term.ExitDirectory, []string{"--dir=" + t.TempDir(), "http://a.test/"}, "holds no crawl"},
	} {
		if _, errs := wantExit(t, tt.code, append([]string{"get"}, tt.args...)...); !strings.Contains(errs, tt.want) {
			t.Errorf("%q: %s, want %q", tt.args, errs, tt.want)
		}
	}
	file := one(t, w.dir+"/warc/*.warc.gz")
	w.must(os.Rename(file, w.dir+"/away"))
	if _, errs := wantExit(t, term.ExitFailure, "get", "--dir="+w.dir, "http://a.test/"); !strings.Contains(errs,
		"move it back") {
		t.Error(errs)
	}
	w.must(os.Rename(w.dir+"/away", file))
	w.must(os.Rename(one(t, w.dir+"/warc/*.cdxj"), w.dir+"/away"))
	if _, errs := wantExit(t, term.ExitFailure, "get", "--dir="+w.dir, "http://a.test/"); !strings.Contains(errs,
		"without one") {
		t.Error(errs)
	}
}

func one(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) != 1 {
		t.Fatalf("%s: %q, %v, want one file", pattern, names, err)
	}
	return names[0]
}

// TestDamage: wrong bytes at any place of an index or a WARC file give the right body, or an error or a warning with
// the exit code of damage; never another body.
func TestDamage(t *testing.T) {
	w := newWorld(t, warc.Gzip)
	const pages = 400 // several pages of the index
	for i := range pages {
		w.add(stored{url: fmt.Sprintf("http://a.test/%03d/%s", i, strings.Repeat("x", 40)), body: fmt.Sprint(text, i)})
	}
	w.save(true)
	for _, pattern := range []string{"/warc/*.cdxj", "/warc/*.warc.gz"} {
		name := one(t, w.dir+pattern)
		good, err := os.ReadFile(name)
		w.must(err)
		for n := range 40 {
			at := (n*7919 + 13) * 97 % len(good)
			bad := bytes.Clone(good)
			bad[at] ^= 0x15
			w.must(os.WriteFile(name, bad, 0o600))
			i := n * 10 % pages
			url := fmt.Sprintf("http://a.test/%03d/%s", i, strings.Repeat("x", 40))
			code, out, errs := cmdtest.Run[commands](t, "", "get", "--dir="+w.dir, url)
			if code == 0 && out != fmt.Sprint(text, i) || code != 0 &&
				(code != term.ExitDamage && code != term.ExitFailure || errs == "") {
				t.Errorf("%s at %d: %s: exit code %d, %q, %s", name, at, url, code, out, errs)
			}
		}
		w.must(os.WriteFile(name, good, 0o600))
	}
}
