package node

import (
	"sync"

	"drumbeat/admit"
	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
	"drumbeat/weburl"
)

// leaving moves the URLs of slots that have left, which state/move.Give left in the queues of BEAST. The last of them
// is followed by cluster.MovedEnd, so that the taker, which works on the slots meanwhile, gets them by the table, too.
// Its methods are safe for concurrent use; they are parts of transactions.
type leaving struct {
	saved *state.Saved
	opt   *Options
	outs  *outboxes
	gone  *abandoned
	take  func(in *admit.Inlet, tx *account.Tx) error // what a message of another node does with its records

	mu    sync.Mutex
	slots *state.Leaving // nil: none
	inlet *admit.Inlet
}

// restore continues from a manifest, nil for a new crawl.
func (l *leaving) restore(m *state.Manifest, links *admit.Policy) {
	if m != nil {
		l.slots = m.Leaving.Clone()
	}
	l.inlet = admit.NewInlet(links)
}

// freeze returns a copy of the slots.
func (l *leaving) freeze() *state.Leaving {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slots.Clone()
}

func (l *leaving) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slots != nil
}

// leave moves a URL whose slot has left; ok is false if it stays.
func (l *leaving) leave(tx *account.Tx, data []byte, from state.Place) (ok bool, err error) {
	var rec weburl.Record
	if err := rec.Decode(data); err != nil {
		return false, err
	}
	key := l.saved.Hasher.URLKey(rec.URL)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slots == nil {
		return false, nil
	}
	owner, divided := l.opt.Table.OwnerOf(weburl.SlotOf(key)), false
	if l.opt.Table.Divided() {
		owner, divided = l.visitor(rec.URL)
	}
	switch {
	case !divided && !l.slots.Slots.HasKey(key) || owner == l.opt.Node:
		return false, nil
	case divided && (l.slots.Part(owner) == nil || l.gone.has(owner)):
		return true, l.handOut(tx, &rec, key, owner, from)
	}
	rec.Extra, rec.Reason = nil, 0
	if part := l.slots.Part(owner); part != nil && !l.gone.has(owner) {
		part.Sums.Waiting.Add(key)
		again := from != state.PlaceOverBudget || state.Visited(&rec)
		err = l.outs.boxes[owner].AddMoved(cluster.MovedURL, cluster.AppendMovedURL(nil, &rec, again))
	} else {
		err = l.link(tx, &rec)
	}
	tx.Depart(key, from)
	return true, err
}

// visitor returns the node that visits the host of a URL, and whether its PLD is divided.
func (l *leaving) visitor(url []byte) (node int, divided bool) {
	host := weburl.Split(url).Host
	return l.opt.Table.Visitor(l.saved.Hasher, l.saved.Suffixes, host),
		l.opt.Table.PartsOf(l.saved.Suffixes.PLDBytes(host)) != nil
}

// handOut sends a URL of a divided PLD to the node that visits its host.
func (l *leaving) handOut(tx *account.Tx, rec *weburl.Record, key uint64, to int, from state.Place) error {
	rec.Extra, rec.Reason = nil, 0
	tx.Depart(key, from)
	return l.outs.handOut(to, key, rec.Append(nil), tx)
}

// link makes a URL a link: the node that got its slot was lost, so the present owner does not know the URL.
func (l *leaving) link(tx *account.Tx, rec *weburl.Record) error {
	rec.Budget = 0
	l.inlet.Reset()
	if _, err := l.inlet.Link(rec.Append(nil)); err != nil {
		return err
	}
	return l.take(l.inlet, tx)
}

// end tells the takers that all URLs have left.
func (l *leaving) end(tx *account.Tx) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slots == nil {
		return nil
	}
	urls := int64(0)
	for i := range l.slots.To {
		p := &l.slots.To[i]
		urls += p.Sums.Waiting.N
		if l.gone.has(p.Node) {
			continue
		}
		if err := l.outs.boxes[p.Node].AddMoved(cluster.MovedEnd,
			cluster.AppendMovedEnd(nil, uint64(l.slots.Change), l.slots.SeedsDone, &p.Sums)); err != nil {
			return err
		}
	}
	tx.Late.Add(l.opt.Log.Info, "all URLs of the slots that this node has given are on their way", "change",
		l.slots.Change, "urls", urls)
	l.slots = nil
	return nil
}
