package disk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// FuzzTail damages a tail file and the reference to a string in it. ReadTail must return the original
// string or an error that names the file.
func FuzzTail(f *testing.F) {
	mem := memfs.New(1)
	must := func(err error) {
		if err != nil {
			f.Fatal(err)
		}
	}
	set := disk.Set{FS: mem, Paths: []string{"a", "b"}}
	must(mem.MkdirAll("a"))
	must(mem.MkdirAll("b"))
	tails, err := disk.CreateTails(set, 7)
	must(err)
	want := []byte("one string among others")
	_, err = tails.Write(1, []byte("before"))
	must(err)
	ref, err := tails.Write(1, want)
	must(err)
	_, err = tails.Write(1, []byte("behind"))
	must(errors.Join(err, tails.Close()))
	name := "b/state/tails-0000000007"
	sound, err := disk.ReadFile(mem, name)
	must(err)

	f.Add(0, uint16(0), byte(0), 1, uint64(7), int64(46), int64(23), ref.Sum)
	f.Add(45, uint16(3), byte(1), 0, uint64(7), int64(46), int64(23), ref.Sum)
	f.Add(1000, uint16(50), byte(4), 1, uint64(8), int64(40), int64(1)<<62, ref.Sum)
	f.Add(10, uint16(39), byte(0x80), -1, uint64(1)<<63, int64(-1), int64(-1), uint64(0))
	f.Add(68, uint16(20), byte(2), 1, uint64(7), int64(1)<<62, int64(1), uint64(0))
	f.Fuzz(func(t *testing.T, size int, at uint16, flip byte, dir int, gen uint64, off, length int64, sum uint64) {
		data := slices.Clone(sound)
		data[int(at)%len(data)] ^= flip
		if size > 0 {
			data = data[:min(len(data), size)]
		}
		mem := memfs.New(1)
		if err := errors.Join(mem.MkdirAll("a"), mem.MkdirAll("b/state"),
			disk.WriteFileAtomic(mem, name, data)); err != nil {
			t.Fatal(err)
		}
		set := disk.Set{FS: mem, Paths: []string{"a", "b"}}
		r := disk.Ref{Dir: dir, Gen: gen, Off: off, Len: length, Sum: sum}
		got, err := disk.ReadTail(set, r)
		changed := !bytes.Equal(data, sound)
		var corrupt *disk.CorruptError
		switch {
		case err == nil && r == ref && !bytes.Equal(got, want):
			t.Fatalf("got %q, want %q", got, want)
		case err == nil && int64(len(got)) != length:
			t.Fatalf("%d bytes for %+v", len(got), r)
		case err != nil && r == ref && !changed:
			t.Fatal(err)
		case err != nil && r == ref && (!errors.As(err, &corrupt) || corrupt.Path != name):
			t.Fatalf("%v doesn't name %s", err, name)
		}
	})
}

// FuzzHeader checks that CheckHeader accepts only the expected header, whatever the first bytes of a file
// are.
func FuzzHeader(f *testing.F) {
	want := disk.Header{Kind: "tail", Version: 1, Number: 3, Place: 1}
	f.Add(want.Append(nil), false)
	f.Add([]byte("drumbeat"), true)
	f.Add(disk.Header{Kind: "tail", Version: 2, Number: 3, Place: 1}.Append(nil), true)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix && len(b) >= disk.HeaderBytes { // forge a valid checksum
			var h disk.Header
			h.Kind, h.Version = string(b[8:12]), binary.LittleEndian.Uint32(b[12:])
			h.Number, h.Place = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
			b = h.Append(nil)
		}
		mem := memfs.New(1)
		disk.Must(t, disk.WriteFileAtomic(mem, "x", b))
		file, err := mem.OpenRead("x")
		disk.Must(t, err)
		same := bytes.HasPrefix(b, want.Append(nil))
		if err := disk.CheckHeader(file, want); (err == nil) != same {
			t.Fatalf("%x: %v", b, err)
		}
	})
}

// FuzzIdentity checks that an accepted identity survives being written again, and that MatchIdentities
// never puts directories in another order or number than they were written with.
func FuzzIdentity(f *testing.F) {
	ids := []disk.Identity{{V: 1, Crawl: "0123abcd", Number: 0, Count: 2, Kind: "state"},
		{V: 1, Crawl: "0123abcd", Number: 1, Count: 2, Kind: "state"}}
	mem := memfs.New(1)
	paths := []string{"x", "y"}
	for i, id := range ids {
		if err := errors.Join(mem.MkdirAll(paths[i]), disk.WriteIdentity(mem, paths[i], id)); err != nil {
			f.Fatal(err)
		}
	}
	sound, err := disk.ReadFile(mem, "x/drumbeat-dir.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sound)
	f.Add([]byte(`{"V":1,"Crawl":"0123abcd","Number":9223372036854775806,"Count":9223372036854775807,"Kind":"state"}`))
	f.Add([]byte(`{"V":1,"Crawl":"0123abcd","Number":0,"Count":1,"Kind":"state"} {"V":2}`))
	f.Add([]byte("[]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		mem := memfs.New(1)
		err := errors.Join(mem.MkdirAll("x"), mem.MkdirAll("y"), disk.WriteFileAtomic(mem, "x/drumbeat-dir.json", data),
			disk.WriteIdentity(mem, "y", ids[1]))
		disk.Must(t, err)
		id, err := disk.ReadIdentity(mem, "x")
		if err != nil {
			return
		}
		disk.Must(t, disk.WriteIdentity(mem, "x", id))
		if again, err := disk.ReadIdentity(mem, "x"); err != nil || again != id {
			t.Fatalf("%+v becomes %+v, %v", id, again, err)
		}
		m, err := disk.MatchIdentities(mem, []string{"y", "x"}, "state")
		if err == nil && (m.Crawl != ids[0].Crawl || !slices.Equal(m.Set.Paths, paths)) {
			t.Fatalf("%s: taken for %+v", data, m)
		}
	})
}
