package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/account"
	"drumbeat/crawl/operate"
	"drumbeat/crawl/orders"
	"drumbeat/crawl/space"
	"drumbeat/disk"
	"drumbeat/state"
)

// watchList feeds the URLs of Options.Order.Watch, each as an order (package orders), in the order of their deadlines.
// A window of them waits in RAM, the others in the file. The manifest has the position, so a crash feeds none twice.
// Its goroutine is "watchlist".
type watchList struct {
	c     *crawler
	wake  account.Signal // there may be room for more orders
	file  disk.File      // nil: none
	state state.Seeds    // guarded by the transaction lock
}

const (
	// watchWindow is the number of orders from which no URL is fed. The operator has the rest of the table.
	watchWindow = orders.Max / 2
	// watchAtOnce is the number of lines in one transaction. Each lot may cost RobotsCache a pass.
	watchAtOnce = 256
	// watchEach is the time between two searches for URLs whose deadlines have passed.
	watchEach = time.Second
)

// open opens the file at the position of a manifest.
func (w *watchList) open(m *state.Manifest) error {
	name := w.c.opt.Order.Watch
	if m != nil {
		w.state = m.Watch
	}
	if name == "" {
		return nil
	}
	if w.c.opt.Cluster != nil {
		return errors.New("crawl: a watch list is not for a node of a cluster")
	}
	file, err := w.c.opt.Disk.FS.OpenRead(name)
	if err != nil {
		return fmt.Errorf("crawl: open watch list: %w", err)
	}
	w.file = file
	size, err := file.Size()
	if err != nil {
		return fmt.Errorf("crawl: read watch list: %w", err)
	}
	sum, err := state.WatchSumOf(io.NewSectionReader(file, 0, size))
	if err != nil {
		return err
	}
	if w.state.Size != size || w.state.Sum != sum {
		w.state = state.Seeds{Size: size, Sum: sum}
	}
	return nil
}

func (w *watchList) close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}

// fed reports whether all lines have been fed. Call it under the transaction lock or before the stages start.
func (w *watchList) fed() bool { return w.file == nil || w.state.Done }

// run feeds the list, and counts the URLs whose deadlines pass.
func (w *watchList) run(ctx context.Context) error {
	c := w.c
	if w.file == nil && c.orders.Watched() == 0 && c.opt.Cluster == nil { // URLs may come with slots
		return nil
	}
	var lines interface{ Next() ([]byte, int64, error) }
	if w.file != nil {
		lines = admit.NewLineReader(io.NewSectionReader(w.file, w.state.Offset, w.state.Size-w.state.Offset))
	}
	var counted time.Time
	for done := w.fed(); ctx.Err() == nil; {
		if now := time.Now(); now.Sub(counted) >= watchEach {
			counted = now
			if err := w.countMissed(); err != nil {
				return err
			}
		}
		why := c.space.Pausing()
		if done || c.drains() || c.node.Quiet() || why != "" && why != space.PausedByOperator ||
			c.orders.Room() < orders.Max-watchWindow+watchAtOnce {
			c.Await(ctx, w.wake, watchEach)
			continue
		}
		if err := c.operator.Watching(func() (err error) { done, err = w.feed(lines); return err }); err != nil {
			return err
		}
		c.WakeWatch.Raise()
	}
	return nil
}

// feed feeds the next lines.
func (w *watchList) feed(lines interface{ Next() ([]byte, int64, error) }) (done bool, _ error) {
	var lot []operate.Watched
	bytes := int64(0)
	for range watchAtOnce {
		line, n, err := lines.Next()
		if err == io.EOF {
			done = true
			break
		}
		if err != nil {
			return false, fmt.Errorf("crawl: read watch list: %w", err)
		}
		bytes += n
		url, text, _ := strings.Cut(string(line), " ")
		if strings.HasPrefix(url, "#") { // an erased URL
			continue
		}
		x := operate.Watched{Line: url, Deadline: state.NoDeadline}
		if text != "" {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return false, fmt.Errorf("crawl: watch list: deadline %q of %s: want one such as "+
					"2026-12-24T18:00:00Z", text, url)
			}
			x.Deadline = max(1, at.Unix())
		}
		lot = append(lot, x)
	}
	if err := w.c.operator.LookUp(lot); err != nil {
		return false, err
	}
	return done, w.c.Transact(func(tx *account.Tx) error {
		w.c.Hook("watch")
		w.state.Offset += bytes
		w.state.Done = done
		for i := range lot {
			if err := w.c.operator.Watch(tx, &lot[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// countMissed counts the URLs whose deadlines have passed.
func (w *watchList) countMissed() error {
	keys := w.c.orders.Overdue(time.Now().Unix())
	if len(keys) == 0 {
		return nil
	}
	return w.c.Transact(func(tx *account.Tx) error {
		for _, key := range keys {
			if _, ok := w.c.orders.TakeDeadline(key); ok { // it was not fetched meanwhile
				tx.Count(state.CountWatchMissed, 1)
			}
		}
		return nil
	})
}
