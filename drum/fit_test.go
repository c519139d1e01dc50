package drum

import (
	"testing"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// TestFit checks that the fitted options respect RAM and disk, and come near Theorem 2, which counts fewer
// buffers.
func TestFit(t *testing.T) {
	load := Load{Known: 1e8, Links: 1e9, UniqueFraction: 1.0 / 9, URLBytes: 110, KeyBytes: 8, PointerBytes: 8}
	set := disk.Set{FS: disk.OS(), Paths: []string{"a"}}
	for _, aux := range []AuxMode{AuxBucketed, AuxLog} {
		for _, ram := range []float64{4 << 20, 64 << 20, 256 << 20, 8 << 30} {
			for _, d := range []float64{0, 1e9, 1e11} {
				o, p, err := Options{Set: set, Name: "x", Op: CheckUpdate, Aux: aux, SpanBytes: 1 << 20}.Fit(
					PlanInput{Load: load, RAMBytes: ram, DiskBytes: d})
				if err != nil {
					t.Fatalf("ram %g, disk %g: %v", ram, d, err)
				}
				if err := o.complete(); err != nil {
					t.Errorf("ram %g, disk %g: %v", ram, d, err)
				}
				if got := float64(o.RAMBytes()); got > ram {
					t.Errorf("ram %g, disk %g: takes %g", ram, d, got)
				}
				if d > 0 && p.DiskBytes > d {
					t.Errorf("ram %g, disk %g: holds %g", ram, d, p.DiskBytes)
				}
				limit := d
				if limit == 0 {
					limit = 1e15
				}
				if want := load.DRUM(ram, limit, float64(o.BufferBytes)); p.Alpha < want*0.99 || p.Alpha > 2*want {
					t.Errorf("ram %g, disk %g: alpha %.3f, the theorem's is %.3f (%v)", ram, d, p.Alpha, want, p)
				}
			}
		}
	}
	if _, _, err := (Options{Set: set, Name: "x"}).Fit(PlanInput{RAMBytes: 1000}); err == nil {
		t.Error("got no error for 1000 bytes")
	}
}

// TestFirstBlockReadOnce checks that a merge whose first change is in the first block of a part reads the
// part once, as the theorem assumes.
func TestFirstBlockReadOnce(t *testing.T) {
	set := disk.Set{FS: memfs.New(1), Paths: []string{"/a"}}
	d, err := Open(Options{Set: set, Name: "x", Op: CheckUpdate, Codec: Raw, Buckets: 1}, nil)
	must(t, err)
	defer d.Close()
	must(t, d.Fill(func(add func(Key, []byte) error) error {
		for i := range 4 * blockKeys {
			if err := add(Key(2*i+100), nil); err != nil {
				return err
			}
		}
		return nil
	}))
	before := d.Stats()
	for _, key := range []Key{1, 2*1000 + 101} { // before all keys, and in the first block
		must(t, d.Add([]Tuple{{Key: key, Op: CheckUpdate}}))
		part := d.Stats().LiveBytes
		if _, err := d.Pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		after := d.Stats()
		if read := after.CacheRead - before.CacheRead; read > part {
			t.Errorf("key %d: read %d bytes of a part of %d", key, read, part)
		}
		before = after
	}
	if n := d.Keys(); n != 4*blockKeys+2 {
		t.Errorf("got %d keys", n)
	}
}
