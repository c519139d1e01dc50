package crawl

import (
	"sync"
	"time"
)

// robotsJobs records the requests under way. Each checkpoint includes them; a run that continues from it
// repeats them.
type robotsJobs struct {
	mu       sync.Mutex // guards the fields below
	total    int64      // requests ever put into QD, including those found there at the start
	next     int64      // number of the next request to be taken from QD
	again    int64      // number of the last request resumed after a deferral; negative
	inFlight map[int64][]byte
	plds     map[int64]uint64    // PLDs of the requests in flight
	perPLD   map[uint64]*pldJobs // PLDs with requests in flight or with a due time in the future
}

// pldJobs counts the requests of one PLD.
type pldJobs struct {
	n    int       // in flight
	turn time.Time // due time of the request deferred last
}

func (j *robotsJobs) queued() { j.mu.Lock(); j.total++; j.mu.Unlock() }

func (j *robotsJobs) issued() int64 { j.mu.Lock(); defer j.mu.Unlock(); return j.total }

func (j *robotsJobs) len() int { j.mu.Lock(); defer j.mu.Unlock(); return len(j.inFlight) }

// finished returns a number below which all requests have ended.
func (j *robotsJobs) finished() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	low := j.next
	for seq := range j.inFlight { // at most Options.RobotsInFlight; called once a batch
		if seq >= 0 {
			low = min(low, seq)
		}
	}
	return low
}

// begin records that the next request was taken from QD, or that a deferred request was resumed. Resumed
// requests have negative numbers, because no URL in QR waits for them.
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

// The requests of one PLD in flight are limited to a share of all: the names of one PLD tend to be slow
// together, and a PLD may have endless names, which must not hold up the other PLDs. The requests above the
// limit wait on disk, each with its own due time.
const (
	pldJobsShare = 8                      // 1/pldJobsShare of Options.RobotsInFlight …
	pldJobsLeast = 4                      // … but at least pldJobsLeast
	pldJobsApart = 200 * time.Millisecond // between the due times of two requests
	maxPLDTurns  = 1 << 16                // most PLDs whose due times are kept, about 100 bytes each
)

// room returns the zero time if another request of the PLD may begin, or else its due time.
func (j *robotsJobs) room(pld uint64, most int, now time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.perPLD[pld]
	if p == nil || p.n < most {
		return time.Time{}
	}
	if len(j.perPLD) >= maxPLDTurns {
		for k, q := range j.perPLD { // maxPLDTurns is far above the requests in flight, so most entries are old
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
