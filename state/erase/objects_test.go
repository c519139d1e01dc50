package erase_test

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
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
	"drumbeat/state/erase"
)

// storedIn crawls a part of a small web into a bucket.
func storedIn(t *testing.T, b *objtest.Bucket) *world {
	web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages, o.Robots.ServerError = 1500, 0.2 })
	mem := memfs.New(*testworld.Seed)
	opt := crawltest.SimOptions(t, web, mem)
	opt.Budgets.QueuePages, opt.Order.StockTarget, opt.Limits.MaxPages = crawl.Unlimited, 100, 250
	opt.Output.ArchiveRobots, opt.Output.ArchiveDNS, opt.Output.WARCFileBytes = true, true, 60_000
	opt.Disk.CheckpointEvery, opt.Output.RollEvery = time.Second, 10*time.Second
	crawltest.WithStore(&opt, b)
	crawltest.MustRun(t, t.Context(), opt)
	return &world{fs: mem, opt: opt, web: web}
}

// stored is a crawl with all finished files in its object store.
func stored(t *testing.T) *world { return storedIn(t, &objtest.Bucket{}) }

var errAway = errors.New("the store is away")

// halfStored is a crawl whose store went away: some files wait, of one an upload is under way, and of another the store
// has an object that the crawl does not know.
func halfStored(t *testing.T) *world {
	b := &objtest.Bucket{}
	completes := 0
	b.After = func(call, _ string) error {
		if call == "Complete" {
			completes++
		}
		if completes >= 9 && (call == "Complete" || call == "PutPart") {
			return errAway
		}
		return nil
	}
	b.Before = func(call, _ string) error {
		if completes >= 9 {
			return errAway
		}
		return nil
	}
	w := storedIn(t, b)
	b.Before, b.After = nil, nil
	key := ""
	r, m := w.open(t)
	defer func() { must(t, r.Unlock()) }()
	for _, name := range w.local(t) {
		key = m.Store.Key(m.Crawl, path.Base(name))
		if _, there := b.Objects()[key]; !there {
			break
		}
	}
	id, err := b.Create(t.Context(), key, &objstore.Sums{})
	must(t, err)
	b.NoSums = true
	_, err = b.PutPart(t.Context(), key, id, objstore.Part{Number: 1, Size: 4}, strings.NewReader("part"))
	must(t, err)
	b.NoSums = false
	return w
}

// local returns the finished WARC files and logs that are here.
func (w *world) local(t testing.TB) (files []string) {
	for _, dir := range w.opt.Disk.Dirs {
		for _, sub := range []string{"/warc", "/log"} {
			names, err := w.fs.List(dir + sub)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			for _, name := range names {
				if ext := path.Ext(name); ext == ".gz" || ext == ".zst" {
					files = append(files, dir+sub+"/"+name)
				}
			}
		}
	}
	return files
}

// bucket returns the crawl's bucket; nil without one.
func (w *world) bucket() *objtest.Bucket {
	if w.opt.ObjectStore == nil {
		return nil
	}
	return w.opt.ObjectStore.Bucket.(*objtest.Bucket)
}

func (w *world) openStore(objstore.Place) (objstore.Bucket, error) { return w.bucket(), nil }

// fork returns a copy.
func (w *world) fork(seed uint64) *world {
	one := w.on(w.fs.Fork(seed))
	if b := w.bucket(); b != nil {
		o := *w.opt.ObjectStore
		o.Bucket = b.Fork()
		one.opt.ObjectStore = &o
	}
	return one
}

// audit audits deeply. All objects are those of the list, or of files that wait, in one version, and uploads are
// those of files that wait.
func (w *world) audit(t *testing.T) *audit.DeepReport {
	t.Helper()
	if w.bucket() == nil {
		return testworld.Deep(t, w.fs, w.opt.Disk.Dirs)
	}
	rep, err := audit.Deep(audit.Options{FS: w.fs, Dirs: w.opt.Disk.Dirs, RAMBytes: 1 << 20, Remote: audit.RemoteRead,
		OpenStore: w.openStore})
	must(t, err)
	r, m := w.open(t)
	defer func() { must(t, r.Unlock()) }()
	listed := map[string]bool{}
	for i := range r.Objects {
		listed[m.Store.Key(m.Crawl, r.Objects[i].File)] = true
	}
	waits := map[string]string{} // the crawl may have put one and not known it
	for _, name := range w.local(t) {
		data, err := disk.ReadFile(w.fs, name)
		must(t, err)
		waits[m.Store.Key(m.Crawl, path.Base(name))] = string(data)
		if strings.Contains(name, "-e1.warc") && listed[m.Store.Key(m.Crawl, path.Base(name))] {
			t.Errorf("%s is here and in the store", name)
		}
	}
	for _, key := range w.bucket().Under() {
		if waits[key] == "" {
			t.Errorf("an upload of %s is under way", key)
		}
	}
	for key, versions := range w.bucket().All() {
		if !listed[key] && waits[key] != string(versions[0]) || len(versions) != 1 {
			t.Errorf("the store has %d versions of %s, which is listed: %v", len(versions), key, listed[key])
		}
	}
	return rep
}

// changesOf returns the calls of a bucket that change an object, by key.
func changesOf(calls []string) map[string]bool {
	all := map[string]bool{}
	for _, call := range calls {
		name, key, _ := strings.Cut(call, " ")
		switch name {
		case "Create", "PutPart", "Complete", "Delete", "Abort":
			if path.Base(key) != "0" && path.Base(key) != "access-check" {
				all[key] = true
			}
		}
	}
	return all
}

// TestStore erases hosts of a crawl whose files are in an object store. A dry run changes nothing there; objects
// without a change stay as they are; the crawl resumes with the store.
func TestStore(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) *world{"stored": stored, "half stored": halfStored,
		"versions": func(t *testing.T) *world { return storedIn(t, &objtest.Bucket{Keeps: true}) }} {
		t.Run(name, func(t *testing.T) { testworld.InBubble(t, func(t *testing.T) { testStore(t, make(t)) }) })
	}
}

func testStore(t *testing.T, w *world) {
	b, whole := w.bucket(), len(w.local(t)) == 0
	host := ""
	for i := range 2 {
		before, objects, was := w.read(t), b.Objects(), len(b.Calls())
		hosts := before.hosts()
		host = hosts[i]
		if i == 1 {
			host = hosts[len(hosts)-1] // it is named once
		}
		opt := w.options(erase.Source{Hosts: []string{host}})
		opt.DryRun = true
		dry, err := erase.Run(opt)
		must(t, err)
		if now := b.Calls()[was:]; len(changesOf(now)) > 0 || slices.ContainsFunc(now,
			func(c string) bool { return strings.HasPrefix(c, "Check") }) {
			t.Errorf("a dry run made the calls %q", now)
		}
		was = len(b.Calls())
		opt.DryRun = false
		rep, err := erase.Run(opt)
		must(t, err)
		if dry.Record.Erased != rep.Record.Erased || i == 0 && rep.Record.Erased.Files == 0 || len(rep.Left) > 0 {
			t.Errorf("the dry run has %+v, the erasure %+v; left is %v", dry.Record.Erased, rep.Record, rep.Left)
		}
		changed, same, replaced := changesOf(b.Calls()[was:]), 0, int64(0)
		now := b.Objects()
		for key, data := range objects {
			if string(now[key]) != string(data) {
				replaced++
			} else if same++; changed[key] {
				t.Errorf("%s has its bytes, and was written", key)
			}
		}
		if got := rep.Record.Store.Replaced; i == 0 && whole && got == 0 || got > replaced || i == 1 && same == 0 {
			t.Errorf("%d objects are replaced, %d as reported, %d not", replaced, got, same)
		}
		w.check(t, before, hostOf(host), "//"+host+"/")
	}
	w.opt.Limits.MaxPages, w.opt.Limits.Linger = 0, 6*time.Hour
	res, err := crawl.Run(t.Context(), w.opt)
	must(t, err)
	if res.Snapshot.Uploads.Waiting > 0 {
		t.Errorf("at the end %d files wait", res.Snapshot.Uploads.Waiting)
	}
	if rep := w.audit(t); !rep.Balanced() {
		t.Errorf("at the end: %q, %v", rep.Bad, rep.Damages)
	}
}

// TestStoreRequests: the process is killed before or after each request to the store. The same command ends the
// erasure.
func TestStoreRequests(t *testing.T) {
	testworld.NotShort(t)
	for name, make := range map[string]func(t *testing.T) *world{"half stored": halfStored,
		"versions": func(t *testing.T) *world { return storedIn(t, &objtest.Bucket{Keeps: true}) }} {
		t.Run(name, func(t *testing.T) {
			testworld.InBubble(t, func(t *testing.T) {
				w := make(t)
				before := w.read(t)
				src, gone := before.source()
				whole := w.fork(1)
				_, err := erase.Run(whole.options(src()))
				must(t, err)
				requests := len(whole.bucket().Calls())
				step := testworld.LongOr(1, max(1, requests/12))
				kills := 0
				for n := 1; n <= requests; n += step {
					kills += cutRequest(t, w, src, before, gone, n)
				}
				t.Logf("%d requests, %d kills", requests, kills)
			})
		})
	}
}

func cutRequest(t *testing.T, w *world, src func() erase.Source, before *found, gone func(string) bool,
	n int) (kills int) {
	t.Helper()
	for _, after := range []bool{false, true} {
		one := w.fork(uint64(n))
		calls := 0
		at := func(_, _ string) error {
			if calls++; calls >= n {
				return disk.ErrCrashed
			}
			return nil
		}
		b := one.bucket()
		if after {
			b.After = at
		} else {
			b.Before = at
		}
		if _, err := erase.Run(one.options(src())); !errors.Is(err, disk.ErrCrashed) {
			t.Fatalf("cut at request %d: %v", n, err)
		}
		kills++
		b.Before, b.After = nil, nil
		one.fs = one.fs.Crash()
		if _, err := erase.Run(one.options(src())); err != nil {
			t.Fatalf("after the cut at request %d: %v", n, err)
		}
		one.check(t, before, gone)
		if t.Failed() {
			t.Fatalf("cut at request %d, after it: %v", n, after)
		}
	}
	return kills
}

// TestStoreAway: a store that fails some requests is asked again. One that does not answer ends the command, which says
// whether something has changed, and continues.
func TestStoreAway(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := stored(t)
		before := w.read(t)
		src, gone := before.source()
		calls := 0
		w.bucket().Before = func(string, string) error {
			if calls++; calls%7 == 0 {
				return errAway
			}
			return nil
		}
		one := w.fork(1)
		one.bucket().Before = w.bucket().Before
		_, err := erase.Run(one.options(src()))
		must(t, err)
		one.bucket().Before = nil
		one.check(t, before, gone)
		for call, begun := range map[string]bool{"Check": false, "Get": false, "Complete": true, "Versions": true} {
			for _, as := range []error{errAway, objstore.ErrDenied} {
				if call == "Versions" && as == objstore.ErrDenied {
					continue // TestStoreLeft
				}
				one = w.fork(1)
				one.bucket().Before = func(name, _ string) error {
					if name == call {
						return as
					}
					return nil
				}
				var away *erase.StoreError
				_, err := erase.Run(one.options(src()))
				if !errors.As(err, &away) || away.Begun != begun || !errors.Is(err, as) ||
					strings.Contains(err.Error(), "nothing was changed") == begun {
					t.Errorf("%s fails: %v", call, err)
				}
				one.bucket().Before = nil
				_, err = erase.Run(one.options(src()))
				must(t, err)
				one.check(t, before, gone)
			}
		}
	})
}

// TestStoreStart: a crawl that starts finishes an erasure in its object store with its own bucket, wherever the erasure
// was interrupted.
func TestStoreStart(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := halfStored(t)
		before := w.read(t)
		src, gone := before.source()
		for call, n := range map[string]int{"Complete": 1, "Delete": 2, "Versions": 3} {
			one := w.fork(1)
			b := one.bucket()
			b.After = func(name, _ string) error {
				if name == call {
					n--
				}
				if n <= 0 {
					return disk.ErrCrashed
				}
				return nil
			}
			if _, err := erase.Run(one.options(src())); !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("cut after %s: %v", call, err)
			}
			b.After, one.fs = nil, one.fs.Crash()
			if _, err := one.fs.Size("d0/" + state.EraseName); err != nil {
				t.Fatalf("cut after %s: no erasure is under way: %v", call, err)
			}
			was := len(b.Calls())
			one.start(t)
			if len(b.Calls()) == was {
				t.Errorf("cut after %s: the crawl has not called the store", call)
			}
			for url, where := range one.read(t).named {
				if gone(strings.TrimPrefix(url, "urn:rendered:")) && !strings.HasPrefix(where, "log") {
					t.Errorf("cut after %s: %s is named by %s", call, url, where)
				}
			}
		}
	})
}

// TestStoreLeft: what the store does not delete is reported and recorded. The next erasure deletes it when it may.
func TestStoreLeft(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			keeps  bool
			locked bool
			refuse string
		}{"locked": {true, true, ""}, "no right to name versions": {true, false, "Versions"},
			"no right to delete": {false, false, "Delete"}} {
			w := storedIn(t, &objtest.Bucket{Keeps: c.keeps})
			before := w.read(t)
			src, gone := before.source()
			b, lock := w.bucket(), c.locked
			b.Locked = func(key, version string) bool { return lock }
			b.Before = func(call, _ string) error {
				if call == c.refuse {
					return objstore.ErrDenied
				}
				return nil
			}
			rep, err := erase.Run(w.options(src()))
			must(t, err)
			if len(rep.Left) == 0 || rep.Left[0].Why == "" || len(rep.Left) != len(rep.Record.Store.Left) ||
				(rep.Left[0].Versions == 0) != (c.refuse == "Versions") {
				t.Errorf("%s: left is %+v", name, rep.Left)
			}
			all, err := erase.RecordsOf(w.fs, w.opt.Disk.Dirs)
			must(t, err)
			if len(erase.LeftOf(all)) != len(rep.Left) {
				t.Errorf("%s: the records have %+v", name, all)
			}
			kept := 0
			for _, versions := range b.All() {
				kept += len(versions)
			}
			again := func() *erase.Report {
				rep, err := erase.Run(w.options(erase.Source{URLs: []string{"http://unknown.test/y"}}))
				must(t, err)
				return rep
			}
			if second := again(); len(second.Left) != len(rep.Left) {
				t.Errorf("%s: still left is %+v", name, second.Left)
			}
			lock, b.Before = false, nil
			if third := again(); len(third.Left) != 0 {
				t.Errorf("%s: in the end left is %+v", name, third.Left)
			}
			for _, versions := range b.All() {
				kept -= len(versions)
			}
			if kept < len(rep.Left) {
				t.Errorf("%s: %d versions went, %d objects were left", name, kept, len(rep.Left))
			}
			w.check(t, before, func(url string) bool { return gone(url) || url == "http://unknown.test/y" })
		}
	})
}
