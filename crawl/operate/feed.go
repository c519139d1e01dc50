package operate

import (
	"cmp"
	"context"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/output"
	"drumbeat/crawl/space"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// BadSeeds returns the lines that are no URL or host, each with the reason, at most MaxSeedReports.
func (o *Operator) BadSeeds(lines []string) (bad [][2]string) {
	for _, line := range lines {
		if _, _, err := o.opt.Links.ParseSeed([]byte(line)); err != nil && len(bad) < output.MaxSeedReports {
			bad = append(bad, [2]string{line, err.Error()})
		}
	}
	return bad
}

// Run feeds the seeds of changes, each change once. After a crash in the middle it feeds a change
// again; URLseen drops the URLs that it knows.
func (o *Operator) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := o.journal.Tidy(); err != nil {
			o.opt.Log.Warn("could not remove seeds from the journal after feeding them", "error", err, "retry",
				"after the next checkpoint")
		}
		c, ok, err := o.journal.NextSeeds()
		if err != nil {
			return err
		}
		if why := o.others.Space.Pausing(); !ok || o.others.Drains() || o.others.Quiet() ||
			why != "" && (c.Op != changes.OpEnqueue || why != space.PausedByOperator) {
			o.run.Await(ctx, o.wakeSeed, account.WakeAfter)
			continue
		}
		if c.Op == changes.OpEnqueue {
			if err := o.feedEnqueued(c); err != nil {
				return err
			}
			continue
		}
		if whole, err := o.others.Feed(ctx, c.Seeds); !whole {
			return err
		}
		if err := o.run.Transact(func(*account.Tx) error {
			o.fedSeq = c.Seq
			o.journal.Fed()
			return nil
		}); err != nil {
			return err
		}
		o.run.WakeWatch.Raise()
	}
	return nil
}

// feedEnqueued begins the orders of a change.
func (o *Operator) feedEnqueued(c *changes.Change) error {
	o.feeding.Lock()
	defer o.feeding.Unlock()
	return o.run.Transact(func(tx *account.Tx) error {
		if _, err := o.feedOrders(tx, c.Seeds, 0); err != nil {
			return err
		}
		o.fedSeq = c.Seq
		o.journal.Fed()
		return nil
	})
}

// Watched is a line of --watch.
type Watched struct {
	Line     string
	Deadline int64 // as in state.Order
	erased   bool
}

// LookUp notes the lines whose URLs an erasure has ended, or named. It reads from disk, so call it before the
// transaction of Watch.
func (o *Operator) LookUp(lines []Watched) error {
	keys := make([]uint64, len(lines))
	for i := range lines {
		if url, _ := o.admits(lines[i].Line); url != "" {
			keys[i] = o.saved.Hasher.URLKey([]byte(url))
		}
	}
	barred, err := o.saved.Barred(keys...)
	for i := range lines {
		lines[i].erased = barred[keys[i]]
	}
	return err
}

// Watch begins the order of the URL of a line of --watch, whose deadline is as in state.Order. A URL that the crawl
// does not take is missed, and the crawl log says why; but it does not name one that was erased. A URL that waits
// already keeps its deadline, and is not counted. It is part of a transaction within Watching.
func (o *Operator) Watch(tx *account.Tx, x *Watched) error {
	url, why := o.admits(x.Line)
	if why.name == "" && !x.erased {
		n, err := o.feedOrders(tx, []string{url}, x.Deadline)
		if err != nil || n > 0 {
			return err
		}
		why.name = admit.Filtered // by rules that have changed since
	}
	tx.Count(state.CountWatched, 1)
	tx.Count(state.CountWatchMissed, 1)
	if x.erased {
		return nil
	}
	return o.others.LogOrder(tx, &weburl.Record{URL: []byte(cmp.Or(url, x.Line))}, why.name)
}

// Watching calls feed while no enqueued URLs go from the journal to the table of orders.
func (o *Operator) Watching(feed func() error) error {
	o.feeding.Lock()
	defer o.feeding.Unlock()
	return feed()
}

// feedOrders begins the orders of a change, or that of a URL with a deadline, and returns the number of URLs that the
// crawl takes. It is part of a transaction.
func (o *Operator) feedOrders(tx *account.Tx, lines []string, deadline int64) (taken int, _ error) {
	now := time.Now()
	b := admit.NewBatch(o.opt.Links)
	b.Start(nil, nil, 0, 0, now)
	for _, url := range lines {
		b.Add([]byte(url)) // the scope may have changed since the answer
	}
	began := false
	for url := range b.URLs {
		taken++
		key, host := o.saved.Hasher.URLKey(url), weburl.Split(url).Host
		rec := weburl.Record{URL: url, Found: now.Unix(), Budget: o.Pinned(o.saved.PLDKey(host))}
		order := state.Order{Key: key, Host: o.saved.HostKey(host), Urgent: true, Visits: rec.Append(nil)}
		if sent, err := o.others.SendOrder(&order); sent || err != nil { // its slot has moved since the answer
			began = true
			if err != nil {
				return taken, err
			}
			continue
		}
		if !o.others.Orders.Begin(key, order.Host) {
			continue
		}
		if began = true; deadline != 0 {
			o.others.Orders.Watch(key, deadline)
			tx.Count(state.CountWatched, 1)
		}
		if err := o.Ordered.Append(state.AppendOrdered(nil, key)); err != nil {
			return taken, err
		}
		tx.Count(state.CountEnqueued, 1)
		tx.EnterOrder(key, state.PlaceRobotsCheck)
		if err := o.others.Check.CheckRobots(tx, order.Visits, &rec, state.PlaceRobotsCheck); err != nil {
			return taken, err
		}
	}
	if !began {
		return taken, nil
	}
	b.Rec.Flags |= weburl.FlagSeed // to URLseen, past the cache of recent links
	return taken, o.others.SendLinks(b, tx)
}

// NoteOrdered notes the key of an order for audits. It is part of a transaction.
func (o *Operator) NoteOrdered(key uint64) error {
	return o.Ordered.Append(state.AppendOrdered(nil, key))
}
