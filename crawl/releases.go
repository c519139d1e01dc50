package crawl

import (
	"sync"
	"time"
)

// stragglers is how long QR waits for the slowest requests of a batch. URLs let go earlier than their answer wait in
// `deferred`, so one slow host holds nobody up for longer than this.
const stragglers = 5 * time.Second

// releases knows how many records at the head of QR have had their requests answered. QR is FIFO and answers come in any
// order; so records are counted off in batches: a merge of RobotsRequested covers the records that were in QR when it
// began, and its emission issued requests up to some number; when all of these are finished, the batch is released.
type releases struct {
	mu      sync.Mutex // guards all below
	total   int64      // records ever appended
	read    int64      // records ever taken
	batches []awaitingBatch
}

type awaitingBatch struct {
	records int64 // release all records before this one …
	jobs    int64 // … when all robots requests before this one are finished …
	issued  time.Time
}

func (a *releases) appended() { a.mu.Lock(); a.total++; a.mu.Unlock() }

func (a *releases) taken() { a.mu.Lock(); a.read++; a.mu.Unlock() }

// beginPass returns the mark for endPass: the records whose requests the coming merge will surely see.
func (a *releases) beginPass() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total
}

// endPass notes that the requests for all records before mark are among the first jobs ones.
func (a *releases) endPass(mark, jobs int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.batches); mark <= a.read || n > 0 && a.batches[n-1].records >= mark {
		return // nothing new
	} else if n >= 64 {
		a.batches[n-1] = awaitingBatch{mark, jobs, time.Now()} // bounded: the last batch grows
		return
	}
	a.batches = append(a.batches, awaitingBatch{mark, jobs, time.Now()})
}

// releasable returns how many records may be taken now, given that all requests before finished have been answered; if
// none, after how long some may be taken in any case.
func (a *releases) releasable(finished int64, now time.Time) (n int64, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.batches) > 0 {
		b := a.batches[0]
		if b.records <= a.read {
			a.batches = append(a.batches[:0], a.batches[1:]...)
			continue
		}
		wait = b.issued.Add(stragglers).Sub(now)
		if finished >= b.jobs || wait <= 0 {
			return b.records - a.read, 0
		}
		return 0, wait
	}
	return 0, wakeAfter
}

// restore says that n records were found in QR at the start: they are released when all jobs found have finished.
func (a *releases) restore(n, jobs int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total, a.read = n, 0
	if n > 0 {
		a.batches = []awaitingBatch{{n, jobs, time.Now()}}
	}
}
