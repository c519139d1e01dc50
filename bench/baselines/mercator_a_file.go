package baselines

import (
	"context"
	"encoding/binary"
	"fmt"
	"sort"
)

// recentTable is a hash table of pairs without place, with linear probing. The lowest bit of the tag says that a slot is in
// use.
type recentTable struct {
	slots []pair
	n     int
}

const slotUsed = 1

// full says that there may be no room for more pairs: it is kept at most 3/4 full.
func (t *recentTable) full(more int) bool { return t.n+more > len(t.slots)/4*3 }

// slot returns where p is, or should be.
func (t *recentTable) slot(p pair) int {
	at := spread(p.urlKey(), len(t.slots))
	for t.slots[at].tag&slotUsed != 0 && t.slots[at].bare() != p {
		if at++; at == len(t.slots) {
			at = 0
		}
	}
	return at
}

func (t *recentTable) has(p pair) bool { return t.slots[t.slot(p)].tag&slotUsed != 0 }

// add says whether p wasn't there.
func (t *recentTable) add(p pair) bool {
	at := t.slot(p)
	if t.slots[at].tag&slotUsed != 0 {
		return false
	}
	t.slots[at] = pair{p.key, p.tag | slotUsed}
	t.n++
	return true
}

// sorted returns what is in the table in ascending order, and makes a mess of it. clear must follow.
func (t *recentTable) sorted() []pair {
	ps := t.slots[:0]
	for _, p := range t.slots {
		if p.tag&slotUsed != 0 {
			ps = append(ps, p)
		}
	}
	sortPairs(ps)
	return ps
}

func (t *recentTable) clear() {
	clear(t.slots)
	t.n = 0
}

// pageWriter writes the file of known keys, and notes the first key of each block.
type pageWriter struct {
	s    *mercatorA
	w    *writer
	page int // the number of the present page
	keys int // in the present page
	buf  [siteKeyBytes]byte
}

func (s *mercatorA) newPageWriter(w *writer) *pageWriter {
	s.first = s.first[:0]
	return &pageWriter{s: s, w: w}
}

// turn begins another page if the present one is full; p is the next key.
func (w *pageWriter) turn(p pair) error {
	if w.keys == pageKeys {
		w.keys = 0
		w.page++
		if err := w.w.write(make([]byte, pageBytes-pageKeys*siteKeyBytes)); err != nil {
			return err
		}
	}
	if w.keys > 0 || w.page%w.s.pages > 0 {
		return nil
	}
	s := w.s
	if len(s.first) == cap(s.first) {
		// Blocks of twice as many pages.
		for i := 0; 2*i < len(s.first); i++ {
			s.first[i] = s.first[2*i]
		}
		s.first = s.first[:(len(s.first)+1)/2]
		if s.pages *= 2; s.pages*pageBytes > runBytes {
			return fmt.Errorf("%w for the first key of each block of a file of %d keys", ErrFull, s.stats.Known)
		}
		if w.page%s.pages > 0 {
			return nil
		}
	}
	s.first = append(s.first, p.bare())
	return nil
}

// put adds a key.
func (w *pageWriter) put(p pair) error {
	if err := w.turn(p); err != nil {
		return err
	}
	w.keys++
	binary.LittleEndian.PutUint32(w.buf[:], uint32(p.key>>32))
	binary.LittleEndian.PutUint64(w.buf[4:], p.urlKey())
	return w.w.write(w.buf[:])
}

// putRun adds keys as they are in a file.
func (w *pageWriter) putRun(keys []byte) error {
	for len(keys) > 0 {
		if err := w.turn(pairAt(keys)); err != nil {
			return err
		}
		n := min(len(keys)/siteKeyBytes, pageKeys-w.keys)
		w.keys += n
		if err := w.w.write(keys[:n*siteKeyBytes]); err != nil {
			return err
		}
		keys = keys[n*siteKeyBytes:]
	}
	return nil
}

// pairAt returns the key at the start of p.
func pairAt(p []byte) pair {
	return sitePair(binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint64(p[4:]))
}

// oldPages goes through the file page by page.
type oldPages struct {
	r      *reader
	window []byte
	keys   []byte // what is left of the present page
}

// next returns the keys that are left in the present page or, if none are, those of the next one; nil at the end.
func (o *oldPages) next(ctx context.Context) ([]byte, error) {
	if len(o.keys) > 0 {
		return o.keys, nil
	}
	if len(o.window) == 0 {
		var err error
		if o.window, err = o.r.more(ctx, nil); err != nil {
			return nil, err
		}
	}
	n := min(len(o.window), pageBytes)
	o.keys = o.window[:n/siteKeyBytes*siteKeyBytes]
	o.window = o.window[n:]
	return o.keys, nil
}

// mergePages merges sorted keys with those of r into w, and returns how many were in the file already.
func mergePages(ctx context.Context, ps []pair, r *reader, w *pageWriter) (known int64, err error) {
	old := oldPages{r: r}
	keys, err := old.next(ctx)
	if err != nil {
		return 0, err
	}
	for _, p := range ps {
		p = p.bare()
		for len(keys) > 0 {
			n := sort.Search(len(keys)/siteKeyBytes, func(i int) bool {
				return !pairAt(keys[i*siteKeyBytes:]).less(p)
			})
			if err := w.putRun(keys[:n*siteKeyBytes]); err != nil {
				return 0, err
			}
			if old.keys = keys[n*siteKeyBytes:]; len(old.keys) > 0 {
				keys = old.keys
				break
			}
			if keys, err = old.next(ctx); err != nil {
				return 0, err
			}
		}
		if len(keys) > 0 && pairAt(keys) == p {
			known++
			continue
		}
		if err := w.put(p); err != nil {
			return 0, err
		}
	}
	for len(keys) > 0 {
		if err := w.putRun(keys); err != nil {
			return 0, err
		}
		old.keys = nil
		if keys, err = old.next(ctx); err != nil {
			return 0, err
		}
	}
	return known, nil
}

// blockReader looks for keys in the file.
type blockReader struct {
	buf   []byte
	start int // the first block in buf
	ends  int // the one behind the last
	bytes int
	seeks int64
}

// lookUp looks for sorted pairs, and marks the first of each key that isn't in the file.
func (b *blockReader) lookUp(ctx context.Context, s *mercatorA, ps []pair) error {
	b.start, b.ends = 0, 0
	block := -1
	for i := range ps {
		p := ps[i].bare()
		if i > 0 && ps[i-1].bare() == p {
			continue
		}
		if block = s.blockOf(p, block); block >= b.ends {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := b.read(s, block, ps[i:]); err != nil {
				return err
			}
		}
		if block < 0 || !b.has(s, block, p) {
			ps[i].tag |= tagFresh
		}
	}
	return nil
}

// blockOf returns the block where p would be, -1 if that is in front of the first; from is a block that isn't behind.
func (s *mercatorA) blockOf(p pair, from int) int {
	// In steps that double from where the last one was.
	from = max(from, 0)
	step := 1
	for from+step < len(s.first) && !p.less(s.first[from+step]) {
		step *= 2
	}
	lo, hi := from+step/2, min(from+step, len(s.first))
	return lo + sort.Search(hi-lo, func(i int) bool { return p.less(s.first[lo+i]) }) - 1
}

// read reads a block and, in the same go, those behind that pairs need: as many as are neighbours and fit.
func (b *blockReader) read(s *mercatorA, block int, ps []pair) error {
	size := int64(s.pages) * pageBytes
	end, most := block+1, block+len(b.buf)/int(size)
	at := block
	for i := range ps {
		if at = s.blockOf(ps[i].bare(), at); at > end || at >= most {
			break
		}
		end = max(end, at+1)
	}
	off := int64(block) * size
	b.bytes = int(min(int64(end)*size, s.seen.bytes) - off)
	b.start, b.ends = block, end
	b.seeks++
	n, err := s.seen.f.ReadAt(b.buf[:b.bytes], off)
	if n == b.bytes {
		return nil
	}
	b.ends = b.start
	return err
}

// has looks for p in a block that has been read.
func (b *blockReader) has(s *mercatorA, block int, p pair) bool {
	size := s.pages * pageBytes
	data := b.buf[(block-b.start)*size : min((block-b.start+1)*size, b.bytes)]
	key := func(i int) pair { return pairAt(data[i/pageKeys*pageBytes+i%pageKeys*siteKeyBytes:]) }
	n := len(data)/pageBytes*pageKeys + len(data)%pageBytes/siteKeyBytes
	i := sort.Search(n, func(i int) bool { return !key(i).less(p) })
	return i < n && key(i) == p
}
