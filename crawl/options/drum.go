package options

import "runtime"

// MaxWorkers is the most merge workers by default. More do not make a pass faster, because disks and the text
// stream limit it.
const MaxWorkers = 8

// Drum are the paper's M, Δ, k, r, D and c of URLseen. Zero means a value planned from Limits.
type Drum struct {
	BufferBytes int   // M
	ChunkBytes  int   // Δ
	Buckets     int   // k
	BucketBytes int64 // r
	DiskBytes   int64 // D
	// CacheRAMBytes is the RAM cache in front of URLseen (c). Unlimited means no cache.
	CacheRAMBytes int64
	// Workers is the number of URLseen buckets that a pass merges in parallel, if RAM suffices.
	// Default: one more than GOMAXPROCS, at most MaxWorkers, because one worker usually waits for the disk.
	Workers int
}

// Defaults sets the number of workers.
func (o *Drum) Defaults() { setDefault(&o.Workers, min(MaxWorkers, 1+runtime.GOMAXPROCS(0))) }
