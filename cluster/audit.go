package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/queue"
)

// The audit of one outbox, from the files of a stopped node. The file setback.go compares it with its
// receiver.

// OutboxScan says which outbox to read, and how.
type OutboxScan struct {
	Set      disk.Set
	Name     string // of the outbox, a path under state/
	From, To int
	State    *OutboxState
	// LinkKey returns the key of a link's URL. An error means that the record is not a link.
	LinkKey func(record []byte) (uint64, error)
	// Damaged, if set, receives each piece of damage. ScanOutbox continues unless Damaged returns an error.
	// Without Damaged, ScanOutbox returns the first piece.
	Damaged func(error) error
}

// OutboxFound is what an outbox holds.
type OutboxFound struct {
	Crawl uint64    // of its messages; 0 without any
	Files Totals    // of all readable records
	Moved MovedSums // of all readable records of slots that move
	// Messages counts the readable messages. Lost counts the unreadable messages that the manifest names;
	// LostFirst and LostLast are their first and last numbers.
	Messages, Lost      int64
	LostFirst, LostLast uint64
	OpenLost            bool // the records of the open message are not readable
	// Wrong counts contradictions to the manifest or within the outbox that lost messages do not explain.
	// This package writes none.
	Wrong int
	// Sums holds the hash of the totals after each message, from number Taken+1 on; 0 for a lost message. A
	// receiver's account can so be compared at each message. It takes 8 bytes a message.
	Sums []uint64
}

// hash returns a hash of the totals, which is never 0.
func (t *Totals) hash() uint64 {
	var b [totalsBytes]byte
	return max(1, xxhash.Sum64(t.append(b[:0])))
}

// totalsBytes is the size of encoded Totals.
const totalsBytes = 48

// ScanOutbox reads all messages of an outbox. It checks that each has the sums of its header, that each
// number from State.Taken+1 to State.Last occurs once, that the sums continue from message to message, and
// that all records together are State.Out less State.Gone. The outbox for an abandoned node must be empty. It
// takes 16 bytes of RAM a message, which is some 40 KiB on disk.
func ScanOutbox(opt OutboxScan) (*OutboxFound, error) {
	s := outboxScanner{OutboxScan: opt}
	return &s.found, s.run()
}

// outboxScanner is the state of one ScanOutbox. It is the Sink of the records.
type outboxScanner struct {
	OutboxScan
	decoder Decoder
	found   OutboxFound
	before  []uint64 // hashes of the totals before each message
	part    string   // of the outbox
	hurt    bool     // damage was reported
}

// Link adds a link.
func (s *outboxScanner) Link(record []byte) (key uint64, err error) {
	if key, err = s.LinkKey(record); err != nil {
		return 0, fmt.Errorf("cluster: %w: %w", ErrMessage, err)
	}
	s.found.Files.Links.Add(key)
	return key, nil
}

// Checked adds a link, and a URL that waits for its next node.
func (s *outboxScanner) Checked(record []byte) (key uint64, err error) {
	if key, err = s.Link(record); err == nil {
		s.found.Moved.Waiting.Add(key)
	}
	return key, err
}

// Edge adds an edge.
func (s *outboxScanner) Edge(from, to []byte) error {
	s.found.Files.Edges.Add(edgeKey(from, to))
	return nil
}

// Scope takes the key of a site, which no account counts.
func (s *outboxScanner) Scope(uint64) error { return nil }

// Moved adds what moves.
func (s *outboxScanner) Moved(kind MovedKind, rec []byte) error {
	if err := s.found.Moved.Note(kind, rec, s.LinkKey); err != nil {
		return fmt.Errorf("cluster: %w: %w", ErrMessage, err)
	}
	return nil
}

// Walker takes a walker, which the message's totals count.
func (s *outboxScanner) Walker(w *Walker) error {
	s.found.Files.Links.Add(walkerKey(w.append(nil)))
	return nil
}

// Pages takes a loan of pages, which no total counts.
func (s *outboxScanner) Pages(int64) error { return nil }

func (s *outboxScanner) run() error {
	st := s.State
	if st.Pending == nil || st.Sent == nil || st.Last < st.Taken {
		return s.wrong("the state of an outbox", fmt.Sprintf("messages %d to %d", st.Taken+1, st.Last))
	}
	n := st.Last - st.Taken
	if have := st.Pending.Records + st.Sent.Records; uint64(have) != n {
		return s.wrong(fmt.Sprintf("%d messages, numbers %d to %d", n, st.Taken+1, st.Last),
			fmt.Sprintf("%d messages", have))
	}
	if st.Abandoned {
		return s.abandoned(n)
	}
	s.found.Sums, s.before = make([]uint64, n), make([]uint64, n)
	for _, part := range [...]struct {
		name string
		st   *queue.State
	}{{"sent", st.Sent}, {"pending", st.Pending}} {
		s.part = part.name
		if _, err := queue.Scan(s.Set, s.Name+"/"+part.name, part.st, s.message, s.report); err != nil {
			return err
		}
	}
	s.part = ""
	if err := s.chain(); err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	want := st.Out
	want.Sub(st.Gone)
	if s.found.Files != want && !s.hurt {
		return s.wrong(fmt.Sprintf("%d links and %d edges", want.Links.N, want.Edges.N),
			fmt.Sprintf("%d and %d, or others", s.found.Files.Links.N, s.found.Files.Edges.N))
	}
	return nil
}

// abandoned checks the state of an outbox with n messages whose receiver was abandoned.
func (s *outboxScanner) abandoned(n uint64) error {
	all := s.State.Gone
	all.Add(s.State.Dropped)
	switch {
	case n != 0 || s.State.Open.Len != 0:
		return s.wrong("an empty outbox for an abandoned node",
			fmt.Sprintf("%d messages, %d bytes of another", n, s.State.Open.Len))
	case all != s.State.Out || s.State.Whole != s.State.Out:
		return s.wrong(fmt.Sprintf("%d links and %d edges, gone or dropped", s.State.Out.Links.N, s.State.Out.Edges.N),
			fmt.Sprintf("%d and %d, or others", all.Links.N, all.Edges.N))
	}
	return nil
}

// report handles damage.
func (s *outboxScanner) report(err error) error {
	s.hurt = true
	var missing *fs.PathError
	if errors.Is(err, fs.ErrNotExist) && errors.As(err, &missing) {
		err = &disk.CorruptError{Path: missing.Path, Want: "a file of the outbox", Got: "none"}
	}
	if s.Damaged == nil {
		return err
	}
	return s.Damaged(err)
}

// wrong reports a contradiction.
func (s *outboxScanner) wrong(want, got string) error {
	s.found.Wrong++
	return s.report(s.corrupt(want, got))
}

func (s *outboxScanner) corrupt(want, got string) error {
	path := "state/" + s.Name
	if s.part != "" {
		path += "/" + s.part
	}
	return &disk.CorruptError{Path: path, Want: want, Got: got}
}

// message checks one message.
func (s *outboxScanner) message(msg []byte) error {
	h, err := ReadHeader(msg)
	if err != nil {
		return s.report(s.corrupt("a message", err.Error()))
	}
	what := fmt.Sprintf("message %d", h.Number)
	i := h.Number - s.State.Taken - 1
	switch {
	case h.From != s.From || h.To != s.To:
		return s.wrong(fmt.Sprintf("messages of node %d to node %d", s.From, s.To),
			fmt.Sprintf("%s of node %d to node %d", what, h.From, h.To))
	case s.found.Crawl != 0 && h.Crawl != s.found.Crawl:
		return s.wrong(fmt.Sprintf("messages of crawl %016x", s.found.Crawl),
			fmt.Sprintf("%s of crawl %016x", what, h.Crawl))
	case i >= uint64(len(s.found.Sums)):
		return s.wrong(fmt.Sprintf("messages %d to %d", s.State.Taken+1, s.State.Last), what)
	case s.found.Sums[i] != 0:
		return s.wrong("each message once", what+" twice")
	}
	was := s.found.Files
	if err := s.decoder.Records(msg, &h, s); err != nil {
		s.found.Files = was
		return s.report(s.corrupt("the records of "+what, err.Error()))
	}
	s.found.Crawl = h.Crawl
	s.found.Messages++
	s.before[i], s.found.Sums[i] = h.Before.hash(), h.After.hash()
	return nil
}

// chain checks that the sums continue from each message to the next, and counts the lost messages.
func (s *outboxScanner) chain() error {
	last := s.State.Gone.hash()
	for i, sum := range s.found.Sums {
		number := s.State.Taken + 1 + uint64(i)
		if sum == 0 {
			if s.found.Lost == 0 {
				s.found.LostFirst = number
			}
			s.found.LostLast = number
			s.found.Lost++
		} else if last != 0 && s.before[i] != last {
			if err := s.wrong(fmt.Sprintf("message %d to continue the sums of those before it", number),
				"other sums"); err != nil {
				return err
			}
		}
		last = sum
	}
	if last != 0 && last != s.State.Whole.hash() {
		return s.wrong(fmt.Sprintf("message %d to end with the sums of the manifest", s.State.Last), "other sums")
	}
	if s.found.Lost > 0 && !s.hurt {
		return s.report(s.corrupt(fmt.Sprintf("messages %d to %d", s.State.Taken+1, s.State.Last),
			fmt.Sprintf("none of %d between %d and %d", s.found.Lost, s.found.LostFirst, s.found.LostLast)))
	}
	return nil
}

// open checks the records of the open message.
func (s *outboxScanner) open() error {
	raw, err := disk.ReadTail(s.Set, s.State.Open)
	if err != nil {
		s.found.OpenLost = true
		return s.report(err)
	}
	after, was := s.State.Whole, s.found.Files
	if err := eachRecord(raw, &after, s); err != nil {
		s.found.Files = was
		return s.wrong("the records of the open message", err.Error())
	}
	if after != s.State.Out {
		return s.wrong("the sums of the manifest", "other sums of the open message")
	}
	return nil
}

// AppendSums appends hashes to dst, 8 bytes each.
func AppendSums(dst []byte, sums []uint64) []byte {
	for _, sum := range sums {
		dst = binary.LittleEndian.AppendUint64(dst, sum)
	}
	return dst
}

// ParseSums reads what AppendSums wrote.
func ParseSums(b []byte) ([]uint64, error) {
	if len(b)%8 != 0 {
		return nil, fmt.Errorf("cluster: sums of messages in %d bytes, want a multiple of 8", len(b))
	}
	sums := make([]uint64, len(b)/8)
	for i := range sums {
		sums[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return sums, nil
}
