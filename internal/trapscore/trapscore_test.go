package trapscore

import (
	"bytes"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// key returns the key of a host. Real keys are hashes too.
func key(n uint64) uint64 { return mix(n + 1) }

// near returns hash with n random bits changed.
func near(rng *rand.Rand, hash uint64, n int) uint64 {
	for changed := uint64(0); bits.OnesCount64(changed) < n; {
		if bit := uint64(1) << rng.IntN(64); changed&bit == 0 {
			changed |= bit
			hash ^= bit
		}
	}
	return hash
}

// TestNote: a page repeats an earlier one of its host if its hash differs in up to three bits, wherever they are.
func TestNote(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for differ := range 8 {
		for i := range uint64(1000) {
			table := New(1 << 16)
			hash := rng.Uint64() | 1
			if table.Note(key(i), hash) {
				t.Fatal("the first page repeats one")
			}
			if table.Note(key(i+1), hash) {
				t.Fatal("a page repeats one of another host")
			}
			if got := table.Note(key(i), near(rng, hash, differ)); got != (differ <= NearBits) {
				t.Fatalf("%d bits differ: repeated %t", differ, got)
			}
		}
	}
	table := New(0)
	for range 100 {
		if table.Note(key(1), 0) || table.Get(key(1)) != (Score{}) {
			t.Fatal("a page without a hash counts")
		}
	}
}

func TestScore(t *testing.T) {
	for _, test := range []struct {
		pages, repeated uint16
		share           float64
		part            uint8
	}{
		{0, 0, 0, 0}, {31, 31, 0, 0}, {32, 15, 15. / 32, 0}, {32, 16, .5, 8}, {64, 48, .75, 4}, {64, 63, 63. / 64, 1},
		{64, 64, 1, 1}, {256, 256, 1, 1}, {256, 128, .5, 8}, {33, 16, 16. / 33, 0},
	} {
		s := Score{test.pages, test.repeated}
		if s.Share() != test.share || s.Part() != test.part {
			t.Errorf("%+v: share %v, part %d, want %v, %d", s, s.Share(), s.Part(), test.share, test.part)
		}
	}
}

// TestTable compares a table large enough to forget nothing with maps, over a trap, a host that is a trap for a
// time, and others.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	table := New(16 << 20)
	counts := map[uint64]Score{}
	clusters := make([]uint64, 100) // of the shop: lists in other orders
	for i := range clusters {
		clusters[i] = rng.Uint64()
	}
	seen := make([]bool, len(clusters))
	for n := range 4000 {
		for h := range uint64(4) {
			var hash uint64
			repeats := false
			switch {
			case h == 0: // a calendar
				hash, repeats = near(rng, 0xfedcba9876543210, rng.IntN(2)), n > 0
			case h == 1:
				i := rng.IntN(len(clusters))
				hash, repeats = clusters[i], seen[i]
				seen[i] = true
			case h == 2 && n > 1000 && n < 2000: // one page for a time
				hash, repeats = 1<<40-1, n > 1001
			default:
				hash = rng.Uint64()
			}
			if got := table.Note(key(h), hash); got != repeats {
				t.Fatalf("host %d, page %d: repeated %t, want %t", h, n, got, repeats)
			}
			c := counts[h]
			if c.Pages == MaxPages {
				c.Pages, c.Repeated = c.Pages/2, c.Repeated/2
			}
			c.Pages++
			if repeats {
				c.Repeated++
			}
			counts[h] = c
			if got := table.Get(key(h)); got != c {
				t.Fatalf("host %d, page %d: %+v, want %+v", h, n, got, c)
			}
		}
		traps := int64(0)
		for _, c := range counts {
			traps += count(c.Part() != 0)
		}
		if got := table.Traps(); got != traps {
			t.Fatalf("after page %d: %d traps, want %d", n, got, traps)
		}
		if want := map[int]int64{20: 0, 500: 2, 1500: 3, 3999: 2}; want[n] > 0 && traps != want[n] {
			t.Fatalf("after page %d: %d traps, want %d", n, traps, want[n])
		}
	}
}

// TestForgets: hosts without a score displace one another, but no trap; the number of traps is exact.
func TestForgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	table := New(64 << 10)
	trap := key(1 << 40)
	for range LeastPages {
		table.Note(trap, 5)
	}
	for i := range uint64(100_000) {
		table.Note(key(i), rng.Uint64())
	}
	if s := table.Get(trap); s.Part() != 1 || table.Traps() != 1 {
		t.Errorf("the trap has %+v, there are %d", s, table.Traps())
	}
	if table.Get(key(0)) != (Score{}) {
		t.Error("a table of 64 KiB remembers 100,000 hosts")
	}
	for i := range uint64(5000) { // more traps than fit
		for range LeastPages {
			table.Note(key(i), i+1)
		}
	}
	held := int64(0)
	for i := range table.shards {
		for _, set := range table.shards[i].hosts {
			for _, h := range set {
				held += count(h.Part() != 0)
			}
		}
	}
	if held != table.Traps() || held < 1000 {
		t.Errorf("%d traps counted, %d held", table.Traps(), held)
	}
}

// TestRelease: of a trap, a queue releases as many URLs as it may; of other hosts all.
func TestRelease(t *testing.T) {
	table := New(1 << 20)
	released := func(queue uint16, most uint32) (n int) {
		for range 10 {
			n += int(count(table.Release(key(1), queue, most)))
		}
		return n
	}
	if n := released(1, 2); n != 10 {
		t.Errorf("of an unknown host: %d, want 10", n)
	}
	for range LeastPages {
		table.Note(key(1), 5)
	}
	for _, test := range []struct {
		queue      uint16
		most, want int
	}{{1, 2, 2}, {1, 2, 0}, {1, 3, 1}, {2, 3, 3}, {3, 1, 1}, {math.MaxUint16, 10, 10}, {0, 1, 1}, {0, 1 << 20, 10}} {
		if n := released(test.queue, uint32(test.most)); n != test.want {
			t.Errorf("queue %d, at most %d: %d released, want %d", test.queue, test.most, n, test.want)
		}
	}
	for i := range uint64(2 * LeastPages) {
		table.Note(key(1), mix(i))
	}
	if n := released(0, 1); n != 10 {
		t.Errorf("of a host that is no trap any more: %d, want 10", n)
	}
}

// TestSaved: a checkpoint has the hosts that repeat themselves, and damage is an error.
func TestSaved(t *testing.T) {
	table := New(1 << 20)
	rng := rand.New(rand.NewPCG(4, 4))
	for h := range uint64(50) {
		for range 40 + h {
			hash := rng.Uint64()
			if rng.Uint64N(50) < h {
				hash = 7
			}
			table.Note(key(h), hash)
		}
	}
	saved := table.AppendHosts([]byte("x"))[1:]
	got := New(1 << 20)
	if err := got.Restore(saved); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for h := range uint64(50) {
		want := table.Get(key(h))
		if 4*want.Repeated < want.Pages {
			want = Score{}
		} else {
			kept++
		}
		if s := got.Get(key(h)); s != want {
			t.Errorf("host %d: %+v, want %+v", h, s, want)
		}
	}
	if kept < 20 || kept > 45 || got.Traps() != table.Traps() || got.Traps() == 0 {
		t.Errorf("%d hosts saved; %d traps, want %d", kept, got.Traps(), table.Traps())
	}
	for _, bad := range [][]byte{saved[1:], append(bytes.Clone(saved[:10]), 255, 255), make([]byte, 12)} {
		if New(0).Restore(bad) == nil {
			t.Errorf("Restore(%x): no error", bad)
		}
	}
}

func BenchmarkNote(b *testing.B) {
	table := New(64 << 20)
	rng := rand.New(rand.NewPCG(5, 5))
	for b.Loop() {
		table.Note(mix(rng.Uint64N(100_000)), rng.Uint64())
	}
}

func BenchmarkGet(b *testing.B) {
	table := New(64 << 20)
	rng := rand.New(rand.NewPCG(6, 6))
	for range 1_000_000 {
		table.Note(mix(rng.Uint64N(1_000_000)), rng.Uint64())
	}
	for b.Loop() {
		table.Get(mix(rng.Uint64N(1_000_000)))
	}
}
