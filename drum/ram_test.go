//go:build !drumsafe && !race

package drum

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"drumbeat/disk"
)

// statusBytes returns a field of /proc/self/status given in kB.
func statusBytes(t *testing.T, field string) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, rest, ok := bytes.Cut(status, []byte(field+":"))
	var n int64
	if _, err := fmt.Sscan(string(rest[:min(len(rest), 40)]), &n); err != nil || !ok {
		t.Skipf("no %s: %v", field, err)
	}
	return n << 10
}

// During intake and passes, the RAM of the process must stay within Options.RAMBytes for any mix of keys.
func TestRAMBytes(t *testing.T) {
	for name, opt := range map[string]Options{
		"bucketed": {Op: CheckUpdate, Codec: Rice},
		"log":      {Op: CheckUpdate, Codec: Rice, Aux: AuxLog, SpanBytes: 1 << 20},
		"workers":  {Op: CheckUpdate, Codec: Rice, Aux: AuxLog, SpanBytes: 1 << 20, Workers: 3, LogBytes: 256 << 10},
		"values":   {ValueBytes: -1, MaxValueBytes: 1000, Apply: applyReplace, OutBytes: 200, Each: true},
	} {
		opt.Set, opt.Name = disk.Set{FS: disk.OS(), Paths: []string{t.TempDir()}}, "x"
		opt.Buckets, opt.BufferBytes, opt.BucketBytes, opt.ReadChunkBytes = 16, 64<<10, 8<<20, 512<<10
		if opt.Apply != nil {
			opt.Wanted = func(*Result) bool { return false }
		}
		d, err := Open(opt, nil)
		must(t, err)
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			t.Skip(err)
		}
		before := statusBytes(t, "VmRSS")
		feed(t, d, &opt)
		peak := statusBytes(t, "VmHWM") - before
		// The Go heap holds the batches of this test and of results. Memory that the runtime kept from
		// earlier makes the measured peak smaller.
		if want := opt.RAMBytes(); peak > want+4<<20 || peak < want/8 {
			t.Errorf("%s: took %d bytes, RAMBytes is %d", name, peak, want)
		}
		if s := d.Stats(); s.RoundPeakBytes > opt.BucketBytes*int64(max(1, opt.Workers)) ||
			s.RoundPeakBytes < opt.BucketBytes*9/10 {
			t.Errorf("%s: rounds of %d bytes", name, s.RoundPeakBytes)
		}
		must(t, d.Close())
		runtime.GC()
	}
}

// feed adds a multiple of the tuples of a round, 90 % of them of one key, and merges.
func feed(t *testing.T, d *Drum, opt *Options) {
	rng := rand.New(rand.NewPCG(1, 1))
	ts, aux, value := make([]Tuple, 100), make([]byte, 20), []byte(nil)
	if opt.ValueBytes != 0 {
		value = make([]byte, 200)
	}
	for range 2 * opt.BucketBytes / opt.TupleBytes(len(value)/2) / int64(len(ts)) {
		for i := range ts {
			ts[i] = Tuple{Key: 1 << 63, Op: CheckUpdate, Aux: aux}
			if rng.IntN(10) == 0 {
				ts[i].Key = Key(rng.Uint64())
			}
			if value != nil {
				ts[i].Value = value[:rng.IntN(len(value))]
			}
		}
		must(t, d.Add(ts))
	}
	_, err := d.Pass(context.Background(), true)
	must(t, err)
}
