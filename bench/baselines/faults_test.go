package baselines

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk/memfs"
)

// TestOpenRefuses: Open reports invalid options and leaves no files.
func TestOpenRefuses(t *testing.T) {
	mem := memfs.New(1)
	emit := func(int64, []Link, []bool) error { return nil }
	good := Options{FS: mem, Dir: "d", RAMBytes: MinRAMBytes, Emit: emit}
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{MercatorB, func(o *Options) { o.FS = nil }, "needs a file system"},
		{MercatorB, func(o *Options) { o.Dir = "" }, "needs a file system"},
		{MercatorB, func(o *Options) { o.Emit = nil }, "needs a file system"},
		{MercatorA, func(o *Options) { o.RAMBytes = MinRAMBytes - 1 }, "RAM of"},
		{Polybot, func(o *Options) { o.RAMBytes = MaxRAMBytes + 1 }, "RAM of"},
	} {
		o := good
		c.change(&o)
		if _, err := Open(c.name, o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	must(t, mem.MkdirAll("full"))
	f, err := mem.Create("full/something")
	must(t, err)
	defer f.Close()
	good.Dir = "full"
	for _, name := range Names() {
		if _, err := Open(name, good); err == nil || !strings.Contains(err.Error(), "is not empty") {
			t.Errorf("%s in a full directory: got %v", name, err)
		}
	}
	if names, _ := mem.List("full"); len(names) != 1 {
		t.Errorf("the full directory has %q", names)
	}
}

// TestRefusals: texts of invalid length, keys that don't ascend, and a Load after the first link fail the
// store.
func TestRefusals(t *testing.T) {
	for _, name := range Names() {
		for what, do := range map[string]func(Store) error{
			"empty text": func(s Store) error { return s.Add([]Link{{1, nil}}) },
			"long text":  func(s Store) error { return s.Add([]Link{{1, make([]byte, MaxTextBytes+1)}}) },
			"equal keys": func(s Store) error { return s.Load([]uint64{3, 3}) },
			"falling keys": func(s Store) error {
				return errors.Join(s.Load([]uint64{3, 4}), s.Load([]uint64{2}))
			},
			"late load": func(s Store) error {
				return errors.Join(s.Add([]Link{link(1)}), s.Load([]uint64{2}))
			},
		} {
			mem := memfs.New(1)
			s := openTest(t, name, mem, func(int64, []Link, []bool) error { return nil })
			if err := do(s); err == nil {
				t.Errorf("%s: %s: no error", name, what)
			} else if again := s.Add([]Link{link(1)}); again == nil {
				t.Errorf("%s: %s: went on after %v", name, what, err)
			}
			closeTest(t, s, name, mem)
		}
	}
}

// TestCancel: a cancelled context and an error of Emit end the store; it emits no more links.
func TestCancel(t *testing.T) {
	for _, name := range Names() {
		mem := memfs.New(1)
		emitted := 0
		var refuse error
		s := openTest(t, name, mem, func(_ int64, links []Link, _ []bool) error {
			emitted += len(links)
			return refuse
		})
		must(t, s.Add([]Link{link(1), link(2)}))
		before := emitted
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := s.Flush(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Flush: got %v", name, err)
		}
		if err := s.Add([]Link{link(3)}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Add afterwards: got %v", name, err)
		}
		if emitted != before {
			t.Errorf("%s: %d links emitted after the end", name, emitted-before)
		}
		closeTest(t, s, name, mem)

		refuse = errors.New("no")
		s = openTest(t, name, mem, func(int64, []Link, []bool) error { return refuse })
		err := s.Add([]Link{link(1)})
		if err == nil {
			err = s.Flush(context.Background())
		}
		if !errors.Is(err, refuse) {
			t.Errorf("%s: error of Emit: got %v", name, err)
		}
		closeTest(t, s, name, mem)
	}
}

// TestFaults: any single failing disk operation causes an error and no wrong verdict.
func TestFaults(t *testing.T) {
	ops := []memfs.Op{memfs.OpCreate, memfs.OpRead, memfs.OpWrite, memfs.OpRemove, memfs.OpClose}
	for _, name := range []string{MercatorB, Polybot} {
		rng := newRand(t)
		for _, op := range ops {
			failed := 0
			for range 12 {
				failed += faultRun(t, name, op, 1+rng.IntN(30))
			}
			t.Logf("%s: %d faults of %s", name, failed, op)
		}
	}
}

// faultRun makes the n-th operation op fail, and returns 1 if there was one.
func faultRun(t *testing.T, name string, op memfs.Op, n int) int {
	t.Helper()
	mem := memfs.New(1)
	broken := errors.New("broken")
	var count, off atomic.Int64
	count.Store(int64(n))
	fsys := memfs.NewFault(mem, func(o memfs.Op, _ string) error {
		if o == op && off.Load() == 0 && count.Add(-1) == 0 {
			return broken
		}
		return nil
	})
	w := newTruth(t)
	s, err := Open(name, Options{FS: fsys, Dir: "d/" + name, RAMBytes: MinRAMBytes, Emit: w.emit})
	if err == nil {
		shrink(s, 300)
		for at := 0; at < 3000 && err == nil; at += 100 {
			links := make([]Link, 100)
			for i := range links {
				links[i] = link(1 + (at+i)*7%1000)
			}
			w.add(links)
			if err = s.Add(links); err == nil && at%500 == 0 {
				err = s.Flush(context.Background())
			}
		}
		hit := count.Load() <= 0
		if err == nil {
			err = s.Flush(context.Background())
		}
		if hit && err == nil {
			t.Errorf("%s: no error though %s number %d failed", name, op, n)
		}
		off.Store(1)
		if again := s.Add([]Link{link(5)}); err != nil && again == nil {
			t.Errorf("%s: went on after %v", name, err)
		}
		closeFault(t, s)
	}
	off.Store(1)
	if err != nil && !errors.Is(err, broken) {
		t.Errorf("%s: %s number %d failed: got %v", name, op, n, err)
	}
	if names, _ := mem.List("d/" + name); len(names) > 0 {
		t.Errorf("%s: %s number %d failed: left over: %q", name, op, n, names)
	}
	if count.Load() <= 0 {
		return 1
	}
	return 0
}

func closeFault(t *testing.T, s Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestPolybotTexts: short texts over few letters, with zero bytes, many of them prefixes of others.
func TestPolybotTexts(t *testing.T) {
	rng := newRand(t)
	mem := memfs.New(1)
	w := newTruth(t)
	s := openTest(t, Polybot, mem, w.emit)
	shrink(s, 100)
	for range 100 {
		links := make([]Link, 50)
		for i := range links {
			text := make([]byte, 1+rng.IntN(9))
			for j := range text {
				text[j] = "\x00\x01a"[rng.IntN(3)]
			}
			links[i] = Link{xxhash.Sum64(text), text}
		}
		w.add(links)
		must(t, s.Add(links))
	}
	flush(t, s, w)
	closeTest(t, s, Polybot, mem)
}

// TestLoadedTwice: a link that is loaded twice counts once.
func TestLoadedTwice(t *testing.T) {
	for _, name := range []string{Polybot} {
		mem := memfs.New(1)
		w := newTruth(t)
		s := openTest(t, name, mem, w.emit)
		shrink(s, 10)
		var links []Link
		for i := range 100 {
			links = append(links, link(1+i%50), link(1+i%50))
		}
		w.know(links)
		must(t, s.(TextLoader).LoadLinks(links))
		w.add(links)
		must(t, s.Add(links))
		flush(t, s, w)
		if st := s.Stats(); st.Known != 50 || st.Fresh != 0 {
			t.Errorf("%s: %d known, %d fresh, want 50, 0", name, st.Known, st.Fresh)
		}
		closeTest(t, s, name, mem)
	}
}

// TestCloseEarly: a store that is closed with waiting links, or during loading, leaves no files.
func TestCloseEarly(t *testing.T) {
	for _, name := range Names() {
		mem := memfs.New(1)
		s := openTest(t, name, mem, func(int64, []Link, []bool) error { return nil })
		must(t, s.Load([]uint64{1, 2, 3}))
		closeTest(t, s, name, mem)
		s = openTest(t, name, mem, func(int64, []Link, []bool) error { return nil })
		links := make([]Link, 5000)
		for i := range links {
			links[i] = link(i)
		}
		must(t, s.Add(links))
		closeTest(t, s, name, mem)
	}
}

// TestMercatorALoad: keys without a text are known by their number, and survive merges.
func TestMercatorALoad(t *testing.T) {
	mem := memfs.New(1)
	w := newTruth(t)
	s := openTest(t, MercatorA, mem, w.emit)
	keys := sortedKeys(30_000)
	must(t, errors.Join(s.Load(keys[:9_000]), s.Load(keys[9_000:])))
	for n := 0; n < 60_000; n += 1000 {
		links := make([]Link, 1000)
		for i := range links {
			links[i] = link((n + i) % 40_000)
		}
		w.add(links)
		must(t, s.Add(links))
	}
	flush(t, s, w)
	st := s.Stats()
	if st.Known != 30_000+int64(len(w.seen)) || st.Merges < 2 || st.FileBytes < siteKeyBytes*30_000 {
		t.Errorf("%+v, want %d known and some merges", st, 30_000+len(w.seen))
	}
	closeTest(t, s, MercatorA, mem)
}
