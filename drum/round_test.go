package drum

import (
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestTakeNumbered: a round has the keys and numbers that were added, whatever the length of their differences, up to
// the last byte of a block.
func TestTakeNumbered(t *testing.T) {
	d, err := Open(Options{
		Set: disk.Set{FS: memfs.New(1), Paths: []string{"d"}}, Name: "x", Op: CheckUpdate, Aux: AuxLog, Buckets: 256,
		BufferBytes: 64 << 10, BucketBytes: 64 << 10, DiskBytes: 1e6,
	}, nil)
	must(t, err)
	defer d.Close()
	const bucket = 200
	b := &d.buckets[bucket]
	number := uint64(1 << 40)
	for _, step := range []int64{0, 1, 63, 64, -64, -65, 8191, 8192, -8192, -8193, 1 << 30, -1 << 30, 0, 64, 1} {
		number += uint64(step)
		b.mu.Lock()
		_, err := d.appendNumbered(b, Key(bucket<<56|number), number)
		b.mu.Unlock()
		must(t, err)
		s := &b.open.keys
		r := round{opt: &d.opt}
		r.prepare(b.open, 0)
		block := blockReader{d: d, s: s, payload: s.buf[bucketHeaderBytes:], records: s.records, base: s.base}
		cost := int64(0)
		taken, full, err := r.takeNumbered(&block, d.shift, 0, b.open.tuples, &cost)
		if err != nil || full || taken != s.records {
			t.Fatalf("difference of %d: took %d of %d records: %v", step, taken, s.records, err)
		}
		if last := r.entries[taken-1]; last.arrival() != number || last.key != bucket<<56|number {
			t.Errorf("difference of %d: got %d, key %x, want %d", step, last.arrival(), last.key, number)
		}
		r.free()
	}
}
