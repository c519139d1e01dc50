package crawllog

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// follower reads a testCrawl's log beside it.
type follower struct {
	c      *testCrawl
	r      *Reader
	got    []int64 // numbers of the entries
	wound  int
	damage []error
}

func newFollower(c *testCrawl) *follower {
	f := &follower{c: c}
	r, err := NewReader()
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(r.Close)
	r.Damaged = func(err error) { f.damage = append(f.damage, err) }
	r.Rewound = func() { f.wound++; f.got = append(f.got, -1) }
	f.r = r
	return f
}

// poll reads what is there; it reports whether there was a manifest.
func (f *follower) poll() bool {
	m := f.c.manifest()
	if m.State == nil {
		return false
	}
	s, err := TakeSnapshot(f.c.opt, m.State)
	if err != nil {
		f.c.t.Fatal(err)
	}
	f.r.Use(s)
	for {
		fields, ok := f.r.Next()
		if !ok {
			return true
		}
		f.got = append(f.got, fields.Bytes)
	}
}

// check compares what was read with the entries 1 to n. After a Rewound the lines since a checkpoint come
// again.
func (f *follower) check(n int) {
	f.c.t.Helper()
	if len(f.damage) > 0 {
		f.c.t.Fatalf("damage: %v", f.damage)
	}
	next, back := int64(1), false
	for i, number := range f.got {
		switch {
		case number < 0:
			back = true
			continue
		case back && number <= next:
			next = number
		case number != next:
			f.c.t.Fatalf("line %d is entry %d, want %d", i, number, next)
		}
		next, back = next+1, false
	}
	if int(next) != n+1 && (!back || int(next) <= n) { // back at the end: nothing was written since
		f.c.t.Fatalf("got entries up to %d, want %d", next-1, n)
	}
}

// TestFollow reads a log while it is written, with checkpoints, rolled files, files moved away, kills and
// power cuts: each entry comes once and in order, except after a crash.
func TestFollow(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed=%d", seed)
	rounds := 20
	if testing.Short() {
		rounds = 8
	}
	if *longFlag {
		rounds = 1000
	}
	rewound, beyond := 0, 0
	for i := range rounds {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		c := &testCrawl{t: t, rng: rng, mem: memfs.New(rng.Uint64())}
		c.start()
		f := newFollower(c)
		must := func(err error) {
			t.Helper()
			must(t, err)
		}
		for range 30 {
			switch rng.IntN(8) {
			case 0, 1, 2:
				must(c.add(rng.IntN(1500)))
			case 3:
				must(c.log.Roll(when.Add(time.Duration(c.next) * time.Second)))
			case 4, 5:
				must(c.checkpoint(rng.IntN(200)))
			case 6:
				if f.poll() {
					moveAway(t, c, rng)
				}
			case 7:
				c.log.Close()
				if rng.IntN(2) == 0 {
					c.mem = c.mem.Kill()
				} else {
					c.mem = c.mem.Crash()
				}
				c.start()
			}
			if rng.IntN(2) == 0 && f.poll() && len(f.got) > 0 && int(f.got[len(f.got)-1]) > c.manifest().Covered {
				beyond++
			}
		}
		must(c.log.Roll(when))
		must(c.checkpoint(0))
		f.poll()
		f.check(c.next)
		rewound += f.wound
	}
	if rewound == 0 || beyond == 0 {
		t.Errorf("%d crawls went back, %d polls found lines beyond the checkpoint: nothing was tested", rewound, beyond)
	}
}

// moveAway moves a final file that was read.
func moveAway(t *testing.T, c *testCrawl, rng *rand.Rand) {
	paths, err := Files(c.opt.Set, "crawl")
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(paths) == 0 {
		return
	}
	must(t, c.mem.Remove(paths[rng.IntN(len(paths))]))
	must(t, c.mem.SyncDir("/out/log"))
}

// TestSkipCovered: after SkipCovered only lines beyond the checkpoint come.
func TestSkipCovered(t *testing.T) {
	for _, rolled := range []bool{false, true} {
		c := &testCrawl{t: t, rng: rand.New(rand.NewPCG(1, 1)), mem: memfs.New(1)}
		c.start()
		err := c.add(3000)
		if err == nil && rolled {
			err = c.log.Roll(when)
		}
		if err = errors.Join(err, c.checkpoint(0), c.add(3000)); err != nil {
			t.Fatal(err)
		}
		f := newFollower(c)
		s, err := TakeSnapshot(c.opt, c.manifest().State)
		must(t, err)
		f.r.Use(s)
		f.r.SkipCovered()
		f.poll()
		must(t, errors.Join(c.log.Roll(when), c.checkpoint(0)))
		f.poll()
		if len(f.got) != 3000 || f.got[0] != 3001 || f.got[2999] != 6000 || len(f.damage) > 0 || f.wound > 0 {
			t.Errorf("rolled %v: got %d entries, %v, damage %v, rewound %d", rolled, len(f.got),
				f.got[:min(3, len(f.got))], f.damage, f.wound)
		}
		c.log.Close()
	}
}

// TestUnwanted: files whose lines are all outside of From and To are not opened, and no wanted line is
// missing.
func TestUnwanted(t *testing.T) {
	c := &testCrawl{t: t, rng: rand.New(rand.NewPCG(1, 1)), mem: memfs.New(1)}
	c.start()
	c.opt.FileBytes = 30_000
	l, err := Open(c.opt, nil)
	must(t, err)
	c.log = l
	for range 6 { // a second an entry: six hours
		must(t, errors.Join(c.add(3600), c.log.Roll(when.Add(time.Duration(c.next)*time.Second))))
	}
	must(t, c.checkpoint(0))
	opened := map[string]bool{}
	opt := c.opt
	opt.Set.FS = memfs.NewFault(c.mem, func(op memfs.Op, name string) error {
		if op == memfs.OpOpenRead && strings.Contains(name, "/log/") {
			opened[name] = true
		}
		return nil
	})
	for _, x := range []struct{ from, to int }{{0, 0}, {3 * 3600, 0}, {0, 3600}, {3 * 3600, 3*3600 + 1800},
		{9 * 3600, 0}} {
		clear(opened)
		f := newFollower(c)
		if x.from > 0 {
			f.r.From = when.Add(time.Duration(x.from) * time.Second)
		}
		if x.to > 0 {
			f.r.To = when.Add(time.Duration(x.to) * time.Second)
		}
		s, err := TakeSnapshot(opt, c.manifest().State)
		must(t, err)
		f.r.Use(s)
		found := map[int]bool{}
		for {
			fields, ok := f.r.Next()
			if !ok {
				break
			}
			found[int(fields.Bytes)] = true
		}
		for n := max(x.from, 1); n <= 6*3600 && (x.to == 0 || n <= x.to); n++ {
			if !found[n] {
				t.Fatalf("%v: entry %d is missing", x, n)
			}
		}
		t.Logf("%v: opened %d of %d files", x, len(opened), len(s.parts))
		if x.from+x.to > 0 && len(opened) > len(s.parts)*5/6 {
			t.Errorf("%v: opened %d of %d files", x, len(opened), len(s.parts))
		}
	}
}

// TestSearch: of a large file only the end is decoded if From is late, and no wanted line is missing.
func TestSearch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	c := &testCrawl{t: t, rng: rand.New(rand.NewPCG(1, 1)), mem: memfs.New(1)}
	c.start()
	c.log.opt.FileBytes = 1 << 30
	const n = 200_000 // a second an entry
	must(t, errors.Join(c.add(n), c.checkpoint(0)))
	s, err := TakeSnapshot(c.opt, c.manifest().State)
	if err != nil || len(s.parts) != 1 || s.parts[0].length() < 3*searchBytes {
		t.Fatal(err, len(s.parts), s.parts[0].length())
	}
	for _, from := range []int{1, 60_000, 150_000, n - 1, n + 10_000} {
		f := newFollower(c)
		f.r.From = when.Add(time.Duration(from) * time.Second)
		f.poll()
		if len(f.damage) > 0 || f.got[len(f.got)-1] != n || f.got[0] > int64(max(1, from)) {
			t.Errorf("from %d: got entries %d to %d, damage %v", from, f.got[0], f.got[len(f.got)-1], f.damage)
		}
		t.Logf("from %d: read %d entries of %d", from, len(f.got), n)
		if late := n - from + 3600; from > n/2 && len(f.got) > max(late, 0)+n/2 {
			t.Errorf("from %d: read %d entries of %d", from, len(f.got), n)
		}
	}
}

// TestReaderDamage: damage is told with its place, once, and the rest is read.
func TestReaderDamage(t *testing.T) {
	c := &testCrawl{t: t, rng: rand.New(rand.NewPCG(1, 1)), mem: memfs.New(1)}
	c.start()
	c.log.opt.FileBytes = 1 << 30
	must(t, errors.Join(c.add(4000), c.checkpoint(0), c.add(1000)))
	paths, err := c.mem.List("/out/log")
	if err != nil || len(paths) != 1 || !strings.HasSuffix(paths[0], ".open") {
		t.Fatal(paths, err)
	}
	name := "/out/log/" + paths[0]
	file, err := c.mem.Open(name)
	must(t, err)
	const hit = 20_000
	if _, err := file.WriteAt([]byte("damage"), hit); err != nil {
		t.Fatal(err)
	}
	f := newFollower(c)
	f.poll()
	var corrupt *disk.CorruptError
	if len(f.damage) != 1 || !errors.As(f.damage[0], &corrupt) || corrupt.Path != name || corrupt.Offset >= hit ||
		corrupt.Offset < hit-minBlock {
		t.Errorf("damage %v", f.damage)
	}
	if n := len(f.got); n < 3500 || n >= 5000 || !slices.IsSorted(f.got) {
		t.Errorf("got %d entries of 5000", n)
	}
	must(t, errors.Join(c.add(1000), c.checkpoint(0)))
	before := len(f.got)
	f.poll()
	if f.got[len(f.got)-1] != 6000 || len(f.damage) != 1 || len(f.got) <= before {
		t.Errorf("after damage: last entry %d, damage %v", f.got[len(f.got)-1], f.damage)
	}
	// A missing tail file, and a state that names more than there is.
	st := *c.manifest().State
	st.Lines.Gen, st.Files.Volumes = 77, slices.Clone(st.Files.Volumes)
	st.Files.Volumes[0].Streams = slices.Clone(st.Files.Volumes[0].Streams)
	st.Files.Volumes[0].Streams[0].Size += 1 << 20
	s, err := TakeSnapshot(c.opt, &st)
	if err != nil || len(s.Damage) != 2 {
		t.Errorf("got damage %v, %v", s.Damage, err)
	}
	for i, st := range []State{{V: 9}, {V: stateVersion}} {
		if _, err := TakeSnapshot(c.opt, &st); err == nil {
			t.Errorf("state %d: no error", i)
		}
	}
	if s, err := TakeSnapshot(c.opt, nil); err != nil || len(s.parts) > 0 {
		t.Error(fmt.Sprint(s, err))
	}
}
