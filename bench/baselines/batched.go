package baselines

import (
	"context"
	"errors"
	"fmt"
)

// Index is a store of keys only, from which NewBatched makes a Store.
type Index interface {
	// Load adds known keys, which ascend across calls. It is called before the first Check.
	Load(keys []uint64) error
	// Check adds the keys of b, and calls SetFresh for the first link of each new key.
	Check(ctx context.Context, b Batch) error
	// Stats fills in the fields that Batched doesn't know. It may be called at any time between other
	// calls.
	Stats(st *Stats)
	// Close is called once. The Store removes the files.
	Close() error
}

// Batch is a list of links sorted by key, then by arrival.
type Batch struct{ ps []pair }

// Len returns the number of links.
func (b Batch) Len() int { return len(b.ps) }

// Key returns the key of link i.
func (b Batch) Key(i int) uint64 { return b.ps[i].key }

// SetFresh marks link i as the first of its key.
func (b Batch) SetFresh(i int) { b.ps[i].tag |= tagFresh }

// Part returns the links from i up to, not including, j.
func (b Batch) Part(i, j int) Batch { return Batch{b.ps[i:j]} }

// meanTextBytes is the assumed mean length of a text; it divides the RAM of waiting links between pairs and
// texts.
const meanTextBytes = 96

// batched collects links with their texts in RAM, sorts them by key and checks them all at once in an
// index.
type batched struct {
	base
	index Index
	batch []pair // as in mercatorB
	arena []byte // the texts, in order of arrival
}

// NewBatched returns a Store whose links wait in batchBytes of RAM. open creates the index in o.Dir, which
// exists and is empty at that time. The index has the rest of o.RAMBytes.
func NewBatched(name string, o Options, batchBytes int64, open func() (Index, error)) (Store, error) {
	b, err := newBase(name, o)
	if err != nil {
		return nil, err
	}
	n := batchBytes / (pairBytes + meanTextBytes)
	s := &batched{base: b, batch: make([]pair, 0, n), arena: make([]byte, 0, max(2*MaxTextBytes, n*meanTextBytes))}
	s.stats.RAMBytes = o.RAMBytes
	if s.index, err = open(); err != nil {
		return nil, fmt.Errorf("baselines: open %s: %w", name, errors.Join(err, b.removeDir()))
	}
	return s, nil
}

// Load implements Store.
func (s *batched) Load(keys []uint64) error {
	if err := s.checkLoad(keys); err != nil {
		return err
	}
	return s.fail("load", s.index.Load(keys))
}

// Add implements Store.
func (s *batched) Add(links []Link) error {
	if err := s.checkLinks(links); err != nil {
		return err
	}
	for i := range links {
		l := &links[i]
		if len(s.batch) == cap(s.batch) || len(s.arena)+len(l.Text) > cap(s.arena) {
			if err := s.check(context.Background()); err != nil {
				return err
			}
		}
		tag := uint64(len(s.batch))<<tagNumber | uint64(len(l.Text))<<tagLength
		s.batch = append(s.batch, pair{l.Key, tag})
		s.arena = append(s.arena, l.Text...)
	}
	return nil
}

// Flush implements Store.
func (s *batched) Flush(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	return s.check(ctx)
}

// check answers the batch, which may be empty.
func (s *batched) check(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		sortPairs(s.batch)
		err = s.index.Check(ctx, Batch{s.batch})
	}
	if err != nil {
		return s.fail("check", err)
	}
	if len(s.batch) == 0 {
		return nil
	}
	s.stats.Batches++
	s.stats.BatchLinks += int64(len(s.batch))
	restoreArrival(s.batch)
	text := s.arena
	for _, p := range s.batch {
		n := int(p.tag >> tagLength & tagLengthMask)
		if err := s.put(Link{p.key, text[:n:n]}, p.tag&tagFresh != 0); err != nil {
			return err
		}
		text = text[n:]
	}
	s.batch, s.arena = s.batch[:0], s.arena[:0]
	return s.putOut()
}

// Stats implements Store.
func (s *batched) Stats() Stats {
	st := s.stats
	if s.index != nil {
		s.index.Stats(&st)
	}
	return st
}

// Close implements Store.
func (s *batched) Close() error {
	if s.err == ErrClosed {
		return nil
	}
	s.stats = s.Stats()
	err := s.index.Close()
	s.err, s.index, s.batch, s.arena = ErrClosed, nil, nil, nil
	return errors.Join(err, s.removeDir())
}
