package warc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/damage"
)

// fuzzAllocBytes bounds what reading the small files of the fuzz tests may take from the heap. Most of it is the buffers of
// gzip readers, one for each place at which a record might go on.
const fuzzAllocBytes = 256 << 20

var fuzzDirs = []string{"/state", "/out0", "/out1"}

// soundFiles is a checkpointed writer: final files with indexes, closed ones that are to become final, open ones, tails.
type soundFiles struct {
	*damage.Case[State]
	captures []string
}

func newSoundFiles(f testing.TB) *soundFiles {
	mem, err := damage.Files{}.Write(fuzzDirs...)
	if err != nil {
		f.Fatal(err)
	}
	opt := fuzzOptions(mem)
	w, err := Open(opt, nil)
	if err != nil {
		f.Fatal(err)
	}
	e, n := w.NewEncoder(), 0
	batch := func(size int) {
		for range size {
			var p Prepared
			x := capture(n)
			x.Body = x.Body[:min(len(x.Body), 900)]
			if n++; e.Prepare(&p, x) != nil {
				f.Fatal("prepare")
			}
			if _, err := w.Append(&p, when.Add(time.Duration(n)*time.Second)); err != nil {
				f.Fatal(err)
			}
		}
	}
	batch(12)
	var st *State
	for gen := range uint64(2) { // what is closed by the second becomes final with its Commit, which doesn't come
		if err := w.Roll(); err != nil {
			f.Fatal(err)
		}
		batch(6)
		tails, err := disk.CreateTails(opt.State, gen+1)
		if err != nil {
			f.Fatal(err)
		}
		frozen := w.Freeze()
		if st, err = frozen.Save(tails); err != nil {
			f.Fatal(err)
		}
		if err := tails.Close(); err != nil {
			f.Fatal(err)
		}
		if gen == 0 {
			err = frozen.Commit()
		} else {
			err = disk.RemoveTails(opt.State, func(g uint64) bool { return g == gen+1 })
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	s := &soundFiles{Case: damage.NewCase(f, mem, fuzzDirs, st, fuzzAllocBytes)}
	var damages []error
	if s.captures, damages, err = verify(opt, st); err != nil || len(damages) > 0 || len(s.captures) != n || len(st.Files.Volumes) < 3 {
		f.Fatalf("%v, %v, %d captures of %d, %s", err, damages, len(s.captures), n, s.State)
	}
	return s
}

func fuzzOptions(mem *memfs.FS) Options {
	opt := testOptions(mem, 2)
	opt.FileBytes, opt.IndexBytes, opt.BufferBytes = 9_000, 6_000, 4096
	return opt
}

// verify returns what VerifyFiles finds, and what it finds damaged.
func verify(opt Options, st *State) (captures []string, damages []error, err error) {
	_, err = VerifyFiles(opt, st, Verify{
		MaxBlock: 1 << 20,
		Capture: func(c *Capture) error {
			captures = append(captures, fmt.Sprintf("%s %d %d %s %d %s", c.File, c.Offset, c.Length, c.URL, c.Status, c.Digest))
			return nil
		},
		Damaged: func(err error) error { damages = append(damages, err); return nil },
	})
	return captures, damages, err
}

// FuzzFiles damages WARC files, indexes, tails and the state. Damaged files: something is said that names a file of the
// same volume, or all captures are as they were; none that was not written is found. Damaged states: no panic, no
// large allocation, an end.
func FuzzFiles(f *testing.F) {
	damage.Fuzz(f, newSoundFiles(f).check)
}

// TestStates does everything that damage.Edit can do to the state, one at a time; without -long some of it.
func TestStates(t *testing.T) {
	s := newSoundFiles(t)
	s.Sweep(t, 4, *longFlag, s.check)
}

// check is the property of FuzzFiles.
func (s *soundFiles) check(t *testing.T, edits, flips []byte) {
	var captures []string
	var damages []error
	var err error
	changed := s.Use(t, edits, flips, func(fsys *memfs.FS, st *State) error {
		opt := fuzzOptions(fsys)
		captures, damages, err = verify(opt, st)
		Walk(opt, st, 1<<20, func(string, *Record) error { return nil })
		if w, err := Open(opt, st); err == nil {
			var p Prepared
			if err := w.NewEncoder().Prepare(&p, capture(1)); err == nil {
				w.Append(&p, when)
			}
			w.Freeze()
			w.Close()
		}
		return errors.Join(append(damages, err)...)
	})
	if len(edits) > 0 {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range captures {
		if !slices.Contains(s.captures, c) {
			t.Fatalf("capture %s was not written; damage %v", c, damages)
		}
	}
	if len(damages) == 0 && !slices.Equal(captures, s.captures) {
		t.Fatalf("nothing said of %v, but %d captures, want %d", changed, len(captures), len(s.captures))
	}
	if len(damages) > 0 && !slices.ContainsFunc(changed, func(file string) bool { return mentions(errors.Join(damages...), file) }) {
		t.Fatalf("%v mention none of %v", damages, changed)
	}
}

// mentions is true if err names the file, or the other file of its volume.
func mentions(err error, file string) bool {
	stem := file[strings.LastIndexByte(file, '/')+1:]
	stem, _, _ = strings.Cut(stem, ".")
	return strings.Contains(err.Error(), stem)
}

// indexLine is the index line of an exchange.
func indexLine(x *Exchange) []byte {
	w := Writer{}
	var p Prepared
	if w.NewEncoder().Prepare(&p, x) != nil {
		return nil
	}
	return appendIndexTail(p.index, Location{File: "f", Offset: 5, Length: 9})
}

// FuzzIndexLine: a line is taken only if its fields give it back, and a capture's line is always one.
func FuzzIndexLine(f *testing.F) {
	for n := range 4 {
		x := capture(n)
		line := indexLine(x)
		f.Add(string(line), "http://a.example/ \n\x00\xff\"\\", "text/html", "/x")
	}
	f.Add("com,example)/ 20260101000000 {\"url\": \"\\ud800\", \"filename\": \"f\", \"offset\": \"9223372036854775807\"}\n", "", "", "")
	f.Fuzz(func(t *testing.T, text, url, mime, redirect string) {
		at, l, err := parseLine(text, "f")
		if err == nil {
			again, l2, err := parseLine(text, "f")
			if err != nil || again != at || l2 != l {
				t.Fatalf("%q: %d %+v, then %d %+v, %v", text, at, l, again, l2, err)
			}
		}
		x := sampleExchange()
		x.URL, x.MIME, x.Redirect = []byte(url), mime, redirect
		if url == "" {
			return // Prepare takes none
		}
		line := string(indexLine(x))
		if strings.Count(line, "\n") != 1 || strings.Count(line, "\x00") > 0 {
			t.Fatalf("%q: not one line", line)
		}
		at, l, err = parseLine(line, "f")
		if err != nil || at != 5 || l.length != 9 || l.status != x.Status {
			t.Fatalf("%q: %d %+v %v", line, at, l, err)
		}
	})
}
