package star_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/star"
)

// BenchmarkCheck sends 110-byte records of random PLDs through a check, including passes.
func BenchmarkCheck(b *testing.B) {
	for _, plds := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("plds=%d", plds), func(b *testing.B) {
			s, err := star.Open(star.Options{
				Set:      disk.Set{FS: disk.OS(), Paths: []string{b.TempDir()}},
				Edges:    drum.Options{Buckets: 4},
				Indegree: drum.Options{Buckets: 16, BucketBytes: 8 << 20},
				Place:    func(ledger *[16]byte, _ uint32, _, _ uint8) int64 { ledger[0]++; return 1 },
				Emit:     func([]star.Placed) error { return nil },
			}, nil)
			must(b, err)
			defer s.Close()
			rng := rand.New(rand.NewPCG(1, 1))
			batch := make([]star.CheckTuple, 256)
			for i := range batch {
				batch[i].Aux = binary.LittleEndian.AppendUint32(make([]byte, 0, 110), uint32(i))[:110]
			}
			b.ReportAllocs()
			began, n := time.Now(), 0
			for b.Loop() {
				for i := range batch {
					batch[i].PLD = uint64(rng.IntN(plds)+1) * 0x9e3779b97f4a7c15
				}
				must(b, s.Check(batch))
				n += len(batch)
				if s.Full() {
					if _, err := s.Pass(context.Background(), false); err != nil {
						b.Fatal(err)
					}
				}
			}
			if _, err := s.Pass(context.Background(), true); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(n)/time.Since(began).Seconds(), "checks/s")
		})
	}
}

// TestAddAllocatesNothing checks that adding a page's edges and a batch of checks allocates nothing.
func TestAddAllocatesNothing(t *testing.T) {
	s, err := star.Open(star.Options{
		Set:   disk.Set{FS: memfs.New(1), Paths: []string{"/d"}},
		Edges: drum.Options{Buckets: 1, BufferBytes: 1 << 20},
		Place: func(*[16]byte, uint32, uint8, uint8) int64 { return 1 },
		Emit:  func([]star.Placed) error { return nil },
	}, nil)
	must(t, err)
	defer s.Close()
	edges, checks := make([]star.Edge, 150), make([]star.CheckTuple, 150)
	for i := range edges {
		edges[i] = star.Edge{From: 1, To: uint64(i)}
		checks[i] = star.CheckTuple{PLD: uint64(i) << 56, Aux: []byte("url")}
	}
	add := func() {
		must(t, s.AddEdges(edges))
		must(t, s.Check(checks))
	}
	if n := testing.AllocsPerRun(20, add); n > 0 {
		t.Errorf("got %g allocations for a page, want none", n)
	}
	if e, c, _ := s.Pending(); e != 21*149 || c != 21*150 {
		t.Errorf("got %d edges and %d checks, want %d and %d", e, c, 21*149, 21*150)
	}
}

// BenchmarkSmallPass is a pass over the checks of some pages, of PLDs spread over all buckets of a larger
// store's shape.
func BenchmarkSmallPass(b *testing.B) {
	const plds, checks, buckets = 400, 600, 128
	s, err := star.Open(star.Options{
		Set:      disk.Set{FS: disk.OS(), Paths: []string{b.TempDir()}},
		Edges:    drum.Options{Buckets: buckets},
		Indegree: drum.Options{Buckets: buckets, BucketBytes: 1 << 20},
		Place:    func(ledger *[16]byte, _ uint32, _, _ uint8) int64 { ledger[0]++; return 1 },
		Emit:     func([]star.Placed) error { return nil },
	}, nil)
	must(b, err)
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	batch := make([]star.CheckTuple, checks)
	for b.Loop() {
		for i := range batch {
			batch[i] = star.CheckTuple{PLD: uint64(rng.IntN(plds)+1) * 0x9e3779b97f4a7c15, Aux: make([]byte, 110)}
		}
		must(b, s.Check(batch))
		if _, err := s.Pass(b.Context(), true); err != nil {
			b.Fatal(err)
		}
	}
}
