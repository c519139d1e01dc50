package cluster

import (
	"errors"

	"drumbeat/disk"
	"drumbeat/queue"
)

// The places of a record in an outbox.
const (
	InOpen    = "open"    // in the open message
	InPending = "pending" // in an unpublished message
	InSent    = "sent"    // in a published message that the receiver has not made durable
)

// EachLink calls fn for each link in the files of an outbox, with the number of its message. The open message
// has the number after the last. damaged receives the errors of unreadable pieces; if it returns an error,
// EachLink stops.
func EachLink(set disk.Set, name string, st *OutboxState, fn func(record []byte, where string, number uint64) error,
	damaged func(error) error) error {
	var d Decoder
	for _, part := range [...]struct {
		where string
		st    *queue.State
	}{{InSent, st.Sent}, {InPending, st.Pending}} {
		if _, err := queue.Scan(set, name+"/"+part.where, part.st, func(msg []byte) error {
			h, err := ReadHeader(msg)
			if err == nil {
				err = d.Records(msg, &h, linkSink(func(rec []byte) error { return fn(rec, part.where, h.Number) }))
			}
			if err != nil && !errors.Is(err, errSums) {
				return damaged(err)
			}
			return nil
		}, damaged); err != nil {
			return err
		}
	}
	raw, err := disk.ReadTail(set, st.Open)
	if err == nil {
		err = eachRecord(raw, new(Totals), linkSink(func(rec []byte) error { return fn(rec, InOpen, st.Last+1) }))
	}
	if err != nil {
		return damaged(err)
	}
	return nil
}

// linkSink is a Sink that takes links only, and does not know their keys.
type linkSink func(record []byte) error

func (f linkSink) Link(record []byte) (uint64, error)    { return 0, f(record) }
func (f linkSink) Checked(record []byte) (uint64, error) { return 0, f(record) }
func (f linkSink) Edge(_, _ []byte) error                { return nil }
func (f linkSink) Scope(uint64) error                    { return nil }
func (f linkSink) Moved(MovedKind, []byte) error         { return nil }
func (f linkSink) Walker(*Walker) error                  { return nil }
func (f linkSink) Pages(int64) error                     { return nil }
