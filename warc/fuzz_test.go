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

// fuzzAllocBytes bounds the heap allocations of reading the small files of the fuzz tests. Most are the
// buffers of gzip readers, one for each place at which a record might begin.
const fuzzAllocBytes = 256 << 20

var fuzzDirs = []string{"/state", "/out0", "/out1"}

// soundFiles is a checkpointed writer with final files and indexes, closed ones that are not final yet, open
// ones, and tails.
type soundFiles struct {
	*damage.Case[State]
	captures []string
	options  func(*memfs.FS) Options
}

func newSoundFiles(f testing.TB, fuzzOptions func(*memfs.FS) Options) *soundFiles {
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
	// Files closed by the second Save become final with its Commit, which is not called.
	for gen := range uint64(2) {
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
	s := &soundFiles{Case: damage.NewCase(f, mem, fuzzDirs, st, fuzzAllocBytes), options: fuzzOptions}
	var damages []error
	if s.captures, damages, err = verify(opt, st); err != nil || len(damages) > 0 || len(s.captures) != n ||
		len(st.Files.Volumes) < 3 {
		f.Fatalf("%v, %v, %d captures of %d, %s", err, damages, len(s.captures), n, s.State)
	}
	return s
}

func gzOptions(mem *memfs.FS) Options {
	opt := testOptions(mem, 2)
	opt.FileBytes, opt.IndexBytes, opt.BufferBytes = 9_000, 6_000, 4096
	return opt
}

func zstOptions(mem *memfs.FS) Options {
	opt := gzOptions(mem)
	opt.Format, opt.Dict = Zstd, testDict
	return opt
}

// verify returns the captures and damages that VerifyFiles finds.
func verify(opt Options, st *State) (captures []string, damages []error, err error) {
	_, err = VerifyFiles(opt, st, Verify{
		MaxBlock: 1 << 20,
		Capture: func(c *Capture) error {
			captures = append(captures,
				fmt.Sprintf("%s %d %d %s %d %s", c.File, c.Offset, c.Length, c.URL, c.Status, c.Digest))
			return nil
		},
		Damaged: func(err error) error { damages = append(damages, err); return nil },
	})
	return captures, damages, err
}

// FuzzFiles damages WARC files, indexes, tails and the state. With damaged files, either damage is reported
// for a file of the same volume or all captures are unchanged; no capture appears that was not written. With
// a damaged state, reading ends without a panic or a large allocation.
func FuzzFiles(f *testing.F) { damage.Fuzz(f, newSoundFiles(f, gzOptions).check) }

// FuzzZstFiles is FuzzFiles with zst files that have a dictionary.
func FuzzZstFiles(f *testing.F) { damage.Fuzz(f, newSoundFiles(f, zstOptions).check) }

// TestStates applies each edit of damage.Edit to the state, one at a time; without -long only some.
func TestStates(t *testing.T) {
	for _, options := range []func(*memfs.FS) Options{gzOptions, zstOptions} {
		s := newSoundFiles(t, options)
		s.Sweep(t, 4, *longFlag, s.check)
	}
}

// check checks the property of FuzzFiles.
func (s *soundFiles) check(t *testing.T, edits, flips []byte) {
	var captures []string
	var damages []error
	var err error
	changed := s.Use(t, edits, flips, func(fsys *memfs.FS, st *State) error {
		opt := s.options(fsys)
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
	must(t, err)
	for _, c := range captures {
		if !slices.Contains(s.captures, c) {
			t.Fatalf("capture %s was not written; damage %v", c, damages)
		}
	}
	if len(damages) == 0 && !slices.Equal(captures, s.captures) {
		t.Fatalf("nothing said of %v, but %d captures, want %d", changed, len(captures), len(s.captures))
	}
	if len(damages) > 0 &&
		!slices.ContainsFunc(changed, func(file string) bool { return mentions(errors.Join(damages...), file) }) {
		t.Fatalf("%v mention none of %v", damages, changed)
	}
}

// mentions reports whether err names the file, or the other file of its volume.
func mentions(err error, file string) bool {
	stem := file[strings.LastIndexByte(file, '/')+1:]
	stem, _, _ = strings.Cut(stem, ".")
	return strings.Contains(err.Error(), stem)
}

// indexLine returns the index line of an exchange.
func indexLine(x *Exchange) []byte {
	w := Writer{}
	var p Prepared
	if w.NewEncoder().Prepare(&p, x) != nil {
		return nil
	}
	return appendIndexTail(p.index, Location{File: "f", Offset: 5, Length: 9})
}

// FuzzIndexLine: a line is accepted only if its fields reproduce it, and the line of a capture always does.
func FuzzIndexLine(f *testing.F) {
	for n := range 4 {
		x := capture(n)
		line := indexLine(x)
		f.Add(string(line), "http://a.example/ \n\x00\xff\"\\", "text/html", "/x")
	}
	f.Add("com,example)/ 20260101000000 {\"url\": \"\\ud800\", \"filename\": \"f\", \"offset\": "+
		"\"9223372036854775807\"}\n", "", "", "")
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
			return // Prepare rejects it
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
