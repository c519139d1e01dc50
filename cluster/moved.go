package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"

	"drumbeat/weburl"
)

// Slots move from one node to another through the outbox, as records between MovedBegin and MovedEnd, in front of all
// links to these slots: the outbox keeps the order. docs/contribute/cluster-design.md has the states of a move.

// MovedKind is a kind of record of a slot that moves.
type MovedKind byte

// The kinds. Keys are 8 bytes, little-endian.
const (
	MovedBegin  MovedKind = 'b' // TableChange
	MovedKeys   MovedKind = 'k' // keys of URLs that the giver knows
	MovedURL    MovedKind = 'u' // a URL that waits: 1 if it had a queue before, else 0; then its weburl.Record
	MovedVisit  MovedKind = 'v' // the weburl.Record of a URL that waits for its next visit; from VisitVersion on
	MovedOrder  MovedKind = 'o' // an enqueued URL: 1 if its record is the only one, else 0; then its state.Order
	MovedLink   MovedKind = 'x' // a weburl.Record of a link that the giver has not checked
	MovedEdges  MovedKind = 'e' // links between PLDs: pairs of keys, each 16 bytes
	MovedPLD    MovedKind = 'd' // key and star record of a PLD, without in-degree and ledger
	MovedName   MovedKind = 'n' // key and value of a name
	MovedRobots MovedKind = 'r' // key and value of RobotsCache
	MovedHealth MovedKind = 'h' // hosts in trouble, as internal/health writes them
	MovedTraps  MovedKind = 't' // scores of hosts, as internal/trapscore writes them
	MovedDelays MovedKind = 'w' // delays of hosts and servers, as package polite writes them
	MovedLoad   MovedKind = 'l' // a slot (2 bytes), the pages and bytes that were fetched of it (8 bytes each)
	MovedEnd    MovedKind = 'z' // number of the change (8 bytes), 1 if all seeds were read (1 byte), MovedSums
)

const movedKinds = "bkuvoxednrhtwlz"

func (k MovedKind) valid() bool {
	for i := range len(movedKinds) {
		if movedKinds[i] == byte(k) {
			return true
		}
	}
	return false
}

// version returns the first version with a kind.
func (k MovedKind) version() int {
	if k == MovedVisit || k == MovedOrder {
		return VisitVersion
	}
	return MovedVersion
}

// MovedSums are the number and key sum of the URLs of slots that move: those that are known, and of them those that
// wait. The others have ended at the giver.
type MovedSums struct {
	Known   weburl.Sum `json:"known"`
	Waiting weburl.Sum `json:"waiting"`
}

// Add adds sums.
func (s *MovedSums) Add(o *MovedSums) {
	s.Known.Merge(o.Known)
	s.Waiting.Merge(o.Waiting)
}

// Ended returns the URLs that have ended elsewhere: known less waiting.
func (s *MovedSums) Ended() weburl.Sum {
	sum := s.Known
	sum.Remove(s.Waiting)
	return sum
}

// Note adds a record. urlKey returns the key of a weburl.Record.
func (s *MovedSums) Note(kind MovedKind, rec []byte, urlKey func(record []byte) (uint64, error)) error {
	switch kind {
	case MovedKeys:
		return EachMovedKey(rec, s.Known.Add)
	case MovedURL, MovedVisit:
		if kind == MovedURL {
			if len(rec) < 2 || rec[0] > 1 {
				return errMoved
			}
			rec = rec[1:]
		}
		key, err := urlKey(rec)
		if err == nil {
			s.Waiting.Add(key)
		}
		return err
	case MovedOrder:
		if len(rec) < 9 || rec[0] > 1 {
			return errMoved
		}
		if rec[0] == 1 {
			s.Waiting.Add(binary.LittleEndian.Uint64(rec[1:]))
		}
	}
	return nil
}

var errMoved = errors.New("a damaged record of a slot that moves")

// EachMovedKey calls f for each key of a record of MovedKeys.
func EachMovedKey(rec []byte, f func(key uint64)) error {
	if len(rec)%8 != 0 {
		return errMoved
	}
	for ; len(rec) > 0; rec = rec[8:] {
		f(binary.LittleEndian.Uint64(rec))
	}
	return nil
}

// AppendMovedURL appends a record of MovedURL. again says that the URL had a queue before.
func AppendMovedURL(dst []byte, rec *weburl.Record, again bool) []byte {
	head := byte(0)
	if again {
		head = 1
	}
	return rec.Append(append(dst, head))
}

// AppendMovedLoad appends a record of MovedLoad.
func AppendMovedLoad(dst []byte, slot int, l *Load) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(slot))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(l.Pages))
	return binary.LittleEndian.AppendUint64(dst, uint64(l.Bytes))
}

// MovedLoadOf decodes a record of MovedLoad. The URLs of the slot are counted as they come.
func MovedLoadOf(rec []byte) (slot int, l Load, err error) {
	if len(rec) != 18 || binary.LittleEndian.Uint16(rec) >= Slots {
		return 0, l, fmt.Errorf("cluster: %w: %w", ErrMessage, errMoved)
	}
	l.Pages, l.Bytes = int64(binary.LittleEndian.Uint64(rec[2:])), int64(binary.LittleEndian.Uint64(rec[10:]))
	return int(binary.LittleEndian.Uint16(rec)), l, nil
}

// movedEndBytes is the length of a record of MovedEnd.
const movedEndBytes = 8 + 1 + 48

// AppendMovedEnd appends a record of MovedEnd.
func AppendMovedEnd(dst []byte, change uint64, seedsDone bool, s *MovedSums) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, change)
	if seedsDone {
		dst = append(dst, 1)
	} else {
		dst = append(dst, 0)
	}
	t := Totals{Links: s.Known, Edges: s.Waiting}
	return t.append(dst)
}

// MovedEndOf decodes a record of MovedEnd.
func MovedEndOf(rec []byte) (change uint64, seedsDone bool, s MovedSums, err error) {
	if len(rec) != movedEndBytes || rec[8] > 1 {
		return 0, false, s, fmt.Errorf("cluster: %w: %w", ErrMessage, errMoved)
	}
	t := decodeTotals(rec[9:])
	return binary.LittleEndian.Uint64(rec), rec[8] == 1, MovedSums{Known: t.Links, Waiting: t.Edges}, nil
}
