package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// BenchmarkTransfer appends a record and reads the one `lag` records before it: in RAM for a short lag,
// through the disk for a long one. The records resemble URLs of one site. They have 100 bytes and compress
// about four times.
func BenchmarkTransfer(b *testing.B) {
	for _, lag := range []int{0, 100, 100_000} {
		b.Run(fmt.Sprintf("fs=os/bytes=100/lag=%d", lag), func(b *testing.B) {
			benchmarkTransfer(b, lag)
		})
	}
}

func benchmarkTransfer(b *testing.B, lag int) {
	meter := disk.NewMeter(disk.OS())
	set := disk.Set{FS: meter, Paths: []string{b.TempDir()}}
	q, err := Open(Options{Set: set, Name: "bench"}, nil)
	must(b, err)
	const kinds = 4096
	recs := make([][]byte, kinds)
	for i := range recs {
		recs[i] = fmt.Appendf(nil, "https://www.example-%d.org/a/path/%x/%x?id=%d", i%37, i*7919, i*104729, i*31)
		recs[i] = append(recs[i], make([]byte, max(0, 100-len(recs[i])))...)[:100]
	}
	// checkpointBench frees the segments that have been read. It leaves out the syncs, whose cost belongs
	// to the checkpoint.
	checkpointBench := func(gen uint64) {
		f := q.Freeze()
		tails, err := disk.CreateTails(set, gen)
		must(b, err)
		_, err = f.Save(tails)
		must(b, err)
		must(b, tails.Close())
		must(b, f.Commit())
		must(b, disk.RemoveTails(set, func(g uint64) bool { return g == gen }))
	}
	var n, gen uint64
	for range lag {
		must(b, q.Append(recs[n%kinds]))
		n++
	}
	b.SetBytes(100)
	b.ReportAllocs()
	for b.Loop() {
		must(b, q.Append(recs[n%kinds]))
		n++
		if _, ok, err := q.Peek(); !ok || err != nil {
			b.Fatal(ok, err)
		}
		q.Advance()
		if n%5_000_000 == 0 {
			gen++
			checkpointBench(gen)
		}
	}
	c := meter.Counts()
	b.ReportMetric(float64(c.WrittenBytes)/float64(n), "written-B/rec")
	b.ReportMetric(float64(c.ReadBytes)/float64(n), "read-B/rec")
}

// BenchmarkFreeze measures the part of a checkpoint that runs under the crawl's lock.
func BenchmarkFreeze(b *testing.B) {
	q, _ := openNew(b, memfs.New(1), Options{})
	for i := range 10000 {
		must(b, q.Append(record(i, 100)))
	}
	b.ReportAllocs()
	for b.Loop() {
		f := q.Freeze()
		f.saved = true
		must(b, f.Commit())
	}
}

// BenchmarkOpen measures the cost of an additional queue on two directories.
func BenchmarkOpen(b *testing.B) {
	set := disk.Set{FS: disk.OS(), Paths: []string{b.TempDir(), b.TempDir()}}
	pool := new(Pool)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		_, err := Open(Options{Set: set, Name: fmt.Sprintf("many/%d", n), Pool: pool}, nil)
		must(b, err)
	}
}

// BenchmarkBlock encodes and decodes a block without I/O. The records resemble URLs, page by page.
func BenchmarkBlock(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	var raw []byte
	records := 0
	for page := 0; len(raw) < defaultBlockBytes; page++ {
		host, parent := rng.IntN(1000), rng.Uint64()
		for range 1 + rng.IntN(12) {
			rec := fmt.Appendf(nil, "https://www.host-%x.org/section-%d/%x/%x.html?id=%d\x02\x03%016x%d", host*7919,
				host%7, rng.IntN(1<<16), rng.IntN(1<<24), records*31, parent, page/100)
			raw = appendRecord(raw, rec)
			records++
		}
	}
	c := new(coder)
	block, e := encodeBlock(nil, raw, uint32(records), c)
	e.finish(block, 0)
	h, err := parseBlockHeader(block, "p", 0, 0)
	must(b, err)
	run := func(name string, op func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				must(b, op())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(records), "ns/rec")
			b.ReportMetric(float64(len(block))/float64(records), "stored-B/rec")
		})
	}
	buf := make([]byte, 0, 2*len(raw))
	run("op=encode", func() error { _, _ = encodeBlock(buf, raw, uint32(records), c); return nil })
	run("op=decode", func() error {
		_, err := decodeBlock(buf, block[:blockHeaderBytes], block[blockHeaderBytes:], h, blockPlace{"p", 0}, c)
		return err
	})
}
