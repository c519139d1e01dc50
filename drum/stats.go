package drum

import (
	"sync"
	"sync/atomic"
	"time"
)

// Stats is a reading of a store's counters; those of bytes and passes count since Open.
type Stats struct {
	// Keys is the number of entries in the cache, Tuples and TupleBytes what is pending.
	Keys, Tuples, TupleBytes int64
	// FullBuckets and SealedBuckets wait for a merge, or for one's end.
	FullBuckets, SealedBuckets int64
	// Passes and Rounds have ended; Merged tuples went through them, of which Emitted led to a result.
	Passes, Rounds, Merged, Emitted int64
	// Expunged entries were dropped by Options.Expunge.
	Expunged int64
	// The bytes read and written, by kind of file.
	KeysRead, KeysWritten, AuxRead, AuxWritten, CacheRead, CacheWritten int64
	// BufferWritten is what checkpoints have saved of buffers, in bytes.
	BufferWritten int64
	// The bytes held on disk: in bucket files of open (with all text logs) and of sealed inputs, and in the
	// cache's files by parts that are live or replaced. Files that wait for a Commit to be deleted count as
	// DoomedBytes.
	IntakeBytes, SealedBytes, LiveBytes, DeadBytes, DoomedBytes int64
	// RoundPeakBytes is the most RAM that the tuples of the rounds of a pass have taken, the peaks of its workers added.
	RoundPeakBytes int64
	// LastPass is how long the last pass took, PredictedDry how long an early one would take now.
	LastPass, PredictedEarly time.Duration
}

// IOBytes is all that was read and written, but for checkpoints.
func (s *Stats) IOBytes() int64 {
	return s.KeysRead + s.KeysWritten + s.AuxRead + s.AuxWritten + s.CacheRead + s.CacheWritten
}

type counter struct{ atomic.Int64 }

func (c *counter) add(n int) { c.Add(int64(n)) }

type counters struct {
	keysRead, keysWritten, auxRead, auxWritten, cacheRead, cacheWritten, bufferWritten counter
	passes, rounds, merged, emitted, expunged, roundPeak                               counter

	// mu guards the fields below.
	mu       sync.Mutex
	lastPass time.Duration
	rate     float64 // bytes/s of passes, decaying mean; 0: none yet
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

// passed notes a pass that took d and moved bytes.
func (c *counters) passed(d time.Duration, bytes int64) {
	c.passes.add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastPass = d
	// Passes of a few pages say nothing about speed.
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
	// firstRate is the speed assumed before the first measurement, of a single disk.
	firstRate = 150e6
	// roundTime is the fixed cost of a round: some system calls.
	roundTime = 50 * time.Microsecond
)

// Stats returns a reading; its fields are read one after the other.
func (d *Drum) Stats() Stats {
	c := &d.counts
	s := Stats{
		Keys: d.keys.Load(), Tuples: d.tuples.Load(), TupleBytes: d.bytes.Load(),
		FullBuckets: d.full.Load(), SealedBuckets: d.sealed.Load(),
		Passes: c.passes.Load(), Rounds: c.rounds.Load(), Merged: c.merged.Load(), Emitted: c.emitted.Load(), Expunged: c.expunged.Load(),
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
		if b.sealed != nil || b.open.tuples > 0 {
			buckets++
			files += b.part.size
		}
		b.mu.Unlock()
	}
	s.LiveBytes, s.DeadBytes, s.DoomedBytes = d.files.space()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.LastPass = c.lastPass
	rate := c.rate
	if rate == 0 {
		rate = firstRate
	}
	moved := float64(2*files + s.IntakeBytes + s.SealedBytes)
	s.PredictedEarly = time.Duration(buckets)*roundTime + time.Duration(moved/rate*float64(time.Second))
	return s
}
