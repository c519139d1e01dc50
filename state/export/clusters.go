package export

import (
	"bytes"
	"encoding/binary"
	"errors"

	"drumbeat/internal/extsort"
)

// clusters finds the connected components of a graph whose nodes are numbers. It holds nothing of the graph in RAM: it
// repeats the two steps of Kiveris et al. (Connected Components in MapReduce and Beyond, SoCC 2014, section 3), each of
// which is a sort and a pass. The large step links the larger neighbours of each node to its least neighbour, the small
// one does that with its smaller neighbours. In the end each node has one edge, to the least of its component. They
// need a number of rounds that is about the logarithm of the longest path.
type clusters struct {
	j      *job
	edges  *extsort.Sorter // both directions: node (8), neighbour (8)
	rounds int
	rec    [16]byte
}

func (j *job) newClusters() *clusters { return &clusters{j: j, edges: j.sorterOf(8)} }

// link adds an edge between two different nodes.
func (c *clusters) link(a, b uint64) error {
	return errors.Join(c.put(c.edges, a, b), c.put(c.edges, b, a))
}

func (c *clusters) put(s *extsort.Sorter, a, b uint64) error {
	binary.BigEndian.PutUint64(c.rec[:], a)
	binary.BigEndian.PutUint64(c.rec[8:], b)
	return s.Add(c.rec[:])
}

// find returns the nodes that are not the least of their component, in order, each with that one. It closes the
// sorter of the edges.
func (c *clusters) find() (*cursor, error) {
	for {
		c.rounds++
		down := c.j.sorterOf(8) // node, smaller neighbour
		changed, err := c.large(down)
		if err == nil {
			c.edges = c.j.sorterOf(8)
			var more bool
			more, err = c.small(down)
			changed = changed || more
		}
		if err != nil {
			return nil, err
		}
		if !changed {
			return unique(down, c.edges.Close())
		}
		if err := down.Close(); err != nil {
			return nil, err
		}
	}
}

// unique returns a cursor over a sorter that was read, without repeated records, unless there was an error.
func unique(s *extsort.Sorter, err error) (*cursor, error) {
	if err = errors.Join(err, s.Rewind()); err != nil {
		return nil, err
	}
	var last [16]byte
	first := true
	c := &cursor{pull: func() (uint64, []byte, bool, error) {
		for {
			rec, err := s.Next()
			if err == nil && rec == nil {
				err = s.Close()
			}
			if err != nil || rec == nil {
				return 0, nil, false, err
			}
			if first || !bytes.Equal(rec, last[:]) {
				first = false
				copy(last[:], rec)
				return binary.BigEndian.Uint64(last[:]), last[8:], true, nil
			}
		}
	}}
	return c, c.next()
}

// large links the larger neighbours of each node to its least neighbour, or itself. It closes the sorter of the edges.
func (c *clusters) large(down *extsort.Sorter) (changed bool, err error) {
	err = c.eachEdge(c.edges, func(node, neighbour, least uint64) error {
		if neighbour < node {
			return nil
		}
		changed = changed || least < node
		return c.put(down, neighbour, min(least, node))
	})
	return changed, errors.Join(err, c.edges.Close())
}

// small links each node and its neighbours, which are smaller, to the least of them.
func (c *clusters) small(down *extsort.Sorter) (changed bool, err error) {
	err = c.eachEdge(down, func(node, neighbour, least uint64) error {
		if neighbour == least {
			return c.link(node, least)
		}
		changed = true
		return c.link(neighbour, least)
	})
	return changed, err
}

// eachEdge calls each for the different edges, with the least neighbour of the node.
func (c *clusters) eachEdge(s *extsort.Sorter, each func(node, neighbour, least uint64) error) error {
	if err := s.Sort(); err != nil {
		return err
	}
	var node, last, least uint64
	for first := true; ; first = false {
		rec, err := s.Next()
		if err != nil || rec == nil {
			return err
		}
		a, b := binary.BigEndian.Uint64(rec), binary.BigEndian.Uint64(rec[8:])
		switch {
		case first || a != node:
			node, least = a, b
		case b == last:
			continue
		}
		last = b
		if err := errors.Join(each(node, b, least), c.j.live()); err != nil {
			return err
		}
	}
}
