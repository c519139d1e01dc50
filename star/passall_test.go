package star_test

import (
	"context"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/star"
)

// TestPassAll checks that an early pass skips edges that are few compared with the known ones and spread
// over many buckets, and that PassAll does not.
func TestPassAll(t *testing.T) {
	s, err := star.Open(star.Options{
		Set:   disk.Set{FS: memfs.New(1), Paths: []string{"/d"}},
		Edges: drum.Options{Buckets: 2048, BufferBytes: 4096, BucketBytes: 64 << 10}, // too many edges to stay in RAM
		Place: func(*[16]byte, uint32, uint8, uint8) int64 { return 1 },
		Emit:  func([]star.Placed) error { return nil },
	}, nil)
	must(t, err)
	defer s.Close()
	ctx, from := context.Background(), uint64(10)
	add := func(n int) {
		t.Helper()
		for range n {
			from++
			must(t, s.AddEdges([]star.Edge{{From: from * 0x9e3779b97f4a7c15, To: 7}}))
		}
	}
	degree := func(want uint64) {
		t.Helper()
		if top := s.Top(star.ByIndegree, 1); len(top) != 1 || top[0].Value != want {
			t.Errorf("got %+v, want an in-degree of %d", top, want)
		}
	}
	add(20_000)
	if _, err := s.Pass(ctx, true); err != nil {
		t.Fatal(err)
	}
	degree(20_000)
	add(4500)
	if _, err := s.Pass(ctx, true); err != nil {
		t.Fatal(err)
	}
	degree(20_000)
	if n, err := s.PassAll(ctx); err != nil || n == 0 {
		t.Fatalf("got %d rounds, %v", n, err)
	}
	degree(24_500)
	if edges, tuples, _ := s.Pending(); edges != 0 || tuples != 0 {
		t.Errorf("got %d edges and %d tuples pending, want none", edges, tuples)
	}
}
