package drum

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

func TestGoldenBuffers(t *testing.T) {
	d, fsys := goldenStore(t, Options{ValueBytes: -1, MaxValueBytes: 100, Apply: applyReplace, OutBytes: 100})
	must(t, d.Add([]Tuple{{Key: 0x8877665544332211, Op: CheckUpdate, Value: []byte("val"), Aux: []byte("aux")}}))
	_, err := d.Freeze().Save(nil)
	must(t, err)
	must(t, d.Add([]Tuple{{Key: 0x8000000000000001, Op: Check}}))
	st, err := d.Freeze().Save(nil)
	must(t, err)
	const page1 = `
		64425546 0100 0000                 # magic dBUF, version 1
		0100000000000000                   # generation 1
		51000000 00000000                  # 81 bytes of entries
		bae82a26082bd53d
		0100000000000000 01000000 01000000 # filling 1: bucket 1, keys
		0000000000000000                   # base 0
		00000000 0d000000                  # the first 13 bytes of it
		1122334455667788 03 03 76616c      # key, check+update, "val"
		0200000000000000 01000000 02000000 # filling 2: bucket 1, aux
		0000000000000000
		00000000 04000000
		03 617578                          # "aux"
		f07cb5f02f18cfce
	`
	const page2 = `
		64425546 0100 0000
		0100000000000000
		4b000000 00000000                  # 75 bytes
		b452b445263fbcce
		0100000000000000 01000000 01000000
		0000000000000000
		0d000000 0a000000                  # 10 bytes from byte 13 on
		0100000000000080 01 00             # key, check, no value
		0200000000000000 01000000 02000000
		0000000000000000
		04000000 01000000
		00
		9e17715385dccff4
	`
	sameBytes(t, fsys, "d/state/g/buffers-0000000001", `
		6472756d62656174 64726d42 01000000 # disk.Header: drumbeat, drmB, version 1
		0100000000000000 0000000000000000  # generation 1, directory 0
		a6e18010cbb8ac3d
	`+strings.Repeat("00", pageBytes-disk.HeaderBytes)+page1+strings.Repeat("00", pageBytes-frameHeaderBytes-81-checksumBytes)+page2)
	got, err := json.Marshal(st)
	must(t, err)
	const want = `{"v":5,"buckets":2,"value_bytes":-1,"gen":1,"inputs":[{"b":1,"keys":{"f":1,"b":23},` +
		`"aux":{"f":2,"b":5},` +
		`"n":2,"v":3,"bytes":28}],"buffered":[{"g":1,"n":12288}],"fills":2}`
	if string(got) != want {
		t.Errorf("state: got %s, want %s", got, want)
	}
}

// Checkpoints write at most twice the bytes that entered the buffers. Their files take at most twice the
// content of the buffers, plus headers and padding. A checkpoint without new tuples writes nothing.
func TestCheckpointBytes(t *testing.T) {
	for _, kind := range []string{"mixed", "log", "variable"} {
		t.Run(kind, func(t *testing.T) {
			rng := newRand(t)
			mem := memfs.New(1)
			opt := kinds[kind]
			opt.Buckets, opt.BufferBytes = 16, 8192
			w := newWorld(t, mem, opt, 1)
			must(t, w.open())
			defer w.d.Close()
			var added, written, frames int64
			for range 100 {
				must(t, w.add(w.tuples(rng, rng.IntN(40))))
				if rng.IntN(20) == 0 {
					_, err := w.d.Pass(context.Background(), true)
					must(t, err)
				}
				before := w.d.Stats().BufferWritten
				must(t, w.checkpoint(nil))
				wrote := w.d.Stats().BufferWritten - before
				written += wrote
				frames++
				before = w.d.Stats().BufferWritten
				must(t, w.checkpoint(nil))
				if n := w.d.Stats().BufferWritten - before; n > 0 && !w.d.held[0].fresh(n) {
					t.Fatalf("a checkpoint without news wrote %d bytes", n)
				}
				buffered, file := w.buffered()
				if limit := 2*buffered + bufferSlack + wrote; file > limit {
					t.Fatalf("file of %d bytes for buffers of %d", file, buffered)
				}
			}
			for _, tu := range w.now.added {
				added += int64(keyRecordOverhead + len(tu.Value) + 5 + len(tu.Aux))
			}
			entries := frames * int64(2*opt.Buckets+1) * entryHeaderBytes
			if limit := 2*(added+entries) + frames*2*pageBytes; written > limit {
				t.Errorf("got %d bytes written for %d added, want at most %d", written, added, limit)
			}
		})
	}
}

// fresh reports whether the file holds only the n bytes written last.
func (bf *bufferFile) fresh(n int64) bool { return bf.written == n+pageBytes }

// buffered returns the number of bytes in buffers, and that of the files that hold them.
func (w *world) buffered() (buffers, files int64) {
	for i := range w.d.buckets {
		for _, s := range []*stream{&w.d.buckets[i].open.keys, &w.d.buckets[i].open.aux} {
			if s.records > 0 {
				buffers += int64(len(s.buf) + entryHeaderBytes)
			}
		}
	}
	for _, log := range w.d.texts.logs {
		buffers += int64(len(log.s.buf))
	}
	for _, bf := range w.d.held {
		files += bf.written
	}
	return buffers, files
}

// Open and the walks must find damage to a file of saved buffers.
func TestDamagedBuffers(t *testing.T) {
	rng := newRand(t)
	for range 20 {
		mem := memfs.New(1)
		w := newWorld(t, mem, small(kinds["mixed"]), 1)
		must(t, w.open())
		for range 3 {
			must(t, w.add(w.tuples(rng, 20)))
			must(t, w.checkpoint(nil))
		}
		name := w.d.opt.path(0, buffersName(w.d.held[0].gen))
		must(t, w.d.Close())
		f, err := mem.Open(name)
		must(t, err)
		size, err := f.Size()
		must(t, err)
		at := rng.Int64N(size)
		b := make([]byte, 1)
		must(t, disk.ReadFull(f, b, at))
		padding := b[0] == 0
		b[0] ^= byte(1 + rng.IntN(255))
		_, err = f.WriteAt(b, at)
		must(t, err)
		must(t, f.Close())
		var corrupt *disk.CorruptError
		err = w.open()
		if errors.As(err, &corrupt) {
			continue
		}
		if err != nil || !padding {
			t.Errorf("byte %d of %d: got %v, want damage", at, size, err)
		}
		w.d.Close()
	}
}

// A state that claims more bytes of a buffer than its file has must be rejected.
func TestMissingBuffer(t *testing.T) {
	mem := memfs.New(1)
	w := newWorld(t, mem, small(kinds["mixed"]), 1)
	must(t, w.open())
	must(t, w.add(w.tuples(rand.New(rand.NewPCG(1, 1)), 20)))
	f := w.d.Freeze()
	st, err := f.Save(nil)
	must(t, err)
	opt := w.d.opt
	must(t, w.d.Close())
	for i, change := range []func(){
		func() { st.Inputs[0].Keys.Buffered++ },
		func() { st.Inputs[0].Keys.Buffered -= 2 },
		func() { st.Inputs[0].Keys.Fill = 1000 },
		func() { st.Buffered = nil },
	} {
		data, err := json.Marshal(st)
		must(t, err)
		change()
		if d, err := Open(opt, st); err == nil {
			d.Close()
			t.Errorf("change %d: opened", i)
		}
		if err := walk(opt.Set, opt.Name, st, func(Tuple) error { return nil }); err == nil {
			t.Errorf("change %d: walked", i)
		}
		*st = State{}
		must(t, json.Unmarshal(data, st))
	}
}
