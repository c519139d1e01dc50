package dnscache

import (
	"time"

	"drumbeat/internal/list"
)

// timer is a query's place in one of the lists of timers.
type timer struct {
	due  time.Time
	list *timerList // nil: none
}

// timerList is queries in order of when they are due. All that come to a list wait the same time, so that a new one goes to
// its end: no heap needs to be kept.
type timerList struct{ list.List[query, *query] }

type queryLink = list.Link[query]

// timers are the lists: by number of the try, of those that TCP has, and of those that Rate puts off.
type timers struct {
	tries      [maxTries]timerList
	tcp, paced timerList
	wake       time.Time // when the clock looks next; zero: it is looking
}

// all calls f for each list.
func (t *timers) all(f func(*timerList)) {
	for i := range t.tries {
		f(&t.tries[i])
	}
	f(&t.tcp)
	f(&t.paced)
}

// schedule sets the query's next event.
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

// insert puts q behind those that are due before it. They are all but those whose clock was read in another order than they
// came to the lock.
func (l *timerList) insert(q *query, due time.Time) {
	after := l.Back()
	for after != nil && due.Before(after.timer.due) {
		after = l.Prev(after)
	}
	q.timer = timer{due, l}
	l.InsertAfter(q, after)
}

// stop takes the query out of its list.
func (q *query) stop() {
	if l := q.timer.list; l != nil {
		l.Remove(q)
		q.timer = timer{}
	}
}

// startClock starts the goroutine that sees to timeouts, to questions that Rate put off and to new sockets, until Close.
func (r *Resolver) startClock() {
	r.wg.Go(func() {
		defer r.fatal()
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		var out outbox
		renewal := renewal{at: time.Now().Add(r.opt.RenewEvery)}
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

// tick handles what is due and returns the time to the next event.
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
