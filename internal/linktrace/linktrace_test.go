package linktrace

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	gosync "sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
)

const traceName = "t/links"

func newFS(t testing.TB) *memfs.FS {
	t.Helper()
	fs := memfs.New(1)
	must(t, fs.MkdirAll("t"))
	return fs
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustCreate(t testing.TB, fs disk.FS, limit int64, ended func(error)) *Writer {
	t.Helper()
	w, err := Create(Options{FS: fs, Path: traceName, LimitBytes: limit, Ended: ended})
	must(t, err)
	return w
}

// readAll returns the keys of a trace, read in pieces.
func readAll(fs disk.FS, piece int) ([]uint64, Summary, error) {
	r, err := Open(fs, traceName)
	if err != nil {
		return nil, Summary{}, err
	}
	defer r.Close()
	var all []uint64
	for buf := make([]uint64, piece); ; {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil || n < piece {
			return all, r.Summary(), err
		}
	}
}

// TestTrace: the keys added are read in order, across several openings and with a torn block at the end.
func TestTrace(t *testing.T) {
	fs, rng := newFS(t), rand.New(rand.NewPCG(1, 2))
	var want []uint64
	for opening := 1; opening <= 4; opening++ {
		w := mustCreate(t, fs, 1<<30, func(err error) { t.Error(err) })
		for range 300 {
			keys := make([]drum.Key, rng.IntN(200))
			for i := range keys {
				keys[i] = drum.Key(rng.Uint64())
				want = append(want, uint64(keys[i]))
			}
			w.Add(keys)
			if rng.IntN(30) == 0 { // let the writer catch up: the queue holds maxQueued blocks
				w.mu.Lock()
				queued := len(w.blocks)
				w.mu.Unlock()
				if queued > maxQueued/2 {
					t.Fatalf("%d blocks are queued", queued)
				}
			}
		}
		must(t, w.Close())
		must(t, w.Close())
		got, sum, err := readAll(fs, 1+rng.IntN(20_000))
		must(t, err)
		if !slices.Equal(got, want) || sum.Links != int64(len(want)) || sum.Generations != opening {
			t.Fatalf("opening %d: got %d links, %+v, want %d", opening, len(got), sum, len(want))
		}
		// A kill during a write leaves a torn block.
		f, err := fs.Open(traceName)
		must(t, err)
		_, err = f.WriteAt(appendBlock(nil, head{keys: 3, generation: uint32(opening), first: uint64(sum.Links)},
			[]drum.Key{1, 2, 3})[:opening*10], sum.EndBytes)
		must(t, errors.Join(err, f.Close()))
		if got, sum, err := readAll(fs, 1000); err != nil || len(got) != len(want) ||
			sum.CutBytes != int64(opening)*10 {
			t.Fatalf("opening %d: got %d links, %+v, %v with a torn block", opening, len(got), sum, err)
		}
	}
}

// TestGolden holds the bytes of a trace of three links.
func TestGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the time is 2000-01-01
		fs := newFS(t)
		w, err := Create(Options{FS: fs, Path: traceName, LimitBytes: 1 << 20, HostDelay: 40 * time.Second,
			Pages: func() int64 { return 258 }})
		must(t, err)
		w.Add([]drum.Key{0x0102030405060708, 0, 0xffffffffffffffff})
		must(t, w.Close())
		f, err := fs.OpenRead(traceName)
		must(t, err)
		defer f.Close()
		got := make([]byte, 200)
		n, _ := f.ReadAt(got, 0)
		want := "drumbeatltrc\x02\x00\x00\x00" + strings.Repeat("\x00", 16) + "\x8a\x9e\x9d\xc8\xce\xd9\xf0\xc2" +
			"\x03\x00\x00\x00\x01\x00\x00\x00" + strings.Repeat("\x00", 8) +
			"\x00\xac\xcf\x6a\xdc\x00\x00\x00" + "\x02\x01\x00\x00\x00\x00\x00\x00" +
			"\x40\x9c\x00\x00\x00\x00\x00\x00" +
			"\x08\x07\x06\x05\x04\x03\x02\x01" + strings.Repeat("\x00", 8) + strings.Repeat("\xff", 8)
		sum := xxhash.Sum64String(want[disk.HeaderBytes:])
		for i := range 8 {
			want += string([]byte{byte(sum >> (8 * i))})
		}
		if string(got[:n]) != want {
			t.Errorf("got\n%x\nwant\n%x", got[:n], want)
		}
	})
}

// TestOldVersion: a trace of version 1 can be read, has no rates, and is not appended to.
func TestOldVersion(t *testing.T) {
	old := "drumbeatltrc\x01\x00\x00\x00" + strings.Repeat("\x00", 16) + "\xd0\x7b\x0a\x82\xf9\x4c\xa9\x82" +
		"\x03\x00\x00\x00\x01\x00\x00\x00" + strings.Repeat("\x00", 8) +
		"\x08\x07\x06\x05\x04\x03\x02\x01" + strings.Repeat("\x00", 8) + strings.Repeat("\xff", 8) +
		"\xab\xe9\xa2\xe5\x3e\x81\xb7\xd4"
	fs := newFS(t)
	f, err := fs.Create(traceName)
	must(t, err)
	_, err = f.WriteAt([]byte(old), 0)
	must(t, errors.Join(err, f.Close()))
	keys, sum, err := readAll(fs, 2)
	must(t, err)
	if pages, links := sum.Rates(); !slices.Equal(keys, []uint64{0x0102030405060708, 0, 0xffffffffffffffff}) ||
		pages != 0 || links != 0 {
		t.Errorf("got %x, %v pages/s, %v links per page", keys, pages, links)
	}
	if _, err := Create(Options{FS: fs, Path: traceName, LimitBytes: 1 << 20}); err == nil ||
		!strings.Contains(err.Error(), "format version 1") {
		t.Errorf("appending to it: %v", err)
	}
}

// TestRates: the rates are those of the time in which the trace was written, without the time between two runs.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, pages := newFS(t), int64(0)
		for range 2 {
			w, err := Create(Options{FS: fs, Path: traceName, LimitBytes: 1 << 30, HostDelay: time.Second,
				Pages: func() int64 { return pages }})
			must(t, err)
			for range 3000 {
				pages++
				w.Add(make([]drum.Key, 40))
				time.Sleep(10 * time.Millisecond)
			}
			must(t, w.Close())
			time.Sleep(time.Hour)
			pages += 1000 // fetched by another run, without a trace
		}
		_, sum, err := readAll(fs, 1<<16)
		must(t, err)
		if rate, links := sum.Rates(); math.Abs(rate-100) > 1 || math.Abs(links-40) > 0.4 ||
			sum.HostDelay != time.Second {
			t.Errorf("%v pages/s, %v links per page, delay %v; want 100, 40, 1s", rate, links, sum.HostDelay)
		}
	})
}

// TestLimit: at its limit a trace ends, reports it once, and counts later links as lost.
func TestLimit(t *testing.T) {
	fs, told := newFS(t), 0
	w := mustCreate(t, fs, MinLimitBytes+100, func(err error) {
		if told++; !errors.Is(err, ErrLimit) {
			t.Errorf("got %v", err)
		}
	})
	for range 5 {
		w.Add(make([]drum.Key, blockKeys))
	}
	w.Add(make([]drum.Key, 7))
	must(t, w.Close())
	if recorded, lost := w.Links(); recorded != blockKeys || lost != 4*blockKeys+7 || told != 1 {
		t.Errorf("got %d recorded, %d lost, told %d times", recorded, lost, told)
	}
	if size, err := fs.Size(traceName); err != nil || size > MinLimitBytes+100 {
		t.Errorf("got %d bytes, %v", size, err)
	}
	if _, err := Create(Options{FS: fs, Path: traceName, LimitBytes: 100}); err == nil {
		t.Error("Create accepts a limit of 100 bytes")
	}
	// Appending to a full trace is not an error: the new limit may be larger.
	w = mustCreate(t, fs, MinLimitBytes+100, func(error) {})
	w.Add(make([]drum.Key, blockKeys))
	must(t, w.Close())
}

// TestFullDisk: an error of the disk ends the trace; Add does not fail.
func TestFullDisk(t *testing.T) {
	fs, told := newFS(t), 0
	w := mustCreate(t, fs, 1<<30, func(err error) {
		if told++; !strings.Contains(err.Error(), traceName) {
			t.Errorf("got %v", err)
		}
	})
	fs.SetCapacity(200 << 10)
	total := int64(0)
	var wg gosync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 40 {
				w.Add(make([]drum.Key, 3000))
			}
		})
		total += 40 * 3000
	}
	wg.Wait()
	must(t, w.Close())
	recorded, lost := w.Links()
	if recorded < blockKeys || recorded > 4*blockKeys || recorded+lost != total || told != 1 {
		t.Errorf("got %d recorded, %d lost of %d, told %d times", recorded, lost, total, told)
	}
	if got, _, err := readAll(fs, 1000); err != nil || int64(len(got)) != recorded {
		t.Errorf("got %d links, %v, want %d", len(got), err, recorded)
	}
}

// slowFS is a disk whose writes block.
type slowFS struct {
	disk.FS
	wait chan struct{}
}

type slowFile struct {
	disk.File
	wait chan struct{}
}

func (s slowFS) Create(name string) (disk.File, error) {
	f, err := s.FS.Create(name)
	return slowFile{f, s.wait}, err
}

func (s slowFile) WriteAt(p []byte, off int64) (int, error) {
	if off > 0 {
		<-s.wait
	}
	return s.File.WriteAt(p, off)
}

// TestSlowDisk: Add does not wait for the disk. It counts lost links, and the trace has a gap.
func TestSlowDisk(t *testing.T) {
	fs := newFS(t)
	slow := slowFS{fs, make(chan struct{})}
	w := mustCreate(t, slow, 1<<30, func(err error) { t.Error(err) })
	const blocks = maxQueued + 20
	for range blocks {
		w.Add(make([]drum.Key, blockKeys))
	}
	close(slow.wait)
	must(t, w.Close())
	recorded, lost := w.Links()
	if recorded+lost != blocks*blockKeys || lost < 19*blockKeys || lost > 20*blockKeys {
		t.Errorf("got %d recorded, %d lost", recorded, lost)
	}
	w = mustCreate(t, fs, 1<<30, nil)
	w.Add(make([]drum.Key, 1))
	must(t, w.Close())
	if _, sum, err := readAll(fs, 1<<16); err != nil || sum.Generations < 2 || sum.Links != recorded+1 {
		t.Errorf("got %+v, %v", sum, err)
	}
}

// TestDamage: a flipped bit is an error. A truncated trace is an error too, or is read up to its torn block.
func TestDamage(t *testing.T) {
	for _, sound := range [][]byte{trace(1, 2, 3), trace(500, 1)} {
		whole, _, err := readBytes(t, sound)
		must(t, err)
		for i := range sound {
			for _, bit := range []byte{1, 0x80} {
				b := slices.Clone(sound)
				b[i] ^= bit
				got, sum, err := readBytes(t, b)
				corrupt := new(disk.CorruptError)
				if err == nil && sum.CutBytes == 0 || err != nil && !errors.As(err, &corrupt) ||
					!slices.Equal(got, whole[:len(got)]) {
					t.Fatalf("byte %d of %d damaged: got %d links, %+v, %v", i, len(sound), len(got), sum, err)
				}
			}
		}
		for n := range sound {
			got, _, err := readBytes(t, sound[:n])
			if (err != nil) != (n < disk.HeaderBytes) || !slices.Equal(got, whole[:len(got)]) {
				t.Fatalf("cut at %d of %d: got %d links, %v", n, len(sound), len(got), err)
			}
		}
	}
	fs := newFS(t)
	if _, err := Open(fs, traceName); err == nil || !strings.Contains(err.Error(), traceName) {
		t.Errorf("got %v for no file", err)
	}
	f, err := fs.Create(traceName)
	must(t, err)
	_, err = f.WriteAt([]byte("not a trace of links, but forty bytes and more"), 0)
	must(t, errors.Join(err, f.Close()))
	if _, err := Create(Options{FS: fs, Path: traceName, LimitBytes: 1 << 20}); err == nil ||
		!strings.Contains(err.Error(), "choose another file") {
		t.Errorf("got %v for another file's name", err)
	}
}

// trace returns a trace whose blocks have these numbers of keys.
func trace(blocks ...int) []byte {
	b := traceHeader().Append(nil)
	first := uint64(0)
	for i, n := range blocks {
		keys := make([]drum.Key, n)
		for j := range keys {
			keys[j] = drum.Key(i<<32 | j)
		}
		b = appendBlock(b, head{keys: uint32(n), generation: uint32(1 + i/2), first: first}, keys)
		first += uint64(n)
	}
	return b
}

func readBytes(t testing.TB, b []byte) ([]uint64, Summary, error) {
	fs := newFS(t)
	f, err := fs.Create(traceName)
	must(t, err)
	_, err = f.WriteAt(b, 0)
	must(t, errors.Join(err, f.Close()))
	return readAll(fs, 64)
}

// FuzzReader: for any file, reading ends with the number of links of the summary, or with an error.
// Appending to a readable trace leaves its links unchanged.
func FuzzReader(f *testing.F) {
	for _, blocks := range [][]int{nil, {1}, {3, 1, 2}, {blockKeys}} {
		f.Add(trace(blocks...))
	}
	sound := trace(2, 2)
	f.Add(sound[:len(sound)-3])
	f.Fuzz(func(t *testing.T, b []byte) {
		got, sum, err := readBytes(t, b)
		if err != nil {
			return
		}
		if sum.Generations == maxGeneration {
			return // no further generation is possible
		}
		if int64(len(got)) != sum.Links {
			t.Fatalf("got %d links, want %d as in the heads", len(got), sum.Links)
		}
		fs := newFS(t)
		file, err := fs.Create(traceName)
		must(t, err)
		_, err = file.WriteAt(b, 0)
		must(t, errors.Join(err, file.Close()))
		w := mustCreate(t, fs, 1<<30, func(err error) { t.Error(err) })
		w.Add([]drum.Key{7})
		must(t, w.Close())
		again, after, err := readAll(fs, 100)
		if err != nil || !slices.Equal(again, append(got, 7)) || after.Generations != sum.Generations+1 {
			t.Fatalf("got %d links after %d and one more: %+v, %v", len(again), len(got), after, err)
		}
	})
}

func TestAddAllocatesNothing(t *testing.T) {
	w := mustCreate(t, newFS(t), 1<<30, nil)
	keys := make([]drum.Key, 59)
	if n := testing.AllocsPerRun(100, func() { w.Add(keys) }); n > 0.1 {
		t.Errorf("got %v allocations a page", n)
	}
	must(t, w.Close())
}
