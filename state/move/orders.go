package move

import (
	"cmp"
	"maps"
	"slices"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// An enqueued URL that waits has a record of its own, its order (crawl/orders). It goes to RobotsCache of the owner,
// and its entry of the table with it, so that the owner fetches it before others. The other record of the URL, if there
// is one, goes the way of all records. Which of two is the order's does not matter, unless one has visits: the first
// one to be fetched ends the order.

// orders are the enqueued URLs of a node, of the next state.
type orders struct {
	coded   [][]byte
	second  weburl.Sum              // those that wait, beside the record of a unique URL
	came    [][]byte                // keys of those that wait and come from other nodes
	leaving map[uint64]*state.Order // those that wait, and leave when their records are found
	hosts   map[uint64]*state.Order // those of slots of divided PLDs: they leave if their records do
}

// readOrders divides the table of enqueued URLs.
func (m *mover) readOrders(n *node) error {
	data, err := disk.ReadTail(n.saved.Set, n.m.Orders)
	if err != nil {
		return err
	}
	n.orders.leaving, n.orders.hosts = map[uint64]*state.Order{}, map[uint64]*state.Order{}
	return state.EachOrder(data, func(o *state.Order) error {
		switch to := m.owner(o.Key); {
		case m.dividesSlot(o.Key) && !o.Done: // its record says to which host it belongs
			n.orders.hosts[o.Key] = o
		case o.Done && (n.visitSlots.HasKey(o.Key) || to != n && !to.gets):
			n.orders.add(o)
		case o.Done || to == n:
			to.orders.add(o)
		default:
			n.orders.leaving[o.Key] = o
		}
		return nil
	})
}

// add adds an entry of the table.
func (s *orders) add(o *state.Order) {
	s.coded = append(s.coded, state.AppendOrder(nil, o))
	if !o.Done && !o.Own {
		s.second.Add(o.Key)
	}
}

// leave returns the enqueued URL that leaves with a record; nil: the record is not that of one.
func (s *orders) leave(key uint64, from state.Place, rec *weburl.Record) *state.Order {
	o := cmp.Or(s.leaving[key], s.hosts[key])
	if o == nil || state.Visited(rec) {
		return nil
	}
	switch from {
	case state.PlaceBeast, state.PlaceOverBudget, state.PlaceHeld: // an order is never there
		return nil
	}
	delete(s.leaving, key)
	delete(s.hosts, key)
	return o
}

// order adds an enqueued URL that waits, and comes from another node with its record.
func (n *node) order(o *state.Order, rec *weburl.Record) error {
	rec.Extra, rec.Reason, o.Urgent = nil, 0, true
	data := rec.Append(nil)
	if n.remote != nil {
		return n.remote.order(o, data)
	}
	n.orders.add(o)
	n.orders.came = append(n.orders.came, state.AppendOrdered(nil, o.Key))
	n.after[state.PlaceRobotsCheck].Add(o.Key)
	origin := n.saved.Hasher.OriginKey(weburl.AppendOrigin(nil, rec.URL))
	return n.add(storeRobots, drum.Tuple{Key: drum.Key(origin), Op: drum.Check, Value: data})
}

// stay keeps the enqueued URLs whose records have not left.
func (s *orders) stay() {
	for _, key := range slices.Sorted(maps.Keys(s.hosts)) {
		s.add(s.hosts[key])
	}
}

// noteOrdered notes the enqueued URLs that have come, for audits.
func (m *mover) noteOrdered(n *node) error {
	if len(n.orders.came) == 0 {
		return nil
	}
	n.shadow.Next.Accounts.Counters[state.CountEnqueuedMoved] += int64(len(n.orders.came))
	return repair.RemakeState(n.shadow, state.NameOrdered, func(old, _ *queue.State) (*queue.State, error) {
		all := func(rec []byte) ([]byte, error) { return rec, nil }
		return n.shadow.ChangeQueue(state.NameOrdered, old, all, n.orders.came...)
	})
}
