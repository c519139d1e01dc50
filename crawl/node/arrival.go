package node

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
)

// arrival are the slots that move here. It is not changed, only replaced.
type arrival struct {
	change     *cluster.TableChange // nil: none
	next       *cluster.Table       // of change
	slots      state.Slots          // of the givers that have begun
	from       []int                // givers whose slots have come
	arrived    bool                 // those of all givers have
	seedsAgain bool
}

// slotsFrom returns the slots that this node gets from a giver.
func (t *tables) slotsFrom(next *cluster.Table, giver int) (s state.Slots) {
	for slot := range cluster.Slots {
		if next.OwnerOf(slot) == t.opt.Node && t.opt.Table.OwnerOf(slot) == giver {
			s.Set(slot)
		}
	}
	return s
}

// hostsCome returns the slots of PLDs with hosts that this node gets, beside those of slots that it gets.
func (t *tables) hostsCome(next *cluster.Table) state.Slots {
	return state.SlotSet(cluster.HostsCome(t.opt.Table, next, t.opt.Node))
}

// comes reports whether this node visits a host of those that move here.
func (t *tables) comes(host []byte) bool {
	a := t.arriving()
	if a.change == nil {
		return false
	}
	slots := a.slots
	slots.Add(t.hostsCome(a.next)) // with hosts, there is one giver, which has begun
	return slots.HasPLD(t.saved.PLDKey(host)) && a.next.Visitor(t.saved.Hasher, t.saved.Suffixes, host) == t.opt.Node
}

// givesHere lists the givers of slots and hosts that this node gets.
func (t *tables) givesHere(c *cluster.TableChange, next *cluster.Table) []int {
	if givers := c.GiverList(); len(givers) == 1 && !t.hostsCome(next).IsZero() {
		return givers
	}
	return slices.DeleteFunc(slices.Clone(c.GiverList()), func(giver int) bool {
		return t.slotsFrom(next, giver).IsZero()
	})
}

// begun returns the arrival with the slots of a giver.
func (a arrival) begun(s state.Slots) arrival {
	a.slots.Add(s)
	return a
}

// ended returns the arrival once the slots of one of the givers have come.
func (a arrival) ended(giver int, seedsAgain bool, givers []int) arrival {
	if slices.Contains(a.from, giver) {
		return a
	}
	a.from = append(slices.Clone(a.from), giver)
	a.arrived, a.seedsAgain = len(a.from) == len(givers), a.seedsAgain || seedsAgain
	return a
}

// giveUp ends the arrival of slots whose giver was abandoned, once nothing more of them has come for the time of a
// lease: the node begins with what it has of them, and reads its seeds again.
func (t *tables) giveUp() error {
	a := t.arriving()
	if a.change == nil {
		a.change = t.orphaned()
	}
	if a.change == nil || a.arrived || time.Since(time.Unix(0, t.partAt.Load())) < t.opt.LeaseTTL ||
		time.Since(t.began) < t.opt.LeaseTTL {
		return nil
	}
	next, err := turnOf(a.change)
	if err != nil {
		return err
	}
	givers := t.givesHere(a.change, next.Table)
	for _, giver := range givers {
		if !t.gone.has(giver) || slices.Contains(a.from, giver) {
			continue
		}
		if err := t.run.Transact(func(tx *account.Tx) error {
			t.arrive(func(now arrival) arrival {
				now.change, now.next = a.change, next.Table
				return now.begun(t.slotsFrom(next.Table, giver)).ended(giver, true, givers)
			})
			tx.Late.Add(t.opt.Log.Warn, "the node that was giving slots to this one was abandoned: this one begins "+
				"with what has come of them", "node", giver, "change", a.change.Moves)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// orphaned returns a change by which this node gets slots of abandoned nodes alone, none of them has begun to come, and
// other givers have given theirs; nil: there is none.
func (t *tables) orphaned() *cluster.TableChange {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.next
	if c == nil || c.Kind != cluster.ChangeGive || c.Moves != t.opt.Table.Moves()+1 {
		return nil
	}
	givers := t.givesHere(c, t.table)
	given := func(giver int) bool { return t.moves[giver] >= c.Moves }
	if t.allGone(givers) && slices.ContainsFunc(c.GiverList(), given) {
		return c
	}
	return nil
}

// hasBegunWithout reports whether this node no longer waits for slots of an abandoned giver, so that further parts of
// them are too late (giveUp).
func (t *tables) hasBegunWithout(giver int) bool {
	a, c := t.arriving(), t.opt.Change
	return slices.Contains(a.from, giver) || a.change == nil && c != nil && c.Gives(giver)
}

// comingFrom returns the slots that a giver has begun to send. It sends links to them behind what it knows of them.
func (t *tables) comingFrom(giver int) (s state.Slots) {
	a := t.arriving()
	if a.change == nil || !a.change.Gives(giver) {
		return s
	}
	for slot := range cluster.Slots {
		if a.slots.Has(slot) && t.opt.Table.OwnerOf(slot) == giver {
			s.Set(slot)
		}
	}
	return s
}

// begins checks the beginning of slots that move here from another node. later says that this node does not have the
// table before that change yet.
func (t *tables) begins(in *admit.Inlet, from int) (later bool, _ error) {
	for i := range in.Parts {
		p := &in.Parts[i]
		if p.Kind != cluster.MovedBegin {
			continue
		}
		c, next, err := cluster.DecodeTableChange(p.Data)
		if err == nil {
			err = next.CheckSlots(t.saved.Hasher)
		}
		switch {
		case err != nil:
			return false, fmt.Errorf("crawl: %w: %w", cluster.ErrMessage, err)
		case c.Moves > t.opt.Table.Moves()+1:
			return true, nil
		case c.Moves <= t.opt.Table.Moves() || !c.Gives(from) || c.Before != t.opt.Table.Sum() ||
			next.Nodes() != t.opt.nodes() || t.differs(c, next) ||
			t.slotsFrom(next, from).IsZero() && t.hostsCome(next).IsZero():
			return false, fmt.Errorf("crawl: %w: slots that move from node %d by change %d, after change %d",
				cluster.ErrMessage, from, c.Moves, t.opt.Table.Moves())
		}
	}
	return false, nil
}

// differs reports whether slots move here by another change.
func (t *tables) differs(c *cluster.TableChange, next *cluster.Table) bool {
	a := t.arriving()
	return a.change != nil && (a.change.Owners != c.Owners || cluster.PartsDiffer(a.next, next))
}

// take notes the begin and the end of slots that move here from a node. It is part of the transaction of their message.
func (t *tables) take(in *admit.Inlet, from int, tx *account.Tx) error {
	if len(in.Parts) > 0 {
		t.partAt.Store(time.Now().UnixNano())
	}
	for i := range in.Parts {
		switch p := &in.Parts[i]; p.Kind {
		case cluster.MovedBegin:
			c, next, err := cluster.DecodeTableChange(bytes.Clone(p.Data))
			if err != nil {
				return err
			}
			t.arrive(func(a arrival) arrival {
				a.change, a.next = c, next
				return a.begun(t.slotsFrom(next, from))
			})
			come := t.arriving().slots
			come.Add(t.hostsCome(next))
			t.come(come)
			tx.Late.Add(t.opt.Log.Info, "slots move here", "from", from, "change", c.Moves)
		case cluster.MovedEnd:
			change, seedsDone, sums, err := cluster.MovedEndOf(p.Data)
			if err != nil {
				return err
			}
			a := t.arriving()
			if !ends(a.change, change, from) {
				return fmt.Errorf("crawl: the end of change %d without its begin: %w", change, state.ErrIncompatible)
			}
			next, err := turnOf(a.change)
			if err != nil {
				return err
			}
			givers := t.givesHere(a.change, next.Table)
			t.arrive(func(now arrival) arrival { return now.ended(from, !seedsDone, givers) })
			tx.Late.Add(t.opt.Log.Info, "slots have moved here", "from", from, "change", change, "urls", sums.Known.N,
				"waiting", sums.Waiting.N)
			tx.Wake(t.wake)
		}
	}
	return nil
}
