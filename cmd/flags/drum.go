package flags

import (
	"fmt"
	"math"
	"runtime"

	"drumbeat/cmd/term"
	"drumbeat/crawl"
)

// Drum holds the flags of URLseen's geometry.
type Drum struct {
	DrumBuffer  *Size `group:"machine" placeholder:"SIZE"`
	DrumChunk   *Size `group:"machine" placeholder:"SIZE"`
	DrumBuckets Count `group:"machine" placeholder:"N" default:"0"`
	DrumBucket  *Size `group:"machine" placeholder:"SIZE"`
	DrumDisk    *Size `group:"machine" placeholder:"SIZE"`
	DrumWorkers Count `group:"machine" placeholder:"N" default:"0"`
	CacheRAM    *Size `group:"machine" name:"cache-ram" placeholder:"SIZE"`
}

// Check returns the first fault.
func (d *Drum) Check() error {
	if k := d.DrumBuckets; k < 0 || k > 1<<16 || k&(k-1) != 0 {
		return fmt.Errorf("--drum-buckets %d: must be a power of 2 up to %d", k, 1<<16)
	}
	if d.DrumWorkers > 64 {
		return fmt.Errorf("--drum-workers %d: must be at most 64", d.DrumWorkers)
	}
	for _, s := range []struct {
		flag string
		v    *Size
	}{{"drum-buffer", d.DrumBuffer}, {"drum-chunk", d.DrumChunk}, {"drum-bucket", d.DrumBucket},
		{"drum-disk", d.DrumDisk}} {
		if s.v != nil && *s.v == 0 {
			return fmt.Errorf("--%s can't be 0", s.flag)
		}
	}
	if n := d.DrumBucket; n != nil && *n > math.MaxUint32 {
		return fmt.Errorf("--drum-bucket %v: must be less than 4GiB", *n)
	}
	if n := d.DrumChunk; n != nil && (*n < 4096 || *n > math.MaxInt32) {
		return fmt.Errorf("--drum-chunk %v: must be between 4KiB and 2GiB", *n)
	}
	if m := d.DrumBuffer; m != nil && (*m%4096 != 0 || *m > math.MaxInt32) {
		return fmt.Errorf("--drum-buffer %v: must be a multiple of 4KiB below 2GiB", *m)
	}
	return nil
}

// Reserve returns m with descriptors reserved for the files of a crawl in this number of directories.
func (d *Drum) Reserve(m term.Machine, dirs, outs int, direct bool) term.Machine {
	workers := int(d.DrumWorkers)
	if workers == 0 {
		workers = min(8, 1+runtime.GOMAXPROCS(0)) // as package crawl computes it
	}
	return m.WithFiles(dirs, outs, workers, direct)
}

// Apply sets a crawl's options.
func (d *Drum) Apply(o *crawl.DrumOptions) {
	o.BufferBytes, o.ChunkBytes, o.Buckets = int(OrZero(d.DrumBuffer)), int(OrZero(d.DrumChunk)), int(d.DrumBuckets)
	o.BucketBytes, o.DiskBytes = int64(OrZero(d.DrumBucket)), int64(OrZero(d.DrumDisk))
	o.Workers, o.CacheRAMBytes = int(d.DrumWorkers), int64(OrZero(d.CacheRAM))
	if d.CacheRAM != nil && *d.CacheRAM == 0 {
		o.CacheRAMBytes = crawl.Unlimited // no cache: 0 would be the default
	}
}
