package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Load counts what a slot has cost its node: the work so far, and the work that is left.
type Load struct {
	Pages   int64 // fetched (state.CountPages)
	Known   int64 // unique URLs
	Waiting int64 // URLs that are neither fetched nor refused; below 0 only if the count began after the crawl
	Bytes   int64 // received in final responses for URLs
}

// Add adds another load to this one.
func (l *Load) Add(o Load) {
	l.Pages += o.Pages
	l.Known += o.Known
	l.Waiting += o.Waiting
	l.Bytes += o.Bytes
}

// Loads are the loads of a node by slot. Those of slots of other nodes are zero. It takes 128 KiB.
type Loads struct {
	// Since is the Unix second at which the count began; 0: with the crawl. Before it, an earlier version of the
	// program ran, or a repair has lost the counts.
	Since int64
	Slots [Slots]Load
}

// Sum returns the sum of all slots.
func (l *Loads) Sum() (sum Load) {
	for slot := range l.Slots {
		sum.Add(l.Slots[slot])
	}
	return sum
}

// loadsVersion is the version of Loads in a tail file (docs/reference/files/cluster.md).
const loadsVersion = 1

// Append appends the loads as a tail file has them: exact, and without slots whose loads are zero. It appends at least
// one byte.
func (l *Loads) Append(dst []byte) []byte {
	dst = binary.AppendVarint(append(dst, loadsVersion), l.Since)
	next := 0
	for slot := range l.Slots {
		s := &l.Slots[slot]
		if *s == (Load{}) {
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(slot-next))
		for _, n := range [...]int64{s.Pages, s.Known, s.Waiting, s.Bytes} {
			dst = binary.AppendVarint(dst, n)
		}
		next = slot + 1
	}
	return dst
}

// ErrLoads means that bytes are no loads of slots. It comes wrapped.
var ErrLoads = errors.New("not the loads of slots")

// DecodeLoads decodes what Append wrote.
func DecodeLoads(data []byte) (*Loads, error) {
	if len(data) == 0 || data[0] != loadsVersion {
		return nil, fmt.Errorf("cluster: %w: no version %d", ErrLoads, loadsVersion)
	}
	l, rest := new(Loads), data[1:]
	number := func() (n int64, ok bool) {
		n, w := binary.Varint(rest)
		rest = rest[max(w, 0):]
		return n, w > 0
	}
	var ok bool
	if l.Since, ok = number(); !ok {
		return nil, fmt.Errorf("cluster: %w: no time", ErrLoads)
	}
	for next := 0; len(rest) > 0; next++ {
		gap, w := binary.Uvarint(rest)
		if w <= 0 || gap >= uint64(Slots-next) {
			return nil, fmt.Errorf("cluster: %w: no slot at byte %d of %d", ErrLoads, len(data)-len(rest), len(data))
		}
		rest = rest[w:]
		next += int(gap)
		s := &l.Slots[next]
		for _, at := range [...]*int64{&s.Pages, &s.Known, &s.Waiting, &s.Bytes} {
			if *at, ok = number(); !ok {
				return nil, fmt.Errorf("cluster: %w: slot %d is incomplete", ErrLoads, next)
			}
		}
	}
	return l, nil
}
