package crawl

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
)

var (
	turns    = flag.Int("turns", 1, "number of crawls of TestCutsInTurn and TestClusterCutsInTurn")
	every    = flag.Int("every", 0, "the same tests cut before 1 in N operations (0: 16; 1 with -long)")
	oneIn    = flag.Int("finish", 40, "TestCutsInTurn resumes the crawl after 1 in N cuts")
	imageDir = flag.String("image", "", "write the files that a failed run found to this directory")
	replay   = flag.String("replay", "",
		"TestReplay resumes the crawl in this directory, written by -image; -seed is the number of its world")
)

// TestCutsInTurn cuts a crawl before each of its operations (by default before a sample of them), once by
// kill -9 and once by a power cut. Each cut leaves a fork of the file system, and the crawl itself continues.
// The test opens and audits every fork. It resumes a sample of them, cuts some again during recovery, and
// compares each result with a crawl that was never cut.
func TestCutsInTurn(t *testing.T) {
	notShort(t)
	var opened, ended cutCount
	var turn atomic.Uint64
	inParallel(t, func(t *testing.T) bool {
		n := turn.Add(1) - 1
		if n >= uint64(*turns) {
			return false
		}
		seed := *seedFlag + n
		w, _ := undisturbedWorld(t, seed)
		var samples []*life
		inBubble(t, func(t *testing.T) { samples = cutInTurn(t, w, seed, &opened) })
		opened.ended(0)
		for _, l := range samples {
			inBubble(t, func(t *testing.T) { l.endAfterCut(t, &ended) })
			ended.ended(0)
		}
		return true
	})
	opened.log(t, "before each operation, opened and audited")
	t.Logf("resumed and compared %d of them, with %d more cuts", ended.lives, ended.cuts)
}

func cutInTurn(t *testing.T, w *cutWorld, seed uint64, count *cutCount) (samples []*life) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0x7475726e))
	l := newLife(t, w, 0, w.empty(t, seed))
	stride := *every
	if stride == 0 {
		stride = longOr(1, 16)
	}
	var failed *life
	var faults []string
	l.before = func(s memfs.Step, fork func(uint64) *memfs.FS) {
		// A manifest that is visible after kill -9 but not durable is a risk for recovery, so cut the
		// recovery too.
		manifest := s.Op == memfs.OpSyncDir && strings.HasSuffix(s.Name, "/state")
		if rng.IntN(stride) > 0 && (!manifest || rng.IntN(4) > 0) {
			return
		}
		for _, power := range []bool{false, true} {
			if failed != nil {
				return
			}
			c := l.cutHere(s, fork(rng.Uint64()), power)
			count.add(s, power)
			if bad := c.checkCut(power); len(bad) > 0 {
				failed, faults = c, bad
			}
			trap := !power && manifest
			if c.again = trap; trap || rng.IntN(*oneIn) == 0 {
				samples = append(samples, c)
			}
		}
	}
	must(t, l.crawl(0))
	if failed != nil {
		failed.t = t
		failed.fail(faults)
	}
	return samples
}

// cutHere returns the life that l would have after a cut now.
func (l *life) cutHere(s memfs.Step, fs *memfs.FS, power bool) *life {
	c := &life{world: l.world, opt: l.opt, run: l.run + 1, began: l.began, cutAt: time.Now(), image: fs,
		parsed: l.parsed, wit: &witness{visits: l.wit.all()},
		steps: append([]memfs.Step(nil), l.steps[max(0, len(l.steps)-20):]...)}
	c.hooks.Store(l.hooks.Load())
	c.story = []string{fmt.Sprintf("cut before operation %d, %v %s, power cut %t", len(l.steps), s.Op, s.Name, power)}
	if power {
		c.fs = fs.Crash()
	} else {
		c.fs = fs.Kill()
	}
	c.image = c.fs.Fork(0)
	return c
}

// endAfterCut resumes a crawl of another bubble, in a new bubble, at the time of its cut.
func (l *life) endAfterCut(t *testing.T, count *cutCount) {
	t.Helper()
	account.Sleep(t.Context(), time.Until(l.cutAt))
	visits := l.wit.visits
	l.t = t
	l.opt, l.wit = l.world.options(t, l.fs)
	l.wit.visits = visits
	l.watchCheckpoints()
	rng := rand.New(rand.NewPCG(uint64(len(visits)), uint64(l.cutAt.UnixNano())))
	left := rng.IntN(3) + boolInt(l.again)
	next := func() int {
		if left--; left < 0 {
			return 0
		}
		return 1 + rng.IntN(60)
	}
	if faults := l.live(rng, next, count.add); len(faults) > 0 {
		l.fail(faults)
	}
}

// TestReplay resumes the crawl of an image, logs the faults of the image, and audits the result.
func TestReplay(t *testing.T) {
	if *replay == "" {
		t.Skip("needs -replay")
	}
	w := newCutWorld(t, *seedFlag)
	inBubble(t, func(t *testing.T) {
		fs := memfs.New(1)
		latest := time.Now()
		err := filepath.WalkDir(*replay, func(path string, d os.DirEntry, err error) error {
			rel, rerr := filepath.Rel(*replay, path)
			if err != nil || rerr != nil || rel == "." {
				return err
			}
			if d.IsDir() {
				return fs.MkdirAll(rel)
			}
			data, err := os.ReadFile(path)
			if err != nil || rel == "story.txt" {
				return err
			}
			f, err := fs.Create(rel)
			if err != nil || len(data) == 0 {
				return err
			}
			if _, err := f.WriteAt(data, 0); err != nil {
				return err
			}
			return f.Close()
		})
		must(t, err)
		l := newLife(t, w, 1, fs)
		if _, m, err := l.manifest(); err == nil {
			latest = time.Unix(m.Time+1, 0)
		}
		account.Sleep(t.Context(), time.Until(latest))
		faults := l.checkCut(true)
		must(t, l.crawl(0))
		rep, err := audit.Run(l.fs, l.opt.Disk.Dirs)
		if err != nil || !rep.Balanced() {
			t.Errorf("audit at the end: %v, %+v", err, rep)
		}
		t.Logf("faults of the image: %q; fetched %d", faults, l.result.Snapshot.Place(state.PlaceFetched))
	})
}

// saveImage writes all files of a file system, and the story of the life, to a directory.
func saveImage(m *memfs.FS, dir, story string) error {
	var save func(from, to string) error
	save = func(from, to string) error {
		names, err := m.List(from)
		if err != nil {
			data, err := disk.ReadFile(m, from)
			if err != nil {
				return err
			}
			return os.WriteFile(to, data, 0o600)
		}
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		for _, name := range names {
			if err := save(from+"/"+name, filepath.Join(to, name)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := save(".", dir); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "story.txt"), []byte(story), 0o600)
}
