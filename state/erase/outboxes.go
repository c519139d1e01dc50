package erase

import (
	"slices"
	"strings"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// outboxNames returns the names of the outboxes of a node of a cluster.
func outboxNames(m *state.Manifest) (names []string) {
	for name := range m.Parts {
		if strings.HasPrefix(name, state.OutboxPrefix) {
			names = append(names, name)
		}
	}
	return names
}

// outboxes takes targets out of what waits for other nodes: a link found on a target loses the name of that page. Links
// to targets stay, since the sums of the exchange count them. The node that owns them knows them, and drops them.
func (w *next) outboxes() error {
	c := new(cluster.Changer)
	change := func(link []byte) ([]byte, error) {
		var rec weburl.Record
		if err := rec.Decode(link); err != nil {
			return nil, err
		}
		return w.withoutVia(&rec, link), nil
	}
	for _, name := range outboxNames(w.m) {
		if err := repair.RemakePart(w.Shadow, name, func(old, next *cluster.OutboxState) (err error) {
			if next.Pending, err = w.messages(c, name+"/pending", old.Pending, next.Pending, change); err != nil {
				return err
			}
			if next.Sent, err = w.messages(c, name+"/sent", old.Sent, next.Sent, change); err != nil {
				return err
			}
			raw, err := disk.ReadTail(w.r.Set, old.Open)
			if err != nil {
				return err
			}
			raw, changed, err := c.Records(raw, change)
			if err == nil && changed {
				next.Open, err = w.Tails.Write(0, raw)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// messages rewrites a queue of messages, if one has a target. Messages that were taken before leave its files then.
func (w *next) messages(c *cluster.Changer, name string, old, copied *queue.State,
	change func(link []byte) ([]byte, error)) (*queue.State, error) {
	if old == nil {
		return copied, nil
	}
	changes, err := found(w.scanQueue(name, old, func(msg []byte) error {
		_, _, err := c.Message(msg, func(link []byte) ([]byte, error) {
			is, err := w.touches(link)
			if is {
				err = errTouched
			}
			return link, err
		})
		return err
	}))
	if err != nil || !changes {
		return copied, err
	}
	return w.ChangeQueue(name, old, func(msg []byte) ([]byte, error) {
		next, _, err := c.Message(msg, change)
		return next, err
	})
}

// inOutboxes looks for targets in what waits for other nodes.
func (p *prover) inOutboxes() error {
	c := new(cluster.Changer)
	for _, name := range outboxNames(p.m) {
		st, err := state.Part[cluster.OutboxState](p.m, name)
		if err != nil {
			return err
		}
		look := func(part string) func(link []byte) ([]byte, error) {
			return func(link []byte) ([]byte, error) { return link, p.url(part, link) }
		}
		for part, q := range st.Queues(name) {
			if q == nil {
				continue
			}
			if _, err := queue.Scan(p.r.Set, part, q, func(msg []byte) error {
				_, _, err := c.Message(msg, look(part))
				return err
			}, nil); err != nil {
				return err
			}
		}
		raw, err := disk.ReadTail(p.r.Set, st.Open)
		if err == nil {
			_, _, err = c.Records(raw, look(name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// divides reports whether the PLD of a URL is divided. Then the URL may be enqueued at a node that does not have its
// key, and each node bars it.
func (x *run) divides(url []byte) bool {
	pld := x.r.Suffixes.PLDBytes(weburl.Split(url).Host)
	return slices.ContainsFunc(x.tables, func(t *cluster.Table) bool { return t.PartsOf(pld) != nil })
}

// foreign reports whether another node owns the PLD of a URL, by its key.
func (x *run) foreign(key uint64) bool {
	f := &x.m.Frozen
	return f.Nodes > 0 && !f.Slots.Has(weburl.SlotOf(key))
}
