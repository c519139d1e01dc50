package budgets_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/roomtest"
	"drumbeat/crawl/testworld"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// leaving stands for a node whose slot of one host leaves.
type leaving struct {
	room  *room
	host  string
	begun bool // the records of BEAST were made unsifted when it was opened

	mu    sync.Mutex // guards the fields below
	ended int
	urls  []string // that have left
}

// begins reports whether the records are to be made unsifted, once.
func (l *leaving) begins() bool {
	if l == nil || l.begun {
		return false
	}
	l.begun = true
	return true
}

func (l *leaving) Leaving() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended == 0
}

func (l *leaving) Leave(tx *account.Tx, data []byte, from state.Place) (bool, error) {
	var rec weburl.Record
	if err := rec.Decode(data); err != nil || !strings.Contains(string(rec.URL), l.host) {
		return false, err
	}
	l.mu.Lock()
	l.urls = append(l.urls, string(rec.URL))
	l.mu.Unlock()
	tx.Depart(l.room.Saved.Hasher.URLKey(rec.URL), from)
	return true, nil
}

func (l *leaving) Share() func(uint64) float64 { return nil }

func (l *leaving) HandOut(*account.Tx, *weburl.Record, state.Place) (bool, error) { return false, nil }

func (l *leaving) Left(*account.Tx) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
	return nil
}

// TestSift: unsifted URLs of slots that leave go to their node, from all queues and from QF. Neither a pause nor
// another budget function meanwhile places one of them again. The others stay.
func TestSift(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		r := open(roomtest.New(t, 1000), 8, nil)
		r.add("stays.test", 12)
		r.add("leaves.test", 12)
		r.pass()
		over := r.Accounts.In(state.PlaceOverBudget)
		r.want("placed", 0, 24-over, over)
		r.Save()
		l := &leaving{host: "leaves.test"}
		r.leaving = l
		r = open(r.Cut(), 8, r)
		l.room = r
		r.function, r.epoch = &changes.Function{Name: "equal", Default: 3, Max: 3}, 7
		if err := r.stage.NewFunction(); err != nil {
			t.Fatal(err)
		}
		r.Paused.Store(true)
		r.While(func() { time.Sleep(time.Minute) }, r.stage.ScanOverBudget)
		r.want("paused", 0, 24-over, over)
		if len(l.urls) > 0 || l.ended > 0 {
			t.Errorf("%d URLs have left during the pause, which ended %d times", len(l.urls), l.ended)
		}
		r.Paused.Store(false)
		r.during(time.Hour)
		r.want("in the end", 0, 0, 0)
		if len(l.urls) != 12 || l.ended != 1 || over == 0 {
			t.Errorf("%d of 12 URLs have left, %d ends, %d were over budget", len(l.urls), l.ended, over)
		}
		urls := released(t, r.To(state.PlaceRobotsCheck))
		for _, url := range urls {
			if strings.Contains(url, l.host) {
				t.Errorf("%s was released", url)
			}
		}
		if len(urls) != 12 {
			t.Errorf("%d of 12 URLs were released", len(urls))
		}
	})
}
