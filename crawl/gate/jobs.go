package gate

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
	inFlight map[int64]robotsJob
	perPLD   map[uint64]*pldJobs // PLDs with requests in flight or with a due time in the future
}

// robotsJob is a request in flight.
type robotsJob struct {
	rec   []byte
	pld   uint64
	began time.Time
}

// pldJobs counts the requests of one PLD.
type pldJobs struct {
	n     int           // in flight
	turn  time.Time     // due time of the request deferred last
	took  time.Duration // mean duration of the last requests; 0 if none has ended
	ended time.Time     // when the last one ended, or when the first of those in flight began
}

func (j *robotsJobs) queued() { j.mu.Lock(); j.total++; j.mu.Unlock() }

func (j *robotsJobs) issued() int64 { j.mu.Lock(); defer j.mu.Unlock(); return j.total }

func (j *robotsJobs) len() int { j.mu.Lock(); defer j.mu.Unlock(); return len(j.inFlight) }

// finished returns a number below which all requests have ended.
func (j *robotsJobs) finished() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	low := j.next
	for seq := range j.inFlight { // at most Options.Network.RobotsInFlight; called once a batch
		if seq >= 0 {
			low = min(low, seq)
		}
	}
	return low
}

// begin records that the next request was taken from QD, or that a deferred request was resumed. Resumed
// requests have negative numbers, because no URL in QR waits for them.
func (j *robotsJobs) begin(rec []byte, again bool, pld uint64, now time.Time) (seq int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.perPLD[pld]
	if p == nil {
		p = &pldJobs{}
		j.perPLD[pld] = p
	}
	if p.n++; p.n == 1 {
		p.ended = now
	}
	if again {
		j.again--
		seq = j.again
	} else {
		seq = j.next
		j.next++
	}
	j.inFlight[seq] = robotsJob{rec, pld, now}
	return seq
}

// end records that a request has ended. If it was deferred, its time says nothing about the PLD's names and
// servers.
func (j *robotsJobs) end(seq int64, deferred bool, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	job := j.inFlight[seq]
	delete(j.inFlight, seq)
	p := j.perPLD[job.pld]
	if p == nil {
		return
	}
	if !deferred {
		took := now.Sub(job.began)
		if p.took > 0 {
			took = p.took + (took-p.took)/8
		}
		p.took, p.ended = max(took, 1), now
	}
	if p.n--; p.n <= 0 && p.turn.IsZero() {
		delete(j.perPLD, job.pld)
	}
}

// The requests of one PLD in flight are limited to a share of all: the names of one PLD tend to be slow
// together, and a PLD may have endless names, which must not hold up the other PLDs. The requests above the
// limit wait on disk, each with its own due time.
const (
	pldJobsShare = 8 // 1/pldJobsShare of Options.Network.RobotsInFlight …
	pldJobsLeast = 4 // … but at least pldJobsLeast
	// The due times of two requests are the mean duration of the PLD's requests divided by its share apart,
	// which is how fast they can be made: a PLD of silent names waits long, one of fast servers hardly.
	pldJobsApartMin = time.Millisecond
	pldJobsApartMax = 5 * time.Second
	maxPLDTurns     = 1 << 16 // maximum number of PLDs whose due times are kept, about 150 bytes each
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
	apart := max(p.took, now.Sub(p.ended)) / time.Duration(most)
	p.turn = p.turn.Add(min(max(apart, pldJobsApartMin), pldJobsApartMax))
	return p.turn
}

func (j *robotsJobs) snapshot() [][]byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	recs := make([][]byte, 0, len(j.inFlight))
	for _, job := range j.inFlight {
		recs = append(recs, job.rec)
	}
	return recs
}
