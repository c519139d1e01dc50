package gate

import (
	"testing"
	"time"
)

// TestRobotsRoom: a PLD must get its share of robots.txt requests; further ones must get times as far apart
// as the PLD's requests can be made. Other PLDs must not be limited. The number of PLDs remembered must be
// bounded.
func TestRobotsRoom(t *testing.T) {
	const share = 8
	j := &robotsJobs{inFlight: map[int64]robotsJob{}, perPLD: map[uint64]*pldJobs{}}
	now := time.Unix(1e9, 0)
	var seqs []int64
	begin := func() {
		if turn := j.room(7, share, now); !turn.IsZero() {
			t.Errorf("request %d: deferred to %v", len(seqs), turn)
		}
		seqs = append(seqs, j.begin(nil, len(seqs)%2 == 1, 7, now))
	}
	end := func(deferred bool) {
		j.end(seqs[0], deferred, now)
		seqs = seqs[1:]
	}
	turn := now
	deferred := func(apart time.Duration) {
		t.Helper()
		turn = turn.Add(apart)
		if got := j.room(7, share, now); !got.Equal(turn) {
			t.Errorf("beyond the share: deferred to %v, want %v", got, turn)
		}
	}
	for range share {
		begin()
	}
	for range 5 { // nothing is known of the PLD
		deferred(pldJobsApartMin)
	}
	if turn := j.room(8, share, now); !turn.IsZero() {
		t.Errorf("another PLD: deferred to %v", turn)
	}
	now = now.Add(time.Second) // no answer for a second
	turn = now
	deferred(time.Second / share)
	deferred(time.Second / share)
	end(true) // tells nothing
	begin()
	now = turn
	turn = now
	deferred(now.Sub(time.Unix(1e9, 0)) / share)
	end(false) // 1.25 s
	begin()
	deferred(1250 * time.Millisecond / share)
	for range 200 { // fast answers
		end(false)
		begin()
	}
	now = now.Add(time.Second)
	turn = j.perPLD[7].turn
	if turn.Before(now) {
		turn = now
	}
	j.perPLD[7].ended = now // the last one ended just now
	deferred(pldJobsApartMin)
	j.perPLD[7].took = time.Hour
	deferred(pldJobsApartMax)
	for len(seqs) > 0 {
		end(false)
	}
	for pld := range uint64(3 * maxPLDTurns) {
		seq := j.begin(nil, true, 100+pld, now)
		j.room(100+pld, 1, now)
		j.end(seq, false, now)
		now = now.Add(10 * time.Second)
	}
	if n := len(j.perPLD); n > maxPLDTurns || j.len() != 0 {
		t.Errorf("%d PLDs remembered, want at most %d; %d requests left", n, maxPLDTurns, j.len())
	}
}
