package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"drumbeat/disk"
	"drumbeat/queue"
)

// sealBytes is the size of the records at which a message ends. A message is one record of a queue and one
// message of the transport. Smaller messages cost the broker more; larger ones delay the first link.
const sealBytes = 128 << 10

// Outbox keeps the records for one other node until that node has made them durable. It has three parts:
//
//   - the open message in RAM, to which records are added;
//   - the queue pending, of whole messages that the transport does not have yet;
//   - the queue sent, of published messages that no durable checkpoint of the receiver covers yet.
//
// Messages have numbers from 1. A message is published only after a durable manifest covers it, so no crash
// can give its number to another message. If the receiver misses messages, or the transport lost some, the
// publisher resends the whole queue sent, in order.
//
// Add… and Flush are safe for concurrent use. The methods of the publisher (Next to Dropped) are for one
// goroutine. Calls that change the outbox belong in a transaction of the caller, so that none runs during
// Freeze.
type Outbox struct {
	opt     OutboxOptions
	pending *queue.Queue
	sent    *queue.Queue

	mu        sync.Mutex // guards the fields below
	open      []byte     // records of the open message
	version   int        // of the open message
	last      uint64     // number of the last whole message
	durable   uint64     // number of the last message that a durable manifest covers
	out       Totals     // of all records that were added
	whole     Totals     // of those in whole messages
	gone      Totals     // that the receiver has made durable
	taken     uint64     // number of the last message that the receiver has made durable
	passed    Totals     // of gone: passed on, because the receiver takes part no more
	dropped   Totals     // dropped because the receiver was abandoned
	abandoned bool       // records are counted and dropped
}

// OutboxOptions configure an Outbox.
type OutboxOptions struct {
	Set      disk.Set
	Name     string // of its queues, a path under state/
	Crawl    uint64 // identifies the cluster's crawl
	From, To int
	// Version returns the version in which this node writes (Common); nil: FirstVersion.
	Version    func() int
	BlockBytes int         // of the queues
	Pool       *queue.Pool // nil for a private one
}

// OutboxState is the state of an outbox in a manifest.
type OutboxState struct {
	Pending   *queue.State `json:"pending"`
	Sent      *queue.State `json:"sent"`
	Open      disk.Ref     `json:"open,omitzero"`
	Version   int          `json:"version,omitempty"` // of the open message; 0: FirstVersion
	Last      uint64       `json:"last"`
	Taken     uint64       `json:"taken"`
	Out       Totals       `json:"out"`
	Whole     Totals       `json:"whole"`
	Gone      Totals       `json:"gone"`
	PassedOn  Totals       `json:"passed_on,omitzero"` // of Gone: to others, because the receiver takes part no more
	Dropped   Totals       `json:"dropped,omitzero"`
	Abandoned bool         `json:"given_up,omitempty"` // the receiver was abandoned: the outbox stays empty
}

// Queues returns the states of the queues of an outbox of a name, by their names.
func (st *OutboxState) Queues(name string) map[string]*queue.State {
	return map[string]*queue.State{name + "/pending": st.Pending, name + "/sent": st.Sent}
}

// OpenOutbox opens an outbox in the state st, or an empty one if st is nil.
func OpenOutbox(opt OutboxOptions, st *OutboxState) (o *Outbox, err error) {
	o = &Outbox{opt: opt}
	if st == nil {
		st = &OutboxState{}
	}
	opts := func(part string) queue.Options {
		return queue.Options{Set: opt.Set, Name: opt.Name + "/" + part, BlockBytes: opt.BlockBytes, Pool: opt.Pool}
	}
	if o.pending, err = queue.Open(opts("pending"), st.Pending); err != nil {
		return nil, err
	}
	if o.sent, err = queue.Open(opts("sent"), st.Sent); err != nil {
		return nil, errors.Join(err, o.pending.Close())
	}
	if o.open, err = disk.ReadTail(opt.Set, st.Open); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	o.version, o.last, o.durable, o.taken = st.Version, st.Last, st.Last, st.Taken
	o.out, o.whole, o.gone = st.Out, st.Whole, st.Gone
	o.passed, o.dropped, o.abandoned = st.PassedOn, st.Dropped, st.Abandoned
	return o, nil
}

// Adopt copies the messages and the open records of an outbox in state st, whose queues are in set under name, to this
// one. It was opened in that state, but without its queues (OutboxState.Empty). The messages may be published again:
// their receiver knows their numbers.
func (o *Outbox) Adopt(set disk.Set, name string, st *OutboxState) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, part := range [...]struct {
		name string
		st   *queue.State
	}{{"sent", st.Sent}, {"pending", st.Pending}} {
		if _, err := queue.Scan(set, name+"/"+part.name, part.st, o.pending.Append, nil); err != nil {
			return err
		}
	}
	raw, err := disk.ReadTail(set, st.Open)
	o.open, o.version = append(o.open[:0], raw...), st.Version
	return err
}

// Empty returns the state without its messages.
func (st *OutboxState) Empty() *OutboxState {
	empty := *st
	empty.Pending, empty.Sent, empty.Open = nil, nil, disk.Ref{}
	return &empty
}

// Abandon drops all records, and all that are added later, because the receiver is lost for good. It returns
// the totals of the dropped records. It is irreversible, because the numbers of the dropped messages are
// used. Nothing else may use the outbox during the call.
func (o *Outbox) Abandon() (dropped Totals) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.abandoned {
		return Totals{}
	}
	o.pending.Clear()
	o.sent.Clear()
	dropped = o.out
	dropped.Sub(o.gone)
	o.open, o.whole, o.taken = nil, o.out, o.last
	o.dropped, o.abandoned = dropped, true
	return dropped
}

// Abandoned reports whether the receiver was abandoned.
func (o *Outbox) Abandoned() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.abandoned
}

// Close closes the outbox. As after a crash, the next Open finds only what was saved.
func (o *Outbox) Close() error { return errors.Join(o.pending.Close(), o.sent.Close()) }

// AddLink adds a link: its record for URLseen and the key of its URL.
func (o *Outbox) AddLink(key uint64, record []byte) error { return o.addLink(kindLink, 0, key, record) }

// AddChecked adds a URL that is new, for a node that visits hosts of its divided PLD. All nodes must read
// DividedVersion.
func (o *Outbox) AddChecked(key uint64, record []byte) error {
	return o.addLink(kindChecked, DividedVersion, key, record)
}

// addLink adds a record that counts as a link, of a kind that programs read from version on; 0: all do.
func (o *Outbox) addLink(kind byte, version int, key uint64, record []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.abandoned {
		o.out.Links.Add(key)
		o.dropped.Links.Add(key)
		o.whole = o.out
		return nil
	}
	if err := o.sealBelow(version); err != nil {
		return err
	}
	o.out.Links.Add(key)
	o.open = append(o.head(kind, len(record)), record...)
	o.version = max(o.version, version)
	return o.sealFull()
}

// AddEdge adds an edge between two PLDs, of at most 255 bytes each.
func (o *Outbox) AddEdge(from, to []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := edgeKey(from, to)
	o.out.Edges.Add(key)
	if o.abandoned {
		o.dropped.Edges.Add(key)
		o.whole = o.out
		return nil
	}
	o.open = append(o.head(kindEdge, 1+len(from)+len(to)), byte(len(from)))
	o.open = append(append(o.open, from...), to...)
	return o.sealFull()
}

// AddScope adds the key of a host or PLD that has joined the scope.
func (o *Outbox) AddScope(key uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.abandoned {
		return nil
	}
	o.open = binary.LittleEndian.AppendUint64(o.head(kindScope, 8), key)
	return o.sealFull()
}

// AddPages adds a number of pages, at least 1, that the receiver may fetch instead of this node.
func (o *Outbox) AddPages(n int64) error {
	if n < 1 || n > maxPages {
		panic(fmt.Sprintf("BUG: cluster: %d pages", n))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.abandoned {
		panic("BUG: cluster: pages for an abandoned node")
	}
	o.open = binary.LittleEndian.AppendUint64(o.head(kindPages, 8), uint64(n))
	return o.sealFull()
}

// AddMoved adds a part of the state of slots that move to the receiver. All nodes must read the version of the kind.
func (o *Outbox) AddMoved(kind MovedKind, rec []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.abandoned {
		return nil
	}
	version := kind.version()
	if err := o.sealBelow(version); err != nil {
		return err
	}
	o.open = append(append(o.head(kindMoved, 1+len(rec)), byte(kind)), rec...)
	o.version = max(o.version, version)
	return o.sealFull()
}

// sealBelow makes the open message whole if it is of an earlier version. The caller holds mu.
func (o *Outbox) sealBelow(version int) error {
	if len(o.open) > 0 && o.version < version {
		return o.seal()
	}
	return nil
}

// head returns the open message with the head of a record added. The first record decides the message's version.
// The caller holds mu.
func (o *Outbox) head(kind byte, n int) []byte {
	if len(o.open) == 0 {
		o.version = 0
		if o.opt.Version != nil {
			o.version = o.opt.Version()
		}
	}
	return appendHead(o.open, kind, n)
}

func (o *Outbox) sealFull() error {
	if len(o.open) < sealBytes {
		return nil
	}
	return o.seal()
}

// Flush ends the open message, so that the next manifest covers all records and they can be published.
func (o *Outbox) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) == 0 {
		return nil
	}
	return o.seal()
}

// scratches are buffers for messages, one for each processor that makes one.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// seal makes the open message whole. The caller holds mu.
func (o *Outbox) seal() error {
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	h := Header{Version: o.version, Crawl: o.opt.Crawl, From: o.opt.From, To: o.opt.To, Number: o.last + 1,
		Before: o.whole, After: o.out}
	*scratch = appendMessage((*scratch)[:0], &h, o.open)
	if err := o.pending.Append(*scratch); err != nil {
		return err
	}
	o.last, o.whole, o.open = h.Number, o.out, o.open[:0]
	return nil
}

// Next returns the oldest durable message that is not yet published; ok is false if there is none. The
// message is valid until Published.
func (o *Outbox) Next() (msg []byte, number uint64, ok bool, err error) {
	return o.peek(o.pending, o.Durable())
}

// Published notes that the message returned by Next was handed to the transport, acknowledged or not.
func (o *Outbox) Published() error {
	msg, ok, err := o.pending.Peek()
	if err != nil || !ok {
		return errors.Join(err, errNoMessage)
	}
	if err := o.sent.Append(msg); err != nil {
		return err
	}
	o.pending.Advance()
	return nil
}

var errNoMessage = errors.New("cluster: no message at hand")

// Oldest returns the oldest published message; ok is false if there is none. The message is valid until
// Resent or Dropped.
func (o *Outbox) Oldest() (msg []byte, number uint64, ok bool, err error) {
	return o.peek(o.sent, o.Durable())
}

// Resent notes that the message returned by Oldest was handed to the transport again. The message moves to
// the end of the published messages. A resend covers all of them, so their order is kept.
func (o *Outbox) Resent() error {
	msg, ok, err := o.sent.Peek()
	if err != nil || !ok {
		return errors.Join(err, errNoMessage)
	}
	if err := o.sent.Append(msg); err != nil {
		return err
	}
	o.sent.Advance()
	return nil
}

// Order restores the order of the messages that were published, if a crash interrupted a resend. Each step is one
// transaction.
func (o *Outbox) Order(transact func(f func() error) error) error {
	for range o.Figures().Sent {
		_, number, ok, err := o.Oldest()
		if err != nil || !ok || number == o.Figures().TakenNumber+1 {
			return err
		}
		if err := transact(o.Resent); err != nil {
			return err
		}
	}
	return nil
}

// First returns the oldest message, published or not, of an outbox in Order; ok is false if there is none. The message
// is valid until PassOn.
func (o *Outbox) First() (msg []byte, ok bool, err error) {
	if msg, ok, err = o.sent.Peek(); err != nil || ok {
		return msg, ok, err
	}
	return o.pending.Peek()
}

// PassOn drops the message returned by First, of header h: its receiver takes part no more, and the caller puts its
// records into other outboxes and stores in the same transaction.
func (o *Outbox) PassOn(h *Header) {
	q := o.sent
	if n, _ := q.Len(); n == 0 {
		q = o.pending
	}
	q.Advance()
	part := h.After
	part.Sub(h.Before)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone, o.taken = h.After, h.Number
	o.passed.Add(part)
}

func (o *Outbox) peek(q *queue.Queue, durable uint64) (msg []byte, number uint64, ok bool, err error) {
	msg, ok, err = q.Peek()
	if err != nil || !ok {
		return nil, 0, false, err
	}
	h, err := ReadHeader(msg)
	if err != nil {
		return nil, 0, false, fmt.Errorf("cluster: outbox for node %d: %w", o.opt.To, err)
	}
	return msg, h.Number, h.Number <= durable, nil
}

// Taken notes that the receiver has made all messages up to a number durable, and drops them. A call drops a
// bounded number, and returns false if more are left. total is the receiver's count. The error is a
// *SetBackError if this node never published the number, or published other records under it.
func (o *Outbox) Taken(number uint64, total Totals) (all bool, err error) {
	if number > o.Durable() {
		return false, Unsent(o.opt.From, o.opt.To, number, o.Durable())
	}
	for range dropAtOnce {
		q := o.sent
		msg, ok, err := q.Peek()
		if err == nil && !ok { // a message may have arrived before a crash that made this node forget its publication
			q = o.pending
			msg, ok, err = q.Peek()
		}
		if err != nil || !ok {
			return true, err
		}
		h, err := ReadHeader(msg)
		if err != nil {
			return false, fmt.Errorf("cluster: outbox for node %d: %w", o.opt.To, err)
		}
		if h.Number > number {
			return true, nil
		}
		if h.Number == number && h.After != total {
			return false, disagree(o.opt.From, o.opt.To, number)
		}
		q.Advance()
		o.mu.Lock()
		o.gone, o.taken = h.After, h.Number
		o.mu.Unlock()
	}
	return false, nil
}

// dropAtOnce bounds the work of Taken in one transaction.
const dropAtOnce = 256

// Durable returns the number of the last message that may be published.
func (o *Outbox) Durable() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.durable
}

// OutboxFigures are figures about an outbox.
type OutboxFigures struct {
	Added, Gone Totals // all records, and those that the receiver has made durable
	PassedOn    Totals // of Gone: records passed on to others instead
	Dropped     Totals // records dropped because the receiver was abandoned
	Last        uint64 // number of the last whole message
	Durable     uint64 // of the last message that may be published
	TakenNumber uint64 // of the last message that the receiver has made durable
	Unpublished int64  // whole messages that were not published
	Sent        int64  // messages that were published and not taken
	Bytes       int64  // in RAM and on disk
	OpenBytes   int64  // of the open message
}

// Waiting returns the number of records that the receiver has not made durable.
func (f *OutboxFigures) Waiting() int64 {
	return f.Added.Records() - f.Gone.Records() - f.Dropped.Records()
}

// Figures returns the current figures.
func (o *Outbox) Figures() OutboxFigures {
	pending, pendingBytes := o.pending.Len()
	sent, sentBytes := o.sent.Len()
	o.mu.Lock()
	defer o.mu.Unlock()
	return OutboxFigures{Added: o.out, Gone: o.gone, PassedOn: o.passed, Dropped: o.dropped, Last: o.last,
		Durable: o.durable, TakenNumber: o.taken, Unpublished: pending, Sent: sent,
		Bytes: pendingBytes + sentBytes + int64(len(o.open)), OpenBytes: int64(len(o.open))}
}

// OutboxFrozen is the state of an outbox at one moment. Save and Commit may run while the outbox is in use.
type OutboxFrozen struct {
	o             *Outbox
	pending, sent *queue.Frozen
	open          []byte
	st            OutboxState
}

// Freeze captures the current state. The previous OutboxFrozen must have been committed.
func (o *Outbox) Freeze() *OutboxFrozen {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &OutboxFrozen{o: o, pending: o.pending.Freeze(), sent: o.sent.Freeze(), open: append([]byte(nil), o.open...),
		st: OutboxState{Last: o.last, Taken: o.taken, Out: o.out, Whole: o.whole, Gone: o.gone, PassedOn: o.passed,
			Dropped: o.dropped, Abandoned: o.abandoned}}
	if o.version > FirstVersion {
		f.st.Version = o.version
	}
	return f
}

// Save writes the records in RAM to the tail files and returns the state for the manifest.
func (f *OutboxFrozen) Save(tails *disk.Tails) (*OutboxState, error) {
	var err error
	if f.st.Pending, err = f.pending.Save(tails); err == nil {
		if f.st.Sent, err = f.sent.Save(tails); err == nil {
			f.st.Open, err = tails.Write(0, f.open)
		}
	}
	return &f.st, err
}

// Commit allows the messages covered by the manifest to be published. Call it when the manifest is durable.
func (f *OutboxFrozen) Commit() error {
	if err := errors.Join(f.pending.Commit(), f.sent.Commit()); err != nil {
		return err
	}
	f.o.mu.Lock()
	f.o.durable = f.st.Last
	f.o.mu.Unlock()
	return nil
}
