package drum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"

	"drumbeat/disk"
)

// BenchmarkAdd measures intake, including the writing of full buffers.
func BenchmarkAdd(b *testing.B) {
	meter := disk.NewMeter(disk.OS())
	set := disk.Set{FS: meter, Paths: []string{b.TempDir()}}
	opt := Options{Set: set, Name: "x", Op: CheckUpdate, Buckets: 64}
	d, err := Open(opt, nil)
	must(b, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	ts := make([]Tuple, 59)
	aux := make([]byte, 102)
	b.ReportAllocs()
	runtime.LockOSThread()
	start := cpuTime()
	for b.Loop() {
		for i := range ts {
			ts[i] = Tuple{Key: Key(rng.Uint64()), Op: CheckUpdate, Aux: aux}
		}
		must(b, d.Add(ts))
	}
	n := float64(b.N * len(ts))
	b.ReportMetric(n/b.Elapsed().Seconds(), "links/s")
	b.ReportMetric(n/(cpuTime()-start).Seconds(), "links/cpu-s")
	b.ReportMetric(float64(meter.Counts().WrittenBytes)/n, "io-B/link")
}

// BenchmarkPass sends links through URLseen in passes of several sizes. One link in nine is new. Their text
// combines a few thousand hosts and paths, and compresses about as well as that of real pages.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct {
		codec Codec
		aux   AuxMode
		name  string
	}{
		{Raw, AuxBucketed, "codec=raw/aux=bucketed"},
		{Rice, AuxLog, "codec=rice/aux=log"},
	} {
		for _, known := range []int{0, 10_000_000} {
			b.Run(fmt.Sprintf("%s/keys=%.0e", c.name, float64(known)), func(b *testing.B) {
				benchmarkPass(b, Options{Codec: c.codec, Aux: c.aux}, known)
			})
		}
	}
}

// urls fills a batch with the text of a page's links.
func urls(ts []Tuple, arena []byte, rng *rand.Rand) []byte {
	page, arena := rng.IntN(5000), arena[:0]
	for i := range ts {
		host := page
		if rng.IntN(4) == 0 {
			host = rng.IntN(5000)
		}
		start := len(arena)
		arena = append(arena, "https://www.host-"...)
		arena = strconv.AppendInt(arena, int64(host*7919), 36)
		arena = append(arena, ".example.org/articles/archive/some-topic-of-the-day/"...)
		arena = strconv.AppendUint(arena, rng.Uint64()>>24, 36)
		arena = append(arena, "/index.html?page="...)
		arena = strconv.AppendInt(arena, int64(rng.IntN(1000)), 10)
		ts[i].Aux = arena[start:len(arena):len(arena)]
	}
	return arena
}

func benchmarkPass(b *testing.B, opt Options, known int) {
	const unique, links = 9, 59
	meter := disk.NewMeter(disk.OS())
	emitted := 0
	opt.Set, opt.Name, opt.Op = disk.Set{FS: meter, Paths: []string{b.TempDir()}}, "urlSeen", CheckUpdate
	opt.Buckets, opt.BucketBytes, opt.BufferBytes = 64, 1<<20, 128<<10
	opt.Wanted = func(r *Result) bool { return r.New }
	opt.Emit = func(rs []Result) error { emitted += len(rs); return nil }
	d, err := Open(opt, nil)
	must(b, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	issued, ts, arena, text := uint64(0), make([]Tuple, links), []byte(nil), int64(0)
	mix := func(i uint64) Key {
		i++
		i ^= i >> 31
		i *= 0x9e3779b97f4a7c15
		return Key(i ^ i>>29*0xbf58476d1ce4e5b9)
	}
	batch := func(share int, texts bool) {
		for i := range ts {
			key := mix(rng.Uint64N(issued + 1))
			if i%share == 0 {
				key = mix(issued)
				issued++
			}
			ts[i] = Tuple{Key: key, Op: CheckUpdate}
		}
		if texts {
			arena = urls(ts, arena, rng)
			text += int64(len(arena))
		}
		must(b, d.Add(ts))
	}
	for issued < uint64(known) {
		batch(1, false)
		if d.Full() {
			_, err := d.Pass(context.Background(), false)
			must(b, err)
		}
	}
	_, err = d.Pass(context.Background(), true)
	must(b, err)
	runtime.LockOSThread()
	before, start := meter.Counts(), cpuTime()
	for b.Loop() {
		// One pass of 64 buckets of 64 Ki tuples.
		for !d.Full() {
			batch(unique, true)
		}
		_, err := d.Pass(context.Background(), false)
		must(b, err)
	}
	s, after := d.Stats(), meter.Counts()
	n := float64(s.Merged) - float64(known)
	io := float64(after.ReadBytes + after.WrittenBytes - before.ReadBytes - before.WrittenBytes)
	b.ReportMetric(n/b.Elapsed().Seconds(), "links/s")
	b.ReportMetric(n/(cpuTime()-start).Seconds(), "links/cpu-s")
	b.ReportMetric(io/n, "io-B/link")
	b.ReportMetric(io/float64(text), "alpha")
	b.ReportMetric(8*float64(s.LiveBytes)/float64(s.Keys), "bits/key")
}

// BenchmarkEarlyPass measures the minimum cost of a pass: the links of one page into a cache of a few
// thousand keys.
func BenchmarkEarlyPass(b *testing.B) {
	for _, aux := range []AuxMode{AuxBucketed, AuxLog} {
		b.Run(fmt.Sprintf("aux=%d", aux), func(b *testing.B) {
			set := disk.Set{FS: disk.OS(), Paths: []string{b.TempDir()}}
			d, err := Open(Options{Set: set, Name: "x", Op: CheckUpdate, Codec: Rice, Aux: aux, Workers: 2}, nil)
			must(b, err)
			defer d.Close()
			rng, ts := rand.New(rand.NewPCG(1, 1)), make([]Tuple, 59)
			for b.Loop() {
				for i := range ts {
					key := Key(rng.Uint64N(5000) * 0x9e3779b97f4a7c15)
					ts[i] = Tuple{Key: key, Op: CheckUpdate, Aux: []byte("http://x/")}
				}
				must(b, d.Add(ts))
				_, err := d.Pass(context.Background(), true)
				must(b, err)
			}
		})
	}
}
