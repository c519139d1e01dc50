package drum

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// unhex parses lines of hex digits, with spaces and comments after #.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	must(t, err)
	return b
}

// sameBytes compares the start of a file and expects zeros after it.
func sameBytes(t *testing.T, fsys disk.FS, name, want string) {
	t.Helper()
	got, err := disk.ReadFile(fsys, name)
	must(t, err)
	w := unhex(t, want)
	for i := range w {
		if i >= len(got) || got[i] != w[i] {
			t.Fatalf("%s: at %d: got % x, want % x", name, i, got[i:min(len(got), i+32)], w[i:min(len(w), i+32)])
		}
	}
	for i, b := range got[len(w):] {
		if b != 0 {
			t.Fatalf("%s: byte %d is %#x, want 0", name, len(w)+i, b)
		}
	}
}

func goldenStore(t *testing.T, opt Options) (*Drum, disk.FS) {
	t.Helper()
	mem := memfs.New(1)
	opt.Set, opt.Name, opt.Buckets, opt.BufferBytes = disk.Set{FS: mem, Paths: []string{"d"}}, "g", 2, 4096
	d, err := Open(opt, nil)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d, mem
}

// save makes a checkpoint without a manifest.
func save(t *testing.T, d *Drum) {
	t.Helper()
	f := d.Freeze()
	_, err := f.Save(nil)
	must(t, errors.Join(err, f.Commit()))
}

// flushAll writes the partly filled buffers as blocks.
func flushAll(t *testing.T, d *Drum) {
	t.Helper()
	for i := range d.buckets {
		for _, s := range []*stream{&d.buckets[i].open.keys, &d.buckets[i].open.aux} {
			if s.records > 0 {
				must(t, d.flush(s))
			}
		}
	}
}

func TestGoldenBucketFiles(t *testing.T) {
	d, fsys := goldenStore(t, Options{ValueBytes: -1, MaxValueBytes: 100, Apply: applyReplace, OutBytes: 100})
	must(t, d.Add([]Tuple{
		{Key: 0x8877665544332211, Op: CheckUpdate, Value: []byte("val"), Aux: []byte("aux")},
		{Key: 0x8000000000000001, Op: Check},
	}))
	flushAll(t, d)
	sameBytes(t, fsys, "d/state/g/keys-0000001-0000000001", `
		64424b54 0100 01 00                # magic dBKT, version 1, keys, not compressed
		01000000 02000000                  # bucket 1, 2 records
		0100000000000000 0000000000000000  # generation 1, base 0
		17000000 17000000                  # 23 bytes of payload, on disk and decoded
		da6bb9753e8f7b1b                   # checksum of the head
		1122334455667788 03 03 76616c      # key, check+update, value of 3 bytes
		0100000000000080 01 00             # key, check, no value
		281328bef20796d9                   # checksum of all
	`)
	sameBytes(t, fsys, "d/state/g/aux-0000001-0000000002", `
		64424b54 0100 02 00
		01000000 02000000
		0200000000000000 0000000000000000
		05000000 05000000
		55d7dfe9a44c0c6d
		03 617578                          # "aux"
		00                                 # nothing
		4c1939eaccb4f98c
	`)
}

func TestGoldenCacheRaw(t *testing.T) {
	d, fsys := goldenStore(t, Options{ValueBytes: -1, MaxValueBytes: 100, Apply: applyReplace, OutBytes: 100})
	must(t, d.Add([]Tuple{
		{Key: 0x22, Op: Update, Value: []byte("two")},
		{Key: 0x11, Op: Update, Value: []byte("o")},
		{Key: 0x8000000000000001, Op: Update},
	}))
	_, err := d.Pass(context.Background(), true)
	must(t, err)
	save(t, d)
	sameBytes(t, fsys, "d/state/g/cache-0000000001", `
		6472756d62656174 64726d5a 01000000 # disk.Header: drumbeat, drmZ, version 1
		0100000000000000 0000000000000000  # generation 1, directory 0
		2beff5f8c1f466d3                   # checksum
		`+strings.Repeat("00", pageBytes-disk.HeaderBytes)+`
		64434845 0100 01 00                # magic dCHE, version 1, raw
		00000000 02000000                  # bucket 0, 2 keys
		1100000000000000                   # first key
		1c000000 ffffffff                  # 28 bytes of payload, variable values
		5afb8d929fd07c13                   # checksum of the head
		1100000000000000 2200000000000000  # keys
		01000000 03000000                  # lengths
		6f 74776f                          # values
		612853dff07deb69                   # checksum
		`+strings.Repeat("00", pageBytes-cacheFrameBytes-28)+`
		64434845 0100 01 00
		01000000 01000000
		0100000000000080
		0c000000 ffffffff
		d526eb7ac1c3ffd9
		0100000000000080
		00000000
		d93968bc312a568f
	`)
}

func TestGoldenCacheRice(t *testing.T) {
	d, fsys := goldenStore(t, Options{Op: CheckUpdate, Codec: Rice})
	for _, k := range []Key{0x30, 0x10, 0x15, 0x2f} {
		must(t, d.Add([]Tuple{{Key: k, Op: CheckUpdate}}))
	}
	_, err := d.Pass(context.Background(), true)
	must(t, err)
	save(t, d)
	sameBytes(t, fsys, "d/state/g/cache-0000000001", `
		6472756d62656174 64726d5a 01000000
		0100000000000000 0000000000000000
		2beff5f8c1f466d3
		`+strings.Repeat("00", pageBytes-disk.HeaderBytes)+`
		64434845 0100 02 03                # Rice, 3 bits of remainder
		00000000 04000000
		1000000000000000
		03000000 00000000                  # 3 bytes of payload, no values
		fb31052a3a28a24e
		                                   # differences - 1: 4, 25, 0; remainders 4, 1, 0: bits 001 100 000
		0c00                               # 0b00001100, 0b0
		                                   # quotients 0, 3, 0: bits 1 0001 1
		31                                 # 0b00110001
		9cbf3ba00b55859d
	`)
}

// Damage anywhere in a file that a pass reads must be found, and the file named.
func TestCorruption(t *testing.T) {
	rng := newRand(t)
	for _, kind := range []string{"keys", "aux", "cache"} {
		found := 0
		for _, at := range []int{
			0, 4, 6, 8, 12, 17, 24, 33, 41, 50, 60, 100, 3000, 4096, 4097, 4100, 4110, 4140, 4200,
		} {
			mem := memfs.New(1)
			w := newWorld(t, mem, small(kinds["variable"]), 1)
			must(t, w.open())
			must(t, w.add(w.tuples(rng, 300)))
			_, err := w.d.Pass(context.Background(), true)
			must(t, err)
			must(t, w.add(w.tuples(rng, 700)))
			flushAll(t, w.d)
			names, err := mem.List("d0/state/variable")
			must(t, err)
			for _, name := range names {
				if !strings.HasPrefix(name, kind) {
					continue
				}
				name = "d0/state/variable/" + name
				f, err := mem.Open(name)
				must(t, err)
				b := make([]byte, 1)
				if disk.ReadFull(f, b, int64(at)) == nil {
					b[0] ^= 0x40
					_, err = f.WriteAt(b, int64(at))
					must(t, err)
				}
				must(t, f.Close())
			}
			_, err = w.d.Pass(context.Background(), true)
			var damage *disk.CorruptError
			switch {
			case errors.As(err, &damage):
				found++
				if !strings.Contains(damage.Path, kind) || damage.Offset < 0 || damage.Offset > int64(at)+8192 {
					t.Errorf("%s, byte %d: got %v", kind, at, err)
				}
				if _, again := w.d.Pass(context.Background(), true); again == nil {
					t.Errorf("%s, byte %d: next pass succeeded", kind, at)
				}
			case err != nil:
				t.Errorf("%s, byte %d: got %v, want damage", kind, at, err)
			default:
				// The byte is padding. Only such bytes may change unnoticed.
				must(t, w.finish())
			}
			w.d.Close()
		}
		if found < 10 {
			t.Errorf("%s: damage found %d times only", kind, found)
		}
	}
}

// The error of any failing operation must be returned, and be final unless nothing was changed.
func TestFaults(t *testing.T) {
	rng := newRand(t)
	boom := errors.New("boom")
	for n := 1; ; n++ {
		left := n
		armed := false
		fsys := memfs.NewFault(memfs.New(1), func(op memfs.Op, name string) error {
			if armed && op != memfs.OpClose {
				if left--; left == 0 {
					return fmt.Errorf("%v %s: %w", op, name, boom)
				}
			}
			return nil
		})
		w := newWorld(t, fsys, small(kinds["mixed"]), 1)
		must(t, w.open())
		ts := w.tuples(rng, 400)
		armed = true
		err := w.add(ts)
		if err == nil {
			_, err = w.d.Pass(context.Background(), true)
		}
		if err == nil {
			if left > 0 {
				if n < 15 {
					t.Errorf("only %d operations", n)
				}
				w.d.Close()
				return
			}
			t.Fatalf("operation %d: error was swallowed", n)
		}
		if !errors.Is(err, boom) {
			t.Fatalf("operation %d: got %v", n, err)
		}
		if _, err := w.d.Pass(context.Background(), true); !errors.Is(err, boom) {
			t.Errorf("operation %d: next pass: got %v", n, err)
		}
		w.d.Close()
	}
}

// goldenTexts is the text log of TestGoldenTextLog.
const goldenTexts = `
	64424b54 0100 04 00                # magic dBKT, version 1, text log, not compressed
	00000000 06000000                  # directory 0, 6 records
	0100000000000000 0000000000000000  # generation 1, first is number 0
	17000000 17000000
	343c71b2bea6c0ea
	01 00 04 61622e63                  # 0 bytes of the text before, 4 bytes, 0 of the text before
	02 02 01 64                        # 1 byte, 1 byte, 2 bytes: ad.c
	01 00 01 78  01 00 00  01 00 01 64 # x, an empty text, d
	00                                 # left out
	56fb576ad08e5109
	`

// goldenKeys is the file of the keys of bucket 1.
const goldenKeys = `
	64424b54 0100 01 00
	01000000 02000000
	0300000000000000 0100000000000000  # first is number 1
	12000000 12000000
	4f4d332cdffd7811
	0100000000000080 00                # key, number + 0
	0100000000000080 04                # key, number + 2, as a signed varint
	5fec4df0e3b4ab16
	`

func TestGoldenTextLog(t *testing.T) {
	var d *Drum
	var fsys disk.FS
	emitted := ""
	d, fsys = goldenStore(t, Options{Op: CheckUpdate, Aux: AuxLog, cacheRAMBytes: -1, Emit: func(rs []Result) error {
		for _, r := range rs {
			emitted += string(r.Aux) + ";"
		}
		// The lists exist until the pass ends. Number 0 belongs to bucket 0, 1 to bucket 1, and 2 is a
		// duplicate.
		sameBytes(t, fsys, "d/state/g/unique-0000000005", `
			6472756d62656174 64726d55 01000000 # disk.Header: drumbeat, drmU, version 1
			0500000000000000 0000000000000000  # generation 5, directory 0
			f78f24690aa103c0
			`+strings.Repeat("00", pageBytes-disk.HeaderBytes)+`
			64434845 0100 02 01                # as a part of the cache, always Rice, here with 1 bit
			00000000 02000000                  # of bucket 0, 2 numbers
			00000000 00000000                  # the first
			02000000 00000000
			3f1d8f31472096b2
			01 02                              # 4 - 0 - 1 = 3: remainder 1, quotient 1
			7bdc7af37290c32f
			`+strings.Repeat("00", pageBytes-cacheFrameBytes-2)+`
			64434845 0100 02 00
			01000000 01000000
			0100000000000000
			00000000 00000000
			21d8ab5bca805721
			a6a60996cb7c0a80
		`)
		return nil
	}})
	d.texts.few.Store(maxFewNumbers) // short lists go to files, too
	must(t, d.Add([]Tuple{
		{Key: 0x11, Op: CheckUpdate, Aux: []byte("ab.c")},
		{Key: 0x8000000000000001, Op: CheckUpdate, Aux: []byte("ad.c")},
		{Key: 0x11, Op: CheckUpdate, Aux: []byte("x")},
		{Key: 0x8000000000000001, Op: CheckUpdate},
		{Key: 0x10, Op: CheckUpdate, Aux: []byte("d")},
	}))
	must(t, d.Add([]Tuple{{Key: 0x11, Op: CheckUpdate, Aux: []byte("y")}})) // its key waits
	must(t, d.flush(&d.texts.logs[0].s))
	flushAll(t, d)
	sameBytes(t, fsys, "d/state/g/text-0000000-0000000001", goldenTexts)
	sameBytes(t, fsys, "d/state/g/keys-0000001-0000000003", goldenKeys)
	_, err := d.Pass(context.Background(), true)
	must(t, err)
	if emitted != "ab.c;ad.c;d;" {
		t.Errorf("got %q", emitted)
	}
	names, err := fsys.List("d/state/g")
	must(t, err)
	if len(names) != 1 {
		t.Errorf("after the pass: got files %v", names)
	}
}

// A block written by s2 must be readable: 5 bytes, a literal of 1 and a copy of 4 at distance 1.
func TestReadCompressedBlock(t *testing.T) {
	var r blockReader
	_, got, err := unpack(nil, unhex(t, "05 00 61 0101"), 5)
	if err != nil || string(got) != "aaaaa" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, _, err := unpack(nil, unhex(t, "05 00 61 0101"), 6); err == nil {
		t.Error("wrong length accepted")
	}
	r.close()
}

// TestKeysLeaveOutTheBucket checks that with text logs a key's record omits the bytes given by its bucket's
// number, in the file and in a checkpoint. Keys must come back whole, also after a reopen.
func TestKeysLeaveOutTheBucket(t *testing.T) {
	for _, c := range []struct{ buckets, bytes int }{{1, 8}, {128, 8}, {256, 7}, {512, 7}, {1 << 16, 6}} {
		opt := Options{Name: "g", Set: disk.Set{FS: memfs.New(1), Paths: []string{"d"}}, Op: CheckUpdate,
			Aux: AuxLog, Codec: Rice, Buckets: c.buckets, BufferBytes: 4096, BucketBytes: 64 << 10}
		emitted := 0
		opt.Emit = func(rs []Result) error { emitted += len(rs); return nil }
		d, err := Open(opt, nil)
		must(t, err)
		keys := []Key{0, 1, 0x0123456789abcdef, 0xfedcba9876543210, 1<<63 | 1, 1<<64 - 1}
		for _, key := range keys {
			must(t, d.Add([]Tuple{{Key: key, Op: CheckUpdate}}))
			in := d.buckets[uint64(key)>>d.shift].open
			rec := keyRecord{prefix: d.opt.prefix(in.keys.bucket)}
			first := in.keys.buf[bucketHeaderBytes:]
			for n := 0; len(first) > 0 && rec.key != uint64(key); first = first[n:] {
				if n = rec.parse(&d.opt, first); n != c.bytes+1 {
					t.Fatalf("%d buckets: record of %d bytes, want %d and a number", c.buckets, n, c.bytes)
				}
			}
			if rec.key != uint64(key) {
				t.Fatalf("%d buckets: got key %x, want %x", c.buckets, rec.key, key)
			}
		}
		st, err := d.Freeze().Save(nil)
		must(t, err)
		must(t, d.Close())
		d, err = Open(opt, st)
		must(t, err)
		for range 2 {
			_, err = d.Pass(context.Background(), true)
			must(t, err)
			for _, key := range keys {
				must(t, d.Add([]Tuple{{Key: key, Op: CheckUpdate}}))
			}
		}
		if emitted != len(keys) || d.Keys() != int64(len(keys)) {
			t.Errorf("%d buckets: got %d unique of %d keys, want %d", c.buckets, emitted, d.Keys(), len(keys))
		}
		must(t, d.Close())
	}
}
