package drum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// checkRAM verifies the sums and bounds of the files in RAM. No pass may run.
func checkRAM(t testing.TB, d *Drum) {
	t.Helper()
	fs := &d.files
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var held, unsaved, bytes int64
	for gen, rf := range fs.ram {
		if gen != rf.c.gen {
			t.Errorf("file %d is listed as %d", rf.c.gen, gen)
		}
		n := int64(0)
		for _, e := range rf.extents {
			n += int64(len(e.bytes)) + extentBytes
		}
		if n != rf.held {
			t.Errorf("file %d has %d bytes, counted %d", gen, n, rf.held)
		}
		held += n
		if !rf.saved {
			unsaved += rf.space
		}
	}
	for _, f := range fs.doomed {
		if f.ram != nil && !f.ram.saved { // a Frozen is to save it
			held, unsaved = held+f.ram.held, unsaved+f.ram.space
		}
	}
	for i := range d.buckets {
		bytes += d.buckets[i].part.size
	}
	if held != fs.held || unsaved != fs.unsaved || bytes != fs.bytes {
		t.Errorf("%d bytes held, %d unsaved, %d in parts; counted %d, %d, %d", held, unsaved, bytes, fs.held,
			fs.unsaved, fs.bytes)
	}
	if fs.held > d.opt.cacheRAM() || fs.unsaved > d.opt.unsavedBytes() {
		t.Errorf("%d bytes held of %d, %d unsaved of %d", fs.held, d.opt.cacheRAM(), fs.unsaved, d.opt.unsavedBytes())
	}
}

// changes counts the operations that change a file system.
func changes(fsys disk.FS) (counted disk.FS, ops map[string]int) {
	ops = map[string]int{}
	return memfs.NewFault(fsys, func(op memfs.Op, _ string) error {
		ops[fmt.Sprint(op)]++
		return nil
	}), ops
}

// TestSmallPassesTouchNoDisk: between checkpoints the passes of a small store make no call of the file
// system, whatever the kind of the store. A checkpoint creates a file for each directory, and what it saves
// is all there.
func TestSmallPassesTouchNoDisk(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(name, func(t *testing.T) {
			rng := newRand(t)
			fsys, ops := changes(memfs.New(1))
			opt := kinds[name]
			opt.Buckets, opt.workerTuples, opt.LogBytes = 128, 100, 0
			w := newWorld(t, fsys, opt, 2)
			must(t, w.open())
			for i := range 4 {
				clear(ops)
				for range 5 {
					must(t, w.add(w.tuples(rng, 600)))
					_, err := w.d.Pass(context.Background(), true)
					must(t, err)
					checkRAM(t, w.d)
				}
				if len(ops) > 0 {
					t.Fatalf("passes between checkpoints: %v", ops)
				}
				before := w.d.Stats()
				if n := before.IOBytes(); n != 0 {
					t.Errorf("%d bytes of I/O", n)
				}
				unsaved := w.d.UnsavedBytes()
				if unsaved == 0 && i == 0 { // later there may be nothing but late keys
					t.Error("nothing to save")
				}
				must(t, w.checkpoint(nil))
				if n := w.d.Stats().BufferWritten - before.BufferWritten; n != unsaved || w.d.UnsavedBytes() != 0 {
					t.Errorf("the checkpoint wrote %d bytes, %d left of %d", n, w.d.UnsavedBytes(), unsaved)
				}
				must(t, w.checkpoint(nil))
				checkRAM(t, w.d)
				if st := w.durable().State; len(Files(w.set, opt.Name, st)) == 0 {
					t.Error("the state names no file")
				}
			}
			must(t, w.d.Close())
			must(t, w.open())
			must(t, w.finish())
		})
	}
}

// TestLargePassesLeaveRAM: a pass that needs more than its bound moves its file to disk while it runs, the
// store then writes to disk as if there was no RAM, and it returns to RAM when it is small again.
func TestLargePassesLeaveRAM(t *testing.T) {
	opt := Options{Name: "x", Buckets: 64, ValueBytes: 8, cacheRAMBytes: 64 << 10}
	opt.Apply = func(key Key, _ []byte, _ bool, run []Item, _ *Arena, dst []byte) ([]byte, Action) {
		if run[len(run)-1].Value[0] == 0 {
			return dst, Expunge
		}
		return append(dst, run[len(run)-1].Value...), Set
	}
	w := newWorld(t, memfs.New(1), opt, 1)
	must(t, w.open())
	pass := func(from, to int, value string) {
		t.Helper()
		var ts []Tuple
		for i := from; i < to; i++ {
			ts = append(ts, Tuple{Key: Key(i+1) * 0x9e3779b97f4a7c15, Op: Update, Value: []byte(value)})
		}
		must(t, w.add(ts))
		_, err := w.d.Pass(context.Background(), true)
		must(t, err)
		checkRAM(t, w.d)
	}
	cacheFiles := func() (n int) {
		names, err := w.set.FS.List("d0/state/x")
		must(t, err)
		for _, name := range names {
			if strings.HasPrefix(name, "cache-") {
				n++
			}
		}
		return n
	}
	pass(0, 1000, "11111111")
	if n := cacheFiles(); n != 0 || w.d.Stats().CacheWritten != 0 {
		t.Fatalf("1000 keys: %d files", n)
	}
	pass(1000, 6000, "22222222") // 96 KB
	s := w.d.Stats()
	if n := cacheFiles(); n != 1 || s.CacheWritten < s.LiveBytes || len(w.d.files.ram) != 0 {
		t.Fatalf("6000 keys: %d files, %d bytes written of %d, %d files in RAM", n, s.CacheWritten, s.LiveBytes,
			len(w.d.files.ram))
	}
	must(t, w.checkpoint(nil))
	pass(0, 6000, "33333333")
	if n := cacheFiles(); n != 2 {
		t.Errorf("%d files, want the one of the checkpoint and the new one", n)
	}
	pass(500, 6000, "\x00       ") // the removed keys leave 500
	must(t, w.checkpoint(nil))
	before := w.d.Stats().CacheWritten
	pass(0, 500, "44444444")
	if got := w.d.Stats().CacheWritten; got != before || w.d.files.held == 0 {
		t.Errorf("500 keys: %d bytes written, %d in RAM", got-before, w.d.files.held)
	}
	must(t, w.finish())
}

// TestFrozenFilesInRAM: a pass replaces the parts that a Freeze has just named. Save still writes their file,
// and the Commit after the next one deletes it. If the frozen state is never saved, nothing is left of it.
func TestFrozenFilesInRAM(t *testing.T) {
	for _, abandoned := range []bool{false, true} {
		rng := newRand(t)
		opt := kinds["count"]
		opt.Buckets = 8
		w := newWorld(t, memfs.New(1), opt, 1)
		must(t, w.open())
		pass := func() error {
			if err := w.add(w.tuples(rng, 2000)); err != nil {
				return err
			}
			_, err := w.d.Pass(context.Background(), true)
			checkRAM(t, w.d)
			return err
		}
		must(t, pass())
		if abandoned {
			w.d.Freeze()
			must(t, pass())
		} else {
			must(t, w.checkpoint(pass)) // comes after Freeze and before Save
			m := w.durable()
			if err := walkCache(w.set, opt.Name, m.State, func(Key, []byte) error { return nil }); err != nil {
				t.Errorf("the saved state: %v", err)
			}
		}
		checkRAM(t, w.d)
		must(t, w.checkpoint(nil))
		checkRAM(t, w.d)
		names, err := w.set.FS.List("d0/state/count")
		must(t, err)
		named := Files(w.set, opt.Name, w.durable().State)
		for _, name := range names {
			if !slices.Contains(named, "d0/state/count/"+name) {
				t.Errorf("%s is left, the state names %v", name, named)
			}
		}
		must(t, w.finish())
	}
}

// TestSaveFails: an error of any operation while files are saved is returned and final, and the last durable
// state opens.
func TestSaveFails(t *testing.T) {
	boom := errors.New("boom")
	for n := 1; ; n++ {
		rng, left := newRand(t), -1
		mem := memfs.New(uint64(n))
		w := newWorld(t, memfs.NewFault(mem, func(op memfs.Op, name string) error {
			if left > 0 && strings.Contains(name, "cache-") {
				if left--; left == 0 {
					return boom
				}
			}
			return nil
		}), kinds["mixed"], 2)
		must(t, w.open())
		step := func() {
			must(t, w.add(w.tuples(rng, 500)))
			_, err := w.d.Pass(context.Background(), true)
			must(t, err)
		}
		step()
		must(t, w.checkpoint(nil))
		step()
		left = n
		err := w.checkpoint(nil)
		if err == nil {
			if n < 4 {
				t.Errorf("only %d operations on files of parts", n-1)
			}
			return
		}
		if !errors.Is(err, boom) {
			t.Fatalf("operation %d: %v", n, err)
		}
		if _, err := w.d.Pass(context.Background(), true); !errors.Is(err, boom) {
			t.Errorf("operation %d: the next pass: %v", n, err)
		}
		w.set.FS = mem.Crash()
		must(t, w.open())
		must(t, w.finish())
	}
}

// TestReadForgotten: a reader of a file in RAM continues on disk once the file is saved and forgotten.
func TestReadForgotten(t *testing.T) {
	d, _ := goldenStore(t, Options{Op: CheckUpdate})
	must(t, d.Add([]Tuple{{Key: 1, Op: CheckUpdate}, {Key: 1 << 63, Op: CheckUpdate}}))
	_, err := d.Pass(context.Background(), true)
	must(t, err)
	p := d.buckets[1].part
	rf := d.files.inRAM(p.gen)
	want, got := make([]byte, p.size), make([]byte, p.size)
	must(t, disk.ReadFull(rf, want, p.off))
	if err := disk.ReadFull(rf, make([]byte, p.size+1), p.off); err == nil {
		t.Error("read beyond a part")
	}
	if err := disk.ReadFull(rf, make([]byte, 1), 8); err == nil {
		t.Error("read the header")
	}
	save(t, d)
	d.files.mu.Lock()
	d.files.forget(rf)
	d.files.mu.Unlock()
	must(t, disk.ReadFull(rf, got, p.off))
	if !slices.Equal(got, want) {
		t.Errorf("read % x from disk, % x from RAM", got, want)
	}
}
