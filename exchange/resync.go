package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/queue"
)

// A resync lets a node go on that was set back to an older copy of its directories. The node begins another life, which its
// messages and its mark name: those of an earlier life are void. In each pair, the account of the receiver becomes that of
// the sender. So the set-back node's messages have numbers that go on where the receivers are, and it takes what the
// others still have; what they have dropped is lost to it, and counted.

// maxIncarnation bounds the life of a node in what comes from outside: each resync adds one.
const maxIncarnation = 1 << 16

// CrawlKey returns the number that identifies the messages of a node in a life of it.
func CrawlKey(crawl, incarnation uint64) uint64 {
	if incarnation == 0 {
		return crawl
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], crawl)
	binary.LittleEndian.PutUint64(b[8:], incarnation)
	return xxhash.Sum64(b[:])
}

// IncarnationOf returns the life of another node whose messages and marks are taken.
func (in *Intake) IncarnationOf(node int) uint64 {
	if node < len(in.Incarnations) {
		return in.Incarnations[node]
	}
	return 0
}

// CheckIncarnation returns an error if a number from outside is not the life of a node.
func CheckIncarnation(incarnation uint64) error {
	if incarnation > maxIncarnation {
		return fmt.Errorf("exchange: %w: life %d of a node", ErrMessage, incarnation)
	}
	return nil
}

// Renumber adds the records of an outbox, whose queues are in set under name, to another one. It leaves loans of pages out,
// since the receiver may have them, and returns their sum. Links and edges that the receiver has already do no harm.
func Renumber(set disk.Set, name string, st *OutboxState, to *Outbox, linkKey func(record []byte) (uint64, error)) (pages int64, _ error) {
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
			return d.Records(msg, &h, s)
		}, nil); err != nil {
			return 0, err
		}
	}
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
}

func (s *renumberer) Link(record []byte) (key uint64, err error) {
	if key, err = s.linkKey(record); err != nil {
		return 0, fmt.Errorf("exchange: %w: %w", ErrMessage, err)
	}
	return key, s.to.AddLink(key, record)
}

func (s *renumberer) Edge(from, to []byte) error { return s.to.AddEdge(from, to) }
func (s *renumberer) Scope(key uint64) error     { return s.to.AddScope(key) }
func (s *renumberer) Pages(n int64) error        { s.pages += n; return nil }
