package objstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/objstore"
	"drumbeat/internal/objstore/objtest"
)

// TestOverlay reads files here and in the store, in order and at random, while reads fail now and then.
func TestOverlay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem, b := memfs.New(1), &objtest.Bucket{}
		must(t, mem.MkdirAll("d/warc"))
		must(t, disk.WriteFileAtomic(mem, "d/warc/here", []byte("local")))
		data := file(1_000_000)
		b.Set("k/there", data)
		b.Set("k/here", []byte("remote"))
		opened := 0
		o := objstore.NewOverlay(mem, []objstore.Remote{{Path: "d/warc/there", Key: "k/there", Size: int64(len(data))},
			{Path: "d/warc/here", Key: "k/here", Size: 6}, {Path: "d/warc/lost", Key: "k/lost", Size: 9},
			{Path: "d/log/x", Key: "k/there", Size: 3}},
			func() (objstore.Bucket, error) { opened++; return b, nil })
		if names, err := o.List("d/warc"); err != nil || !slices.Equal(names, []string{"here", "lost", "there"}) {
			t.Errorf("names %q, %v", names, err)
		}
		if names, err := o.List("d/log"); err != nil || !slices.Equal(names, []string{"x"}) { // no directory here
			t.Errorf("names %q, %v", names, err)
		}
		if got, err := disk.ReadFile(o, "d/warc/here"); err != nil || string(got) != "local" || opened > 0 {
			t.Errorf("here: %q, %v, opened %d", got, err, opened)
		}
		if size, err := o.Size("d/warc/there"); err != nil || size != int64(len(data)) || opened > 0 {
			t.Errorf("size %d, %v", size, err)
		}
		readFailing(t, o, b, data)
		b.Before = nil
		if _, err := disk.ReadFile(o, "d/warc/lost"); !errors.Is(err, objstore.ErrNotExist) || o.Failed() != nil {
			t.Errorf("a lost object: %v, %v", err, o.Failed())
		}
		if _, err := o.OpenRead("d/warc/none"); !errors.Is(err, fs.ErrNotExist) || opened != 1 {
			t.Errorf("no such file: %v, opened %d", err, opened)
		}
		b.Before = func(string, string) error { return fmt.Errorf("no route to host") }
		for try := range 2 {
			before := len(b.Calls())
			if _, err := disk.ReadFile(o, "d/warc/there"); err == nil || !strings.Contains(err.Error(), "no route") ||
				o.Failed() == nil {
				t.Errorf("away: %v, %v", err, o.Failed())
			}
			if n := len(b.Calls()) - before; (n == 0) != (try == 1) { // the second time at once
				t.Errorf("try %d: %d requests", try, n)
			}
		}
	})
}

// readFailing reads a file in order and at random from a store where one in three requests fails.
func readFailing(t *testing.T, o *objstore.Overlay, b *objtest.Bucket, data []byte) {
	t.Helper()
	r, n := rand.New(rand.NewPCG(3, 3)), 0
	b.Before = func(string, string) error {
		if n++; r.IntN(3) == 0 {
			return errors.New("503")
		}
		return nil
	}
	f, err := o.OpenRead("d/warc/there")
	must(t, err)
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 2_000_000))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("in order: %d bytes, %v", len(got), err)
	}
	if n > 12 {
		t.Errorf("%d requests for 1 MB in order", n)
	}
	for range 200 {
		p, off := make([]byte, r.IntN(5000)), r.IntN(len(data)+100)
		k, err := f.ReadAt(p, int64(off))
		if want := data[min(off, len(data)):min(off+len(p), len(data))]; !bytes.Equal(p[:k], want) ||
			(err != nil) != (k < len(p)) {
			t.Fatalf("%d bytes at %d: %d, %v", len(p), off, k, err)
		}
	}
	if err := errors.Join(f.Close(), o.Failed()); err != nil {
		t.Error(err)
	}
}

// TestOverlayIgnore: a file that is to be ignored is read in the store, or is not there if the store has none.
func TestOverlayIgnore(t *testing.T) {
	t.Parallel()
	mem, b := memfs.New(1), &objtest.Bucket{}
	must(t, mem.MkdirAll("d/warc"))
	for _, name := range []string{"d/warc/alone", "d/warc/both", "d/warc/other"} {
		must(t, disk.WriteFileAtomic(mem, name, []byte("damaged")))
	}
	b.Set("k/both", []byte("whole"))
	o := objstore.NewOverlay(mem, []objstore.Remote{{Path: "d/warc/both", Key: "k/both", Size: 5}},
		func() (objstore.Bucket, error) { return b, nil })
	o.Ignore("d/warc/both")
	o.Ignore("d/warc/alone")
	if names, err := o.List("d/warc"); err != nil || !slices.Equal(names, []string{"both", "other"}) {
		t.Errorf("names %q, %v", names, err)
	}
	for name, want := range map[string]string{"d/warc/both": "whole", "d/warc/other": "damaged"} {
		got, err := disk.ReadFile(o, name)
		size, sizeErr := o.Size(name)
		if err != nil || sizeErr != nil || string(got) != want || size != int64(len(want)) {
			t.Errorf("%s: %q, %d bytes, %v, %v", name, got, size, err, sizeErr)
		}
	}
	_, err := o.OpenRead("d/warc/alone")
	if _, sizeErr := o.Size("d/warc/alone"); !errors.Is(err, fs.ErrNotExist) || !errors.Is(sizeErr, fs.ErrNotExist) {
		t.Errorf("an ignored file without an object: %v, %v", err, sizeErr)
	}
}
