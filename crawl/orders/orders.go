// Package orders is a room of the running crawl: the table of the URLs that the operator has enqueued
// (changes.OpEnqueue). The paper has nothing like it.
//
// # Contract
//
// An order makes a URL be fetched once, before all others. Whether the URL is new, waits somewhere on disk,
// or has ended is not known then: URLseen answers in batches, and a queue cannot be searched. So an order is
// a record of its own, which goes straight to RobotsCache and from there to the front of its host in RAM,
// and the URL is sent to URLseen as a link is. The two meet by their key:
//
//   - The URL is new: URLseen's emission finds the order. The order's record becomes that of the unique URL
//     (Own).
//   - The URL waits in a queue: there are two records of it. The first to be fetched is the order's visit,
//     and leaves the crawl. The other one, when it comes to RobotsCache, to RAM or to its grant, ends as
//     fetched without a request, or waits for its next visit.
//   - The URL has ended: the order's record is the only one. It leaves the crawl when it has been fetched or
//     refused. The URL stays where it ended.
//
// The accounts count records, so that every record is in exactly one place: the sum of the places is that of
// the unique URLs and of the orders that are not Own and have not left (state.Accounts.Orders).
//
// An order that was fetched stays in the table until its URL's other record has come, or until more recent
// orders need the room; after that a record that still waits is fetched in its turn, as if the order had not
// been.
//
// # Concurrency
//
// A Table is safe for concurrent use. It changes in transactions only; its mutex is a leaf. Restore comes
// before the stages.
//
// # Memory and disk
//
// At most 20,000 orders, and with slots that move here 10,000 of each giver. Nothing on disk: a checkpoint has a copy
// (Freeze) in its tail file.
//
// Files: orders.go. The deferrals of package crawl decide what becomes of the records.
package orders

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/disk"
	"drumbeat/state"
)

// Bounds of the table of orders. It takes at most kept times 200 bytes, and 1 KiB more for each order that
// has a history of visits.
const (
	// Max is the largest number of enqueued URLs that have not been fetched or refused, without those that came with
	// slots.
	Max  = 10_000
	kept = 20_000
)

// Table is the table of orders. It changes in transactions only.
type Table struct {
	entries atomic.Int64 // entries of byKey: without any, nobody takes the lock
	urgent  atomic.Int64 // orders that are on their way to RAM: passes must not wait

	mu      sync.Mutex // guards the fields below; a leaf
	byKey   map[uint64]*state.Order
	landed  map[uint64]bool // URLs whose landed pages wait for their transactions; a bounded number (visit/landed.go)
	ended   []*state.Order  // the orders with Done, the oldest first, and such as were begun again meanwhile
	waiting int             // orders without Done
	watched int             // orders with a deadline
}

// New returns an empty table.
func New() *Table { return &Table{byKey: map[uint64]*state.Order{}, landed: map[uint64]bool{}} }

// Any reports whether there are orders.
func (o *Table) Any() bool { return o.entries.Load() > 0 }

// AnyUrgent reports whether orders are on their way to RAM.
func (o *Table) AnyUrgent() bool { return o.urgent.Load() > 0 }

// Room returns how many more URLs may be enqueued.
func (o *Table) Room() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Max - o.waiting
}

// Begin adds an order. It returns false if the URL has one that waits.
func (o *Table) Begin(key, host uint64) bool {
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
func (o *Table) add(x *state.Order) {
	o.byKey[x.Key] = x
	for len(o.ended) > 0 && len(o.byKey) > kept {
		old := o.ended[0]
		o.ended = o.ended[1:]
		if old.Done && o.byKey[old.Key] == old {
			delete(o.byKey, old.Key)
		}
	}
	o.entries.Store(int64(len(o.byKey)))
}

// setUrgent notes whether an order is on its way to RAM.
func (o *Table) setUrgent(x *state.Order, urgent bool) {
	if x.Urgent == urgent {
		return
	}
	if x.Urgent = urgent; urgent {
		o.urgent.Add(1)
	} else {
		o.urgent.Add(-1)
	}
}

// Watch gives the order that was begun last for a URL a deadline, as state.Order.Deadline.
func (o *Table) Watch(key uint64, deadline int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.byKey[key]; x != nil && !x.Done {
		x.Deadline = deadline
		o.watched++
	}
}

// Watched returns the number of orders with a deadline that has not been counted.
func (o *Table) Watched() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.watched
}

// Overdue returns the keys of orders whose deadlines are before now, in Unix seconds, and that were not fetched.
func (o *Table) Overdue(now int64) (keys []uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.watched == 0 {
		return nil
	}
	for key, x := range o.byKey {
		if x.Deadline != 0 && x.Deadline < now && !x.Stored && !x.Done {
			keys = append(keys, key)
		}
	}
	return keys
}

// TakeDeadline returns and removes the deadline of a URL that is watched: whoever has it counts it.
func (o *Table) TakeDeadline(key uint64) (deadline int64, ok bool) {
	if !o.Any() {
		return 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	x := o.byKey[key]
	if x == nil || x.Deadline == 0 {
		return 0, false
	}
	deadline, x.Deadline = x.Deadline, 0
	o.watched--
	return deadline, true
}

// Moved notes whether the order of a URL is on its way to RAM, and not in RAM or deferred.
func (o *Table) Moved(key uint64, urgent bool) {
	if !o.Any() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.byKey[key]; x != nil && !x.Done {
		o.setUrgent(x, urgent)
	}
}

// Waits reports whether the URL has an order that was not fetched yet.
func (o *Table) Waits(key uint64) bool {
	if !o.Any() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	x := o.byKey[key]
	return x != nil && !x.Done && !x.Stored
}

// Look returns the order of a URL.
func (o *Table) Look(key uint64) (x state.Order, ok bool) {
	if !o.Any() {
		return x, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if found := o.byKey[key]; found != nil {
		return *found, true
	}
	return x, false
}

// Adopt is Look for a new unique URL. If its order waits, the order's record is that of the URL from now on.
// Both happen at once: another transaction may be ending the order, and must know whose record it is.
func (o *Table) Adopt(key uint64) (x state.Order, ok bool) {
	if !o.Any() {
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

// Land notes that the page of a URL has landed (visit/landed.go). The host is free, but the order does not
// end before the transaction of the page. Until LandedEnd, the URL's other record must not be fetched.
// Every landed page is noted: its URL may be enqueued meanwhile.
func (o *Table) Land(key uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.landed[key] = true
}

// LandedEnd ends Land, after the transaction.
func (o *Table) LandedEnd(key uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.landed, key)
}

// HasLanded reports whether the page of a URL has landed and waits for its transaction.
func (o *Table) HasLanded(key uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.landed[key]
}

// Stored notes that the order's page waits for the verdict on its body.
func (o *Table) Stored(key uint64) {
	if !o.Any() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.byKey[key]; x != nil && !x.Done {
		x.Stored = true
		if x.Deadline != 0 && x.Deadline >= time.Now().Unix() {
			x.Deadline = state.NoDeadline // the verdict does not make it late
		}
		o.setUrgent(x, false)
	}
}

// Fetched ends the order of a URL that has a final response. leaves says that the record at hand leaves the
// crawl.
func (o *Table) Fetched(key uint64, visits []byte) (leaves bool) {
	return o.end(key, func(x *state.Order) {
		x.Done, x.Stored, x.Visits = true, false, slices.Clone(visits)
		if o.ended = append(o.ended, x); len(o.ended) > 2*kept { // some were begun again and again
			o.ended = slices.DeleteFunc(o.ended,
				func(old *state.Order) bool { return old == x || !old.Done || o.byKey[old.Key] != old })
			o.ended = append(slices.Compact(o.ended), x)
		}
	})
}

// Refused ends the order of a URL that is refused, whose other record then waits as if there had been none.
func (o *Table) Refused(key uint64) (leaves bool) {
	return o.end(key, func(x *state.Order) { o.remove(x) })
}

// end ends an order that waits: an Own one is forgotten, for the other kind then decides.
func (o *Table) end(key uint64, then func(x *state.Order)) (leaves bool) {
	if !o.Any() {
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

func (o *Table) remove(x *state.Order) {
	delete(o.byKey, x.Key)
	o.entries.Store(int64(len(o.byKey)))
}

// Met removes the order of a URL whose other record has come.
func (o *Table) Met(key uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.byKey[key]; x != nil && x.Done {
		o.remove(x)
	}
}

// Ahead returns how many orders of a host are on their way to RAM.
func (o *Table) Ahead(host uint64) (n int) {
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

// Arrive adds the order of a URL of a slot that moves here. It returns false if there is one that was begun here, which
// is newer.
func (o *Table) Arrive(saved *state.Order) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.byKey[saved.Key]; x != nil && (saved.Done || !x.Done) {
		return false
	}
	o.put(saved)
	return true
}

// put adds a saved order. The caller holds mu, or no stage runs.
func (o *Table) put(saved *state.Order) {
	x := *saved
	x.Visits, x.Urgent = slices.Clone(x.Visits), false
	o.add(&x)
	if x.Deadline != 0 {
		o.watched++
	}
	if x.Done {
		o.ended = append(o.ended, &x)
		return
	}
	o.waiting++
	o.setUrgent(&x, saved.Urgent)
}

// Freeze copies the table.
func (o *Table) Freeze() (list [][]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.byKey {
		list = append(list, state.AppendOrder(nil, x))
	}
	return list
}

// Restore reads the table of a checkpoint.
func (o *Table) Restore(set disk.Set, ref disk.Ref) error {
	data, err := disk.ReadTail(set, ref)
	if err != nil {
		return err
	}
	return state.EachOrder(data, func(saved *state.Order) error {
		o.put(saved)
		return nil
	})
}
