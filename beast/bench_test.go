package beast_test

import (
	"testing"

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

func BenchmarkPlace(b *testing.B) {
	bst, err := beast.Open(beast.Options{Set: disk.Set{FS: memfs.New(1), Paths: []string{"/d"}}}, nil)
	must(b, err)
	defer bst.Close()
	defer bst.Pin()()
	var coded [beast.LedgerBytes]byte
	b.ReportAllocs()
	for b.Loop() {
		l := beast.DecodeLedger(&coded)
		bst.Place(&l, 1<<30)
		l.Encode(&coded)
	}
}

func BenchmarkAppend(b *testing.B) {
	fs := disk.OS()
	dir := b.TempDir()
	bst, err := beast.Open(beast.Options{Set: disk.Set{FS: fs, Paths: []string{dir}}}, nil)
	must(b, err)
	defer bst.Close()
	rec := []byte(record(1, 1, 110))
	b.SetBytes(int64(len(rec)))
	b.ReportAllocs()
	n := beast.Number(1)
	for b.Loop() {
		must(b, bst.Append(n, rec))
		n = n%16 + 1
	}
}
