package space

import (
	"context"
	"errors"
	"sync"
)

// loan is disk space lent to work that the crawl can do without. It is no reservation: merges and pages do
// not count what the work has not written yet. If they find too little room, the work is cancelled, and they
// look again once it has removed its files.
type loan struct {
	recall context.CancelCauseFunc
	ended  chan struct{}
}

// ErrRecalled cancels work on lent space.
var ErrRecalled = errors.New("crawl: the crawl needs the space")

// Borrow lends need bytes of one directory. Only one loan may be out. It is refused unless fetching would continue with
// all of it in use. The work must end soon after the end of ctx, which has the cause errRecalled then, and call release
// once its files are gone. It must not wait for a merge meanwhile.
func (s *Keeper) Borrow(ctx context.Context, what, dir string, need int64) (_ context.Context,
	release func(), _ error) {
	if err := s.limitError(what, need, s.limitMargin()+s.limitMargin()/4); err != nil {
		return nil, nil, err
	}
	if err := s.roomFor(what, []string{dir}, need, s.reserved.Load()+need, highWater(s.lowWater())); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	l := &loan{cancel, make(chan struct{})}
	if !s.lent.CompareAndSwap(nil, l) {
		panic("BUG: crawl: two loans of space")
	}
	return ctx, sync.OnceFunc(func() {
		s.lent.Store(nil)
		close(l.ended)
		cancel(nil)
	}), nil
}

// recall ends the loan and waits until its files are gone. It reports whether there was one.
func (s *Keeper) recall() bool {
	l := s.lent.Load()
	if l == nil {
		return false
	}
	l.recall(ErrRecalled)
	<-l.ended
	return true
}
