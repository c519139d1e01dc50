package dirs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"drumbeat/crawl/dirs"
	"drumbeat/crawl/options"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
)

// run is a run of a crawl, as far as this room goes: it opens the directories and writes a manifest.
type run struct {
	disk  options.Disk
	lanes int
	walk  bool
}

// open opens a crawl in directories of fsys.
func (r run) open(fsys disk.FS) (s *state.Saved, err error) {
	r.disk.FS = fsys
	r.disk.Defaults()
	s = state.NewSaved(fsys, r.disk.Dirs, r.disk.Out)
	defer func() { err = errors.Join(err, s.Unlock()) }()
	d := dirs.New(s, dirs.Options{Log: slog.New(slog.DiscardHandler), Disk: &r.disk, Walk: r.walk,
		Count: func() error { return nil }, Accept: func(*state.Manifest) error { return nil },
		Lanes: func(*state.Manifest) (int, error) { return max(1, r.lanes), nil }})
	if err := d.Take(); err != nil {
		return s, err
	}
	frozen, err := d.Open()
	if err != nil {
		return s, err
	}
	m := &state.Manifest{Gen: 1, Crawl: s.CrawlID, Frozen: frozen, Parts: map[string]json.RawMessage{}}
	for _, name := range state.Structures {
		m.Parts[name] = json.RawMessage("{}")
	}
	if s.Manifest != nil {
		m.Gen = s.Manifest.Gen + 1
	}
	data, err := state.EncodeManifest(m)
	if err != nil {
		return s, err
	}
	return s, s.WriteManifest(data)
}

// two is a crawl in two directories, out one with its output in another.
var (
	two = run{disk: options.Disk{Dirs: []string{"d0", "d1"}}}
	out = run{disk: options.Disk{Dirs: []string{"d0"}, Out: []string{"o0"}}}
)

// with returns r after change.
func (r run) with(change func(*run)) run { change(&r); return r }

// TestSameCrawl: a crawl is opened again with its directories in any order, by the same keys. Directories
// that are missing, foreign, new, in use or not mounted are refused, and nothing appears in them.
func TestSameCrawl(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  run
		change func(*run)
		want   error // nil: it is opened
	}{
		{"again", two, func(*run) {}, nil},
		{"other order", two, func(r *run) { r.disk.Dirs = []string{"d1", "d0"} }, nil},
		{"twice", two, func(r *run) { r.disk.Dirs = []string{"d0", "d1", "d0"} }, errors.ErrUnsupported},
		{"is missing", two, func(r *run) { r.disk.Dirs = []string{"d1"} }, state.ErrIncompatible},
		{"a new one", two, func(r *run) { r.disk.Dirs = []string{"d0", "d1", "d2"} }, state.ErrIncompatible},
		{"a new one that is named", two, func(r *run) {
			r.disk.Dirs, r.disk.AddDirs = []string{"d0", "d1", "d2"}, []string{"d2"}
		}, nil},
		{"--new", two, func(r *run) { r.disk.New = true }, state.ErrExists},
		{"other lanes", two, func(r *run) { r.lanes = 3 }, state.ErrIncompatible},
		{"a walk", two, func(r *run) { r.walk = true }, state.ErrIncompatible},
		{"output apart", out, func(*run) {}, nil},
		{"is a disk not mounted?", out, func(r *run) { r.disk.Out = []string{"empty"} },
			state.ErrIncompatible},
		{"a new output", out, func(r *run) { r.disk.Out = []string{"o0", "o1"} }, state.ErrIncompatible},
		{"a new output that is named", out, func(r *run) {
			r.disk.Out, r.disk.AddOut = []string{"o0", "o1"}, []string{"o1"}
		}, nil},
		{"but no --out is given", out, func(r *run) { r.disk.Out = nil }, state.ErrIncompatible},
		{"is in its state directories", two, func(r *run) { r.disk.Out = []string{"o0"} },
			state.ErrIncompatible},
	} {
		mem := memfs.New(1)
		first, err := c.first.open(mem)
		if err != nil {
			t.Fatalf("%s: a new crawl: %v", c.name, err)
		}
		before := names(t, mem)
		again, err := c.first.with(c.change).open(mem)
		switch {
		case c.want == nil && (err != nil || again.CrawlID != first.CrawlID || again.Manifest == nil ||
			again.HostKey([]byte("a.test")) != first.HostKey([]byte("a.test"))):
			t.Errorf("%s: %v; crawl %s, was %s", c.name, err, again.CrawlID, first.CrawlID)
		case c.want != nil && (err == nil || c.want != errors.ErrUnsupported && !errors.Is(err, c.want)):
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		case c.want != nil && strings.Contains(c.name, "is ") && !strings.Contains(err.Error(), c.name):
			t.Errorf("got %v, want an error that says %q", err, c.name)
		}
		if after := names(t, mem); c.want != nil && !slices.Equal(before, after) {
			t.Errorf("%s: refused, but it left %q, there was %q", c.name, after, before)
		}
		if _, err := c.first.open(mem); c.want != nil && err != nil {
			t.Errorf("%s: the crawl is spoilt: %v", c.name, err)
		}
	}
}

// names returns all files.
func names(t *testing.T, mem *memfs.FS) (list []string) {
	t.Helper()
	for _, dir := range []string{"d0", "d0/state", "d1", "d1/state", "d2", "o0", "o1", "empty"} {
		files, err := mem.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, f := range files {
			list = append(list, dir+"/"+f)
		}
	}
	return list
}

// TestNewDirectoryIsNamed: the error about a new directory names it, and the crawl.
func TestNewDirectoryIsNamed(t *testing.T) {
	mem := memfs.New(1)
	if _, err := out.open(mem); err != nil {
		t.Fatal(err)
	}
	var added *dirs.NewDirectoryError
	_, err := out.with(func(r *run) { r.disk.Out = []string{"o0", "o1"} }).open(mem)
	if !errors.As(err, &added) || added.New != "o1" || !added.Out ||
		!strings.Contains(err.Error(), "the crawl in d0") {
		t.Errorf("got %v", err)
	}
	lock, err := mem.Lock("d0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.open(mem); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("a directory in use: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	o := out.disk
	if o.FS = mem; dirs.Check(o) != nil {
		t.Errorf("check: %v", dirs.Check(o))
	}
	if o.Out = []string{"empty"}; !errors.Is(dirs.Check(o), state.ErrIncompatible) {
		t.Errorf("check of a disk that is not mounted: %v", dirs.Check(o))
	}
}

// TestSuffixListIsNamed: a changed list of public suffixes, also one that lost whole lines and is still
// valid, is refused with an error that names the file.
func TestSuffixListIsNamed(t *testing.T) {
	mem := memfs.New(1)
	if _, err := two.open(mem); err != nil {
		t.Fatal(err)
	}
	f, err := mem.Open("d0/" + state.SuffixesName)
	if err != nil {
		t.Fatal(err)
	}
	data, err := disk.ReadFile(mem, f.Name())
	if err == nil {
		err = f.Truncate(int64(bytes.LastIndexByte(data[:len(data)/2], '\n') + 1))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := two.open(mem); !errors.Is(err, state.ErrIncompatible) ||
		!strings.Contains(err.Error(), "d0/"+state.SuffixesName) {
		t.Errorf("got %v", err)
	}
}

// TestCopiesAreMended: each directory has the secret and the manifest; a copy that is gone comes back.
func TestCopiesAreMended(t *testing.T) {
	mem := memfs.New(1)
	for range 2 {
		if _, err := two.open(mem); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{state.SecretName, state.ManifestName} {
			a, err := disk.ReadFile(mem, "d0/"+name)
			b, err2 := disk.ReadFile(mem, "d1/"+name)
			if err = errors.Join(err, err2); err != nil || !bytes.Equal(a, b) {
				t.Errorf("copies of %s: %v", name, err)
			}
			if err := mem.Remove("d1/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCutAnywhere: a run that is cut at any operation while it opens the directories of a new crawl, of one
// with another directory, or of one with damaged copies leaves a crawl that opens. The secret that a manifest
// belongs to stays.
func TestCutAnywhere(t *testing.T) {
	more := func(r *run) {
		r.disk.Dirs, r.disk.AddDirs = append(slices.Clone(r.disk.Dirs), "d9"), []string{"d9"}
	}
	for _, c := range []struct {
		name  string
		first *run // nil: the crawl is new
		then  run
	}{{"new", nil, two}, {"new, output apart", nil, out}, {"more", &two, two.with(more)},
		{"more, output apart", &out, out.with(more)}} {
		for n, ends := 1, false; !ends; n++ {
			for _, power := range []bool{false, true} {
				mem := memfs.New(uint64(n))
				var key uint64
				if c.first != nil {
					s, err := c.first.open(mem)
					if err != nil {
						t.Fatal(err)
					}
					key = s.HostKey([]byte("a.test"))
				}
				mem.CrashAfter(n)
				_, err := c.then.open(mem)
				if ends = err == nil; ends {
					break
				}
				if !errors.Is(err, disk.ErrCrashed) {
					t.Fatalf("%s, cut at %d: %v", c.name, n, err)
				}
				if mem = mem.Kill(); power {
					mem = mem.Crash()
				}
				s, err := c.then.open(mem)
				if err != nil {
					t.Errorf("%s, cut at %d, power %t: %v", c.name, n, power, err)
				} else if key != 0 && s.HostKey([]byte("a.test")) != key {
					t.Errorf("%s, cut at %d, power %t: the crawl has other keys", c.name, n, power)
				}
			}
		}
	}
}
