package star_test

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/star"
)

// linkStore is a store of links to hosts, with the levels that it emits.
type linkStore struct {
	t      *testing.T
	set    disk.Set
	d      *drum.Drum
	levels map[uint64]uint8
}

func openLinks(t *testing.T, set disk.Set, st *drum.State) *linkStore {
	t.Helper()
	l := &linkStore{t: t, set: set, levels: map[uint64]uint8{}}
	o := star.HostLinksShape()
	o.Set, o.Name, o.Buckets, o.BufferBytes, o.BucketBytes = set, "hostlinks", 4, 4<<10, 1<<16
	o.Wanted = func(r *drum.Result) bool { return r.Result > 0 }
	o.Emit = func(results []drum.Result) error {
		for i := range results {
			if level := uint8(results[i].Result); level <= l.levels[uint64(results[i].Key)] {
				t.Errorf("host %x: level %d after %d", results[i].Key, level, l.levels[uint64(results[i].Key)])
			} else {
				l.levels[uint64(results[i].Key)] = level
			}
		}
		return nil
	}
	var err error
	l.d, err = drum.Open(o, st)
	must(t, err)
	t.Cleanup(func() { _ = l.d.Close() })
	return l
}

func (l *linkStore) add(links ...star.HostLink) {
	l.t.Helper()
	for _, link := range links {
		must(l.t, l.d.Add([]drum.Tuple{tupleOf(link)}))
	}
	_, err := l.d.Pass(context.Background(), true)
	must(l.t, err)
}

func tupleOf(l star.HostLink) drum.Tuple {
	value := l.Value()
	return drum.Tuple{Key: drum.Key(l.Host), Op: drum.CheckUpdate, Value: value[:]}
}

// levelOf is the level of a number of links: 8·log2(1+links), rounded.
var levelOf = []uint8{0, 8, 13, 16, 19, 21, 22, 24, 25}

// TestHostLinks: distinct PLDs count once, whatever the order and the number of their links.
func TestHostLinks(t *testing.T) {
	set := disk.Set{FS: memfs.New(1), Paths: []string{"a"}}
	l := openLinks(t, set, nil)
	const a, b, c = 1 << 60, 2 << 60, 3 << 60 // hosts
	plds := []uint64{0x10<<5 | 1, 0x20<<5 | 2, 0x40<<5 | 3}
	link := func(from int, host uint64) star.HostLink { return star.HostLink{From: plds[from], Host: host} }
	l.add(link(0, a), link(0, a), link(0, b))
	for round, want := range [][3]uint8{{levelOf[1], levelOf[1], 0}, {levelOf[3], levelOf[1], levelOf[2]},
		{levelOf[3], levelOf[1], levelOf[2]}} {
		if round > 0 { // the second time changes nothing
			l.add(link(2, a), link(1, a), link(0, a), link(1, c), link(2, c))
		}
		if got := [3]uint8{l.levels[a], l.levels[b], l.levels[c]}; got != want {
			t.Fatalf("round %d: levels %d, want %d", round, got, want)
		}
	}
}

// TestHostSketch: the count is within four standard errors, and grows with each new PLD.
func TestHostSketch(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seedFlag, 7))
	for _, n := range []int{1, 3, 10, 100, 1000, 10_000} {
		set := disk.Set{FS: memfs.New(1), Paths: []string{"a"}}
		l := openLinks(t, set, nil)
		var plds []uint64
		for range n {
			plds = append(plds, rng.Uint64())
		}
		for batch := range slices.Chunk(plds, 500) {
			for _, pld := range batch {
				must(t, l.d.Add([]drum.Tuple{tupleOf(star.HostLink{From: pld, Host: 1})}))
			}
			l.add()
		}
		links := -1.
		st := saveDrum(t, l.d, set)
		_, err := drum.ScanState(set, "hostlinks", st, drum.Scan{Entry: func(_ drum.Key, value []byte) error {
			s := star.HostSketch(value)
			links = s.Links()
			if s.Level() != l.levels[1] {
				t.Errorf("%d links: level %d in the store, %d emitted", n, s.Level(), l.levels[1])
			}
			return nil
		}})
		must(t, err)
		if low, high := 0.28*float64(n), 1.72*float64(n)+1; links < low || links > high {
			t.Errorf("%d links count as %.1f, want %.1f to %.1f", n, links, low, high)
		}
	}
}

// TestHostSketchGrows: the number of links grows with every register, on the way from the count of empty registers to
// the mean.
func TestHostSketchGrows(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seedFlag, 8))
	for range 200 {
		var s star.HostSketch
		for last := 0.0; ; {
			r, rank := rng.IntN(32), byte(1+bits.TrailingZeros64(rng.Uint64()|1<<14))
			if at, shift := r/2, 4*(r%2); rank > s[at]>>shift&15 {
				s[at] = s[at]&^(15<<shift) | rank<<shift
			}
			links := s.Links()
			if links < last {
				t.Fatalf("%v links after %v", links, last)
			}
			if last = links; links > 300 {
				break
			}
		}
	}
}

// saveDrum makes a checkpoint of a drum.
func saveDrum(t *testing.T, d *drum.Drum, set disk.Set) *drum.State {
	t.Helper()
	d.Pause()
	f := d.Freeze()
	d.Resume()
	return saved(t, f, set)
}

// saved saves a frozen drum or Star.
func saved[S any](t *testing.T, f interface {
	Save(*disk.Tails) (S, error)
	Commit() error
}, set disk.Set) S {
	t.Helper()
	tails, err := disk.CreateTails(set, 1)
	must(t, err)
	st, err := f.Save(tails)
	must(t, err)
	must(t, tails.Close())
	must(t, f.Commit())
	return st
}

// TestHostLevels: a table of one set keeps the highest levels and the first of equal ones.
func TestHostLevels(t *testing.T) {
	h := star.NewHostLevels(32)
	for i := range uint64(8) {
		h.Set(i, uint8(10+i))
	}
	h.Set(3, 30)
	if h.Set(100, 10); h.Get(0) != 10 || h.Get(100) != 0 { // no room
		t.Error("a host takes the place of another with its level")
	}
	h.Set(101, 11) // instead of 0
	want := map[uint64]uint8{0: 0, 1: 11, 2: 12, 3: 30, 4: 14, 5: 15, 6: 16, 7: 17, 100: 0, 101: 11}
	for host, level := range want {
		if got := h.Get(host); got != level {
			t.Errorf("host %d has level %d, want %d", host, got, level)
		}
	}
	if h.Forgotten() != 2 {
		t.Errorf("%d hosts forgotten, want 2", h.Forgotten())
	}
}

// hostStar is a Star with classes of hosts, whose Place calls it records.
type hostStar struct {
	*star.Star
	t      *testing.T
	opt    star.Options
	placed []string
}

func openHostStar(t *testing.T, set disk.Set, lanes int, st *star.State) (*hostStar, error) {
	h := &hostStar{t: t}
	o := drum.Options{Buckets: 4, BufferBytes: 4 << 10, BucketBytes: 1 << 16}
	h.opt = star.Options{Set: set, Edges: o, Indegree: o, Hosts: true, Lanes: lanes,
		Budgets: star.Budgets{QueuePages: star.Unscaled},
		Place: func(ledger *[16]byte, budget uint32, part, lane uint8) int64 {
			ledger[0]++
			h.placed = append(h.placed, fmt.Sprintf("lane %d part %d: %d of %d", lane, part, ledger[0], budget))
			return 1
		},
		PlaceHost: func(ledgers *[star.HostClasses]*[16]byte, class int, budget uint32, lane uint8) int64 {
			ledgers[class][0]++
			var used []byte
			for _, l := range ledgers {
				used = append(used, l[0])
			}
			h.placed = append(h.placed, fmt.Sprintf("lane %d class %d: %d of %d", lane, class, used, budget))
			return 1
		},
		Emit: func([]star.Placed) error { return nil }}
	var err error
	if h.Star, err = star.Open(h.opt, st); err == nil {
		t.Cleanup(func() { _ = h.Close() })
	}
	return h, err
}

// ask checks a URL of PLD 1 and returns where it is placed.
func (h *hostStar) ask(host uint64, level, part, lane uint8) string {
	h.t.Helper()
	must(h.t, h.Check([]star.CheckTuple{{PLD: 1, Host: host << 18, Level: level, Part: part, Lane: lane}}))
	_, err := h.PassAll(context.Background())
	must(h.t, err)
	return h.placed[len(h.placed)-1]
}

// TestPlaceHost: a PLD with few hosts is placed as without classes. One with many has a ledger for each class and
// lane, and classes by the links of a host in relation to those of the PLD.
func TestPlaceHost(t *testing.T) {
	set := disk.Set{FS: memfs.New(1), Paths: []string{"a"}}
	h, err := openHostStar(t, set, 2, nil)
	must(t, err)
	for pld := range uint64(63) { // in-degree 63 has level 48
		must(t, h.AddEdges([]star.Edge{{From: 100 + pld, To: 1}}))
	}
	for host := range uint64(15) {
		for range 2 {
			h.ask(host, star.AllLinks, 0, 0)
		}
	}
	if got, want := h.ask(3, 0, 0, 1), "lane 1 part 0: 1 of 10"; got != want {
		t.Errorf("a URL of 15 hosts: %s, want %s", got, want)
	}
	for _, c := range []struct {
		level, part, lane uint8
		want              string
	}{
		{0, 0, 0, "lane 0 class 0: [31 0 0 0] of 10"},
		{1, 0, 0, "lane 0 class 1: [31 1 0 0] of 10"},
		{15, 0, 0, "lane 0 class 1: [31 2 0 0] of 10"},
		{16, 0, 0, "lane 0 class 2: [31 2 1 0] of 10"},
		{31, 0, 0, "lane 0 class 2: [31 2 2 0] of 10"},
		{32, 0, 0, "lane 0 class 3: [31 2 2 1] of 10"},
		{200, 0, 0, "lane 0 class 3: [31 2 2 2] of 10"},
		{star.AllLinks, 0, 0, "lane 0 class 3: [31 2 2 3] of 10"},
		{200, 4, 0, "lane 0 part 4: 32 of 10"},
		{200, 0, 1, "lane 1 class 3: [1 0 0 1] of 10"},
	} {
		if got := h.ask(15, c.level, c.part, c.lane); got != c.want {
			t.Errorf("level %d, part %d, lane %d: %s, want %s", c.level, c.part, c.lane, got, c.want)
		}
	}

	h.Pause()
	f := h.Freeze()
	h.Resume()
	st := saved(t, f, set)
	must(t, h.Close())
	if h, err = openHostStar(t, set, 2, st); err != nil {
		t.Fatal(err)
	}
	if got, want := h.ask(15, 16, 0, 0), "lane 0 class 2: [32 2 3 3] of 10"; got != want {
		t.Errorf("after a resume: %s, want %s", got, want)
	}
	k, err := star.LookUp(set, "pld", st, 1, nil)
	must(t, err)
	if n, divided := k.Record.Hosts(); n != 18 || !divided || k.Record.Lanes() != 2*star.HostClasses {
		t.Errorf("the record has %d hosts, divided %v, %d ledgers, want 18, true, 8", n, divided, k.Record.Lanes())
	}
	opt := h.opt
	opt.Hosts = false
	if s, err := star.Open(opt, st); err == nil {
		t.Error("a Star without classes opened a state with them")
		must(t, s.Close())
	}
}
