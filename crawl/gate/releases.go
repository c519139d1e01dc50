package gate

import (
	"sync"
	"time"

	"drumbeat/crawl/account"
)

// Stragglers is how long QR waits for the slowest requests of a batch. After that it releases the batch.
// URLs without an answer then wait as deferred URLs, so a slow host delays the others by no more than this.
const Stragglers = 5 * time.Second

// releases counts the records at the head of QR whose requests have been answered. QR is FIFO, but answers
// arrive in any order, so records are released in batches. A merge of RobotsRequested covers the records
// that were in QR when it began, and its emission issued requests up to some number. When all requests up
// to that number have ended, the batch is released.
type releases struct {
	mu      sync.Mutex // guards the fields below
	total   int64      // records ever appended
	read    int64      // records ever taken
	batches []awaitingBatch
}

type awaitingBatch struct {
	records int64 // the batch ends before this record
	jobs    int64 // it is released when all requests with smaller numbers have ended
	issued  time.Time
}

func (a *releases) appended() { a.mu.Lock(); a.total++; a.mu.Unlock() }

func (a *releases) taken() { a.mu.Lock(); a.read++; a.mu.Unlock() }

// beginPass returns the mark for endPass: it covers the records whose requests the coming merge certainly
// sees.
func (a *releases) beginPass() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total
}

// endPass records that the requests of all records before mark are among the first jobs requests.
func (a *releases) endPass(mark, jobs int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.batches); mark <= a.read || n > 0 && a.batches[n-1].records >= mark {
		return
	} else if n >= 64 {
		a.batches[n-1] = awaitingBatch{mark, jobs, time.Now()} // at most 64 batches: the last one grows
		return
	}
	a.batches = append(a.batches, awaitingBatch{mark, jobs, time.Now()})
}

// releasable returns how many records may be taken now, given that all requests before finished have ended.
// If there are none, it returns how long to wait until some are released anyway.
func (a *releases) releasable(finished int64, now time.Time) (n int64, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.batches) > 0 {
		b := a.batches[0]
		if b.records <= a.read {
			a.batches = append(a.batches[:0], a.batches[1:]...)
			continue
		}
		wait = b.issued.Add(Stragglers).Sub(now)
		if finished >= b.jobs || wait <= 0 {
			return b.records - a.read, 0
		}
		return 0, wait
	}
	return 0, account.WakeAfter
}

// rest notes that no request can be made now: the time of stragglers begins when requests can be made again.
func (a *releases) rest(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.batches {
		a.batches[i].issued = now
	}
}

// restore makes the n records found in QR wait until all jobs found have ended.
func (a *releases) restore(n, jobs int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total, a.read = n, 0
	if n > 0 {
		a.batches = []awaitingBatch{{n, jobs, time.Now()}}
	}
}
