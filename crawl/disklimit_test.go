package crawl

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl/options"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/human"
	"drumbeat/internal/revisit"
	"drumbeat/state"
)

// weighed is a file system that weighs the files in dirs after each operation that changes one, by what the file
// system below reports. It knows nothing of the crawl's own count.
type weighed struct {
	disk.FS
	dirs []string

	mu    sync.Mutex // guards the fields below
	files map[string]int64
	sum   int64
	most  int64
	at    int // files when most was seen
}

func weigh(fsys disk.FS, dirs ...string) *weighed {
	return &weighed{FS: fsys, dirs: dirs, files: map[string]int64{}}
}

// look weighs one file. An operation that weighs it later than another changes it sees the later size, so sum is never
// less than what was on disk at some instant since.
func (w *weighed) look(name string) {
	name = path.Clean(name)
	inside := false
	for _, dir := range w.dirs {
		inside = inside || strings.HasPrefix(name, path.Clean(dir)+"/")
	}
	if !inside {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	size, err := w.FS.Allocated(name)
	if err != nil {
		size = 0
	}
	w.sum += size - w.files[name]
	if w.files[name] = size; err != nil {
		delete(w.files, name)
	}
	if w.sum > w.most {
		w.most, w.at = w.sum, len(w.files)
	}
}

func (w *weighed) Create(name string) (disk.File, error) {
	f, err := w.FS.Create(name)
	w.look(name)
	return w.file(f, err)
}

func (w *weighed) Open(name string) (disk.File, error) {
	f, err := w.FS.Open(name)
	w.look(name)
	return w.file(f, err)
}

func (w *weighed) file(f disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	return &weighedFile{f, w}, nil
}

func (w *weighed) Remove(name string) error {
	err := w.FS.Remove(name)
	w.look(name)
	return err
}

func (w *weighed) Rename(from, to string) error {
	err := w.FS.Rename(from, to)
	w.look(from)
	w.look(to)
	return err
}

type weighedFile struct {
	disk.File
	w *weighed
}

func (f *weighedFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.w.look(f.Name())
	return n, err
}

func (f *weighedFile) Truncate(size int64) error {
	err := f.File.Truncate(size)
	f.w.look(f.Name())
	return err
}

func (f *weighedFile) Preallocate(off, n int64) error {
	err := f.File.Preallocate(off, n)
	f.w.look(f.Name())
	return err
}

// check reports whether the files ever took more than the limit and one block for each of them.
func (w *weighed) check(t *testing.T, limit int64) {
	t.Helper()
	if allowed := limit + int64(w.at)*4096; w.most > allowed {
		t.Errorf("%d files took %d bytes, the limit is %d", w.at, w.most, limit)
	}
}

// limitCase is a crawl of smallWeb with a small --disk.
type limitCase struct {
	name  string
	limit int64
	full  options.WhenFull
	set   func(*Options)
}

func limitCases() []limitCase {
	all := []limitCase{
		{"stop", 4e6, options.WhenFullStop, nil},
		{"pause", 5e6, options.WhenFullPause, nil},
		{"drain", 5e6, options.WhenFullDrain, nil},
		{"many files", 4e6, options.WhenFullStop, func(o *Options) { o.Output.WARCFileBytes = 20_000 }},
		{"small stores", 5e6, options.WhenFullStop, small},
		{"skip known contents", 4e6, options.WhenFullPause,
			func(o *Options) { o.Output.ContentSeen = state.ContentSkip }},
		{"revisits", 12e6, options.WhenFullStop, func(o *Options) {
			o.Recrawl = &revisit.Policy{Least: time.Minute, Longest: time.Minute, Default: time.Minute,
				Kind: revisit.Uniform, Gone: 3}
		}},
		{"history", 9e6, options.WhenFullStop, func(o *Options) {
			o.Observe.HistoryBytes = 1 << 20
			o.Recrawl = &revisit.Policy{Least: time.Minute, Longest: time.Minute, Default: time.Minute,
				Kind: revisit.Uniform, Gone: 3}
		}},
	}
	if testing.Short() {
		return all[1:3] // TestDiskLimit stops
	}
	return all
}

// TestDiskLimitHolds: whatever a crawl does, its files must never take more than a small --disk. Its limit
// must be met in an orderly way: no return to a checkpoint, and every write possible that a checkpoint needs.
// The same command with a larger limit must fetch the rest, and no URL twice.
func TestDiskLimitHolds(t *testing.T) {
	for _, c := range limitCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) { checkLimitCase(t, &c) })
		})
	}
}

func checkLimitCase(t *testing.T, c *limitCase) {
	web := smallWeb(t, allPages)
	fsys := weigh(disk.OS())
	opt := simOptions(t, web, fsys)
	dir := t.TempDir()
	opt.Disk.Dirs, fsys.dirs = []string{dir + "/d0", dir + "/d1"}, []string{dir}
	opt.Limits.DiskBytes, opt.Disk.WhenFull = c.limit, c.full
	if c.set != nil {
		c.set(&opt)
	}
	log := new(logCounter)
	opt.Observe.Log = log.logger()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	res, err := Run(ctx, opt)
	must(t, err)
	fsys.check(t, c.limit)
	if n := log.count("a write found no disk space"); n > 0 {
		t.Errorf("the crawl returned to a checkpoint %d times", n)
	}
	s := &res.Snapshot
	t.Logf("%q after %v: %d responses, %d bytes in %d files at most, %d checkpoints", res.Stop, s.Elapsed,
		s.Count(state.CountResponses), fsys.most, fsys.at, s.Count(state.CountCheckpoints))
	if want := map[options.WhenFull]string{options.WhenFullStop: space.StopDisk, options.WhenFullPause: StopCancelled,
		options.WhenFullDrain: StopCancelled}[c.full]; res.Stop != want {
		t.Errorf("stopped by %q, want %q", res.Stop, want)
	}
	if s.Count(state.CountResponses) < 50 {
		t.Errorf("%d responses", s.Count(state.CountResponses))
	}
	checkBalanced(t, fsys, opt.Disk.Dirs)
	if opt.Recrawl != nil || c.full == options.WhenFullDrain {
		return
	}
	opt.Limits.DiskBytes = 1 << 30
	if res, err = Run(t.Context(), opt); err != nil || res.Stop != StopDone {
		t.Fatalf("with a larger limit: %v, %+v", err, res)
	}
	checkStored(t, web, fsys, opt.Disk.Dirs)
	served := web.Log().Snapshot()
	checkDelays(t, served, &opt, 0)
	// A page that finds no room is fetched again: those under way when the limit was reached.
	if repeated, _ := checkServed(web.Expected("drumbeat"), served); repeated > opt.Network.Connections {
		t.Errorf("%d pages were fetched again", repeated)
	}
}

// TestDiskLimitSurvivesKills: a crawl that is killed again and again while it is at its limit must come back below it,
// each time, and lose nothing.
func TestDiskLimitSurvivesKills(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		mem := memfs.New(*seedFlag)
		fsys := weigh(mem, "d0", "d1")
		opt := simOptions(t, web, fsys)
		small(&opt)
		opt.Limits.DiskBytes, opt.Disk.WhenFull = 4e6, options.WhenFullPause
		for i := range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			var mu sync.Mutex // guards places and left
			places := 0
			var left *memfs.FS // what a kill left
			opt.tests.hook = func(place string) {
				mu.Lock()
				defer mu.Unlock()
				if places++; left == nil && (places == 300*(i+1) || place == "rest") {
					left = mem.Kill()
				}
			}
			res, err := Run(ctx, opt)
			cancel()
			if left != nil && err == nil {
				t.Fatalf("round %d: killed, but %+v", i, res)
			} else if left == nil && err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			if left != nil {
				fsys.FS = left
			}
			mem = fsys.FS.(*memfs.FS)
		}
		fsys.check(t, opt.Limits.DiskBytes)
		opt.tests.hook, opt.Limits.DiskBytes = nil, 1<<30
		if res, err := Run(t.Context(), opt); err != nil || res.Stop != StopDone {
			t.Fatalf("with a larger limit: %v, %+v", err, res)
		}
		checkStored(t, web, fsys, opt.Disk.Dirs)
	})
}

// TestSmallerDiskLimit: a crawl that is resumed with a limit below what it has must say so, fetch nothing,
// write nothing and lose nothing, whatever it does when a disk is full.
func TestSmallerDiskLimit(t *testing.T) {
	t.Parallel()
	for _, full := range []options.WhenFull{options.WhenFullStop, options.WhenFullPause, options.WhenFullDrain} {
		if testing.Short() && full != options.WhenFullPause {
			continue
		}
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, allPages)
			fsys := weigh(memfs.New(*seedFlag), "d0", "d1")
			opt := simOptions(t, web, fsys)
			opt.Limits.DiskBytes, opt.Disk.WhenFull, opt.Limits.MaxPages = 1<<30, full, 450
			if res, err := Run(t.Context(), opt); err != nil || res.Stop != StopPages {
				t.Fatalf("%v, %+v", err, res)
			}
			before, fetched := fsys.sum, len(web.Log().Snapshot().Fetches)
			fsys.most, opt.Limits.DiskBytes, opt.Limits.MaxPages = 0, opt.leastDisk(), 0
			if before <= opt.Limits.DiskBytes {
				t.Fatalf("the crawl has %d bytes, too few for this test", before)
			}
			var log logCounter
			opt.Observe.Log = log.logger()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			res, err := Run(ctx, opt)
			if want := map[bool]string{true: space.StopDisk,
				false: StopCancelled}[full == options.WhenFullStop]; err != nil || res.Stop != want {
				t.Fatalf("%s: with a smaller limit: %v, %+v, want %q", full, err, res, want)
			}
			if log.count("too little disk space") == 0 {
				t.Errorf("%s: the log does not say that the limit is reached: %v", full, log.texts)
			}
			if n := len(web.Log().Snapshot().Fetches); n != fetched || fsys.most > before {
				t.Errorf("%s: %d fetches, want none; %d bytes at most, were %d", full, n-fetched, fsys.most, before)
			}
			checkBalanced(t, fsys, opt.Disk.Dirs)
			opt.Limits.DiskBytes = 1 << 30
			if res, err = Run(t.Context(), opt); err != nil || res.Stop != StopDone {
				t.Fatalf("with the former limit: %v, %+v", err, res)
			}
			checkFetched(t, web, &opt)
		})
	}
}

// TestDiskLimitOfLargeBodies: bodies larger than the limit leaves room for must be deferred, not cut and not counted
// against their host, and the limit must hold while several arrive. Smaller ones must be stored.
func TestDiskLimitOfLargeBodies(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		for _, head := range []string{"", "Content-Length: 9000000\r\n"} {
			fsys := weigh(memfs.New(*seedFlag), "d0")
			web := largeWeb(head, largeBody(9e6))
			opt := spooling(t, web, fsys)
			opt.Disk.Dirs, opt.Limits.DiskBytes, opt.Disk.WhenFull = []string{"d0"}, 20e6, options.WhenFullPause
			for _, limit := range []int64{20e6, 60e6} {
				opt.Limits.DiskBytes, fsys.most = limit, 0
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				res, err := Run(ctx, opt)
				cancel()
				if err != nil {
					t.Fatalf("%q, %d bytes: %v", head, limit, err)
				}
				fsys.check(t, limit)
				stored := res.Snapshot.Place(state.PlaceFetched) > 0
				if want := limit > 30e6; stored != want {
					t.Errorf("%q, %d bytes: stored %v, want %v: %q, places %v", head, limit, stored, want, res.Stop,
						res.Snapshot.Places)
				}
			}
			noSpools(t, fsys, opt.Disk.Dirs)
			storedBlock(t, fsys, opt.Disk.Dirs, "http://large.test/")
		}
	})
}

// TestLeastDisk: the least --disk that MakePlan accepts lets a crawl fetch pages, with any number of directories; one
// byte less is refused, and the error names the least.
func TestLeastDisk(t *testing.T) {
	t.Parallel()
	for _, dirs := range [][]string{{"d0"}, {"d0", "d1"}, {"d0", "d1", "d2", "d3", "d4", "d5"}} {
		for _, out := range [][]string{nil, {"o0"}} {
			if testing.Short() && (len(dirs) == 2 || len(dirs) == 1 != (out == nil)) {
				continue
			}
			inBubble(t, func(t *testing.T) {
				web := smallWeb(t, allPages)
				fsys := weigh(memfs.New(*seedFlag), append(slices.Clone(dirs), out...)...)
				opt := simOptions(t, web, fsys)
				opt.Disk.Dirs, opt.Disk.Out, opt.Disk.WhenFull = dirs, out, options.WhenFullStop
				opt.Limits.DiskBytes = opt.leastDisk() - 1
				if _, err := Run(t.Context(), opt); err == nil ||
					!strings.Contains(err.Error(), "the minimum is "+human.Bytes(opt.leastDisk())) {
					t.Errorf("%v %v: a byte too little: %v", dirs, out, err)
				}
				opt.Limits.DiskBytes++
				res, err := Run(t.Context(), opt)
				ended := err == nil && (res.Stop == space.StopDisk || res.Stop == StopDone) // the web is small
				if !ended || res.Snapshot.Count(state.CountResponses) == 0 {
					t.Errorf("%v %v: with %d bytes: %v, %+v", dirs, out, opt.Limits.DiskBytes, err, res)
				}
				fsys.check(t, opt.Limits.DiskBytes)
			})
		}
	}
}
