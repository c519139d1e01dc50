package objstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"drumbeat/internal/objstore"
	"drumbeat/internal/objstore/objtest"
)

const key = "pages/crawl/0/a.warc.gz"

// file returns bytes of a file.
func file(n int) []byte {
	r, data := rand.New(rand.NewPCG(1, uint64(n))), make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// uploaderOf returns an uploader with parts of 100 bytes, one after the other, so that the order of calls is fixed.
func uploaderOf(b objstore.Bucket) *objstore.Uploader {
	return &objstore.Uploader{Bucket: b, PartBytes: 100, InFlight: 1}
}

func put(t *testing.T, u *objstore.Uploader, data []byte, was *objstore.Upload) error {
	t.Helper()
	sums, err := u.Sum(t.Context(), bytes.NewReader(data), int64(len(data)))
	must(t, err)
	return u.Put(t.Context(), key, bytes.NewReader(data), sums, *was, func(now objstore.Upload) { *was = now })
}

func check(t *testing.T, b *objtest.Bucket, data []byte) {
	t.Helper()
	all := b.Objects()
	if len(all) != 1 || !bytes.Equal(all[key], data) {
		t.Fatalf("%d objects; that of the file is right: %v", len(all), bytes.Equal(all[key], data))
	}
	if n := b.Pending(); n != 0 {
		t.Fatalf("%d uploads are left", n)
	}
}

func TestPut(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 99, 100, 101, 250, 1000} {
		b, was, data := &objtest.Bucket{}, objstore.Upload{}, file(n)
		for range 2 { // the second time it is there
			if err := put(t, uploaderOf(b), data, &was); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			check(t, b, data)
		}
		if calls := b.Calls(); calls[len(calls)-1] != "Head "+key || calls[len(calls)-2] != "Head "+key {
			t.Errorf("%d bytes: the second Put did more than look: %q", n, calls)
		}
	}
}

var errKilled = errors.New("killed")

// TestPutKilled kills the process before and after each call of the store, with and without the note of the
// upload since, and puts the file again.
func TestPutKilled(t *testing.T) {
	t.Parallel()
	data := file(350)
	full := &objtest.Bucket{}
	must(t, put(t, uploaderOf(full), data, new(objstore.Upload)))
	calls := full.Calls()
	for at := range calls {
		for _, answered := range []bool{false, true} {
			for _, noted := range []bool{false, true} {
				n, dead := 0, false
				fault := func(after bool) func(string, string) error {
					return func(string, string) error {
						if n == at && after == answered {
							dead = true
						}
						if after {
							n++
						}
						if dead {
							return errKilled
						}
						return nil
					}
				}
				b := &objtest.Bucket{Before: fault(false), After: fault(true)}
				var was objstore.Upload
				if err := put(t, uploaderOf(b), data, &was); err == nil {
					t.Fatalf("killed at %s: no error", calls[at])
				}
				b.Before, b.After = nil, nil
				if !noted {
					was = objstore.Upload{}
				}
				before := len(b.Calls())
				if err := put(t, uploaderOf(b), data, &was); err != nil {
					t.Fatalf("killed at %d, %s (answered %v, noted %v): %v", at, calls[at], answered, noted, err)
				}
				check(t, b, data)
				if noted && strings.HasPrefix(calls[at], "PutPart") &&
					slices.Contains(b.Calls()[before:], "Create "+key) {
					t.Errorf("killed at %d: the upload started over, although its id was known", at)
				}
			}
		}
	}
	t.Logf("%d calls", len(calls))
}

// TestPutFaults puts a file while calls fail at random, before or after they are done.
func TestPutFaults(t *testing.T) {
	t.Parallel()
	data := file(450)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		fault := func(what string) func(string, string) error {
			return func(call, _ string) error {
				if r.IntN(6) == 0 {
					return fmt.Errorf("%s %s: 500", what, call)
				}
				return nil
			}
		}
		b := &objtest.Bucket{Before: fault("lost request of"), After: fault("lost answer of"), NoSums: seed%3 == 0}
		var was objstore.Upload
		tries := 1
		for put(t, uploaderOf(b), data, &was) != nil {
			if tries++; tries > 5000 {
				t.Fatalf("seed %d: not there after %d tries", seed, tries)
			}
			if r.IntN(8) == 0 {
				was = objstore.Upload{} // restarted from an older note
			}
		}
		check(t, b, data)
	}
}

// TestPutTogether puts parts at the same time, one of which fails at first.
func TestPutTogether(t *testing.T) {
	t.Parallel()
	data, fail := file(5000), true
	b := &objtest.Bucket{}
	u := &objstore.Uploader{Bucket: b, PartBytes: 100, InFlight: 4}
	b.Before = func(call, _ string) error {
		if call == "PutPart" && fail {
			return errors.New("503 SlowDown")
		}
		return nil
	}
	var was objstore.Upload
	if err := put(t, u, data, &was); err == nil || !strings.Contains(err.Error(), "SlowDown") {
		t.Fatalf("got %v", err)
	}
	fail = false
	must(t, put(t, u, data, &was))
	check(t, b, data)
}

// TestForeign finds another object of the same name at the start, and one that appears before Complete.
func TestForeign(t *testing.T) {
	t.Parallel()
	data := file(250)
	for _, other := range [][]byte{file(249), file(251), append(file(249), 0), {}} {
		b := &objtest.Bucket{}
		b.Set(key, other)
		if err := put(t, uploaderOf(b), data, new(objstore.Upload)); !errors.Is(err, objstore.ErrForeign) ||
			!strings.Contains(err.Error(), key) {
			t.Fatalf("got %v", err)
		}
		if got := b.Objects()[key]; !bytes.Equal(got, other) {
			t.Fatal("the object was overwritten")
		}
		late := &objtest.Bucket{}
		late.Before = func(call, _ string) error {
			if call == "Complete" {
				late.Set(key, other)
			}
			return nil
		}
		if err := put(t, uploaderOf(late), data, new(objstore.Upload)); !errors.Is(err, objstore.ErrForeign) {
			t.Fatalf("late: got %v", err)
		}
		if got := late.Objects()[key]; !bytes.Equal(got, other) {
			t.Fatal("the late object was overwritten")
		}
	}
	same := &objtest.Bucket{} // the same bytes, put by another program
	same.Set(key, data)
	must(t, put(t, uploaderOf(same), data, new(objstore.Upload)))
	unknown := &objtest.Bucket{NoSums: true} // nothing says that they are the same
	unknown.Set(key, data)
	if err := put(t, uploaderOf(unknown), data, new(objstore.Upload)); !errors.Is(err, objstore.ErrForeign) {
		t.Fatalf("without checksums: got %v", err)
	}
}

// TestReplace overwrites another object, and only when it is asked to; killed at any call, it does so the next time.
func TestReplace(t *testing.T) {
	t.Parallel()
	data, other := file(250), file(251)
	full := &objtest.Bucket{}
	full.Set(key, other)
	u := uploaderOf(full)
	u.Replace = true
	must(t, put(t, u, data, new(objstore.Upload)))
	check(t, full, data)
	for at, call := range full.Calls() {
		n := 0
		b := &objtest.Bucket{}
		b.Set(key, other)
		b.After = func(string, string) error {
			if n++; n > at {
				return errKilled
			}
			return nil
		}
		u := uploaderOf(b)
		u.Replace = true
		if err := put(t, u, data, new(objstore.Upload)); err == nil {
			t.Fatalf("killed after %s: no error", call)
		}
		b.After = nil
		if got := b.Objects()[key]; !bytes.Equal(got, other) && !bytes.Equal(got, data) {
			t.Fatalf("killed after %s: an object of %d bytes", call, len(got))
		}
		if err := put(t, u, data, new(objstore.Upload)); err != nil {
			t.Fatalf("killed after %s: %v", call, err)
		}
		check(t, b, data)
	}
}

// changing is a file whose bytes change between the sums and the upload.
type changing struct{ *bytes.Reader }

func (c changing) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	if off == 100 && n > 0 {
		p[0] ^= 1
	}
	return n, err
}

// TestWrongChecksum sends a part whose bytes are not those of the sums, and finds an object with wrong bytes.
func TestWrongChecksum(t *testing.T) {
	t.Parallel()
	data, b := file(250), &objtest.Bucket{}
	u := uploaderOf(b)
	sums, err := u.Sum(t.Context(), bytes.NewReader(data), int64(len(data)))
	must(t, err)
	var was objstore.Upload
	note := func(now objstore.Upload) { was = now }
	err = u.Put(t.Context(), key, changing{bytes.NewReader(data)}, sums, was, note)
	if err == nil || !strings.Contains(err.Error(), "part 2") || len(b.Objects()) != 0 {
		t.Fatalf("got %v", err)
	}
	must(t, u.Put(t.Context(), key, bytes.NewReader(data), sums, was, note))
	check(t, b, data)
	damaged := bytes.Clone(data)
	damaged[7] ^= 1
	b.Set(key, damaged)
	if err := put(t, u, data, &was); !errors.Is(err, objstore.ErrForeign) {
		t.Fatalf("got %v", err)
	}
}

// TestPutStopped ends an upload by its context.
func TestPutStopped(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	b := &objtest.Bucket{Before: func(call, _ string) error {
		if call == "PutPart" {
			stop()
		}
		return nil
	}}
	data, u := file(1000), uploaderOf(b)
	sums, err := u.Sum(ctx, bytes.NewReader(data), 1000)
	must(t, err)
	if err := u.Put(ctx, key, bytes.NewReader(data), sums, objstore.Upload{}, func(objstore.Upload) {}); !errors.Is(err,
		context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if len(b.Objects()) != 0 || b.Pending() != 1 {
		t.Fatalf("%d objects, %d uploads", len(b.Objects()), b.Pending())
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "s3:", "s3://", "s3:///x", "http://b/x", "s3://b/a//c", "s3://b/../c",
		"s3://u@b/x", "s3://b:1/x", "s3://b/x?y"} {
		if p, err := objstore.ParsePlace(text); err == nil {
			t.Errorf("%q is %+v", text, p)
		}
	}
	p, err := objstore.ParsePlace("s3://b/x/y/")
	if err != nil || p.String() != "s3://b/x/y" || p.Key("c1", 0, "f") != "x/y/c1/0/f" {
		t.Fatalf("%v, %v, %s", p, err, p.Key("c1", 0, "f"))
	}
	if p, err = objstore.ParsePlace("s3://b"); err != nil || p.String() != "s3://b" || p.Key("c1", 2, "f") != "c1/2/f" {
		t.Fatalf("%v, %v", p, err)
	}
	for endpoint, ok := range map[string]bool{"https://s3.example": true, "http://127.0.0.1:9000": true,
		"http://[::1]:9000": true, "http://localhost": true, "http://s3.example": false, "http://10.0.0.1": false,
		"s3.example": false, "ftp://x": false, "https://me:secret@x": false, "https://x/y": false,
		"https://x?y": false} {
		p.Endpoint = endpoint
		if err := p.CheckEndpoint(); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("endpoint %s: %v", endpoint, err)
		}
	}
	p.Endpoint, p.Insecure = "http://s3.example", true
	if err := p.CheckEndpoint(); err != nil {
		t.Error(err)
	}
}

// TestCRC compares with the check value of CRC64NVME in the catalogue of Greg Cook.
func TestCRC(t *testing.T) {
	t.Parallel()
	text := []byte("123456789")
	s, err := (&objstore.Uploader{}).Sum(t.Context(), bytes.NewReader(text), int64(len(text)))
	must(t, err)
	if want := "rosUhgp5mIg="; s.CRC != want || s.Parts[0] != want { // 0xae8b14860a799888
		t.Errorf("CRC %s, want %s", s.CRC, want)
	}
}
