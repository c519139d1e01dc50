package crawl

import (
	"sync"
	"time"
)

// robotsJobs knows the requests under way. They are part of each checkpoint: a request that was begun is finished or
// made again.
type robotsJobs struct {
	mu       sync.Mutex // guards all below
	total    int64      // requests ever put into QD, those found there at the start included
	next     int64      // number of the next one to be taken from QD
	again    int64      // number of the last one taken up again
	inFlight map[int64][]byte
	plds     map[int64]uint64    // of those in flight
	perPLD   map[uint64]*pldJobs // PLDs with requests in flight, or with requests that were deferred and have their turn to come
}

// pldJobs are the requests of one PLD.
type pldJobs struct {
	n    int       // in flight
	turn time.Time // of the request deferred last
}

func (j *robotsJobs) queued() { j.mu.Lock(); j.total++; j.mu.Unlock() }

func (j *robotsJobs) issued() int64 { j.mu.Lock(); defer j.mu.Unlock(); return j.total }

func (j *robotsJobs) len() int { j.mu.Lock(); defer j.mu.Unlock(); return len(j.inFlight) }

// finished returns a number before which all requests are finished.
func (j *robotsJobs) finished() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	low := j.next
	for seq := range j.inFlight { // bounded by Options.RobotsInFlight; asked once a batch
		if seq >= 0 {
			low = min(low, seq)
		}
	}
	return low
}

// begin notes that the next request was taken from QD, or that one was taken up again. The latter have negative numbers:
// nobody waits for them.
func (j *robotsJobs) begin(rec []byte, again bool, pld uint64) (seq int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.perPLD[pld]
	if p == nil {
		p = &pldJobs{}
		j.perPLD[pld] = p
	}
	p.n++
	defer func() { j.plds[seq] = pld }()
	if again {
		j.again--
		seq = j.again
	} else {
		seq = j.next
		j.next++
	}
	j.inFlight[seq] = rec
	return seq
}

func (j *robotsJobs) end(seq int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.inFlight, seq)
	pld := j.plds[seq]
	delete(j.plds, seq)
	if p := j.perPLD[pld]; p != nil {
		if p.n--; p.n <= 0 && p.turn.IsZero() {
			delete(j.perPLD, pld)
		}
	}
}

// How many requests of one PLD may be in flight: a share of all, since the names of one PLD tend to be slow together, and a PLD
// may have endless names (DESIGN section 6: it must not hold up the rest). More wait on disk, each for a turn of its own.
const (
	pldJobsShare = 8                      // of Options.RobotsInFlight one part in so many …
	pldJobsLeast = 4                      // … but so many at least
	pldJobsApart = 200 * time.Millisecond // from one turn to the next
	maxPLDTurns  = 1 << 16                // PLDs whose turns are remembered, some 100 bytes each
)

// room returns the zero time if another request of a PLD may begin, else its turn.
func (j *robotsJobs) room(pld uint64, most int, now time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.perPLD[pld]
	if p == nil || p.n < most {
		return time.Time{}
	}
	if len(j.perPLD) >= maxPLDTurns {
		for k, q := range j.perPLD { // the bound is far above what may be in flight: nearly all are over
			if q.n == 0 && q.turn.Before(now) {
				delete(j.perPLD, k)
			}
		}
	}
	if p.turn.Before(now) {
		p.turn = now
	}
	p.turn = p.turn.Add(pldJobsApart)
	return p.turn
}

func (j *robotsJobs) snapshot() [][]byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	recs := make([][]byte, 0, len(j.inFlight))
	for _, rec := range j.inFlight {
		recs = append(recs, rec)
	}
	return recs
}
