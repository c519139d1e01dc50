package crawl

import (
	"testing"
	"time"
)

// TestRobotsRoom: a PLD must get its share of robots.txt requests; further ones must get times one spacing
// apart. Other PLDs must not be limited. The number of PLDs remembered after their times must be bounded.
func TestRobotsRoom(t *testing.T) {
	j := &robotsJobs{inFlight: map[int64][]byte{}, plds: map[int64]uint64{}, perPLD: map[uint64]*pldJobs{}}
	now := time.Unix(1e9, 0)
	var seqs []int64
	for i := range 8 {
		if turn := j.room(7, 8, now); !turn.IsZero() {
			t.Errorf("request %d: deferred to %v", i, turn)
		}
		seqs = append(seqs, j.begin(nil, i%2 == 1, 7))
	}
	for i := range 5 {
		if got, want := j.room(7, 8, now), now.Add(time.Duration(i+1)*pldJobsApart); !got.Equal(want) {
			t.Errorf("request %d beyond the share: deferred to %v, want %v", i, got, want)
		}
	}
	if turn := j.room(8, 8, now); !turn.IsZero() {
		t.Errorf("another PLD: deferred to %v", turn)
	}
	j.end(seqs[0])
	if turn := j.room(7, 8, now); !turn.IsZero() {
		t.Errorf("deferred to %v although one request has ended", turn)
	}
	for _, seq := range seqs[1:] {
		j.end(seq)
	}
	for pld := range uint64(3 * maxPLDTurns) {
		seq := j.begin(nil, true, 100+pld)
		j.room(100+pld, 1, now)
		j.end(seq)
		now = now.Add(time.Second)
	}
	if n := len(j.perPLD); n > maxPLDTurns || len(j.plds) != 0 || j.len() != 0 {
		t.Errorf("%d PLDs remembered, want at most %d; %d requests left", n, maxPLDTurns, len(j.plds))
	}
}
