package drum

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drumbeat/bench/benchtest"
	"drumbeat/disk"
	"drumbeat/drum"
)

// TestBatchCost: for a whole number of passes the sum over iterations equals the paper's closed form.
func TestBatchCost(t *testing.T) {
	const known, links, unique, url = 1e8, 64e6, 1.0 / 9, 110.0
	l := drum.Load{Known: known, Links: links, UniqueFraction: unique, URLBytes: url, KeyBytes: 8, PointerBytes: 4}
	for _, c := range []struct {
		name string
		cost batchCost
		want float64
	}{
		{"DRUM",
			batchCost{known: known, links: links, unique: unique, key: 8, batch: 8e6, perLink: 2*url + 16, url: url},
			url * l.DRUM(1e12, 8e6*(8+url), 256e3)},
		{"Mercator-B",
			batchCost{known: known, links: links, unique: unique, key: 8, batch: 8e6, perLink: 2 * url, url: url},
			url * l.MercatorB(2*8e6*12)},
		{"Polybot", batchCost{known: known, links: links, unique: unique, key: 5.5, batch: 8e6, url: url},
			url * l.Polybot(2*8e6*(url+16), 5.5)},
	} {
		if got := c.cost.bytes(); math.Abs(got/c.want-1) > 1e-6 {
			t.Errorf("%s: got %v bytes per link, want %v", c.name, got, c.want)
		}
	}
}

var drumSeed = flag.Uint64("drum-seed", 1, "seed of the links of the tests of bench drum")

func smallDrum(t *testing.T) Options {
	return Options{
		Dirs: []string{t.TempDir()}, Known: []int64{20_000}, Links: 60_000, RAMBytes: 8 << 20, DiskBytes: 2e6,
		Seed: *drumSeed, Methods: []string{formPlain, formOurs, formCached},
	}
}

// TestDrum: all forms give the right answers in several passes, stay within RAM, and leave no files.
func TestDrum(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	d := smallDrum(t)
	var said []string
	r, err := d.Measure(context.Background(), func(s string) { said = append(said, s) })
	must(t, err)
	var b bytes.Buffer
	must(t, r.Write(&b))
	text := b.String()
	if n := strings.Count(text, "right, by the texts"); n != len(d.Methods) {
		t.Errorf("seed %d: got %d right methods of %d:\n%s", d.Seed, n, len(d.Methods), text)
	}
	if n := strings.Count(text, "right, by the number"); n != len(d.Methods)-1 {
		t.Errorf("seed %d: got %d methods right link by link, want all but the cached one:\n%s", d.Seed, n, text)
	}
	for _, want := range []string{"BenchmarkDrum/keys=2e4/ram=8MiB/form=plain \t", "theorem-B/link", "NOT limited"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || len(said) == 0 {
		t.Errorf("got no progress, or numbers that are none:\n%s", text)
	}
	benchtest.Empty(t, d.Dirs[0])
}

// TestTheorem2: the plain form reads and writes the bytes of Theorem 2 where the quadratic term is
// negligible and where it equals the others, limited by RAM and by disk. bench drum --theorem measures the
// larger points.
func TestTheorem2(t *testing.T) {
	d := smallDrum(t)
	b := &drumBench{Options: d, progress: func(string) {}}
	must(t, errors.Join(b.Complete(), b.open()))
	for _, p := range theoremPoints(false) {
		if p.factor > 1 {
			continue
		}
		run, err := b.theoremRun(t.Context(), &p)
		must(t, err)
		run.Links, run.Misses = run.Merged, run.Merged
		if want := run.predicted(p.disk); math.Abs(run.io()/want-1) > 0.05 || run.Passes != p.passes {
			t.Errorf("seed %d: limited by %s, factor %v: got %.1f B/link in %d passes, want %.1f in %d", d.Seed,
				p.limitedBy, p.factor, run.io(), run.Passes, want, p.passes)
		}
	}
}

// TestDrumURLs: a file of URLs is measured to its end, without known answers, or over and over on other hosts, beside
// known keys.
func TestDrumURLs(t *testing.T) {
	d := smallDrum(t)
	d.URLs, d.Methods = filepath.Join(t.TempDir(), "urls"), []string{formPlain, formOurs}
	if err := os.WriteFile(d.URLs, []byte(strings.Repeat("http://a/\nhttp://b/\n", 5000)+"http://c/\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ known, links, want, unique int64 }{{0, 0, 10001, 3}, {1000, 25000, 25000, 8}} {
		d.Known, d.Links = []int64{c.known}, c.links
		var set drumSet
		b := &drumBench{Options: d, progress: func(string) {}}
		must(t, errors.Join(b.Complete(), b.open(), b.measureAll(t.Context(), c.known, 0, &set)))
		for _, r := range set.runs {
			if r.Links != c.want || r.Found != c.unique || r.Keys != c.known+c.unique || r.TruthKnown {
				t.Errorf("%s: got %d links, %d new, %d keys, want %+v", r.Method, r.Links, r.Found, r.Keys, c)
			}
		}
	}
}

// TestDrumStops: a cancelled run ends and removes its files.
func TestDrumStops(t *testing.T) {
	d := smallDrum(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := d.Measure(ctx, func(string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	benchtest.Empty(t, d.Dirs[0])
}

// TestDrumSkips: a baseline that can't load the known keys in time is skipped, and the report says so.
func TestDrumSkips(t *testing.T) {
	d := smallDrum(t)
	d.Known, d.Methods, d.BaselineTime = []int64{200_000}, []string{"polybot", formPlain}, 1
	r, err := d.Measure(t.Context(), func(string) {})
	must(t, err)
	if len(r.Lines) != 1 || len(r.Notes) != 1 ||
		!strings.Contains(r.Notes[0], "polybot with 2e5 known keys was not measured") {
		t.Errorf("got %+v, %q", r.Lines, r.Notes)
	}
}

func TestDrumOptions(t *testing.T) {
	for _, change := range []func(*Options){
		func(d *Options) { d.Dirs = nil }, func(d *Options) { d.Methods = []string{"abacus"} },
		func(d *Options) { d.RAMBytes = 1000 },
		func(d *Options) { d.UniqueShare = 2 },
		func(d *Options) { d.Links = -1 }, func(d *Options) { d.Known = []int64{-1} },
	} {
		d := smallDrum(t)
		change(&d)
		if err := d.Complete(); err == nil {
			t.Errorf("got no error for %+v", d)
		}
	}
	d := smallDrum(t)
	d.DiskBytes = 1 << 60
	if _, err := d.Measure(t.Context(), nil); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v, want no space", err)
	}
}

// TestDrumBuffer: the requested buffer size is used, although blocks of text are smaller by default.
func TestDrumBuffer(t *testing.T) {
	form, _ := findForm(formOurs)
	for _, asked := range []int{0, 64 << 10, 2 << 20} {
		job := &drumJob{RAMBytes: 256 << 20, DiskBytes: 10 << 30, BufferBytes: asked, Links: 1e8}
		job.Stream.UniqueShare = 1. / 9
		o, _, err := job.options(form, disk.Set{FS: disk.OS(), Paths: []string{t.TempDir()}})
		must(t, err)
		want := asked
		if asked == 0 {
			want = drum.BufferFor(256 << 20)
		}
		if o.BufferBytes != want || o.LogBytes < want {
			t.Errorf("asked for %d: got buffers of %d, blocks of %d", asked, o.BufferBytes, o.LogBytes)
		}
	}
}

// TestDrumChild: a job passes through JSON and comes back as a result or an error.
func TestDrumChild(t *testing.T) {
	d := smallDrum(t)
	b := &drumBench{Options: d, progress: func(string) {}}
	must(t, errors.Join(b.Complete(), b.open()))
	in, err := json.Marshal(b.job(formOurs, 1000))
	must(t, err)
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) }()
	var out bytes.Buffer
	must(t, Child(t.Context(), bytes.NewReader(in), &out))
	var last struct{ Value *Result }
	for line := range strings.Lines(out.String()) {
		must(t, json.Unmarshal([]byte(line), &last))
	}
	if run := last.Value; run == nil || !run.Right || run.Links != d.Links || run.PeakRSS == 0 {
		t.Errorf("got %+v", last.Value)
	}
	out.Reset()
	if err := Child(t.Context(), strings.NewReader("what"), &out); err == nil ||
		!strings.Contains(out.String(), "Error") {
		t.Errorf("got %v, %q", err, out.String())
	}
}
