package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/objstore"
	"drumbeat/internal/objstore/objtest"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
)

// storedCrawl is a finished crawl with an object store, whose copies tests damage.
type storedCrawl struct {
	t      *testing.T
	fs     *memfs.FS
	finals *finals
	bucket *objtest.Bucket
	opt    Options
	prefix string   // of the keys
	warcs  []string // names of WARC files
}

func newStoredCrawl(t *testing.T) *storedCrawl {
	t.Helper()
	s := &storedCrawl{t: t, fs: memfs.New(*seedFlag), bucket: &objtest.Bucket{}}
	s.finals = newFinals(s.fs)
	s.opt = simOptions(t, smallWeb(t, nil), s.finals)
	withStore(&s.opt, s.bucket)
	if _, err := Run(t.Context(), s.opt); err != nil {
		t.Fatal(err)
	}
	s.prefix = "pages/" + crawlID(t, s.fs, s.opt.Disk.Dirs) + "/0/"
	for _, name := range slices.Sorted(maps.Keys(s.finals.seen)) {
		if strings.HasSuffix(name, ".warc.gz") {
			s.warcs = append(s.warcs, name)
		}
	}
	if len(s.warcs) < 8 {
		t.Fatalf("%d WARC files", len(s.warcs))
	}
	return s
}

func indexOf(name string) string { return strings.TrimSuffix(name, ".warc.gz") + ".cdxj" }

// here returns where a WARC file or index is, or was.
func (s *storedCrawl) here(name string) string {
	for _, dir := range s.opt.Disk.Dirs {
		if _, err := s.fs.Size(dir + "/warc/" + indexOf(name)); err == nil {
			return dir + "/warc/" + name
		}
	}
	s.t.Fatalf("no index beside %s", name)
	return ""
}

// write writes a file here.
func (s *storedCrawl) write(path string, data string) {
	if err := disk.WriteFileAtomic(s.fs, path, []byte(data)); err != nil {
		s.t.Fatal(err)
	}
}

// flip returns data with a wrong byte in its middle.
func flip(data string) string {
	b := []byte(data)
	b[len(b)/2] ^= 1
	return string(b)
}

// audit audits with the store.
func (s *storedCrawl) audit(mode audit.Remote) *audit.DeepReport {
	s.t.Helper()
	look := lookAt(s.fs, s.opt.Disk.Dirs, s.bucket)
	look.Remote = mode
	rep, err := audit.Deep(look)
	if err != nil {
		s.t.Fatal(err)
	}
	return rep
}

func (s *storedCrawl) repair(change func(*repair.Options)) *repair.Report {
	s.t.Helper()
	rep, err := repairOf(s.t, s.fs, &s.opt, func(o *repair.Options) {
		o.OpenStore = lookAt(nil, nil, s.bucket).OpenStore
		if change != nil {
			change(o)
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return rep
}

// wantWhole checks that all objects, all indexes and all other files here are those that the crawl wrote.
func (s *storedCrawl) wantWhole() {
	s.t.Helper()
	objects := s.bucket.Objects()
	for name, data := range s.finals.seen {
		if got := objects[s.prefix+name]; string(got) != data {
			s.t.Errorf("%s: the object has %d bytes, want %d", name, len(got), len(data))
		}
	}
	for name, data := range outputFiles(s.t, s.fs, s.opt.Disk.Dirs) {
		if base := name[strings.LastIndex(name, "/")+1:]; s.finals.seen[base] != data {
			s.t.Errorf("%s has %d bytes, want %d", name, len(data), len(s.finals.seen[base]))
		}
	}
	for _, name := range s.warcs {
		s.here(name)
	}
	if rep := s.audit(audit.RemoteRead); !rep.Balanced() || !rep.Output.StoredAll {
		s.t.Errorf("audit: %v, %v", rep.Bad, rep.Damages)
	}
	if rep := s.repair(nil); !rep.Nothing() || len(rep.Left) > 0 {
		s.t.Errorf("there is still something to repair: %q, %q", rep.Actions, rep.Left)
	}
}

// harm damages and removes files here and objects in the store; path has the files here.
func (s *storedCrawl) harm(path []string) {
	s.t.Helper()
	w, seen := s.warcs, s.finals.seen
	s.write(indexOf(path[0]), flip(seen[indexOf(w[0])]))
	s.write(path[2], flip(seen[w[2]]))                    // killed before the file was removed, and damaged since
	s.write(path[3], seen[w[3]][:100])                    // likewise
	s.bucket.Remove(s.prefix + w[4])                      // the file here is put again
	s.write(path[4], seen[w[4]])                          //
	s.bucket.Set(s.prefix+w[5], []byte(flip(seen[w[5]]))) // likewise
	s.write(path[5], seen[w[5]])                          //
	s.bucket.Remove(s.prefix + indexOf(w[5]))             // the index here too
	s.bucket.Remove(s.prefix + w[6])                      // nothing is here
	if err := s.fs.Remove(indexOf(path[1])); err != nil {
		s.t.Fatal(err)
	}
}

// TestRepairObjects: a file that is damaged or missing here comes back from the store, an object that is
// damaged or missing there is put again, and what has no whole copy is named. A dry run says the same and
// changes nothing.
func TestRepairObjects(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newStoredCrawl(t)
		w, seen := s.warcs, s.finals.seen
		s.wantWhole()
		path := make([]string, 7)
		for i := range path {
			path[i] = s.here(w[i])
		}
		s.harm(path)
		rep := s.audit(audit.RemoteHead)
		if !rep.Damaged[audit.NameStore] || rep.Damaged[state.NameObjects] || len(rep.Bad) > 0 || rep.DamageCount != 7 {
			t.Errorf("%d damages: %v, %v", rep.DamageCount, rep.Damages, rep.Bad)
		}
		want := []string{
			fmt.Sprintf("fetch %s from the object store: it is damaged here", indexOf(path[0])),
			fmt.Sprintf("fetch %s from the object store: it is missing here", indexOf(path[1])),
			fmt.Sprintf("fetch %s from the object store: it is damaged here", path[2]),
			fmt.Sprintf("fetch %s from the object store: it is damaged here", path[3]),
			fmt.Sprintf("put %s into the object store again: it is missing there", path[4]),
			fmt.Sprintf("put %s into the object store again: it is damaged there", path[5]),
			fmt.Sprintf("put %s into the object store again: it is missing there", indexOf(path[5])),
		}
		slices.Sort(want)
		before, objects, calls := s.fs.Fork(1), s.bucket.Objects(), len(s.bucket.Calls())
		check := func(rep *repair.Report) {
			t.Helper()
			if got := slices.Sorted(slices.Values(rep.Actions)); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			if len(rep.Left) != 1 || !strings.Contains(rep.Left[0], "1 damaged or missing files have no whole copy") {
				t.Errorf("left: %q", rep.Left)
			}
			if rep.Forgotten+rep.Unnamed+rep.Links+rep.Unseen+rep.Doubled > 0 {
				t.Errorf("lost: %+v", rep)
			}
		}
		check(s.repair(func(o *repair.Options) { o.DryRun = true }))
		if !maps.Equal(outputFiles(t, s.fs, s.opt.Disk.Dirs), outputFiles(t, before, s.opt.Disk.Dirs)) ||
			!maps.EqualFunc(s.bucket.Objects(), objects, bytes.Equal) {
			t.Error("a dry run changed something")
		}
		s.checkReadOnly(calls)
		check(s.repair(nil))
		if aside, err := s.fs.List(strings.TrimSuffix(path[2], "/warc/"+w[2]) + "/state/damaged"); err != nil ||
			len(aside) == 0 {
			t.Errorf("the damaged files are not aside: %v, %v", aside, err)
		}
		if rep := s.audit(audit.RemoteHead); rep.DamageCount == 0 || rep.Damaged[state.NameObjects] {
			t.Errorf("the lost object: %v", rep.Damages)
		}
		s.write(path[6], seen[w[6]]) // a copy of the operator
		if rep := s.repair(nil); len(rep.Actions) != 1 || len(rep.Left) > 0 {
			t.Errorf("with a copy: %q, left %q", rep.Actions, rep.Left)
		}
		s.wantWhole()
		if _, err := Run(t.Context(), s.opt); err != nil && !errors.Is(err, state.ErrFinished) {
			t.Fatal(err)
		}
		for _, name := range outputNames(s.fs, s.opt.Disk.Dirs) {
			if !strings.HasSuffix(name, ".cdxj") {
				t.Errorf("%s is still here", name)
			}
		}
		s.wantWhole()
	})
}

// checkReadOnly: the calls of the store from the given one on have read only.
func (s *storedCrawl) checkReadOnly(calls int) {
	s.t.Helper()
	for _, call := range s.bucket.Calls()[calls:] {
		if !strings.HasPrefix(call, "Head ") && !strings.HasPrefix(call, "Get ") {
			s.t.Errorf("a dry run calls %s", call)
		}
	}
}

// TestRepairObjectsKilled kills repairs, or cuts the power, at operations on the disk in turn, all with
// -long: the next one ends with all copies whole.
func TestRepairObjectsKilled(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newStoredCrawl(t)
		whole := s.fs.Fork(1)
		kills := 0
		for cut := 1; ; cut += longOr(1, 11) {
			s.fs = whole.Fork(uint64(cut))
			path := [3]string{s.here(s.warcs[0]), s.here(s.warcs[1]), s.here(s.warcs[2])}
			s.write(indexOf(path[0]), flip(s.finals.seen[indexOf(s.warcs[0])]))
			s.write(path[2], s.finals.seen[s.warcs[2]])
			s.bucket.Set(s.prefix+s.warcs[2], []byte("damaged"))
			must(t, s.fs.Remove(indexOf(path[1])))
			s.fs.CrashAfter(cut)
			_, err := repairOf(t, s.fs, &s.opt,
				func(o *repair.Options) { o.OpenStore = lookAt(nil, nil, s.bucket).OpenStore })
			if err == nil {
				s.fs.CrashAfter(0)
				break
			}
			kills++
			if !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("cut %d: %v", cut, err)
			}
			if cut%2 == 0 {
				s.fs = s.fs.Kill()
			} else {
				s.fs = s.fs.Crash()
			}
			s.repair(nil)
			s.wantWhole()
			if t.Failed() {
				t.Fatalf("cut %d", cut)
			}
		}
		t.Logf("%d kills", kills)
	})
}

// lying is a bucket that says that its objects are whole, and returns wrong bytes.
type lying struct{ objstore.Bucket }

// Get implements objstore.Bucket.
func (l lying) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := l.Bucket.Get(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return io.NopCloser(strings.NewReader(flip(string(data)))), err
}

// TestRepairObjectsFails: if the store does not answer, or has other bytes than it says, a repair ends with
// an error and takes nothing away. Without the store it leaves the damage.
func TestRepairObjectsFails(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newStoredCrawl(t)
		name := indexOf(s.here(s.warcs[0]))
		damaged := flip(s.finals.seen[indexOf(s.warcs[0])])
		s.write(name, damaged)
		open := lookAt(nil, nil, s.bucket).OpenStore
		for _, call := range []string{"Head", "Get"} {
			s.bucket.Before = func(c, _ string) error {
				if c == call {
					return errors.New("503 SlowDown")
				}
				return nil
			}
			if _, err := repairOf(t, s.fs, &s.opt, func(o *repair.Options) { o.OpenStore = open }); err == nil ||
				!strings.Contains(err.Error(), "SlowDown") {
				t.Errorf("%s fails: %v", call, err)
			}
		}
		s.bucket.Before = nil
		liar := func(objstore.Place) (objstore.Bucket, error) { return lying{s.bucket}, nil }
		if _, err := repairOf(t, s.fs, &s.opt, func(o *repair.Options) { o.OpenStore = liar }); err == nil ||
			!strings.Contains(err.Error(), "want SHA-256") {
			t.Errorf("the store has other bytes than it says: %v", err)
		}
		if rep := s.repair(func(o *repair.Options) { o.Remote = audit.RemoteOff }); len(rep.Left) == 0 ||
			slices.ContainsFunc(rep.Actions, func(a string) bool { return strings.HasPrefix(a, "fetch") }) {
			t.Errorf("without the store: %q, left %q", rep.Actions, rep.Left)
		}
		if got := contentOf(t, s.fs, name); string(got) != damaged {
			t.Errorf("%s has %d bytes", name, len(got))
		}
		if _, err := s.fs.Size(name + ".tmp"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s.tmp: %v", name, err)
		}
		s.repair(nil)
		s.wantWhole()
	})
}
