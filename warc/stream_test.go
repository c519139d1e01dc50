package warc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// large returns an exchange with its body in Large.
func large(x *Exchange) *Exchange {
	y := *x
	y.Body, y.Large = nil, io.NewSectionReader(bytes.NewReader(x.Body), 0, int64(len(x.Body)))
	return &y
}

// saved makes everything in w final and returns the state.
func saved(t *testing.T, w *Writer, opt Options) *State {
	t.Helper()
	must(t, w.Roll())
	return checkpointOf(t, w, opt)
}

// checkpointOf returns the state of a committed checkpoint, with open files.
func checkpointOf(t *testing.T, w *Writer, opt Options) *State {
	t.Helper()
	f, st := uncommitted(t, w, opt)
	must(t, f.Commit())
	return st
}

// uncommitted saves a checkpoint and does not commit it.
func uncommitted(t *testing.T, w *Writer, opt Options) (*Frozen, *State) {
	t.Helper()
	f := w.Freeze()
	tails, err := disk.CreateTails(opt.State, 1)
	must(t, err)
	st, err := f.Save(tails)
	must(t, errors.Join(err, tails.Close()))
	return f, st
}

// TestStreamEqualsPrepare: the records and the index line of a streamed capture are those of a prepared one,
// but for the ids and the location.
func TestStreamEqualsPrepare(t *testing.T) { eachFormat(t, testStreamEqualsPrepare) }

func testStreamEqualsPrepare(t *testing.T, format func(*Options)) {
	noise := make([]byte, 200_000)
	rand.NewChaCha8([32]byte{}).Read(noise)
	ids := regexp.MustCompile(`<urn:uuid:[0-9a-f-]*>`)
	for name, change := range map[string]func(x *Exchange){
		"plain":      func(x *Exchange) {},
		"compressed": func(x *Exchange) { x.Body, x.Encoded = noise, true },
		"one block":  func(x *Exchange) { x.Body, x.Encoded = noise[:maxStored-len(recordEnd)], true },
		"long":       func(x *Exchange) { x.Body, x.Truncated = bytes.Repeat([]byte("page "), 60_000), "" },
		"chunks": func(x *Exchange) {
			x.Head = []byte(chunkedHead)
			x.Body, x.Chunked = fmt.Appendf(nil, "30d40\r\n%s\r\n5;a=b\r\nabcde\r\n0\r\n\r\n", noise), true
		},
		"bad chunks": func(x *Exchange) {
			x.Head, x.Body, x.Chunked = []byte(chunkedHead), []byte("5\r\nabcdefgh\r\n"), true
		},
		"no request": func(x *Exchange) { x.Request, x.Meta = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			opt := testOptions(memfs.New(1), 1)
			opt.BlockDigest = name == "long"
			format(&opt)
			w := open(t, opt, nil)
			e := w.NewEncoder()
			x := sampleExchange()
			change(x)
			var p Prepared
			must(t, e.Prepare(&p, x))
			want := texts(t, p.buf, opt.Dict)
			s, err := w.Stream(t.Context(), e, large(x), when)
			must(t, err)
			loc, err := w.Attach(s)
			must(t, err)
			st := saved(t, w, opt)
			data, err := disk.ReadFile(opt.Set.FS, "/out0/warc/"+loc.File)
			must(t, err)
			got := texts(t, data, opt.Dict)
			if len(got) != 1+len(want) {
				t.Fatalf("%d records, want %d and a warcinfo", len(got), len(want))
			}
			for i := range want {
				if ids.ReplaceAllString(got[i+1], "") != ids.ReplaceAllString(want[i], "") {
					t.Errorf("record %d: got\n%.600q\nwant\n%.600q", i, got[i+1], want[i])
				}
			}
			response := texts(t, data[loc.Offset:loc.Offset+loc.Length], opt.Dict)
			if len(response) != 1 || !strings.HasPrefix(response[0], "WARC/1.1\r\nWARC-Type: response\r\n") {
				t.Errorf("%d records at %+v", len(response), loc)
			}
			for _, most := range []int64{0, 100} { // whole blocks in RAM, and their beginnings
				sum, err := VerifyFiles(opt, st, Verify{MaxBlock: most})
				if err != nil || sum.Captures != 1 || sum.Lines != 1 || w.Counts().Bytes != int64(len(data)) {
					t.Errorf("blocks of up to %d in RAM: %v, %+v", most, err, sum)
				}
			}
		})
	}
}

// TestVerifyLarge: a wrong byte anywhere in a file with a block that does not fit into RAM is reported.
func TestVerifyLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	eachFormat(t, testVerifyLarge)
}

func testVerifyLarge(t *testing.T, format func(*Options)) {
	mem := memfs.New(1)
	opt := testOptions(mem, 1)
	format(&opt)
	w := open(t, opt, nil)
	x := sampleExchange()
	x.Body = bytes.Repeat([]byte("page "), 1000)
	if opt.Format == Zstd {
		x.Body = bytes.Repeat(x.Body, 30) // longer than wholeBytes
	}
	s, err := w.Stream(t.Context(), w.NewEncoder(), large(x), when)
	must(t, err)
	loc, err := w.Attach(s)
	must(t, err)
	st := saved(t, w, opt)
	name := "/out0/warc/" + loc.File
	data, err := disk.ReadFile(mem, name)
	must(t, err)
	text := textOf(mem, name) // bits between blocks do not change it
	f, err := mem.Open(name)
	must(t, err)
	for at := range data {
		f.WriteAt([]byte{data[at] ^ 4}, int64(at))
		if _, err := VerifyFiles(opt, st, Verify{MaxBlock: 100}); err == nil && textOf(mem, name) != text {
			t.Errorf("byte %d of %d: nothing said", at, len(data))
		}
		f.WriteAt(data[at:at+1], int64(at))
	}
}

// TestStreamLeavesNothingBehind: after an error, a discard or the end of the context no file is left, the
// Writer is usable, and no file counts as moved away.
func TestStreamLeavesNothingBehind(t *testing.T) { eachFormat(t, testStreamLeavesNothingBehind) }

func testStreamLeavesNothingBehind(t *testing.T, format func(*Options)) {
	mem := memfs.New(1)
	opt := testOptions(mem, 2)
	format(&opt)
	w := open(t, opt, nil)
	e := w.NewEncoder()
	x := sampleExchange()
	x.Body = make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(x.Body)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Stream(ended, e, large(x), when); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	short := large(x)
	short.Large = io.NewSectionReader(bytes.NewReader(x.Body), 0, 2<<20)
	if _, err := w.Stream(t.Context(), e, short, when); err == nil {
		t.Error("no error for a body that ends early")
	}
	mem.SetCapacity(500_000)
	if _, err := w.Stream(t.Context(), e, large(x), when); err == nil {
		t.Error("no error on a full disk")
	}
	mem.SetCapacity(1 << 30)
	s, err := w.Stream(t.Context(), e, large(x), when)
	must(t, err)
	must(t, s.Discard())
	for _, dir := range opt.Set.Paths {
		if names, err := mem.List(dir + "/warc"); err != nil || len(names) > 0 {
			t.Errorf("left in %s: %q, %v", dir, names, err)
		}
	}
	if _, err := w.Append(prepared(t, e, sampleExchange()), when); err != nil {
		t.Fatal(err)
	}
	if sum, err := VerifyFiles(opt, saved(t, w, opt), Verify{}); err != nil || sum.Captures != 1 ||
		sum.AbsentFiles != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
}

func prepared(t *testing.T, e *Encoder, x *Exchange) *Prepared {
	t.Helper()
	p := new(Prepared)
	must(t, e.Prepare(p, x))
	return p
}

// repeated is a body without memory that repeats a text.
type repeated string

func (r repeated) ReadAt(p []byte, off int64) (int, error) {
	for n := 0; n < len(p); {
		n += copy(p[n:], r[(off+int64(n))%int64(len(r)):])
	}
	return len(p), nil
}

// TestStreamMemory: the memory to stream a body does not depend on its size.
func TestStreamMemory(t *testing.T) { eachFormat(t, testStreamMemory) }

func testStreamMemory(t *testing.T, format func(*Options)) {
	dir := t.TempDir()
	set := disk.Set{FS: disk.OS(), Paths: []string{dir}}
	opt := Options{Set: set, State: set}
	format(&opt)
	w := open(t, opt, nil)
	e := w.NewEncoder()
	chunk := repeated("400\r\n" + strings.Repeat("x", 1<<10) + "\r\n")
	var took []uint64
	for _, size := range []int64{1 << 20, 1 << 20, 64 << 20} { // the first also makes the compressor
		x := sampleExchange()
		x.Head = []byte(chunkedHead)
		x.Body, x.Large, x.Chunked = nil, io.NewSectionReader(chunk, 0, size), true
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := w.Stream(t.Context(), e, x, when)
		must(t, err)
		runtime.ReadMemStats(&after)
		took = append(took, after.TotalAlloc-before.TotalAlloc)
		must(t, s.Discard())
	}
	if most := slices.Max(took[1:]); most > took[1]+64<<10 {
		t.Errorf("%d bytes of memory for 64 MiB, %d for 1 MiB", most, took[1])
	}
}

// FuzzChunks: eachChunk and copyChunks agree on every body.
func FuzzChunks(f *testing.F) {
	for _, s := range []string{"", "5\r\nabcde\r\n0\r\n\r\n", "5;x\nabcde\n3", "2\r\nabX", "2\r\nabXY",
		"-1\r\n", "zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var want, got bytes.Buffer
		valid := eachChunk([]byte(body), func(p []byte) { want.Write(p) })
		same, err := copyChunks(&got, strings.NewReader(body))
		if err != nil || same != valid || valid && got.String() != want.String() {
			t.Errorf("%q: got %q, %v, %v; want %q, %v", body, got.String(), same, err, want.String(), valid)
		}
	})
}

// chunkedHead is shorter than the beginning of a block that the tests hold in RAM.
const chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
