package gate

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl/account"
)

// TestRobotsPlaces: tar pits, on as many hosts as they like and asked for again and again, do not keep
// another node's requests from being made. Each of these gets a place within the time of a tar pit, and those
// of one PLD leave room for others.
func TestRobotsPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRobotsPlaces()
		ctx, cancel := context.WithCancel(t.Context())
		var most, ended atomic.Int64
		for pit := range 40 {
			go func() {
				for ctx.Err() == nil {
					place, own := p.take(ctx, uint64(100+pit))
					if place != nil {
						p.mu.Lock()
						most.Store(max(most.Load(), int64(len(p.all))))
						p.mu.Unlock()
						<-own.Done()
						if p.give(place) {
							ended.Add(1)
						}
					}
					account.Sleep(ctx, time.Second)
				}
			}()
		}
		time.Sleep(2 * time.Minute)
		for round := range 20 {
			begun, tries := time.Now(), 0
			for {
				tries++
				if place, _ := p.take(ctx, 1); place != nil {
					time.Sleep(300 * time.Millisecond)
					if p.give(place) {
						t.Error("a short request made room")
					}
					break
				}
				time.Sleep(time.Second)
			}
			if took := time.Since(begun); took > robotsAnswerTime+5*time.Second {
				t.Errorf("round %d: a place after %v and %d tries", round, took, tries)
			}
			time.Sleep(time.Duration(round) * time.Second)
		}
		cancel()
		synctest.Wait()
		if most.Load() != robotsAnswers || ended.Load() < 20 || len(p.all) > 0 {
			t.Errorf("%d places at once, %d requests made room, %d places are left", most.Load(),
				ended.Load(), len(p.all))
		}
	})
}

// TestRobotsPlacesPLD: hosts of one PLD have some of the places only, and requests that continue are not
// disturbed without need.
func TestRobotsPlacesPLD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRobotsPlaces()
		var held []*robotsPlace
		for range 2 * robotsAnswers {
			if place, _ := p.take(t.Context(), 7); place != nil {
				held = append(held, place)
			}
		}
		if len(held) != robotsAnswersPLD {
			t.Errorf("one PLD has %d places, want %d", len(held), robotsAnswersPLD)
		}
		for i := range robotsAnswers - robotsAnswersPLD {
			place, _ := p.take(t.Context(), uint64(100+i))
			if place == nil {
				t.Fatalf("no place for PLD %d", i)
			}
			held = append(held, place)
		}
		if place, _ := p.take(t.Context(), 1); place != nil {
			t.Error("more places than there are")
		}
		time.Sleep(time.Hour)
		for _, place := range held {
			if p.give(place) {
				t.Error("a request made room although nobody wanted it")
			}
		}
	})
}
