package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/queue"
)

// A resync readmits a node that was restored from an older copy of its directories. The node starts a new
// incarnation; its messages and marks carry the number of the incarnation, and those of earlier ones are
// void. In each pair, the receiver's account replaces the sender's. The messages of the restored node are
// numbered from the receivers' positions. The node takes what the others still have; records that they have
// dropped are lost and counted.

// maxIncarnation is the largest incarnation accepted from the network. Each resync adds one.
const maxIncarnation = 1 << 16

// CrawlKey returns the number that identifies the messages of an incarnation of a node.
func CrawlKey(crawl, incarnation uint64) uint64 {
	if incarnation == 0 {
		return crawl
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], crawl)
	binary.LittleEndian.PutUint64(b[8:], incarnation)
	return xxhash.Sum64(b[:])
}

// IncarnationOf returns the incarnation of another node whose messages and marks are taken.
func (in *Intake) IncarnationOf(node int) uint64 {
	if node < len(in.Incarnations) {
		return in.Incarnations[node]
	}
	return 0
}

// CheckIncarnation returns an error if an untrusted number is not a possible incarnation.
func CheckIncarnation(incarnation uint64) error {
	if incarnation > maxIncarnation {
		return fmt.Errorf("cluster: %w: incarnation %d of a node", ErrMessage, incarnation)
	}
	return nil
}

// Renumber copies the records of an outbox, whose queues are in set under name, to another outbox. It omits
// loans of pages, since the receiver may have them, and returns their sum. Repeated links and edges do no
// harm. Parts of slots that move, and walkers, are omitted up to message taken.
func Renumber(set disk.Set, name string, st *OutboxState, taken uint64, to *Outbox,
	linkKey func(record []byte) (uint64, error)) (pages int64, _ error) {
	var d Decoder
	s := &renumberer{to: to, linkKey: linkKey}
	for _, part := range [...]struct {
		name string
		st   *queue.State
	}{{"sent", st.Sent}, {"pending", st.Pending}} {
		if _, err := queue.Scan(set, name+"/"+part.name, part.st, func(msg []byte) error {
			h, err := ReadHeader(msg)
			if err != nil {
				return err
			}
			s.taken = h.Number <= taken
			return d.Records(msg, &h, s)
		}, nil); err != nil {
			return 0, err
		}
	}
	s.taken = false
	raw, err := disk.ReadTail(set, st.Open)
	if err == nil {
		err = eachRecord(raw, new(Totals), s)
	}
	return s.pages, errors.Join(err, to.Flush())
}

// renumberer is a Sink that adds to an outbox.
type renumberer struct {
	to      *Outbox
	linkKey func(record []byte) (uint64, error)
	pages   int64
	taken   bool // the receiver has taken this message
}

func (s *renumberer) Link(record []byte) (key uint64, err error) {
	if key, err = s.linkKey(record); err != nil {
		return 0, fmt.Errorf("cluster: %w: %w", ErrMessage, err)
	}
	return key, s.to.AddLink(key, record)
}

func (s *renumberer) Checked(record []byte) (key uint64, err error) {
	if key, err = s.linkKey(record); err != nil {
		return 0, fmt.Errorf("cluster: %w: %w", ErrMessage, err)
	}
	if s.taken { // the URL would be in two places
		return key, nil
	}
	return key, s.to.AddChecked(key, record)
}

func (s *renumberer) Edge(from, to []byte) error { return s.to.AddEdge(from, to) }
func (s *renumberer) Scope(key uint64) error     { return s.to.AddScope(key) }
func (s *renumberer) Moved(kind MovedKind, rec []byte) error {
	if s.taken { // a repetition would do harm
		return nil
	}
	return s.to.AddMoved(kind, rec)
}

func (s *renumberer) Walker(w *Walker) error {
	if s.taken { // it would be in two places
		return nil
	}
	return s.to.AddWalker(w)
}

func (s *renumberer) Pages(n int64) error { s.pages += n; return nil }
