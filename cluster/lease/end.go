package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"drumbeat/cluster"
)

// End announces that no exchange is in progress and none will begin, so that other nodes may take this node's
// leases at once. Then it deletes leases without information for the next holder until ctx ends; others
// collect the rest. Run must have returned.
func (l *Leases) End(ctx context.Context) error {
	var free []*entry
	for _, e := range l.entries {
		if e.stage != held && e.stage != leaving {
			continue
		}
		h := e.bring
		if !e.shut {
			h = l.o.Polite.HandOver(time.Now(), e.net, 0, maxRests)
		} else if !h.Own { // the value of an unopened lease has its information
			if e.kept == nil {
				free = append(free, e)
			}
			continue
		}
		if len(h.Rests) == 0 && (e.kept == nil || len(h.Open) == 0) {
			free = append(free, e)
			continue
		}
		v := value{Node: nobody}
		v.bring(h)
		_, err := l.o.Transport.Update(ctx, cluster.BucketNet, e.key, encode(v), e.rev)
		switch {
		case errors.Is(err, cluster.ErrFull): // the old value must do
			l.full(err)
		case err != nil && !errors.Is(err, cluster.ErrChanged):
			return fmt.Errorf("cluster/lease: end: %w", err)
		}
	}
	if err := l.heartbeats.end(ctx); err != nil {
		return err
	}
	var running sync.WaitGroup
	next := make(chan *entry)
	for range min(maxSteps, len(free)) {
		running.Go(func() {
			for e := range next {
				// After an error, the lease stays until a node wants the network, or collects.
				_ = l.o.Transport.Delete(ctx, cluster.BucketNet, e.key, e.rev)
			}
		})
	}
	for _, e := range free {
		if ctx.Err() != nil {
			break
		}
		next <- e
	}
	close(next)
	running.Wait()
	return nil
}
