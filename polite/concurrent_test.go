package polite_test

import (
	"sync"
	"testing"
	"time"

	"drumbeat/polite"
)

// TestConcurrent: with concurrent admission, dispatch, fetches, eviction and snapshots each item leaves once.
func TestConcurrent(t *testing.T) {
	const items = 500
	s := polite.New(polite.Options{MaxItems: 100}, t0)
	start := time.Now()
	var wg sync.WaitGroup
	again := make(chan *polite.Item, items)
	for i := range items {
		again <- item(i%50, i%10, v4(i%20))
	}
	var mu sync.Mutex
	fetched := map[*polite.Item]bool{}
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case it := <-again:
					if s.Admit(t0.Add(time.Since(start)), it).Kind != polite.Admitted {
						again <- it
					}
				case <-done:
					return
				}
			}
		})
		wg.Go(func() {
			for {
				now := t0.Add(time.Since(start))
				g, _ := s.Next(now)
				if g == nil {
					if ended(done) {
						return
					}
					continue
				}
				mu.Lock()
				if fetched[g.Item] {
					t.Error("item fetched twice")
				}
				fetched[g.Item] = true
				last := len(fetched) == items
				mu.Unlock()
				s.Started(now, g)
				s.Done(now, g, polite.Result{})
				if last {
					close(done)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for !ended(done) {
			for _, it := range s.EvictLater(t0.Add(time.Since(start)), time.Second, 3) {
				again <- it
			}
			s.Snapshot()
			s.Len()
			s.NextReady(t0.Add(time.Since(start)))
		}
	})
	wg.Wait()
	if q, f := s.Len(); q+f != 0 {
		t.Errorf("Len: got %d queued, %d in flight, want none", q, f)
	}
}

func ended(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
