package state

import (
	"errors"
	"strings"
	"testing"

	"drumbeat/disk"
)

// TestObjectRecord spells a record as docs/reference/files/objects.md does.
func TestObjectRecord(t *testing.T) {
	t.Parallel()
	o := Object{Dir: 1, Log: true, File: "crawl-1.jsonl.zst", Size: 9, SHA256: "ab", CRC: "rosUhgp5mIg=", Time: 5}
	const text = `{"v":1,"dir":1,"log":true,"file":"crawl-1.jsonl.zst","size":9,"sha256":"ab",` +
		`"crc64nvme":"rosUhgp5mIg=","time":5}`
	rec, err := o.Append(nil)
	if err != nil || string(rec) != text {
		t.Fatalf("%s, %v", rec, err)
	}
	var got Object
	if err := got.Decode([]byte(text)); err != nil || got != o {
		t.Fatalf("%+v, %v", got, err)
	}
	state, out := disk.Set{Paths: []string{"s0", "s1"}}, disk.Set{Paths: []string{"o0"}}
	if p := got.Path(state, out); p != "s1/log/crawl-1.jsonl.zst" {
		t.Errorf("path %s", p)
	}
	if got.Log = false; got.Path(state, out) != "" {
		t.Errorf("path %s of a directory that was not given", got.Path(state, out))
	}
	if err := got.Decode([]byte(strings.Replace(text, `"v":1`, `"v":2`, 1))); !errors.Is(err, ErrIncompatible) {
		t.Errorf("another version: %v", err)
	}
	for _, bad := range []string{"", "x", "{}", `{"v":1}`, `{"v":1,"file":"a/b"}`, `{"v":1,"file":".."}`,
		`{"v":1,"file":"a","size":-1}`, `{"v":1,"file":"a","dir":-1}`, `{"v":1,"file":"a\\\\b"}`,
		`{"v":1,"file":"a\\u009bb"}`} {
		if err := got.Decode([]byte(bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// FuzzObject: a record that decodes leads to a file in its directory, and is coded as before.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"v":1,"dir":0,"file":"a","size":9,"sha256":"ab","crc64nvme":"x","time":5}`))
	set := disk.Set{Paths: []string{"d"}}
	f.Fuzz(func(t *testing.T, rec []byte) {
		var o, again Object
		if o.Decode(rec) != nil {
			return
		}
		if p := o.Path(set, set); p != "" && p != "d/warc/"+o.File && p != "d/log/"+o.File {
			t.Errorf("path %q", p)
		}
		text, err := o.Append(nil)
		if err == nil {
			err = again.Decode(text)
		}
		if err != nil || again != o {
			t.Errorf("%+v, %+v, %v", o, again, err)
		}
	})
}
