package move

import (
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/weburl"
)

// A URL that waits for its next visit (--recrawl) has its history in its record, and its due time follows from that. It
// goes from the calendar of its node to that of the owner, and not to STAR: there it would take the place of a new URL
// in its PLD's budget, and be visited at once.

// visit counts a URL of another node that waits for its next visit. visits writes its record, or the outbox has it.
func (n *node) visit(key uint64, data []byte) error {
	if n.remote != nil {
		return n.remote.visit(key, data)
	}
	n.after[state.PlaceDeferred].Add(key)
	n.deferred[state.ReasonRevisit]++
	return nil
}

// visits copies the URLs that wait for their next visit from the calendars of the nodes that give slots to this one,
// slot by slot with their due times.
func (m *mover) visits(n *node) error {
	for _, from := range m.nodes {
		if !n.loads[from.number] {
			continue
		}
		st, err := state.Part[queue.CalendarState](from.m, state.NameDeferred)
		if err != nil {
			return err
		}
		if st == nil {
			continue
		}
		if err := n.shadow.AddBins(state.NameDeferred, from.saved.Set, st, func(data []byte) (bool, error) {
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return false, err
			}
			return state.Reason(rec.Reason) == state.ReasonRevisit &&
				n.ownsKey(from.saved.Hasher.URLKey(rec.URL)), nil
		}); err != nil {
			return err
		}
	}
	return nil
}
