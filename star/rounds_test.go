package star_test

import (
	"testing"

	"drumbeat/drum"
	"drumbeat/star"
)

type recent map[drum.Key]bool

func (r recent) TestAndSet(k drum.Key) bool {
	was := r[k]
	r[k] = true
	return was
}

func TestRecentEdges(t *testing.T) {
	r := newRig(t, 1, 1, 10)
	must(t, r.s.Close())
	r.opt.Recent = recent{}
	r.open()
	for range 100 {
		must(t, r.s.AddEdges([]star.Edge{{From: 1, To: 2}, {From: 2, To: 1}}))
	}
	if edges, _, _ := r.s.Pending(); edges != 2 {
		t.Errorf("pending edges: got %d, want 2", edges)
	}
}

// TestRoundsAreShort: BEAST is pinned for at most roundChecks checks at a time, while the buckets have fewer PLDs.
func TestRoundsAreShort(t *testing.T) {
	r := newRig(t, 2, 1, 2)
	const checks, most = 100_000, 1 << 15
	var answered, longest, pins int
	opt := r.opt
	opt.Name = "short"
	opt.Indegree = drum.Options{Buckets: 1, BufferBytes: 64 << 10, BucketBytes: 64 << 20}
	opt.Place = func(*[16]byte, uint32, uint8, uint8) int64 { return 1 }
	opt.Emit = func(placed []star.Placed) error { answered += len(placed); return nil }
	opt.Pin = func() func() {
		pins++
		before := answered
		return func() { longest = max(longest, answered-before) }
	}
	s, err := star.Open(opt, nil)
	must(t, err)
	defer func() { must(t, s.Close()) }()
	list := make([]star.CheckTuple, checks)
	for i := range list {
		list[i] = star.CheckTuple{PLD: uint64(i % 10), Aux: []byte("a")}
	}
	must(t, s.Check(list))
	_, err = s.PassAll(t.Context())
	must(t, err)
	if answered != checks || longest > most || pins != (checks+most-1)/most {
		t.Errorf("%d checks answered in %d rounds of at most %d; want %d, %d, %d", answered, pins, longest, checks,
			(checks+most-1)/most, most)
	}
}
