package baselines

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
)

// webLink returns URL number n of a web with texts of nearly equal length, and keys whose prefixes are all
// random.
func webLink(n int) Link {
	text := fmt.Appendf(nil, "http://www.site-%05d.example/a/directory/with/some/pages/title-%d-of-number-%08d.html",
		n%1000*37, n*7919%1000, n)
	return Link{xxhash.Sum64(text), text}
}

// stream adds n links, one in 9 of them new, to a store with known URLs. It returns the total lengths of
// all links and of the new ones.
func stream(t *testing.T, s Store, known, n int) (bytes, fresh int) {
	t.Helper()
	rng := newRand(t)
	next := known
	links := make([]Link, 0, 100)
	for i := range n {
		id := next
		if i%9 == 0 {
			next++
		} else {
			id = rng.IntN(max(1, next))
		}
		l := webLink(id)
		bytes += len(l.Text)
		if id == next-1 && i%9 == 0 {
			fresh += len(l.Text)
		}
		if links = append(links, l); len(links) == cap(links) || i == n-1 {
			must(t, s.Add(links))
			links = links[:0]
		}
	}
	must(t, s.Flush(context.Background()))
	return bytes, fresh
}

// TestTheorem1: the bytes that Mercator-B and Polybot read and write equal equations (1) and (2) with their
// actual batches, where the quadratic term is small, equal or dominant. bq falls as texts get denser: it is
// the mean over all versions of the file read and written.
func TestTheorem1(t *testing.T) {
	for _, c := range []struct{ known, links, batch int }{
		{100, 18000, 9000}, {1000, 27000, 2700}, {10000, 27000, 1350}, {40000, 18000, 450}, {0, 45000, 450},
	} {
		for _, name := range []string{MercatorB, Polybot} {
			mem := memfs.New(1)
			meter := disk.NewMeter(mem)
			s := openTest(t, name, meter, func(int64, []Link, []bool) error { return nil })
			shrink(s, c.batch)
			loadWeb(t, s, c.known)
			must(t, s.Flush(context.Background()))
			before, start := meter.Counts(), s.Stats()
			bytes, fresh := stream(t, s, c.known, c.links)
			after, st := meter.Counts(), s.Stats()
			b := float64(bytes) / float64(c.links)
			// Writing the queue is the task of Emit.
			moved := float64(after.ReadBytes-before.ReadBytes+after.WrittenBytes-before.WrittenBytes) + float64(fresh)
			keyBytes := float64(st.MergeBytes-start.MergeBytes) / float64(st.MergeKeys-start.MergeKeys)
			load := drum.Load{
				Known: float64(c.known), Links: float64(c.links), UniqueFraction: 1. / 9,
				URLBytes: b, KeyBytes: keyBytes, PointerBytes: 8,
			}
			m := float64(st.BatchLinks) / float64(st.Batches)
			alpha := load.MercatorB(2 * m * (keyBytes + 8))
			if name == MercatorB && keyBytes != 8 {
				t.Errorf("%s: H is %v", name, keyBytes)
			}
			if name == Polybot {
				load.PointerBytes = 4
				alpha = load.Polybot(2*m*(b+16), keyBytes)
			}
			got := moved / float64(bytes)
			t.Logf("%s: U %d, n %d, m %.0f, %d merges: alpha %.3f, Theorem 1 has %.3f (%+.2f %%)",
				name, c.known, c.links, m, st.Merges-start.Merges, got, alpha, 100*(got/alpha-1))
			if math.Abs(got/alpha-1) > .05 {
				t.Errorf("%s: U %d, n %d: alpha %.3f, Theorem 1 has %.3f", name, c.known, c.links, got, alpha)
			}
			closeTest(t, s, name, mem)
		}
	}
}

// loadWeb loads the first n URLs.
func loadWeb(t *testing.T, s Store, n int) {
	t.Helper()
	links := make([]Link, n)
	keys := make([]uint64, n)
	for i := range links {
		links[i] = webLink(i)
		keys[i] = links[i].Key
	}
	slices.Sort(keys)
	load := func() error { return s.Load(keys) }
	if tl, ok := s.(TextLoader); ok {
		load = func() error { return tl.LoadLinks(links) }
	}
	must(t, load())
}

// heldBytes sums the memory that a store holds, apart from its struct.
func heldBytes(t *testing.T, s Store) int64 {
	sum := int64(0)
	buffers := func(bufs [][]byte) {
		for _, b := range bufs {
			sum += int64(cap(b))
		}
	}
	held := func(b *base) { sum += int64(cap(b.links))*32 + int64(cap(b.fresh)) }
	switch s := s.(type) {
	case *mercatorB:
		held(&s.base)
		buffers(s.bufs)
		sum += int64(cap(s.batch)) * pairBytes
	case *polybot:
		held(&s.base)
		buffers(s.bufs)
		sum += int64(cap(s.texts))*textRefBytes + int64(cap(s.arena)) + int64(cap(s.old))
	case *mercatorA: // with the room of its maps
		held(&s.base)
		buffers(s.bufs)
		sum += s.o.RAMBytes/4 + int64(s.most)*recentBytes + int64(s.blocks)*firstBytes +
			int64(cap(s.batch))*siteLinkBytes + 4*int64(cap(s.order)) + int64(cap(s.arena))
	default:
		t.Fatalf("store %T", s)
	}
	return sum
}

// TestRAM: the total of all buffers is at most R and uses most of R, also after all buffers have been used.
func TestRAM(t *testing.T) {
	for _, name := range Names() {
		for _, ram := range []int64{MinRAMBytes, 10 << 20, 50<<20 + 12345} {
			mem := memfs.New(1)
			s, err := Open(name, Options{FS: mem, Dir: "d/" + name, RAMBytes: ram,
				Emit: func(int64, []Link, []bool) error { return nil }})
			must(t, err)
			loadWeb(t, s, 1000)
			stream(t, s, 1000, 2000)
			got := heldBytes(t, s)
			if stats := s.Stats().RAMBytes; got > ram || stats > ram || got > stats || got < ram*7/10 {
				t.Errorf("%s with %d bytes: holds %d, says %d", name, ram, got, stats)
			}
			closeTest(t, s, name, mem)
		}
	}
}

// TestAllocations: in the steady state a store allocates nothing per link. The allocations per batch,
// readers and goroutines, are far below one per 100 links.
func TestAllocations(t *testing.T) {
	for _, name := range Names() {
		mem := memfs.New(1)
		s := openTest(t, name, mem, func(int64, []Link, []bool) error { return nil })
		links := make([]Link, 20000)
		for i := range links {
			links[i] = webLink(i)
		}
		round := func() {
			must(t, s.Add(links))
			must(t, s.Flush(context.Background()))
		}
		round()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		round()
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; n > uint64(len(links)/100) {
			t.Errorf("%s: %d allocations for %d links", name, n, len(links))
		}
		closeTest(t, s, name, mem)
	}
}
