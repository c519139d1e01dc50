package crawl

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/visit"
	"drumbeat/disk"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Enqueued URLs (changes.OpEnqueue). An order makes a URL be fetched once, before all others. Whether the URL is new,
// waits somewhere on disk, or has ended is not known then: URLseen answers in batches, and a queue cannot be searched.
// So an order is a record of its own, which goes straight to RobotsCache and from there to the front of its host in
// RAM, and the URL is sent to URLseen as a link is. The two meet by their key:
//
//   - The URL is new: URLseen's emission finds the order. The order's record becomes that of the unique URL (Own).
//   - The URL waits in a queue: there are two records of it. The first to be fetched is the order's visit, and leaves
//     the crawl. The other one, when it comes to RobotsCache, to RAM or to its grant, ends as fetched without a
//     request, or waits for its next visit.
//   - The URL has ended: the order's record is the only one. It leaves the crawl when it has been fetched or refused.
//     The URL stays where it ended.
//
// The accounts count records, so that every record is in exactly one place: the sum of the places is that of the unique
// URLs and of the orders that are not Own and have not left (state.Accounts.Orders).
//
// An order that was fetched stays in the table until its URL's other record has come, or until more recent orders need
// the room; after that a record that still waits is fetched in its turn, as if the order had not been.

// Bounds of the table of orders. It takes at most keptOrders times 200 bytes, and 1 KiB more for each order that has a
// history of visits.
const (
	// MaxOrders is the largest number of enqueued URLs that have not been fetched or refused.
	MaxOrders  = 10_000
	keptOrders = 20_000
)

// orders is the table of orders. It changes in transactions only.
type orders struct {
	entries atomic.Int64 // number of entries of byKey: without any, nobody takes the lock
	urgent  atomic.Int64 // orders that are on their way to RAM: passes must not wait

	mu      sync.Mutex // guards the fields below; a leaf
	byKey   map[uint64]*state.Order
	landed  map[uint64]bool // URLs whose landed pages wait for their transactions; a bounded number (visit/landed.go)
	ended   []*state.Order  // the orders with Done, the oldest first, and such as were begun again meanwhile
	waiting int             // orders without Done
}

func newOrders() *orders { return &orders{byKey: map[uint64]*state.Order{}, landed: map[uint64]bool{}} }

// any reports whether there are orders.
func (o *orders) any() bool { return o.entries.Load() > 0 }

// AnyUrgent reports whether orders are on their way to RAM.
func (o *orders) AnyUrgent() bool { return o.urgent.Load() > 0 }

// room returns how many more URLs may be enqueued.
func (o *orders) room() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return MaxOrders - o.waiting
}

// begin adds an order. It returns false if the URL has one that waits.
func (o *orders) begin(key, host uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	x := o.byKey[key]
	if x != nil && !x.Done {
		return false
	}
	if x == nil {
		x = &state.Order{Key: key}
		o.add(x)
	}
	*x = state.Order{Key: key, Host: host}
	o.waiting++
	o.setUrgent(x, true)
	return true
}

// add adds an entry, and drops the oldest that have ended if there are too many.
func (o *orders) add(x *state.Order) {
	o.byKey[x.Key] = x
	for len(o.ended) > 0 && len(o.byKey) > keptOrders {
		old := o.ended[0]
		o.ended = o.ended[1:]
		if old.Done && o.byKey[old.Key] == old {
			delete(o.byKey, old.Key)
		}
	}
	o.entries.Store(int64(len(o.byKey)))
}

// setUrgent notes whether an order is on its way to RAM.
func (o *orders) setUrgent(x *state.Order, urgent bool) {
	if x.Urgent == urgent {
		return
	}
	if x.Urgent = urgent; urgent {
		o.urgent.Add(1)
	} else {
		o.urgent.Add(-1)
	}
}

// Moved notes whether the order of a URL is on its way to RAM, and not in RAM or deferred.
func (o *orders) Moved(key uint64, urgent bool) {
	if !o.any() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.byKey[key]; x != nil && !x.Done {
		o.setUrgent(x, urgent)
	}
}

// Waits reports whether the URL has an order that was not fetched yet.
func (o *orders) Waits(key uint64) bool {
	if !o.any() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	x := o.byKey[key]
	return x != nil && !x.Done && !x.Stored
}

// look returns the order of a URL.
func (o *orders) look(key uint64) (x state.Order, ok bool) {
	if !o.any() {
		return x, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if found := o.byKey[key]; found != nil {
		return *found, true
	}
	return x, false
}

// adopt is look for a new unique URL. If its order waits, the order's record is that of the URL from now on.
// Both happen at once: another transaction may be ending the order, and must know whose record it is.
func (o *orders) adopt(key uint64) (x state.Order, ok bool) {
	if !o.any() {
		return x, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	found := o.byKey[key]
	if found == nil {
		return x, false
	}
	if !found.Done {
		found.Own = true
	}
	return *found, true
}

// Land notes that the page of a URL has landed (visit/landed.go). The host is free, but the order does not end
// before the transaction of the page. Until LandedEnd, the URL's other record must not be fetched. Every landed page
// is noted: its URL may be enqueued meanwhile.
func (o *orders) Land(key uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.landed[key] = true
}

// LandedEnd ends Land, after the transaction.
func (o *orders) LandedEnd(key uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.landed, key)
}

// hasLanded reports whether the page of a URL has landed and waits for its transaction.
func (o *orders) hasLanded(key uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.landed[key]
}

// Stored notes that the order's page waits for the verdict on its body.
func (o *orders) Stored(key uint64) {
	if !o.any() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.byKey[key]; x != nil && !x.Done {
		x.Stored = true
		o.setUrgent(x, false)
	}
}

// fetched ends the order of a URL that has a final response. leaves says that the record at hand leaves the crawl.
func (o *orders) fetched(key uint64, visits []byte) (leaves bool) {
	return o.end(key, func(x *state.Order) {
		x.Done, x.Stored, x.Visits = true, false, slices.Clone(visits)
		if o.ended = append(o.ended, x); len(o.ended) > 2*keptOrders { // some were begun again and again
			o.ended = slices.DeleteFunc(o.ended,
				func(old *state.Order) bool { return old == x || !old.Done || o.byKey[old.Key] != old })
			o.ended = append(slices.Compact(o.ended), x)
		}
	})
}

// refused ends the order of a URL that is refused, whose other record then waits as if there had been none.
func (o *orders) refused(key uint64) (leaves bool) {
	return o.end(key, func(x *state.Order) { o.remove(x) })
}

// end ends an order that waits: an Own one is forgotten, for the other kind then decides.
func (o *orders) end(key uint64, then func(x *state.Order)) (leaves bool) {
	if !o.any() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	x := o.byKey[key]
	if x == nil || x.Done {
		return false
	}
	o.waiting--
	o.setUrgent(x, false)
	if x.Own {
		o.remove(x)
		return false
	}
	then(x)
	return true
}

func (o *orders) remove(x *state.Order) {
	delete(o.byKey, x.Key)
	o.entries.Store(int64(len(o.byKey)))
}

// met removes the order of a URL whose other record has come.
func (o *orders) met(key uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.byKey[key]; x != nil && x.Done {
		o.remove(x)
	}
}

// ahead returns how many orders of a host are on their way to RAM.
func (o *orders) ahead(host uint64) (n int) {
	if o.urgent.Load() == 0 {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.byKey {
		if x.Urgent && x.Host == host {
			n++
		}
	}
	return n
}

// freeze copies the table.
func (o *orders) freeze() (list [][]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.byKey {
		list = append(list, state.AppendOrder(nil, x))
	}
	return list
}

// restore reads the table of a checkpoint.
func (o *orders) restore(set disk.Set, ref disk.Ref) error {
	data, err := disk.ReadTail(set, ref)
	if err != nil {
		return err
	}
	return state.EachOrder(data, func(saved *state.Order) error {
		x := *saved
		x.Visits, x.Urgent = slices.Clone(x.Visits), false
		o.add(&x)
		if x.Done {
			o.ended = append(o.ended, &x)
			return nil
		}
		o.waiting++
		o.setUrgent(&x, saved.Urgent)
		return nil
	})
}

// adoptOrder handles a new URL that was enqueued: its order's record is that of the URL, or has been fetched
// already. ok is false if there is no order. It is part of a transaction.
func (d *deferrals) adoptOrder(tx *account.Tx, rec *weburl.Record) (ok bool, _ error) {
	key := d.Hasher.URLKey(rec.URL)
	order, ok := d.orders.adopt(key)
	switch {
	case !ok:
		return false, nil
	case !order.Done:
		tx.Adopt(key)
		return true, nil
	}
	d.orders.met(key)
	tx.Enter(key, state.PlaceStar)
	return true, d.endMet(tx, rec, state.PlaceStar, &order)
}

// MetOrder handles a record of a URL that was enqueued and has been fetched meanwhile: it ends, or waits for its next
// visit, without a request. ok is false if the record continues. It is part of a transaction.
func (d *deferrals) MetOrder(tx *account.Tx, rec *weburl.Record, from state.Place) (ok bool, _ error) {
	if !d.orders.any() {
		return false, nil
	}
	key := d.Hasher.URLKey(rec.URL)
	order, ok := d.orders.look(key)
	switch {
	case !ok:
		return false, nil
	case !order.Done && d.orders.hasLanded(key): // the page of one of the two records waits: so does this one
		return true, d.DeferURL(tx, rec, from, time.Now().Add(landedWait), state.ReasonHostBacklog)
	case !order.Done && !order.Stored:
		return false, nil
	case order.Stored: // the order's page waits for its verdict: so does this record
		return true, d.DeferURL(tx, rec, from, time.Now().Add(storedWait), state.ReasonHostBacklog)
	}
	d.orders.met(key)
	return true, d.endMet(tx, rec, from, &order)
}

// refusedOrder handles the record of an order that is refused. It returns false for any other record. It is part of a
// transaction. A record with visits is that of the unique URL.
func (d *deferrals) refusedOrder(tx *account.Tx, rec *weburl.Record, from state.Place, why state.Reason) bool {
	if !d.orders.any() || revisit.Visited(rec.Visits) {
		return false
	}
	key := d.Hasher.URLKey(rec.URL)
	if !d.orders.refused(key) {
		return false
	}
	d.NoteProgress()
	tx.Leave(key, from, state.Reason(rec.Reason))
	tx.Late.Add(d.opt.Observe.Log.Warn, "an enqueued URL was refused", "url", string(rec.URL), "why", why.String())
	return true
}

// storedWait is the wait of a URL whose enqueued record waits for the verdict on its body. Passes of the
// store of contents are at most as far apart in a small crawl.
const storedWait = 15 * time.Second

// landedWait is the wait of a URL whose other record's page has landed: a hook that answers takes at most 10 s, parsers
// less.
const landedWait = 5 * time.Second

// endMet ends a record whose order has been fetched. It is part of a transaction.
func (d *deferrals) endMet(tx *account.Tx, rec *weburl.Record, from state.Place, order *state.Order) error {
	if revisit.Visited(order.Visits) {
		var h, found revisit.History
		if err := found.Decode(order.Visits); err != nil {
			return fmt.Errorf("crawl: enqueued %s: %w", rec.URL, err)
		}
		if err := h.Decode(rec.Visits); err != nil {
			return fmt.Errorf("crawl: record of %s: %w", rec.URL, err)
		}
		policy, ok := d.revisits(rec.URL)
		if h.Last == 0 {
			h = found
		} else if ok {
			policy.Note(&h, &revisit.Outcome{At: time.Unix(found.Last, 0), Missing: found.Missing > 0, Body: found.Body,
				ETag: found.ETag, Modified: found.Modified})
			h.Captured = found.Captured
			policy.Next(&h, 0)
		}
		v := visit.Visit{Noted: true, History: h}
		v.Apply(rec)
	}
	return d.finishVisit(tx, rec, from)
}
