package drum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"drumbeat/disk"
)

// BenchmarkAdd measures intake, the writing of full buffers included.
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

// BenchmarkPass sends links through URLseen, one in nine of them new, in passes as the sizes have it.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct {
		codec Codec
		name  string
	}{{Raw, "raw"}, {Rice, "rice"}} {
		for _, known := range []int{0, 10_000_000} {
			b.Run(fmt.Sprintf("codec=%s/keys=%.0e", c.name, float64(known)), func(b *testing.B) {
				benchmarkPass(b, c.codec, known)
			})
		}
	}
}

func benchmarkPass(b *testing.B, codec Codec, known int) {
	const unique, links = 9, 59
	meter := disk.NewMeter(disk.OS())
	emitted := 0
	opt := Options{
		Set: disk.Set{FS: meter, Paths: []string{b.TempDir()}}, Name: "urlSeen", Op: CheckUpdate, Codec: codec,
		Buckets: 64, BucketBytes: 1 << 20, BufferBytes: 128 << 10,
		Wanted: func(r *Result) bool { return r.New },
		Emit:   func(rs []Result) error { emitted += len(rs); return nil },
	}
	d, err := Open(opt, nil)
	must(b, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	issued, ts, aux := uint64(0), make([]Tuple, links), make([]byte, 102)
	mix := func(i uint64) Key {
		i++
		i ^= i >> 31
		i *= 0x9e3779b97f4a7c15
		return Key(i ^ i>>29*0xbf58476d1ce4e5b9)
	}
	batch := func(share int) {
		for i := range ts {
			key := mix(rng.Uint64N(issued + 1))
			if i%share == 0 {
				key = mix(issued)
				issued++
			}
			ts[i] = Tuple{Key: key, Op: CheckUpdate, Aux: aux}
		}
		must(b, d.Add(ts))
	}
	for issued < uint64(known) {
		aux = aux[:0]
		batch(1)
		if d.Full() {
			_, err := d.Pass(context.Background(), false)
			must(b, err)
		}
	}
	aux = aux[:102]
	_, err = d.Pass(context.Background(), true)
	must(b, err)
	runtime.LockOSThread()
	before, start := meter.Counts(), cpuTime()
	for b.Loop() {
		// One pass of 64 buckets of 64 Ki tuples.
		for !d.Full() {
			batch(unique)
		}
		_, err := d.Pass(context.Background(), false)
		must(b, err)
	}
	s, after := d.Stats(), meter.Counts()
	n := float64(d.counts.merged.Load()) - float64(known)
	io := float64(after.ReadBytes + after.WrittenBytes - before.ReadBytes - before.WrittenBytes)
	b.ReportMetric(n/b.Elapsed().Seconds(), "links/s")
	b.ReportMetric(n/(cpuTime()-start).Seconds(), "links/cpu-s")
	b.ReportMetric(io/n, "io-B/link")
	b.ReportMetric(io/n/110, "alpha")
	b.ReportMetric(8*float64(s.LiveBytes)/float64(s.Keys), "bits/key")
}
