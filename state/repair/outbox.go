package repair

import (
	"errors"
	"fmt"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// ErrOutbox means that an outbox has lost messages that its receiver may lack. It comes wrapped, beside the damage.
var ErrOutbox = errors.New("an outbox can't be repaired")

// outboxRepair is the repair of one outbox.
type outboxRepair struct {
	pair     *audit.Pair
	taken    *cluster.Taken // drop all messages up to this one; nil: none
	openLost bool           // drop the records of the open message
}

// decideOutboxes decides what to do with damaged outboxes. It returns an error if a lost message is not
// durable at its receiver.
func (w *repair) decideOutboxes() error {
	c := w.Report.Cluster
	if c == nil {
		return nil
	}
	for i := range c.Pairs {
		p := &c.Pairs[i]
		found := w.Outboxes[p.Node]
		o := outboxRepair{pair: p, openLost: found.OpenLost}
		if found.Wrong > 0 {
			return w.refuse(p, "it contradicts the manifest")
		}
		if found.Lost > 0 {
			taken, err := w.takenBy(c, p)
			if err != nil {
				return err
			}
			lost := fmt.Sprintf("it has lost %s, the first %d and the last %d",
				human.Counted(found.Lost, "message", "messages"), found.LostFirst,
				found.LostLast)
			if taken == nil {
				return w.refuse(p, lost+
					", whose numbers can't be given to other records, because node %d may have received them", p.Node)
			}
			if taken.Number < found.LostLast {
				return w.refuse(p, lost+", and node %d has received messages up to %d only", p.Node, taken.Number)
			}
			o.taken = taken
			w.do("drop messages up to %d from %s (%d lost): node %d has made them durable", taken.Number,
				state.OutboxName(p.Node), found.Lost, p.Node)
		}
		if found.OpenLost {
			lost := w.openRecords(p)
			w.out.Links += lost.Links.N
			w.do("drop %s and %s from %s: they are lost, and had no number yet",
				human.Counted(lost.Links.N, "link", "links"), human.Counted(lost.Edges.N, "edge", "edges"),
				state.OutboxName(p.Node))
		}
		if o.taken != nil || o.openLost {
			w.outboxes = append(w.outboxes, o)
		}
	}
	return nil
}

func (w *repair) do(format string, args ...any) {
	w.out.Actions = append(w.out.Actions, fmt.Sprintf(format, args...))
}

// takenBy returns the messages of this node that the other node of a pair has made durable, by its audit; nil
// without an audit.
func (w *repair) takenBy(c *audit.Cluster, p *audit.Pair) (*cluster.Taken, error) {
	for i := range w.opt.Others {
		n := &w.opt.Others[i]
		if n.Cluster.Node != p.Node {
			continue
		}
		own := audit.Node{Name: w.Saved.Set.Path(0), Cluster: c}
		if _, err := audit.CompareNodes([]audit.Node{own, *n}); err != nil {
			return nil, err
		}
		taken := n.Cluster.TakenFrom(c.Node)
		if _, err := p.Sent.Check(c.Node, p.Node, taken); err != nil {
			return nil, err
		}
		return &taken, nil
	}
	return nil, nil
}

// refuse returns the error for an irreparable outbox, with the first damage.
func (w *repair) refuse(p *audit.Pair, format string, args ...any) error {
	name := state.OutboxName(p.Node)
	damage := &disk.CorruptError{Path: "state/" + name, Want: "an outbox", Got: "a damaged one"}
	for _, d := range w.Report.Damages {
		if d.Structure == name && d.Want != "" {
			damage = &disk.CorruptError{Path: d.File, Offset: d.Offset, Want: d.Want, Got: d.Got}
			break
		}
	}
	return fmt.Errorf("crawl: repair: %w: the outbox for node %d: %s: %w; if node %[2]d has received them, give its "+
		"audit (drumbeat audit --json) by "+
		"--taken; else put the file back from a copy, or restore all nodes from copies that match "+
		"(drumbeat cluster audit)", ErrOutbox, p.Node, fmt.Sprintf(format, args...), damage)
}

// openRecords returns the records of the open message by the accounts.
func (w *repair) openRecords(p *audit.Pair) cluster.Totals {
	st, err := state.Part[cluster.OutboxState](w.Manifest, state.OutboxName(p.Node))
	if err != nil || st == nil {
		return cluster.Totals{}
	}
	lost := st.Out
	lost.Sub(st.Whole)
	return lost
}

// remakeOutboxes rebuilds the outboxes without what decideOutboxes drops. Other messages keep their numbers.
func (w *repair) remakeOutboxes() error {
	for i := range w.outboxes {
		o := &w.outboxes[i]
		name := state.OutboxName(o.pair.Node)
		err := RemakePart(w.Shadow, name, func(old, next *cluster.OutboxState) (err error) {
			if o.openLost {
				lost := w.openRecords(o.pair)
				next.Open, next.Out = disk.Ref{}, old.Whole
				count := &w.Next.Accounts.Counters
				count[state.CountLinksSent] -= lost.Links.N
				count[state.CountEdgesSent] -= lost.Edges.N
			}
			if o.taken == nil {
				return nil
			}
			keep := func(msg []byte) bool {
				h, err := cluster.ReadHeader(msg)
				return err == nil && h.Number > o.taken.Number
			}
			if next.Pending, err = w.RemakeQueue(name+"/pending", old.Pending, keep); err != nil {
				return err
			}
			next.Sent, err = w.RemakeQueue(name+"/sent", old.Sent, keep)
			next.Taken, next.Gone = o.taken.Number, o.taken.Totals
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
