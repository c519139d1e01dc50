package star_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/star"
)

// BenchmarkSupporters computes supporters of a graph that does not fit into the sorters' RAM: half of the edges go to a
// hundredth of the PLDs. B/edge is what the process reads and writes.
func BenchmarkSupporters(b *testing.B) {
	const plds, edges = 200_000, 2_000_000
	set := disk.Set{FS: disk.OS(), Paths: []string{b.TempDir()}}
	s, err := star.Open(star.Options{Set: set, Edges: drum.Options{Buckets: 16},
		Indegree: drum.Options{Buckets: 16, BucketBytes: 8 << 20}, Place: func(*[16]byte, uint32, uint8, uint8) int64 {
			return 1
		}, Emit: func([]star.Placed) error { return nil }}, nil)
	must(b, err)
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	key := func(n int) uint64 { return uint64(n+1) * 0x9e3779b97f4a7c15 }
	s.Trust([]uint64{key(0), key(1), key(2)})
	batch := make([]star.Edge, 0, 1000)
	for range edges {
		to := plds * math.Pow(rng.Float64(), 6.64)
		if batch = append(batch, star.Edge{From: key(rng.IntN(plds)), To: key(int(to))}); len(batch) == cap(batch) {
			must(b, s.AddEdges(batch))
			batch = batch[:0]
		}
	}
	if _, err := s.PassAll(context.Background()); err != nil {
		b.Fatal(err)
	}
	s.Pause()
	frozen := s.Freeze()
	s.Resume()
	tails, err := disk.CreateTails(set, 1)
	must(b, err)
	st, err := frozen.Save(tails)
	must(b, err)
	must(b, tails.Close())
	for _, ram := range []int64{star.LeastSupportRAM, 64 << 20} {
		b.Run(fmt.Sprintf("ram=%dMiB", ram>>20), func(b *testing.B) { benchSupporters(b, set, st, ram) })
	}
}

func benchSupporters(b *testing.B, set disk.Set, st *star.State, ram int64) {
	began, before, n := time.Now(), ioBytes(b), 0.
	for b.Loop() {
		r, err := star.ComputeSupport(context.Background(),
			star.SupportOptions{Set: set, Name: "pld", State: st, FS: set.FS,
				Dir: set.Path(0, "tmp"), RAMBytes: ram, Ranks: 10_000,
				Update: func([]star.SupportUpdate) error { return nil }})
		must(b, err)
		n += float64(r.Edges)
	}
	b.ReportMetric(float64(time.Since(began).Nanoseconds())/n, "ns/edge")
	b.ReportMetric((ioBytes(b)-before)/n, "B/edge")
}

// ioBytes returns the bytes that this process has read and written.
func ioBytes(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip(err)
	}
	var read, written float64
	if _, err := fmt.Sscanf(string(text), "rchar: %g\nwchar: %g", &read, &written); err != nil {
		b.Fatal(err)
	}
	return read + written
}
