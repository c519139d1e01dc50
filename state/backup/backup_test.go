package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	urls "net/url"
	"slices"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/objstore"
	"drumbeat/internal/objstore/objtest"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/backup"
	"drumbeat/state/erase"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// life is a crawl that is backed up.
type life struct {
	t   *testing.T
	web *simweb.Web
	fs  *memfs.FS
	opt crawl.Options
	rng *rand.Rand
}

func newLife(t *testing.T, seed uint64, change func(o *crawl.Options)) *life {
	l := &life{t: t, rng: rand.New(rand.NewPCG(seed, 3)), fs: memfs.New(seed)}
	l.web = testworld.SmallWeb(t, nil)
	l.opt = crawltest.SimOptions(t, l.web, l.fs)
	l.opt.Budgets.QueuePages, l.opt.Order.StockTarget, l.opt.Output.WARCFileBytes = crawl.Unlimited, 100, 60_000
	l.opt.Disk.CheckpointEvery, l.opt.Observe.HistoryBytes = 2*time.Second, 1<<20
	if change != nil {
		change(&l.opt)
	}
	l.on(l.fs)
	return l
}

// on makes fs the file system of the crawl and of its backups.
func (l *life) on(fs *memfs.FS) {
	l.fs, l.opt.Disk.FS = fs, fs
	crawltest.WithBackup(&l.opt, l.place(), 3*time.Second)
	l.opt.Backup.PackBytes = packBytes
}

// packBytes is the size of packs: these small crawls have many.
const packBytes = 32 << 10

func (l *life) place() backup.Place { return backup.Directory(l.fs, "place") }

// restore restores the newest backup into r0, r1 on, and makes them the directories of the crawl.
func (l *life) restore() *backup.Restored {
	l.t.Helper()
	was := l.opt.Disk.Dirs
	l.opt.Disk.Dirs = nil
	for _, dir := range was {
		l.opt.Disk.Dirs = append(l.opt.Disk.Dirs, "r"+dir)
	}
	r, err := backup.Restore(l.t.Context(), backup.RestoreOptions{Place: l.place(), FS: l.fs, Dirs: l.opt.Disk.Dirs})
	must(l.t, err)
	testworld.CheckBalanced(l.t, l.fs, l.opt.Disk.Dirs)
	if deep := testworld.Deep(l.t, l.fs, l.opt.Disk.Dirs); deep.DamageCount > 0 || len(deep.Bad) > 0 {
		l.t.Errorf("backup %d is damaged: %v %v", r.Number, deep.Damages, deep.Bad)
	}
	return r
}

// end lets the crawl end, and asserts that all that a correct crawl fetches was fetched, and is in the output.
func (l *life) end() {
	l.t.Helper()
	if _, err := crawl.Run(l.t.Context(), l.opt); err != nil && !errors.Is(err, state.ErrFinished) {
		l.t.Fatal(err)
	}
	testworld.CheckBalanced(l.t, l.fs, l.opt.Disk.Dirs)
	truth := testworld.TruthOf(l.t, l.fs, l.opt.Disk.Dirs)
	want := l.web.Expected("drumbeat")
	for url := range want.FetchedURLs() {
		if got := truth.Place(url); got != "fetched" {
			l.t.Errorf("%s is %s", url, got)
		}
	}
}

// TestRestore: a crawl is killed at any operation, several times, and once its machine is lost. The last backup of
// it, restored elsewhere, is whole, and the crawl ends as if nothing had happened.
func TestRestore(t *testing.T) {
	restored := 0
	for seed := range uint64(testworld.LongOr(60, 6)) {
		testworld.InBubble(t, func(t *testing.T) {
			l := newLife(t, *testworld.Seed<<16+seed, nil)
			for range 1 + l.rng.IntN(3) {
				l.fs.CrashAfter(100 + l.rng.IntN(2500))
				_, err := crawl.Run(t.Context(), l.opt)
				if err != nil && !errors.Is(err, disk.ErrCrashed) {
					t.Fatal(err)
				}
				l.on(l.fs.Kill()) // also in the last backup, whose errors do not end a crawl
				if err == nil {
					break
				}
			}
			if latest, err := backup.Backups(t.Context(), l.place()); errors.Is(err, state.ErrIncompatible) {
				return // killed before the first backup
			} else if must(t, err); len(latest.Backups) > backup.DefaultKeep {
				t.Errorf("%d backups", len(latest.Backups))
			}
			restored++
			_, err := backup.Verify(t.Context(), l.place(), 0, nil)
			must(t, err)
			l.restore()
			l.end()
		})
	}
	if restored == 0 {
		t.Error("no crawl lived until its first backup")
	}
}

// TestRestoreCuts: a restore that is cut at any operation leaves directories that a crawl refuses, or a whole crawl;
// the same restore then completes.
func TestRestoreCuts(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l := newLife(t, *testworld.Seed, func(o *crawl.Options) { o.Limits.MaxPages = 150 })
		crawltest.MustRun(t, t.Context(), l.opt)
		for cut := 1; ; cut += testworld.LongOr(1, 37) {
			one := *l
			one.on(l.fs.Fork(uint64(cut)))
			opt := backup.RestoreOptions{Place: one.place(), FS: one.fs, Dirs: []string{"r0", "r1"}}
			one.fs.CrashAfter(cut)
			_, err := backup.Restore(t.Context(), opt)
			if err == nil {
				break
			}
			if !errors.Is(err, disk.ErrCrashed) {
				t.Fatal(err)
			}
			if cut%2 == 0 {
				one.on(one.fs.Kill())
			} else {
				one.on(one.fs.Crash())
			}
			opt.Place, opt.FS, one.opt.Disk.Dirs, one.opt.Backup = one.place(), one.fs, opt.Dirs, nil
			one.opt.Limits.MaxPages = 1 // a whole crawl has more
			res, err := crawl.Run(t.Context(), one.opt)
			if err == nil && res.Stop != crawl.StopPages {
				t.Fatalf("cut %d: a new crawl began in half restored directories", cut)
			}
			if err == nil {
				continue
			}
			if !errors.Is(err, state.ErrIncompatible) {
				t.Fatalf("cut %d: %v", cut, err)
			}
			_, err = backup.Restore(t.Context(), opt)
			must(t, err)
			testworld.CheckBalanced(t, one.fs, opt.Dirs)
		}
	})
}

// TestRestoreNeedsSpace: a restore into a disk that is too small writes nothing.
func TestRestoreNeedsSpace(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l := newLife(t, *testworld.Seed, func(o *crawl.Options) { o.Limits.MaxPages = 60 })
		crawltest.MustRun(t, t.Context(), l.opt)
		small := memfs.New(1)
		small.SetCapacity(100_000)
		_, err := backup.Restore(t.Context(), backup.RestoreOptions{Place: l.place(), FS: small,
			Dirs: []string{"r0", "r1"}})
		if !errors.Is(err, state.ErrIncompatible) || small.Used() > 1000 {
			t.Errorf("%v; %d bytes were written", err, small.Used())
		}
	})
}

// TestPlaceOfAnother: a crawl does not write to the place of another crawl, nor to one that a restored copy of it uses.
func TestPlaceOfAnother(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l := newLife(t, *testworld.Seed, func(o *crawl.Options) { o.Limits.MaxPages = 60 })
		l.opt.Backup.Every = time.Millisecond
		crawltest.MustRun(t, t.Context(), l.opt)
		first := l.opt
		l.restore()
		l.opt.Limits.MaxPages = 120
		crawltest.MustRun(t, t.Context(), l.opt)
		first.Limits.MaxPages = 200
		if _, err := crawl.Run(t.Context(), first); !errors.Is(err, backup.ErrElsewhere) {
			t.Errorf("the lost machine came back and wrote: %v", err)
		}
		other := l.opt
		other.Disk.Dirs = []string{"other"}
		if _, err := crawl.Run(t.Context(), other); !errors.Is(err, backup.ErrElsewhere) {
			t.Errorf("another crawl wrote: %v", err)
		}
	})
}

// faulty is a place whose calls fail at times.
type faulty struct {
	backup.Place
	rng *rand.Rand
}

func (f faulty) Put(ctx context.Context, name string, data []byte) error {
	switch f.rng.IntN(4) {
	case 0:
		return errors.New("the store is away")
	case 1:
		return errors.Join(f.Place.Put(ctx, name, data), errors.New("the answer is lost"))
	}
	return f.Place.Put(ctx, name, data)
}

// TestFaultyPlace: a place that fails at times delays backups and does no harm.
func TestFaultyPlace(t *testing.T) {
	for seed := range uint64(testworld.LongOr(20, 3)) {
		testworld.InBubble(t, func(t *testing.T) {
			l := newLife(t, *testworld.Seed+seed, nil)
			l.opt.Backup.Place = faulty{l.place(), l.rng}
			crawltest.MustRun(t, t.Context(), l.opt)
			testworld.CheckBalanced(t, l.fs, l.opt.Disk.Dirs)
			if _, err := backup.Backups(t.Context(), l.place()); errors.Is(err, state.ErrIncompatible) {
				return
			}
			l.restore()
			l.opt.Backup = nil
			l.end()
		})
	}
}

// TestNoDeletedFileStays: when a crawl with backups has ended, nothing is left that they had kept from being deleted.
func TestNoDeletedFileStays(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l := newLife(t, *testworld.Seed, nil)
		crawltest.MustRun(t, t.Context(), l.opt)
		latest, err := backup.Backups(t.Context(), l.place())
		must(t, err)
		if latest.Backups[0].Number < 2 {
			t.Errorf("the place has %+v: too few were made", latest.Backups)
		}
		r, m, err := audit.Open(&audit.Options{FS: l.fs, Dirs: l.opt.Disk.Dirs})
		must(t, err)
		must(t, audit.EachUnused(r, m, func(path string, from int64) error {
			if from < 0 {
				t.Errorf("%s is left", path)
			}
			return nil
		}))
		must(t, r.Unlock())
		if _, err := crawl.Run(t.Context(), l.opt); !errors.Is(err, state.ErrFinished) {
			t.Errorf("the crawl is not over: %v", err)
		}
		if r := l.restore(); r.Manifest.Done == "" || !r.Manifest.Clean {
			t.Errorf("the last backup has a crawl that is not over: %q, %t", r.Manifest.Done, r.Manifest.Clean)
		}
	})
}

// holds reports whether a version of an object has a gzip member with a response of host.
func holds(t *testing.T, b *objtest.Bucket, host string) bool {
	t.Helper()
	members := 0
	for _, versions := range b.All() {
		for _, data := range versions {
			for at := bytes.Index(data, []byte{0x1f, 0x8b, 8}); at >= 0; {
				if r, err := gzip.NewReader(bytes.NewReader(data[at:])); err == nil {
					r.Multistream(false)
					text, _ := io.ReadAll(r) // the last member of a pack may be cut
					members++
					if bytes.Contains(text, []byte("WARC-Target-URI: http://"+host+"/")) {
						return true
					}
				}
				next := bytes.Index(data[at+1:], []byte{0x1f, 0x8b, 8})
				if next < 0 {
					break
				}
				at += 1 + next
			}
		}
	}
	if members < 50 {
		t.Errorf("only %d gzip members in all objects", members)
	}
	return false
}

// TestBucket: backups in an object store that keeps old versions. After an erasure the next backup is made at once, and
// no version of any object has an erased page any more.
func TestBucket(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		b := &objtest.Bucket{Keeps: true}
		place := backup.Bucket(b, objstore.Place{Bucket: "b", Prefix: "crawl1"})
		l := newLife(t, *testworld.Seed, func(o *crawl.Options) { o.Limits.MaxPages = 150 })
		crawltest.WithBackup(&l.opt, place, time.Millisecond)
		crawltest.MustRun(t, t.Context(), l.opt)
		var hosts []string
		for url := range l.web.Log().Snapshot().Fetches {
			if u, err := urls.Parse(url); err == nil && !slices.Contains(hosts, u.Host) {
				hosts = append(hosts, u.Host)
			}
		}
		slices.Sort(hosts)
		i := slices.IndexFunc(hosts, func(host string) bool { return holds(t, b, host) })
		if i < 0 {
			t.Fatal("no pack has a page")
		}
		host := hosts[i]
		_, err := erase.Run(erase.Options{FS: l.fs, Dirs: l.opt.Disk.Dirs, RAMBytes: 64 << 20, Reason: "asked for",
			Source: erase.Source{Hosts: []string{host}}})
		must(t, err)
		l.opt.Limits.MaxPages = 200
		l.opt.Backup.Every = time.Hour
		crawltest.MustRun(t, t.Context(), l.opt)
		latest, err := backup.Backups(t.Context(), place)
		must(t, err)
		if n := len(latest.Backups); n != 1 || len(latest.Delete) > 0 {
			t.Errorf("%d backups, to be deleted: %v", n, latest.Delete)
		}
		if holds(t, b, host) {
			t.Errorf("a version of an object still has a page of %s", host)
		}
		l.opt.Disk.Dirs = []string{"r0", "r1"}
		_, err = backup.Restore(t.Context(), backup.RestoreOptions{Place: place, FS: l.fs, Dirs: l.opt.Disk.Dirs})
		must(t, err)
		testworld.CheckBalanced(t, l.fs, l.opt.Disk.Dirs)
	})
}

// TestRestoreWithStore: the lost machine has finished and put a file that was open at the backup. The restored crawl
// replaces it, and ends.
func TestRestoreWithStore(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		pages := &objtest.Bucket{}
		l := newLife(t, *testworld.Seed, func(o *crawl.Options) {
			o.Limits.MaxPages = 300
			crawltest.WithStore(o, pages)
		})
		l.opt.Backup.Every = time.Second
		crawltest.MustRun(t, t.Context(), l.opt)
		dirs := []string{"r0", "r1"}
		r, err := backup.Restore(t.Context(), backup.RestoreOptions{Place: l.place(), FS: l.fs, Dirs: dirs})
		must(t, err)
		if len(r.Manifest.Restored.Open) == 0 {
			t.Fatalf("no file was open: %+v", r.Manifest.Restored)
		}
		l.opt.Backup, l.opt.Disk.Dirs, l.opt.Limits.MaxPages = nil, dirs, 400
		crawltest.MustRun(t, t.Context(), l.opt)
	})
}

// TestSetBack: a crawl whose directories were set back to an earlier checkpoint is refused: its files have other bytes
// under the same names.
func TestSetBack(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l := newLife(t, *testworld.Seed, func(o *crawl.Options) { o.Limits.MaxPages = 60 })
		store := &objtest.Bucket{}
		crawltest.WithBackup(&l.opt, backup.Bucket(store, objstore.Place{Bucket: "b"}), time.Millisecond)
		crawltest.MustRun(t, t.Context(), l.opt)
		early := l.fs.Fork(1)
		l.opt.Limits.MaxPages = 120
		crawltest.MustRun(t, t.Context(), l.opt)
		l.fs, l.opt.Disk.FS = early, early
		if _, err := crawl.Run(t.Context(), l.opt); !errors.Is(err, backup.ErrElsewhere) {
			t.Errorf("a crawl that was set back is backed up: %v", err)
		}
	})
}

// TestLostList: an old backup whose list is lost does not stop later ones, and is forgotten.
func TestLostList(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		l := newLife(t, *testworld.Seed, func(o *crawl.Options) { o.Limits.MaxPages = 300 })
		l.opt.Backup.Every = time.Second
		crawltest.MustRun(t, t.Context(), l.opt)
		before, err := backup.Backups(t.Context(), l.place())
		must(t, err)
		if len(before.Backups) != backup.DefaultKeep {
			t.Fatalf("%d backups", len(before.Backups))
		}
		must(t, l.fs.Remove("place/"+before.Backups[1].Name))
		l.opt.Limits.MaxPages = 500
		crawltest.MustRun(t, t.Context(), l.opt)
		after, err := backup.Backups(t.Context(), l.place())
		must(t, err)
		if after.Backups[len(after.Backups)-1].Number == before.Backups[2].Number {
			t.Errorf("no later backup: %+v", after.Backups)
		}
	})
}
