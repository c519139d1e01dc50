package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/crawl/backups"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/backup"
)

// examined is a place of backups. Each backup is restored and compared with the crawl as soon as it is complete.
type examined struct {
	backup.Place
	l      *life
	fs     *memfs.FS // has the place
	faults []string

	n, outputs atomic.Int64
}

func (e *examined) Put(ctx context.Context, name string, data []byte) error {
	err := e.Place.Put(ctx, name, data)
	if err == nil && name == "latest" {
		e.examine(ctx)
	}
	return err
}

func (e *examined) examine(ctx context.Context) {
	n := e.n.Add(1)
	move := func(dirs []string) (to []string) {
		for _, dir := range dirs {
			to = append(to, fmt.Sprintf("r%d/%s", n, dir))
		}
		return to
	}
	opt := backup.RestoreOptions{Place: e.Place, FS: e.fs, Dirs: move(e.l.opt.Disk.Dirs), Out: move(e.l.opt.Disk.Out)}
	r, err := backup.Restore(ctx, opt)
	if errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		e.faults = append(e.faults, fmt.Sprintf("restore %d: %v", n, err))
		return
	}
	before := len(e.faults)
	e.compare(r, opt)
	deep, err := audit.Deep(audit.Options{FS: e.fs, Dirs: opt.Dirs, Out: opt.Out, RAMBytes: 1 << 20})
	switch {
	case err != nil:
		e.faults = append(e.faults, fmt.Sprintf("backup %d: audit: %v", r.Number, err))
	case deep.DamageCount > 0 || len(deep.Bad) > 0:
		e.faults = append(e.faults, fmt.Sprintf("backup %d: %v %v", r.Number, deep.Damages, deep.Bad))
	}
	if len(e.faults) == before {
		e.fs = memfs.New(uint64(n)) // forget
	}
}

// compare compares the bytes that the manifest names with those that the crawl has, if it has the file still.
func (e *examined) compare(r *backup.Restored, opt backup.RestoreOptions) {
	set := disk.Set{FS: e.fs, Paths: opt.Dirs}
	caches := map[string][]drum.Range{}
	for _, s := range audit.Stores(r.Manifest) {
		for file, ranges := range drum.CacheRanges(set, s.Name, s.State) {
			caches[file] = ranges
		}
	}
	saved := state.NewSaved(e.fs, opt.Dirs, opt.Out)
	saved.Set = set
	err := audit.EachNamed(saved, r.Manifest, func(file string, end int64) {
		ranges := []drum.Range{{N: end}}
		if cache, ok := caches[file]; ok {
			ranges = cache
		} else if end == math.MaxInt64 || end == 0 {
			return
		}
		_, was, _ := strings.Cut(file, "/")
		have, err := disk.ReadFile(e.l.fs, was)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, disk.ErrCrashed) {
			return
		}
		got, err2 := disk.ReadFile(e.fs, file)
		if err != nil || err2 != nil {
			e.faults = append(e.faults, fmt.Sprintf("%s: %v %v", file, err, err2))
			return
		}
		for _, r := range ranges {
			if !bytes.Equal(have[r.Off:r.Off+r.N], got[r.Off:r.Off+r.N]) {
				e.faults = append(e.faults, fmt.Sprintf("%s: %+v differs", file, r))
			}
		}
	})
	if err != nil {
		e.faults = append(e.faults, fmt.Sprintf("backup %d: %v", r.Number, err))
	}
	for _, dir := range append(opt.Dirs[:len(opt.Dirs):len(opt.Dirs)], opt.Out...) {
		for _, sub := range []string{"warc", "log"} {
			names, err := e.fs.List(dir + "/" + sub)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				e.faults = append(e.faults, err.Error())
			}
			for _, name := range names {
				e.compareOutput(dir + "/" + sub + "/" + name)
			}
		}
	}
}

// compareOutput compares an output file with that of the crawl, which may have become longer, or final.
func (e *examined) compareOutput(file string) {
	got, err := disk.ReadFile(e.fs, file)
	_, was, _ := strings.Cut(file, "/")
	have, err2 := disk.ReadFile(e.l.fs, was)
	if final, open := strings.CutSuffix(was, ".open"); open && errors.Is(err2, fs.ErrNotExist) {
		if strings.HasSuffix(final, ".cdxj") {
			return // it was sorted
		}
		have, err2 = disk.ReadFile(e.l.fs, final)
	}
	if errors.Is(err2, disk.ErrCrashed) {
		return
	}
	e.outputs.Add(1)
	if err != nil || err2 != nil || !bytes.HasPrefix(have, got) {
		e.faults = append(e.faults, fmt.Sprintf("%s of %d bytes differs: %v %v", file, len(got), err, err2))
	}
}

// TestBackupsOfCuts: crawls that are cut many times and come back, also from full disks, are backed up meanwhile. Each
// backup is whole and has the bytes of the crawl.
func TestBackupsOfCuts(t *testing.T) {
	notShort(t)
	var made, outputs int64
	for i := range uint64(longOr(120, 4)) {
		seed := *seedFlag + i
		inBubble(t, func(t *testing.T) {
			w := newCutWorld(t, seed%numCutWorlds)
			l := newLife(t, w, 0, w.empty(t, seed))
			place := memfs.New(seed)
			e := &examined{Place: backup.Directory(place, "place"), l: l, fs: memfs.New(seed)}
			e.Place = backup.Directory(place, "place")
			l.opt.Backup = &backups.Options{Place: e, Every: 8 * time.Second, PackBytes: 64 << 10}
			l.opt.Limits.RAMBytes = 256 << 20
			l.squeezed = w.quota
			rng := rand.New(rand.NewPCG(seed, 0x6261))
			left := 10
			next := func() int {
				if left == 0 || len(e.faults) > 0 {
					return 0
				}
				left--
				return 1 + rng.IntN(6000)
			}
			faults := l.live(rng, next, func(memfs.Step, bool) {})
			made, outputs = made+e.n.Load(), outputs+e.outputs.Load()
			if faults = append(e.faults, faults...); len(faults) > 0 {
				l.fail(faults)
			}
		})
	}
	if t.Logf("%d backups with %d output files", made, outputs); made < 40 || outputs < 40 {
		t.Error("too few")
	}
}
