package drum

import (
	"sync"
	"sync/atomic"
	"time"
)

// Stats holds a store's counters. Those of bytes and passes count since Open.
type Stats struct {
	// Keys is the number of entries in the cache. Tuples and TupleBytes count the pending tuples.
	Keys, Tuples, TupleBytes int64
	// FullBuckets wait for a merge. SealedBuckets are being merged.
	FullBuckets, SealedBuckets int64
	// Passes and Rounds count finished ones, Merged their tuples, Emitted their results.
	Passes, Rounds, Merged, Emitted int64
	// Changed counts the entries that rounds have set or removed in parts that they wrote, without late keys.
	Changed int64
	// Expunged counts the entries dropped by Options.Expunge.
	Expunged int64
	// Bytes read and written, by kind of file.
	KeysRead, KeysWritten, AuxRead, AuxWritten, CacheRead, CacheWritten int64
	// BufferWritten is the number of bytes that checkpoints have saved: buffers, and files of parts that were in RAM
	// until then. Passes over files in RAM do not count as I/O.
	BufferWritten int64
	// CacheBytes is the size of the cache, without the unused ends of pages.
	CacheBytes int64
	// Bytes on disk: in the bucket files of open inputs (with all text logs) and of sealed inputs, in live
	// parts and in replaced parts of cache files, where those in RAM count as on disk. DoomedBytes are in
	// files that the next Commit deletes.
	IntakeBytes, SealedBytes, LiveBytes, DeadBytes, DoomedBytes int64
	// RoundPeakBytes is the peak RAM of a pass for the tuples of its rounds: the sum of its workers' peaks.
	RoundPeakBytes int64
	// PredictedIO is what IOBytes should be for the passes so far, if keys are uniform (Options.passCost).
	PredictedIO float64
	// LastPass is the duration of the last pass. PredictedEarly is the expected duration of an early pass
	// now.
	LastPass, PredictedEarly time.Duration
}

// IOBytes returns the bytes read and written, except those of checkpoints.
func (s *Stats) IOBytes() int64 {
	return s.KeysRead + s.KeysWritten + s.AuxRead + s.AuxWritten + s.CacheRead + s.CacheWritten
}

type counter struct{ atomic.Int64 }

func (c *counter) add(n int) { c.Add(int64(n)) }

type counters struct {
	keysRead, keysWritten, auxRead, auxWritten, cacheRead, cacheWritten, bufferWritten counter
	passes, rounds, merged, changed, emitted, expunged, roundPeak                      counter
	// ramMoved is the number of bytes of parts read and written in RAM, counted as on disk.
	ramMoved counter

	// mu guards the fields below.
	mu        sync.Mutex
	lastPass  time.Duration
	rate      float64 // bytes/s of passes, decaying mean; 0 = no measurement yet
	predicted float64 // bytes
}

func (c *counters) wrote(kind blockKind, n int) {
	if kind == keyBlocks {
		c.keysWritten.add(n)
	} else {
		c.auxWritten.add(n)
	}
}

func (c *counters) reader(kind blockKind) *counter {
	if kind == keyBlocks {
		return &c.keysRead
	}
	return &c.auxRead
}

// passed records a pass of duration d that moved the given bytes, where so many were predicted.
func (c *counters) passed(d time.Duration, bytes int64, predicted float64) {
	c.passes.add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastPass = d
	c.predicted += predicted
	// A pass over a few pages does not measure the speed.
	if bytes < 1<<20 || d <= 0 {
		return
	}
	rate := float64(bytes) / d.Seconds()
	if c.rate > 0 {
		rate = (c.rate + rate) / 2
	}
	c.rate = rate
}

const (
	// firstRate is the speed assumed before the first measurement, in bytes/s: that of a single disk.
	firstRate = 150e6
	// roundTime is the fixed cost of a round, for a few system calls. ramRoundTime is that of a round over
	// parts in RAM.
	roundTime    = 50 * time.Microsecond
	ramRoundTime = 5 * time.Microsecond
)

// Stats returns the current counters. It reads them one after another.
func (d *Drum) Stats() Stats {
	c := &d.counts
	s := Stats{
		Keys: d.keys.Load(), Tuples: d.tuples.Load(), TupleBytes: d.bytes.Load(),
		FullBuckets: d.full.Load(), SealedBuckets: d.sealed.Load(),
		Passes: c.passes.Load(), Rounds: c.rounds.Load(), Merged: c.merged.Load(), Emitted: c.emitted.Load(),
		Changed: c.changed.Load(), Expunged: c.expunged.Load(),
		KeysRead: c.keysRead.Load(), KeysWritten: c.keysWritten.Load(),
		AuxRead: c.auxRead.Load(), AuxWritten: c.auxWritten.Load(),
		CacheRead: c.cacheRead.Load(), CacheWritten: c.cacheWritten.Load(), RoundPeakBytes: c.roundPeak.Load(),
		BufferWritten: c.bufferWritten.Load(),
	}
	s.IntakeBytes = d.logBytes.Load()
	var buckets int
	var files int64
	for i := range d.buckets {
		b := &d.buckets[i]
		b.mu.Lock()
		s.IntakeBytes += b.open.keys.written + b.open.aux.written
		if b.sealed != nil {
			s.SealedBytes += b.sealed.keys.written + b.sealed.aux.written
		}
		s.CacheBytes += b.part.size
		if b.sealed != nil || b.open.tuples > 0 {
			buckets++
			files += b.part.size
		}
		b.mu.Unlock()
	}
	s.LiveBytes, s.DeadBytes, s.DoomedBytes = d.files.space()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.LastPass, s.PredictedIO = c.lastPass, c.predicted
	rate := c.rate
	if rate == 0 {
		rate = firstRate
	}
	each := roundTime
	if d.files.resident() {
		each, files = ramRoundTime, 0
	}
	moved := float64(2*files + s.IntakeBytes + s.SealedBytes)
	s.PredictedEarly = time.Duration(buckets)*each + time.Duration(moved/rate*float64(time.Second))
	return s
}

// Fills returns how full the buckets are, from 0 to 1 and above, as means of at most n groups of
// neighbours. Buckets that are being written to are left out of their mean.
func (d *Drum) Fills(n int) []float64 {
	n = min(n, len(d.buckets))
	fills := make([]float64, n)
	for i := range fills {
		sum, known := int64(0), 0
		for j := i * len(d.buckets) / n; j < (i+1)*len(d.buckets)/n; j++ {
			b := &d.buckets[j]
			if !b.mu.TryLock() {
				continue
			}
			if b.open != nil {
				sum += b.open.cost
			}
			b.mu.Unlock()
			known++
		}
		fills[i] = float64(sum) / float64(max(1, known)) / float64(d.opt.fullBytes())
	}
	return fills
}
