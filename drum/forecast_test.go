package drum

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// measureCost runs n tuples through a store, in full passes only, and returns the cost per tuple. The texts
// do not compress by whole pages.
func measureCost(t *testing.T, o Options, n int, unique float64, text int) (Stats, float64) {
	t.Helper()
	o.Emit = func([]Result) error { return nil } // without Emit aux is not read
	o.Set, o.Name = disk.Set{FS: memfs.New(1), Paths: []string{"d"}}, "s"
	d, err := Open(o, nil)
	must(t, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	aux, known := make([]byte, text), []Key(nil)
	for i := range n {
		key := Key(rng.Uint64())
		if len(known) > 0 && rng.Float64() >= unique {
			// No key is so frequent that buckets differ in size because of it.
			key = known[len(known)-1-rng.IntN(min(len(known), 50_000))]
		} else {
			known = append(known, key)
		}
		for at := 0; at+8 <= text; at += 8 {
			binary.LittleEndian.PutUint64(aux[at:], rng.Uint64())
		}
		must(t, d.Add([]Tuple{{Key: key, Op: CheckUpdate, Aux: aux}}))
		if d.Full() || i == n-1 {
			if _, err := d.Pass(t.Context(), i == n-1); err != nil {
				t.Fatal(err)
			}
		}
	}
	return d.Stats(), float64(len(known)) / float64(n)
}

// TestCostMeasured checks that a store reads and writes what Cost predicts, by kind of I/O, for the paper's
// configuration and for ours.
func TestCostMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	const n, text = 400_000, 96
	for name, o := range map[string]Options{
		"paper": {Buckets: 16, BufferBytes: 4096, BucketBytes: 64 << 10, Op: CheckUpdate, Codec: Raw},
		"ours":  {Buckets: 16, BufferBytes: 4096, BucketBytes: 64 << 10, Op: CheckUpdate, Codec: Rice, Aux: AuxLog},
		"by disk": {Buckets: 8, BufferBytes: 8192, BucketBytes: 1 << 20, Op: CheckUpdate, Codec: Raw,
			DiskBytes: 4 << 20},
		"many, ours": {Buckets: 128, BufferBytes: 4096, BucketBytes: 32 << 10, Op: CheckUpdate, Codec: Rice,
			Aux: AuxLog},
	} {
		t.Run(name, func(t *testing.T) {
			p := 0.3
			if o.Buckets > 100 {
				p = 1 // with repeated keys the largest bucket is further from the mean
			}
			s, unique := measureCost(t, o, n, p, text)
			merged := float64(s.Merged) // with text logs some repeats are dropped
			in := CostInput{Tuples: merged, UniqueFraction: unique * n / merged, AuxBytes: text, AuxRatio: 1}
			c := o.Cost(in)
			for _, v := range []struct {
				kind      string
				got, want float64
				share     float64
			}{
				{"passes", float64(s.Passes), math.Ceil(c.Passes), 0},
				{"all", float64(s.IOBytes()) / merged, c.Bytes(), 0.03},
				{"keys written", float64(s.KeysWritten) / merged, c.KeysWritten, 0.06},
				{"keys read", float64(s.KeysRead) / merged, c.KeysRead, 0.06},
				{"aux written", float64(s.AuxWritten) / merged, c.AuxWritten, 0.06},
				{"aux read", float64(s.AuxRead) / merged, c.AuxRead, 0.06},
				{"cache read", float64(s.CacheRead) / merged, c.CacheRead, 0.06},
				{"cache written", float64(s.CacheWritten) / merged, c.CacheWritten, 0.06},
			} {
				t.Logf("%s: got %.3f, predicted %.3f", v.kind, v.got, v.want)
				if math.Abs(v.got-v.want) > v.share*v.want {
					t.Errorf("%s: got %.3f, predicted %.3f", v.kind, v.got, v.want)
				}
			}
		})
	}
}

// TestCostSmallPasses checks that a pass of few tuples reads and writes the parts of few buckets. Copies
// that remove dead parts come on top, and at most double that.
func TestCostSmallPasses(t *testing.T) {
	o := Options{Buckets: 64, BufferBytes: 4096, BucketBytes: 1 << 20, Op: CheckUpdate, Codec: Raw,
		Set: disk.Set{FS: memfs.New(1), Paths: []string{"d"}}, Name: "s"}
	d, err := Open(o, nil)
	must(t, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(1, 7))
	pass := func(n int) {
		for range n {
			must(t, d.Add([]Tuple{{Key: Key(rng.Uint64()), Op: CheckUpdate}}))
		}
		if _, err := d.Pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	const known, n, passes = 100_000, 30, 40
	pass(known)
	before := d.Stats()
	for range passes {
		pass(n)
	}
	after := d.Stats()
	c := o.Cost(CostInput{Known: known, Tuples: n * passes, UniqueFraction: 1, PassTuples: n})
	if got, want := float64(after.CacheWritten-before.CacheWritten)/n/passes, c.CacheWritten; got < 0.9*want ||
		got > 2*want {
		t.Errorf("got %.0f bytes written for a tuple, predicted %.0f", got, want)
	}
	if got, want := float64(after.CacheRead-before.CacheRead)/n/passes, c.CacheRead; got < 0.9*want || got > 2*want {
		t.Errorf("got %.0f bytes read for a tuple, predicted %.0f", got, want)
	}
}

// TestCostTheorem2 checks that, without headers and records that stay in buffers, the paper's configuration
// costs what Theorem 2 predicts.
func TestCostTheorem2(t *testing.T) {
	for _, l := range []Load{
		{Known: 1e8, Links: 59e9, UniqueFraction: 1. / 9, URLBytes: 110, KeyBytes: 8, PointerBytes: 8},
		{Known: 0, Links: 59e7, UniqueFraction: 1. / 9, URLBytes: 110, KeyBytes: 8, PointerBytes: 8},
	} {
		p, err := PlanInput{Load: l, RAMBytes: 4e9, DiskBytes: 500e9}.Plan()
		must(t, err)
		o := Options{Buckets: p.Buckets, BufferBytes: int(p.BufferBytes), BucketBytes: int64(p.RoundBytes),
			Op: CheckUpdate, Codec: Raw}
		c := o.Cost(CostInput{Known: l.Known, Tuples: l.Links, UniqueFraction: l.UniqueFraction, AuxBytes: l.URLBytes})
		if got, want := c.Bytes()/l.URLBytes, p.Alpha; math.Abs(got-want) > 0.05*want {
			t.Errorf("%+v: got alpha %.3f for %v, Theorem 2 has %.3f", l, got, o, want)
		}
	}
}

// TestRiceBits checks that the code is within 0.15 bits of the bound for densities from 2 keys to 2^63.
func TestRiceBits(t *testing.T) {
	for e := 2.0; e < 63; e += 0.5 {
		bits := riceBits(math.Exp2(e))
		if bound := e + 1/math.Ln2; bits < bound-0.2 || bits > bound+0.15 {
			t.Errorf("gap 2^%v: got %.3f bits, the bound is %.3f", e, bits, bound)
		}
	}
	// The minimum over all parameters at 1e8, 1e9 and 1e10 keys, by simulation.
	for keys, want := range map[float64]string{1e8: "38.90", 1e9: "35.65", 1e10: "32.27"} {
		if got := fmt.Sprintf("%.2f", riceBits(math.Exp2(64)/keys)); got != want {
			t.Errorf("%v keys: got %s bits, want %s", keys, got, want)
		}
	}
}
