package crawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl/options"
	"drumbeat/crawl/output"
	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/objstore"
	"drumbeat/internal/objstore/objtest"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
)

// finals is a file system that keeps a copy of each output file when it gets its final name.
type finals struct {
	disk.FS
	mu   *sync.Mutex
	seen map[string]string
}

func newFinals(fsys disk.FS) *finals {
	return &finals{FS: fsys, mu: new(sync.Mutex), seen: map[string]string{}}
}

// on returns the same over another file system.
func (f *finals) on(fsys disk.FS) *finals { return &finals{FS: fsys, mu: f.mu, seen: f.seen} }

// Rename implements disk.FS.
func (f *finals) Rename(from, to string) error {
	var data []byte
	dir := path.Base(path.Dir(to))
	if dir == "warc" || dir == "log" {
		var err error
		if data, err = disk.ReadFile(f.FS, from); err != nil {
			return err
		}
	}
	err := f.FS.Rename(from, to)
	if err == nil && data != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if was, twice := f.seen[path.Base(to)]; twice && was != string(data) {
			return fmt.Errorf("%s got its final name twice, with other bytes", to)
		}
		f.seen[path.Base(to)] = string(data)
	}
	return err
}

// storePlace is the place of the objects of tests.
var storePlace = objstore.Place{Bucket: "b", Prefix: "pages"}

// withStore gives a crawl an object store, and small files.
func withStore(opt *Options, b objstore.Bucket) {
	opt.ObjectStore = &output.ObjectStoreOptions{Bucket: b, Place: storePlace, PartBytes: 20_000, SpoolBytes: 10 << 20}
	opt.Output.WARCFileBytes, opt.Disk.CheckpointEvery, opt.Output.RollEvery = 100_000, time.Second, 3*time.Second
}

// checkObjects checks that the objects are all finished output files, byte for byte, and that the local ones
// are gone but for indexes.
func checkObjects(t *testing.T, b *objtest.Bucket, f *finals, crawl string, dirs []string) {
	t.Helper()
	warcs := checkObjectsOf(t, b, f, crawl+"/0", dirs)
	if n := len(b.Objects()); n != len(f.seen) || warcs < 3 || b.Pending() != 0 {
		t.Errorf("%d objects of %d files, %d WARC files, %d unfinished uploads", n, len(f.seen), warcs, b.Pending())
	}
}

// checkObjectsOf does so for the objects of a node, whose keys begin with of. It returns the number of WARC files.
func checkObjectsOf(t *testing.T, b *objtest.Bucket, f *finals, of string, dirs []string) (warcs int) {
	t.Helper()
	objects := b.Objects()
	for name, data := range f.seen {
		if got, ok := objects["pages/"+of+"/"+name]; !ok || string(got) != data {
			t.Errorf("%s: in the store: %v, with the same bytes: %v", name, ok, string(got) == data)
		}
		if strings.HasSuffix(name, ".warc.gz") {
			warcs++
		}
	}
	for _, name := range outputNames(f.FS, dirs) {
		if !strings.HasSuffix(name, ".cdxj") {
			t.Errorf("%s is still here", name)
		}
	}
	return warcs
}

// restored returns a file system with the crawl's state and all finished files, as if there had been no store.
func restored(t *testing.T, f *finals, dirs []string) disk.FS {
	t.Helper()
	for name, data := range f.seen {
		sub := "/log/"
		if !strings.HasSuffix(name, ".jsonl.zst") {
			sub = "/warc/"
		}
		if _, err := f.FS.Size(dirs[0] + sub + name); errors.Is(err, fs.ErrNotExist) &&
			!strings.HasSuffix(name, ".cdxj") {
			dir := dirs[0]
			for _, d := range dirs { // beside its index
				if _, err := f.FS.Size(d + sub + strings.TrimSuffix(name, ".warc.gz") + ".cdxj"); err == nil {
					dir = d
				}
			}
			if _, err := f.FS.Size(dir + sub + name); err == nil {
				continue
			}
			must(t, disk.WriteFileAtomic(f.FS, dir+sub+name, []byte(data)))
		}
	}
	return f.FS
}

// lookAt returns options of an audit that finds the objects in a bucket.
func lookAt(fsys disk.FS, dirs []string, b objstore.Bucket) audit.Options {
	return audit.Options{FS: fsys, Dirs: dirs,
		OpenStore: func(objstore.Place) (objstore.Bucket, error) { return b, nil }}
}

// checkRestored audits a crawl deeply with all its files.
func checkRestored(t *testing.T, f *finals, dirs []string) {
	t.Helper()
	rep, err := audit.Deep(audit.Options{FS: restored(t, f, dirs), Dirs: dirs, Remote: audit.RemoteOff})
	if err != nil || !rep.Balanced() || !rep.Output.StoredAll || !rep.Output.RefusedAll {
		t.Errorf("deep audit: %v, %+v", err, rep)
	}
}

// crawlID returns the id of a crawl.
func crawlID(t *testing.T, fsys disk.FS, dirs []string) string {
	t.Helper()
	m, err := disk.MatchIdentities(fsys, dirs, state.KindState)
	must(t, err)
	return m.Crawl
}

// TestObjectStore: a crawl's finished files are in the store, and leave only then.
func TestObjectStore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		f, b := newFinals(memfs.New(*seedFlag)), &objtest.Bucket{}
		b.Before = func(string, string) error { time.Sleep(20 * time.Millisecond); return nil }
		opt := simOptions(t, web, f)
		withStore(&opt, b)
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != StopDone {
			t.Fatalf("%v, %+v", err, res.Snapshot.Uploads)
		}
		checkFetched(t, web, &opt)
		checkBalanced(t, f, opt.Disk.Dirs)
		checkObjects(t, b, f, crawlID(t, f, opt.Disk.Dirs), opt.Disk.Dirs)
		var last string
		for _, call := range b.Calls() {
			if key, ok := strings.CutPrefix(call, "Complete "); ok {
				if data := strings.TrimSuffix(key, ".cdxj") +
					".warc.gz"; strings.HasSuffix(key, ".cdxj") && last != data {
					t.Errorf("%s was put after %s", key, last)
				}
				last = key
			}
		}
		u := res.Snapshot.Uploads
		if u.Files != int64(len(f.seen)) || u.Objects != u.Files || u.Waiting != 0 || u.Faults != 0 || u.Failing != "" {
			t.Errorf("figures %+v of %d files", u, len(f.seen))
		}
		calls := len(b.Calls())
		if _, err := Run(t.Context(), opt); !errors.Is(err, state.ErrFinished) {
			t.Errorf("again: %v", err)
		}
		if more := b.Calls()[calls:]; len(more) != 1 {
			t.Errorf("a finished crawl made the calls %q", more)
		}
		other := opt
		other.ObjectStore = nil
		if _, err := Run(t.Context(), other); !errors.Is(err, state.ErrIncompatible) ||
			!strings.Contains(err.Error(), "s3://b/pages") {
			t.Errorf("without the store: %v", err)
		}
		other.ObjectStore = &output.ObjectStoreOptions{Bucket: b, Place: objstore.Place{Bucket: "c"}}
		if _, err := Run(t.Context(), other); !errors.Is(err, state.ErrIncompatible) ||
			!strings.Contains(err.Error(), "s3://c") {
			t.Errorf("with another store: %v", err)
		}
		checkRestored(t, f, opt.Disk.Dirs)
	})
}

// TestObjectStoreKilled kills a crawl at one call of the store after another, before and after it is done,
// and between Complete, the manifest and the removal of local files. Power cuts take turns with kills.
func TestObjectStoreKilled(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web, mem := smallWeb(t, nil), memfs.New(*seedFlag)
		f, b := newFinals(mem), &objtest.Bucket{}
		var opt Options
		kills, done := map[string]int{}, false
		const latency = 100 * time.Millisecond
		places := []string{"before Create", "after Create", "before PutPart", "after PutPart", "before Complete",
			"after Complete", "before Head", "after Head", "there", "named"}
		runs := 0
		for run := 0; !done; run++ {
			runs++
			if run > 400 {
				t.Fatal("no end")
			}
			f = f.on(mem)
			opt = simOptions(t, web, f)
			withStore(&opt, b)
			opt.Output.WARCFileBytes = 60_000
			var mu sync.Mutex
			var next *memfs.FS
			at, left := places[run%len(places)], 1+run%3
			kill := func(place string) error {
				mu.Lock()
				defer mu.Unlock()
				if next == nil && place == at {
					if left--; left == 0 {
						kills[at]++
						if next = mem.Kill(); run%4 >= 2 {
							next = next.Crash()
						}
					}
				}
				if next != nil {
					return disk.ErrCrashed
				}
				return nil
			}
			b.Before = func(call, _ string) error {
				time.Sleep(latency)
				if call == "PutPart" && at == "before PutPart" {
					time.Sleep(2 * opt.Disk.CheckpointEvery) // a manifest has the upload's id
				}
				return kill("before " + call)
			}
			b.After = func(call, _ string) error { return kill("after " + call) }
			opt.tests.hook = func(place string) { kill(place) }
			res, err := Run(t.Context(), opt)
			switch {
			case next != nil:
				mem = next
				checkHere(t, b, f.on(mem), opt.Disk.Dirs)
			case errors.Is(err, state.ErrFinished): // the last kills came after the end
				done = true
			case err != nil:
				t.Fatalf("run %d: %v", run, err)
			default:
				done = res.Stop == StopDone
			}
		}
		checkUploaded(t, b, f.on(mem), opt.Disk.Dirs)
		if !slices.ContainsFunc(b.Calls(), func(call string) bool { return strings.HasPrefix(call, "Parts ") }) {
			t.Error("no upload went on with the id in the manifest")
		}
		t.Logf("kills: %v in %d runs", kills, runs)
		checkPlaces(t, places, kills)
	})
}

// checkPlaces: the crawl was killed at each place.
func checkPlaces(t *testing.T, places []string, kills map[string]int) {
	t.Helper()
	for _, at := range places {
		if kills[at] == 0 {
			t.Errorf("never killed %s", at)
		}
	}
}

// checkUploaded: the store has all files, and they are as they were here.
func checkUploaded(t *testing.T, b *objtest.Bucket, f *finals, dirs []string) {
	t.Helper()
	checkBalanced(t, f, dirs)
	checkObjects(t, b, f, crawlID(t, f, dirs), dirs)
	checkRestored(t, f, dirs)
}

// checkHere checks that each finished file is here or in the store, whole.
func checkHere(t *testing.T, b *objtest.Bucket, f *finals, dirs []string) {
	t.Helper()
	id := crawlID(t, f, dirs)
	objects := b.Objects()
	here := map[string]bool{}
	for _, name := range outputNames(f, dirs) {
		here[strings.TrimSuffix(path.Base(name), ".open")] = true // a power cut may undo a name
	}
	for name, data := range f.seen {
		got, there := objects["pages/"+id+"/0/"+name]
		if there && string(got) != data {
			t.Errorf("%s has other bytes in the store", name)
		}
		if !there && !here[name] {
			t.Errorf("%s is lost", name)
		}
	}
}

// TestObjectStoreAway: without the store a crawl rests when the spool is full, and continues by itself. Its
// errors are told once a minute.
func TestObjectStoreAway(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		f, b := newFinals(memfs.New(*seedFlag)), &objtest.Bucket{}
		opt := simOptions(t, web, f)
		withStore(&opt, b)
		opt.ObjectStore.SpoolBytes = 250_000
		opt.Disk.WhenFull = options.WhenFullStop // which is about disks
		log := new(logCounter)
		opt.Observe.Log = log.logger()
		began, away := time.Now(), 20*time.Minute
		b.Before = func(string, string) error {
			if time.Since(began) < away {
				return errors.New("503 SlowDown")
			}
			return nil
		}
		rested := time.Duration(0)
		opt.Observe.Snapshot = func(s *Snapshot) {
			if strings.Contains(s.Wait.Text, "--spool") && s.Uploads.Failing != "" {
				rested += opt.Observe.SnapshotEvery
			}
			// Files are counted at checkpoints: what is stored in a second comes on top.
			if s.Uploads.WaitingBytes > opt.ObjectStore.SpoolBytes+6*opt.Output.WARCFileBytes+200_000 {
				t.Errorf("%d bytes wait", s.Uploads.WaitingBytes)
			}
		}
		opt.Observe.SnapshotEvery = time.Second
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != StopDone {
			t.Fatalf("%v, %+v", err, res.Snapshot.Uploads)
		}
		if rested < away/2 || res.Snapshot.Uploads.Faults == 0 || res.Snapshot.Uploads.Failing != "" {
			t.Errorf("rested %v; %+v", rested, res.Snapshot.Uploads)
		}
		if n := log.count("the object store did not accept a file"); n < 3 || n > int(away/time.Minute)+1 {
			t.Errorf("%d errors in the log in %v", n, away)
		}
		if log.count("fetching pauses until the object store") == 0 ||
			log.count("the object store accepts files again") != 1 || log.count("too little disk space") != 0 ||
			log.count("the object store does not answer") != 1 {
			t.Errorf("log: %v", log.texts)
		}
		checkFetched(t, web, &opt)
		checkObjects(t, b, f, crawlID(t, f, opt.Disk.Dirs), opt.Disk.Dirs)
	})
}

// TestObjectStoreLeft: a crawl that ends while the store is away says what is left; the next run of the
// finished crawl puts it.
func TestObjectStoreLeft(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		f, b := newFinals(memfs.New(*seedFlag)), &objtest.Bucket{}
		opt := simOptions(t, web, f)
		withStore(&opt, b)
		b.Before = func(call, _ string) error {
			if call == "Complete" {
				return errors.New("500")
			}
			return nil
		}
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != StopDone || res.Snapshot.Uploads.Waiting < 3 {
			t.Fatalf("%v, %+v", err, res.Snapshot.Uploads)
		}
		checkBalanced(t, f, opt.Disk.Dirs)
		ctx, stop := context.WithCancel(t.Context())
		stop() // a stopped run leaves them
		if _, err := Run(ctx, opt); err != nil && !errors.Is(err, state.ErrFinished) || len(b.Objects()) > 0 {
			t.Fatalf("stopped: %v, %d objects", err, len(b.Objects()))
		}
		b.Before = nil
		// URLs may be due again by now, so that the crawl continues.
		if res, err = Run(t.Context(), opt); err != nil && !errors.Is(err, state.ErrFinished) ||
			res.Snapshot.Uploads.Waiting != 0 {
			t.Fatalf("again: %v, %+v", err, res.Snapshot.Uploads)
		}
		checkBalanced(t, f, opt.Disk.Dirs)
		checkObjects(t, b, f, crawlID(t, f, opt.Disk.Dirs), opt.Disk.Dirs)
		checkRestored(t, f, opt.Disk.Dirs)
	})
}

// TestObjectStoreForeign: another object of a file's name ends the crawl with a clear error and a checkpoint.
// When it is gone, the crawl continues.
func TestObjectStoreForeign(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		f, b := newFinals(memfs.New(*seedFlag)), &objtest.Bucket{}
		opt := simOptions(t, web, f)
		withStore(&opt, b)
		foreign := ""
		b.Before = func(call, key string) error {
			if call == "Head" && foreign == "" && len(b.Objects()) > 2 {
				foreign = key
				b.Set(key, []byte("another"))
			}
			return nil
		}
		_, err := Run(t.Context(), opt)
		if !errors.Is(err, objstore.ErrForeign) || !errors.Is(err, state.ErrIncompatible) ||
			!strings.Contains(err.Error(), foreign) {
			t.Fatalf("got %v", err)
		}
		if string(b.Objects()[foreign]) != "another" {
			t.Fatal("the object was overwritten")
		}
		if _, m, err := lastManifest(f, opt.Disk.Dirs); err != nil || !m.Clean {
			t.Fatalf("no clean checkpoint: %v", err)
		}
		b.Remove(foreign)
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != StopDone {
			t.Fatalf("%v, %+v", err, res.Snapshot.Uploads)
		}
		checkFetched(t, web, &opt)
		checkObjects(t, b, f, crawlID(t, f, opt.Disk.Dirs), opt.Disk.Dirs)
	})
}

// TestObjectStoreRefused: a store that refuses access ends a crawl at its start, and only there. A file that
// is moved away before the store has it is left out.
func TestObjectStoreRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		f, b := newFinals(memfs.New(*seedFlag)), &objtest.Bucket{}
		opt := simOptions(t, web, f)
		withStore(&opt, b)
		denied := fmt.Errorf("%w: 403 AccessDenied", objstore.ErrDenied)
		b.Before = func(string, string) error { return denied }
		if _, err := Run(t.Context(), opt); !errors.Is(err, state.ErrIncompatible) ||
			!strings.Contains(err.Error(), "AccessDenied") {
			t.Fatalf("got %v", err)
		}
		n, moved := 0, ""
		b.Before = func(call, key string) error {
			if n++; n > 20 && n < 25 {
				return denied
			}
			if call == "Create" && moved == "" && strings.HasSuffix(key, ".warc.gz") {
				moved = path.Base(key)
				for _, dir := range opt.Disk.Dirs {
					f.Remove(dir + "/warc/" + moved) // it is in one of them
				}
				return errors.New("500")
			}
			return nil
		}
		res, err := Run(t.Context(), opt)
		if err != nil || res.Stop != StopDone || res.Snapshot.Uploads.Faults != 5 || moved == "" {
			t.Fatalf("%v, %+v, moved %q", err, res.Snapshot.Uploads, moved)
		}
		delete(f.seen, moved)
		delete(f.seen, strings.TrimSuffix(moved, ".warc.gz")+".cdxj")
		checkObjects(t, b, f, crawlID(t, f, opt.Disk.Dirs), opt.Disk.Dirs)
	})
}

// logCounter counts log lines by message.
type logCounter struct {
	mu    sync.Mutex
	texts map[string]int
}

func (l *logCounter) logger() *slog.Logger {
	l.texts = map[string]int{}
	return slog.New(countHandler{slog.DiscardHandler, l})
}

func (l *logCounter) count(prefix string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for text, times := range l.texts {
		if strings.HasPrefix(text, prefix) {
			n += times
		}
	}
	return n
}

type countHandler struct {
	slog.Handler
	l *logCounter
}

// Enabled implements slog.Handler.
func (countHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h countHandler) Handle(_ context.Context, r slog.Record) error {
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	h.l.texts[r.Message]++
	return nil
}

// TestObjectStoreListDamaged: a deep audit names damage in the list of objects, repair keeps the rest, and
// the crawl opens again.
func TestObjectStoreListDamaged(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		mem := memfs.New(*seedFlag)
		f, b := newFinals(mem), &objtest.Bucket{}
		opt := simOptions(t, web, f)
		withStore(&opt, b)
		opt.tests.tune = func(p *plan.Plan) { p.QueueBlockBytes = 1000 }
		mustRun(t, t.Context(), opt)
		damaged := ""
		for _, dir := range opt.Disk.Dirs {
			names, _ := mem.List(dir + "/state/objects")
			for _, name := range names {
				damaged = dir + "/state/objects/" + name
			}
		}
		file, err := mem.Open(damaged)
		must(t, err)
		size, err := file.Size()
		must(t, err)
		if _, err := file.WriteAt([]byte("damage"), size-10); err != nil {
			t.Fatal(err)
		}
		file.Close()
		look := audit.Options{FS: mem, Dirs: opt.Disk.Dirs, Remote: audit.RemoteOff}
		rep, err := audit.Deep(look)
		if err != nil || !rep.Damaged[state.NameObjects] || rep.DamageCount == 0 {
			t.Fatalf("%v, %+v", err, rep.Damaged)
		}
		fixed, err := repair.Run(repair.Options{Options: look})
		must(t, err)
		if text := fmt.Sprint(fixed); !strings.Contains(text, "no command reads them there") {
			t.Errorf("repair says %s", text)
		}
		if rep, err = audit.Deep(look); err != nil || !rep.Balanced() {
			t.Errorf("after the repair: %v, %v", err, rep.Bad)
		}
		left := int64(0)
		for _, s := range rep.Structures {
			if s.Name == state.NameObjects {
				left = s.Records
			}
		}
		if all := int64(len(f.seen)); left == 0 || left >= all {
			t.Errorf("%d of %d records are left", left, all)
		}
		if _, err := Run(t.Context(), opt); err != nil && !errors.Is(err, state.ErrFinished) {
			t.Errorf("the next run: %v", err)
		}
	})
}
