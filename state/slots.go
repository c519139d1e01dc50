package state

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"

	"drumbeat/cluster"
	"drumbeat/weburl"
)

// Slots is a set of slots: the bit slot%8 of the byte slot/8.
type Slots [weburl.Slots / 8]byte

// Leaving are slots that other nodes own by the table of this one. Some of their URLs are still in its queues of BEAST:
// the change of the table is not over.
type Leaving struct {
	Change    int           `json:"change"`     // number of the change
	Slots     Slots         `json:"slots"`      // also those of PLDs with hosts that other nodes visit
	SeedsDone bool          `json:"seeds_done"` // this node had read all seeds when the slots left
	To        []LeavingPart `json:"to"`         // by node
}

// LeavingPart is what one node has been sent of the slots.
type LeavingPart struct {
	Node int               `json:"node"`
	Sums cluster.MovedSums `json:"sums"`
}

// Part returns the part of a node; nil: the node gets none.
func (l *Leaving) Part(node int) *LeavingPart {
	for i := range l.To {
		if l.To[i].Node == node {
			return &l.To[i]
		}
	}
	return nil
}

// Clone returns a copy.
func (l *Leaving) Clone() *Leaving {
	if l == nil {
		return nil
	}
	c := *l
	c.To = slices.Clone(l.To)
	return &c
}

// SlotsOf returns the slots that a node owns.
func SlotsOf(t *cluster.Table, node int) (s Slots) {
	for slot := range weburl.Slots {
		if t.OwnerOf(slot) == node {
			s[slot/8] |= 1 << (slot % 8)
		}
	}
	return s
}

// SlotSet returns the set of a list.
func SlotSet(list []int) (s Slots) {
	for _, slot := range list {
		s.Set(slot)
	}
	return s
}

// AllSlots returns all slots.
func AllSlots() (s Slots) {
	for i := range s {
		s[i] = 0xff
	}
	return s
}

// Set adds a slot.
func (s *Slots) Set(slot int) { s[slot/8] |= 1 << (slot % 8) }

// Add adds the slots of another set.
func (s *Slots) Add(o Slots) {
	for i := range s {
		s[i] |= o[i]
	}
}

// Has reports whether a slot is in the set.
func (s *Slots) Has(slot int) bool { return s[slot/8]>>(slot%8)&1 != 0 }

// Len returns the number of slots.
func (s Slots) Len() (n int) {
	for _, b := range s {
		n += bits.OnesCount8(b)
	}
	return n
}

// HasKey reports whether the slot in a key of a URL, a host or an origin is in the set.
func (s *Slots) HasKey(key uint64) bool { return s.Has(weburl.SlotOf(key)) }

// HasPLD reports whether the slot of a PLD, by its key, is in the set.
func (s *Slots) HasPLD(pld uint64) bool { return s.Has(weburl.Slot(pld)) }

// Elsewhere reports whether another node of the cluster owns the slot of a key of a URL, a host or an origin.
func (f *Frozen) Elsewhere(key uint64) bool { return f.Nodes > 0 && !f.Slots.HasKey(key) }

// Elsewhere reports whether another node of the cluster owns the slot of a key of a URL, a host or an origin, and the
// slot is not on its way here.
func (m *Manifest) Elsewhere(key uint64) bool {
	return m.Frozen.Elsewhere(key) && !m.Arriving.HasKey(key)
}

// DividedTables returns the present table of a node and the one that follows, if PLDs are divided in them.
func (m *Manifest) DividedTables() (tables []*cluster.Table, _ error) {
	for _, data := range [...]json.RawMessage{m.Table, m.Next} {
		if len(data) == 0 {
			continue
		}
		_, t, err := cluster.DecodeTableChange(data)
		if err != nil {
			return nil, err
		}
		if t.Divided() {
			tables = append(tables, t)
		}
	}
	return tables, nil
}

// IsZero reports whether the set is empty.
func (s Slots) IsZero() bool { return s == Slots{} }

// MarshalText implements encoding.TextMarshaler: hexadecimal digits.
func (s Slots) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Slots) UnmarshalText(text []byte) error {
	if len(text) != 2*len(s) {
		return fmt.Errorf("crawl: %d digits of slots, want %d", len(text), 2*len(s))
	}
	_, err := hex.Decode(s[:], text)
	return err
}

// setHasher sets Hasher, and Suffixes if keys depend on it: those of a node of a cluster have slots.
func (s *Saved) setHasher(secret weburl.Secret, f *Frozen) error {
	s.Hasher = weburl.NewHasher(secret)
	if f.Nodes == 0 {
		return nil
	}
	err := s.OpenSuffixes(f.Private, true)
	if err == nil && s.Suffixes.Digest() != f.Suffixes {
		err = fmt.Errorf("crawl: the suffix list in %s has digest %s, want %s: %w", s.Set.Path(0, SuffixesName),
			s.Suffixes.Digest(), f.Suffixes, ErrIncompatible)
	}
	if err != nil { // repair writes it again if the program's own list is the same
		own := weburl.NewSuffixes(f.Private)
		if own.Digest() != f.Suffixes {
			return err
		}
		s.Suffixes = own
	}
	s.Hasher = s.Hasher.WithSlots(s.Suffixes)
	return nil
}
