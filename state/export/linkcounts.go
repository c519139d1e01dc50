package export

import (
	"encoding/binary"
	"errors"
	"math"

	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/weburl"
)

// linkCounts counts the links of the stored pages for each pair of different PLDs, or hosts. It sums in RAM, and passes
// the sums on to a sorter when there are many pairs.
type linkCounts struct {
	j      *job
	sums   map[[2]uint64]int64 // keys of target and source
	limit  int                 // of sums
	sorter *extsort.Sorter     // key of the target, key of the source, a sum; several for a pair
	next   *cursor             // of sorter
	keyOf  func(host []byte) (uint64, error)
	from   []byte // host of the last source
	source uint64 // its key
	rec    []byte
	stray  int64 // pairs that have been passed over
}

// sumBytes is about what an entry of linkCounts.sums takes, while the map grows, too.
const sumBytes = 128

// countPLDLinks counts the links of all stored pages between PLDs.
func (j *job) countPLDLinks() (*linkCounts, error) {
	c := newLinkCounts(j, func(host []byte) (uint64, error) { return j.Hasher.PLDKey(j.Suffixes.PLDBytes(host)), nil })
	return c, c.count()
}

// newLinkCounts returns empty counts. keyOf returns the key of a host, or of its PLD.
func newLinkCounts(j *job, keyOf func(host []byte) (uint64, error)) *linkCounts {
	return &linkCounts{j: j, limit: int(j.opt.RAMBytes / 8 / sumBytes), sorter: j.sorterOf(8), keyOf: keyOf,
		sums: map[[2]uint64]int64{}}
}

// count counts the links of all stored pages.
func (c *linkCounts) count() error {
	if err := c.j.eachLink(false, c.add); err != nil {
		return err
	}
	c.j.meter.Set("sorting counts")
	return c.sort()
}

// sort ends the counting.
func (c *linkCounts) sort() error {
	err := c.flush()
	if err == nil {
		c.next, err = sorted(c.sorter)
	}
	c.sums = nil
	return err
}

// add counts a link.
func (c *linkCounts) add(r *linkRow) (err error) {
	if host := weburl.Split(r.from).Host; c.source == 0 || string(host) != string(c.from) {
		c.from = append(c.from[:0], host...)
		if c.source, err = c.keyOf(host); err != nil {
			return err
		}
	}
	to, err := c.keyOf(weburl.Split(r.to).Host)
	if err != nil || to == c.source {
		return errors.Join(err, c.j.live())
	}
	if c.sums[[2]uint64{to, c.source}]++; len(c.sums) >= c.limit {
		return c.flush()
	}
	return c.j.live()
}

// each calls fn for each pair, in the order of targets and sources, instead of of.
func (c *linkCounts) each(fn func(from, to, links uint64) error) error {
	var pair [2]uint64
	n, any := uint64(0), false
	for {
		next := pair
		if c.next.ok {
			next = [2]uint64{c.next.key, binary.BigEndian.Uint64(c.next.value)}
		}
		if any && (!c.next.ok || next != pair) {
			if err := fn(pair[1], pair[0], n); err != nil {
				return err
			}
			n = 0
		}
		if !c.next.ok {
			return nil
		}
		pair, any = next, true
		n += binary.BigEndian.Uint64(c.next.value[8:])
		if err := c.next.next(); err != nil {
			return err
		}
	}
}

// flush gives the sums to the sorter.
func (c *linkCounts) flush() error {
	for pair, n := range c.sums {
		c.rec = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(c.rec[:0], pair[0]), pair[1])
		if err := c.sorter.Add(binary.BigEndian.AppendUint64(c.rec, uint64(n))); err != nil {
			return err
		}
	}
	clear(c.sums)
	return nil
}

// of returns the number of links of an edge. Calls are in the order of targets and sources.
func (c *linkCounts) of(from, to uint64) (n uint64, err error) {
	var last [2]uint64
	for ; err == nil && c.next.ok; err = c.next.next() {
		source := binary.BigEndian.Uint64(c.next.value)
		switch {
		case c.next.key > to || c.next.key == to && source > from:
			return n, nil
		case c.next.key == to && source == from:
			n += binary.BigEndian.Uint64(c.next.value[8:])
		default:
			if pair := [2]uint64{c.next.key, source}; pair != last {
				c.stray++
				last = pair
			}
		}
	}
	return n, err
}

// end goes over the pairs after the last edge.
func (c *linkCounts) end() error {
	if _, err := c.of(math.MaxUint64, math.MaxUint64); err != nil {
		return err
	}
	if c.stray > 0 {
		c.j.note("%s links but no edge: the crawl did not follow these links",
			human.Counted(c.stray, "pair of PLDs has", "pairs of PLDs have"))
	}
	return nil
}
