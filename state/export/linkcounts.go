package export

import (
	"encoding/binary"
	"math"

	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/weburl"
)

// linkCounts counts the links of the stored pages for each pair of different PLDs. It sums in RAM, and passes the
// sums on to a sorter when there are many pairs.
type linkCounts struct {
	j      *job
	sums   map[[2]uint64]int64 // keys of target and source
	limit  int                 // of sums
	sorter *extsort.Sorter     // key of the target, key of the source, a sum; several for a pair
	next   *cursor             // of sorter
	from   []byte              // host of the last source
	source uint64              // key of its PLD
	rec    []byte
	stray  int64 // pairs that have been passed over
}

// sumBytes is about what an entry of linkCounts.sums takes, while the map grows, too.
const sumBytes = 128

// countLinks counts the links of all stored pages.
func (j *job) countLinks() (*linkCounts, error) {
	c := newLinkCounts(j, int(j.opt.RAMBytes/8/sumBytes))
	if err := j.eachLink(false, c.add); err != nil {
		return nil, err
	}
	j.meter.Set("sorting counts")
	return c, c.sort()
}

func newLinkCounts(j *job, limit int) *linkCounts {
	return &linkCounts{j: j, limit: limit, sums: map[[2]uint64]int64{}, sorter: j.sorterOf(8)}
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
func (c *linkCounts) add(r *linkRow) error {
	if host := weburl.Split(r.from).Host; c.source == 0 || string(host) != string(c.from) {
		c.from, c.source = append(c.from[:0], host...), c.pld(host)
	}
	pair := [2]uint64{c.pld(weburl.Split(r.to).Host), c.source}
	if pair[0] == pair[1] {
		return c.j.live()
	}
	if c.sums[pair]++; len(c.sums) >= c.limit {
		return c.flush()
	}
	return c.j.live()
}

func (c *linkCounts) pld(host []byte) uint64 { return c.j.Hasher.PLDKey(c.j.Suffixes.PLDBytes(host)) }

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
