package flags

import (
	"fmt"
	"runtime"

	"drumbeat/cmd/term"
	"drumbeat/crawl"
)

// Drum holds the flag of URLseen's geometry.
type Drum struct {
	Geometry drum `name:"drum" group:"machine" type:"parts" placeholder:"PARTS"`
}

// drum has the paper's M, delta, k, r, D and c. Nil and 0 follow from RAM and disk.
type drum struct {
	Buffer  *Size `part:"buffer" least:"4KiB" most:"2047MiB" example:"64KiB"`
	Chunk   *Size `part:"chunk" least:"4KiB" most:"2047MiB" example:"8MiB"`
	Buckets Count `part:"buckets" default:"0" most:"65536"`
	Merge   *Size `part:"merge" least:"1B" most:"4095MiB" example:"128MiB"`
	Disk    *Size `part:"disk" least:"1B" example:"40GB"`
	Workers Count `part:"workers" default:"0" most:"64"`
	Cache   *Size `part:"cache"`
}

// Check returns the first fault.
func (d *Drum) Check() error {
	g := &d.Geometry
	if k := g.Buckets; k&(k-1) != 0 {
		return fmt.Errorf("--drum: buckets=%d: want a power of 2 up to 65536, as in buckets=64", k)
	}
	if m := OrZero(g.Buffer); m%4096 != 0 {
		return fmt.Errorf("--drum: buffer=%v: want a multiple of 4KiB, as in buffer=64KiB", m)
	}
	return nil
}

// Reserve returns m with descriptors reserved for the files of a crawl in this number of directories.
func (d *Drum) Reserve(m term.Machine, dirs, outs int, direct bool) term.Machine {
	workers := int(d.Geometry.Workers)
	if workers == 0 {
		workers = min(8, 1+runtime.GOMAXPROCS(0)) // as package crawl computes it
	}
	return m.WithFiles(dirs, outs, workers, direct)
}

// Apply sets a crawl's options.
func (d *Drum) Apply(o *crawl.DrumOptions) {
	g := &d.Geometry
	o.BufferBytes, o.ChunkBytes, o.Buckets = int(OrZero(g.Buffer)), int(OrZero(g.Chunk)), int(g.Buckets)
	o.BucketBytes, o.DiskBytes = int64(OrZero(g.Merge)), int64(OrZero(g.Disk))
	o.Workers, o.CacheRAMBytes = int(g.Workers), int64(OrZero(g.Cache))
	if g.Cache != nil && *g.Cache == 0 {
		o.CacheRAMBytes = crawl.Unlimited // no cache: 0 would be the default
	}
}
