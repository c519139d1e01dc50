package queue

import (
	"math/rand/v2"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestScanGoesOnBehindDamage overwrites bytes at random places in the files of a queue. Scan must return
// only original records, in order, and report the damage and the number of missing records.
func TestScanGoesOnBehindDamage(t *testing.T) {
	hurt := 0
	for seed := *seedFlag; seed < *seedFlag+uint64(rounds(10)); seed++ {
		w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 11)), mem: memfs.New(seed)}
		w.opt = Options{Name: "some/queue", BlockBytes: 1000, SegmentBytes: []int64{1, 3000, 20000}[w.rng.IntN(3)]}
		w.maxLen = 100
		must(t, mountDirs(w.mem))
		w.reopen(seed)
		must(t, w.run(150))
		m, err := readManifest(w.set)
		must(t, err)
		if m.Queue == nil {
			continue
		}
		scan := func() (got []string, lost int64, damages []error) {
			lost, err := Scan(w.set, w.opt.Name, m.Queue, func(rec []byte) error {
				got = append(got, string(rec))
				return nil
			}, func(err error) error { damages = append(damages, err); return nil })
			must(t, err)
			return got, lost, damages
		}
		want, lost, damages := scan()
		if int64(len(want)) != m.Queue.Records || lost != 0 || len(damages) != 0 {
			t.Fatalf("seed %d: a whole queue: %d of %d records, %d lost, %v", seed, len(want), m.Queue.Records,
				lost, damages)
		}
		var files []string
		for dir := range w.set.Paths {
			for _, sub := range []string{w.set.Path(dir, "state"), w.set.Path(dir, "state", w.opt.Name)} {
				names, _ := w.mem.List(sub)
				for _, name := range names {
					if size, err := w.mem.Size(sub + "/" + name); err == nil && size > 0 {
						files = append(files, sub+"/"+name)
					}
				}
			}
		}
		for range 40 {
			undo := spoil(t, w.rng, w.mem, files[w.rng.IntN(len(files))])
			got, lost, damages := scan()
			undo()
			if int64(len(got))+lost != m.Queue.Records || lost > 0 && len(damages) == 0 {
				t.Fatalf("seed %d: %d found, %d lost of %d: %v", seed, len(got), lost, m.Queue.Records, damages)
			}
			at := 0
			for _, rec := range got {
				i := slices.Index(want[at:], rec)
				if i < 0 {
					t.Fatalf("seed %d: record %q was not there, or elsewhere: %v", seed, rec, damages)
				}
				at += i + 1
			}
			if lost > 0 {
				hurt++
			}
		}
	}
	if hurt == 0 {
		t.Error("no damage hit anything that was needed")
	}
}

// spoil overwrites some bytes of a file and returns a function that restores them.
func spoil(t *testing.T, rng *rand.Rand, fsys disk.FS, name string) (undo func()) {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	off := rng.Int64N(size)
	old := make([]byte, min(size-off, 1+rng.Int64N(8)))
	must(t, disk.ReadFull(f, old, off))
	bad := slices.Clone(old)
	for i := range bad {
		bad[i] ^= byte(1 + rng.IntN(255))
	}
	_, err = f.WriteAt(bad, off)
	must(t, err)
	return func() {
		_, err := f.WriteAt(old, off)
		must(t, err)
		must(t, f.Close())
	}
}
