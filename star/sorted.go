package star

import (
	"encoding/binary"
	"math"

	"drumbeat/internal/extsort"
)

// sorted reads the records of a Sorter, by ascending key: the first 8 bytes.
type sorted struct {
	s    *extsort.Sorter // nil: no records
	ok   bool
	key  uint64
	rest []byte
}

func newSorted(s *extsort.Sorter) *sorted { return &sorted{s: s} }

// begin goes to the first record.
func (c *sorted) begin() error {
	if c.s == nil {
		return nil
	}
	if err := c.s.Rewind(); err != nil {
		return err
	}
	return c.next()
}

func (c *sorted) next() error {
	rec, err := c.s.Next()
	if c.ok = rec != nil && err == nil; c.ok {
		c.key, c.rest = binary.BigEndian.Uint64(rec), rec[8:]
	}
	return err
}

// seek goes to the first record of a key or above, and reports whether it is of the key.
func (c *sorted) seek(key uint64) (bool, error) {
	for c.ok && c.key < key {
		if err := c.next(); err != nil {
			return false, err
		}
	}
	return c.ok && c.key == key, nil
}

func (c *sorted) float() float64 { return math.Float64frombits(binary.BigEndian.Uint64(c.rest)) }

// target returns the second key of an edge.
func (c *sorted) target() uint64 { return binary.BigEndian.Uint64(c.rest) }

// weight returns the float32 after a second key.
func (c *sorted) weight() float64 {
	return float64(math.Float32frombits(binary.BigEndian.Uint32(c.rest[8:])))
}

// at returns the number of a key, 0 if it has none.
func (c *sorted) at(key uint64) (float64, error) {
	if has, err := c.seek(key); !has {
		return 0, err
	}
	return c.float(), nil
}

// sum adds up the float32 of a key and goes beyond them.
func (c *sorted) sum(key uint64) (sum float64, err error) {
	has, err := c.seek(key)
	for has && err == nil {
		sum += float64(math.Float32frombits(binary.BigEndian.Uint32(c.rest)))
		err = c.next()
		has = c.ok && c.key == key
	}
	return sum, err
}
