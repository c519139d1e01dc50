package dnscache

import (
	"time"

	"drumbeat/internal/list"
)

// timer is the entry of a query in one of the timer lists.
type timer struct {
	due  time.Time
	list *timerList // nil: not scheduled
}

// timerList holds queries in order of their due times. All queries of a list wait equally long, so new ones
// go to its end and no heap is needed.
type timerList struct{ list.List[query, *query] }

type queryLink = list.Link[query]

// timers are the lists: one for each try number, one for TCP, and one for questions that Rate delays.
type timers struct {
	tries      [maxTries]timerList
	tcp, paced timerList
	wake       time.Time // when the clock will wake; zero: it is awake
}

// all calls f for each list.
func (t *timers) all(f func(*timerList)) {
	for i := range t.tries {
		f(&t.tries[i])
	}
	f(&t.tcp)
	f(&t.paced)
}

// schedule sets the next event of a query.
func (r *Resolver) schedule(q *query, l *timerList, due time.Time) {
	q.stop()
	l.insert(q, due)
	if due.Before(r.timers.wake) {
		r.timers.wake = due
		select {
		case r.kick <- struct{}{}:
		default:
		}
	}
}

// insert puts q after all queries that are due before it. It rarely has to go back: only if two callers read
// the clock in one order and took the lock in the other.
func (l *timerList) insert(q *query, due time.Time) {
	after := l.Back()
	for after != nil && due.Before(after.timer.due) {
		after = l.Prev(after)
	}
	q.timer = timer{due, l}
	l.InsertAfter(q, after)
}

// stop removes the query from its list.
func (q *query) stop() {
	if l := q.timer.list; l != nil {
		l.Remove(q)
		q.timer = timer{}
	}
}

// startClock starts the goroutine that handles timeouts, delayed questions and socket renewal until Close.
func (r *Resolver) startClock() {
	r.wg.Go(func() {
		defer r.fatal()
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		var out outbox
		renewal := renewal{at: time.Now().Add(renewEvery)}
		for {
			wait := r.tick(&out)
			timer.Reset(min(wait, r.renew(&renewal)))
			select {
			case <-timer.C:
			case <-r.kick:
			case <-r.closing:
				return
			}
		}
	})
}

// tick handles due events and returns the time to the next one.
func (r *Resolver) tick(out *outbox) time.Duration {
	r.mu.Lock()
	now := time.Now()
	r.timers.wake = time.Time{}
	next := now.Add(time.Hour)
	r.timers.all(func(l *timerList) {
		for q := l.Front(); q != nil && !q.timer.due.After(now) && !r.closed; q = l.Front() {
			q.stop()
			r.overdue(q, now, out)
		}
	})
	r.timers.all(func(l *timerList) {
		if q := l.Front(); q != nil && q.timer.due.Before(next) {
			next = q.timer.due
		}
	})
	r.timers.wake = next
	r.mu.Unlock()
	r.send(out)
	return next.Sub(now)
}
