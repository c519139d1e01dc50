package backup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/backup"
	"drumbeat/state/erase"
)

// counted is a place that counts the packs that it takes, and refuses further ones.
type counted struct {
	backup.Place
	packs map[string]int // by name, the times each was put
	most  int            // 0: no bound
}

var errFull = errors.New("the place is full")

func (c *counted) Put(ctx context.Context, name string, data []byte) error {
	if strings.HasPrefix(name, "packs/") {
		if c.most > 0 && len(c.packs) == c.most {
			return errFull
		}
		c.packs[name]++
	}
	return c.Place.Put(ctx, name, data)
}

// byHand backs a stopped crawl up as the command does. The returned function is Interrupted.
func (l *life) byHand(place backup.Place, rate int64) (h *backup.Head, interrupted func(), _ error) {
	l.t.Helper()
	saved, m, err := audit.Open(&audit.Options{FS: l.fs, Dirs: l.opt.Disk.Dirs})
	must(l.t, err)
	defer func() { must(l.t, saved.Unlock()) }()
	data, err := state.EncodeManifest(m)
	must(l.t, err)
	files, err := backup.Files(saved, m)
	must(l.t, err)
	b, err := backup.Open(l.t.Context(), backup.Options{Place: place, PackBytes: packBytes, BytesPerSecond: rate}, m)
	must(l.t, err)
	open := func(path string) (disk.File, error) { return saved.Set.FS.OpenRead(path) }
	h, err = b.Make(l.t.Context(), b.Plan(m, data, files), saved, open, func(string) {})
	return h, func() { b.Interrupted(l.t.Context()) }, err
}

// stoppedLife is a crawl that has ended with some pages, without a backup.
func stoppedLife(t *testing.T) *life {
	t.Helper()
	l := newLife(t, *testworld.Seed, func(o *crawl.Options) { o.Limits.MaxPages = 150 })
	with := l.opt.Backup
	l.opt.Backup = nil
	crawltest.MustRun(t, t.Context(), l.opt)
	l.opt.Backup = with
	return l
}

// TestInterrupted: another process does not put the packs again that an interrupted backup has put.
func TestInterrupted(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l := stoppedLife(t)
		c := &counted{Place: l.place(), packs: map[string]int{}, most: 5}
		_, interrupted, err := l.byHand(c, 0)
		if !errors.Is(err, errFull) || len(c.packs) != 5 {
			t.Fatalf("%v after %d packs", err, len(c.packs))
		}
		interrupted()
		c.most = 0
		h, _, err := l.byHand(c, 0)
		must(t, err)
		for name, n := range c.packs {
			if n > 1 {
				t.Errorf("%s was put %d times", name, n)
			}
		}
		if len(c.packs) < 8 || h.Copied >= h.Bytes {
			t.Errorf("%d packs, %d of %d bytes copied", len(c.packs), h.Copied, h.Bytes)
		}
		l.restore()
	})
}

// TestStrays: a backup is killed before it can name its packs, and pages are erased. The next backup deletes the packs.
func TestStrays(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l := stoppedLife(t)
		c := &counted{Place: l.place(), packs: map[string]int{}, most: 5}
		if _, _, err := l.byHand(c, 0); !errors.Is(err, errFull) {
			t.Fatal(err)
		}
		_, err := erase.Run(erase.Options{FS: l.fs, Dirs: l.opt.Disk.Dirs, RAMBytes: 64 << 20, Reason: "asked for",
			Source: erase.Source{URLs: []string{l.web.Seeds()[0]}}})
		must(t, err)
		_, _, err = l.byHand(l.place(), 0)
		must(t, err)
		names, err := l.fs.List("place/packs")
		must(t, err)
		for _, name := range names {
			if c.packs["packs/"+name] > 0 {
				t.Errorf("%s is still there", name)
			}
		}
		l.restore()
	})
}

// TestRate: a backup reads no faster than it may.
func TestRate(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l := stoppedLife(t)
		began := time.Now()
		h, _, err := l.byHand(l.place(), 10_000)
		must(t, err)
		least := time.Duration(float64(h.Copied) / 10_000 * float64(time.Second))
		if took := time.Since(began); took < least-time.Second || took > least+10*time.Second {
			t.Errorf("%d bytes in %v, want %v", h.Copied, took, least)
		}
	})
}

// TestDamagedNewestList: the next backup copies everything, under new names.
func TestDamagedNewestList(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l := stoppedLife(t)
		c := &counted{Place: l.place(), packs: map[string]int{}}
		h, _, err := l.byHand(c, 0)
		must(t, err)
		must(t, disk.WriteFileAtomic(l.fs, "place/"+h.Name, []byte("x")))
		next, _, err := l.byHand(c, 0)
		must(t, err)
		if next.Copied != next.Bytes {
			t.Errorf("%d of %d bytes copied", next.Copied, next.Bytes)
		}
		for name, n := range c.packs {
			if n > 1 {
				t.Errorf("%s was put %d times", name, n)
			}
		}
		l.restore()
	})
}

// TestFinishedIsBackedUp: a crawl that was over before this run, without a backup of its end, gets one.
func TestFinishedIsBackedUp(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l := newLife(t, *testworld.Seed, nil)
		with := l.opt.Backup
		l.opt.Backup = nil
		crawltest.MustRun(t, t.Context(), l.opt)
		l.opt.Backup = with
		for range 2 {
			if _, err := crawl.Run(t.Context(), l.opt); !errors.Is(err, state.ErrFinished) {
				t.Fatalf("the crawl is not over: %v", err)
			}
		}
		latest, err := backup.Backups(t.Context(), l.place())
		must(t, err)
		if len(latest.Backups) != 1 {
			t.Errorf("%d backups, want one: the second run changed nothing", len(latest.Backups))
		}
		if r := l.restore(); r.Manifest.Done == "" {
			t.Error("the backup has a crawl that is not over")
		}
	})
}
