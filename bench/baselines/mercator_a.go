package baselines

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// mercatorA is the disk check by seeks of section IV.A, as Mercator had it in 1999. Keys are those of a site, 4 bytes,
// followed by those of the URL, 8 bytes, so the URLs of a site are neighbours in the file of known keys. A link is looked
// for
//
//	in the cache of popular keys, least recently used in sets of 8;
//	in the table of the keys that are new since the file was last written;
//	in the file, for which it waits, with its text, until the batch is full. Then the batch is sorted, and cut into
//	ranges of which each reader has one. It reads the blocks where links of its range may be: neighbouring ones in one
//	go, so a site that isn't huge takes one seek whatever the number of its links.
//
// When the table of new keys could become too full, it is sorted and merged with the file. The file is pages of 341 keys
// of 12 bytes. The first key of each block, a page at first, is in RAM.
type mercatorA struct {
	base
	files files
	seen  seenFile
	bufs  [][]byte // for the merge

	cache  [][8]uint64
	recent recentTable
	first  []pair // of each block; the tag's lower half is 0
	pages  int    // a block has, a power of 2

	batch []pair
	arena []byte // of the batch: length in 2 bytes, text

	readers []blockReader
	loading *pageWriter
	loadTo  disk.File
}

const (
	siteKeyBytes = 12
	pageBytes    = 4096
	pageKeys     = pageBytes / siteKeyBytes

	// A pair of mercatorA: site and the upper half of the key; the lower half, the place in the arena, the verdict.
	maxPlaceA = math.MaxInt32

	// maxReaders is how many lookups go on at once: enough for the queue of a disk without heads.
	maxReaders = 16
	// runBytes is how much one lookup reads at most.
	runBytes = 64 << 10
)

// sitePair returns the pair of a site's link, without place.
func sitePair(site uint32, key uint64) pair {
	return pair{uint64(site)<<32 | key>>32, key << 32}
}

// urlKey is the reverse of sitePair.
func (p pair) urlKey() uint64 { return p.key<<32 | p.tag>>32 }

// bare returns a pair without place.
func (p pair) bare() pair { return pair{p.key, p.tag &^ math.MaxUint32} }

// siteOf returns the hash of the site of a URL: what is between the scheme and the path.
func siteOf(text []byte) uint32 {
	if i := bytes.Index(text, []byte("://")); i >= 0 {
		text = text[i+3:]
	}
	if i := bytes.IndexAny(text, "/?#"); i >= 0 {
		text = text[:i]
	}
	return uint32(xxhash.Sum64(text) >> 32)
}

func openMercatorA(b base) (Store, error) {
	r := b.o.RAMBytes
	chunk := chunkBytes(r)
	s := &mercatorA{base: b, files: files{fs: b.o.FS, dir: b.o.Dir}, bufs: buffers(4, chunk), pages: 1}
	s.seen.files = &s.files
	s.readers = make([]blockReader, min(maxReaders, r/(4<<20)))
	for i := range s.readers {
		s.readers[i].buf = make([]byte, runBytes)
	}
	fixed := emitBytes + 4*int64(chunk) + int64(len(s.readers))*runBytes
	// A sixteenth for the first keys, a quarter of the rest for the cache; the batch and the table share what is left.
	s.first = make([]pair, 0, r/16/pairBytes)
	rest := r - fixed - r/16
	s.cache = make([][8]uint64, rest/4/64)
	rest -= rest / 4
	// A link of 110 bytes takes 16 + 112 in the batch, and needs a place in the table, 16 at a load of 3/4, if it is new: there
	// is room for 1.5 batches of new ones.
	n := min(rest/(16+112+32), maxPlaceA/112)
	s.batch = make([]pair, 0, n)
	s.arena = make([]byte, 0, min(112*n, maxPlaceA))
	s.recent.slots = make([]pair, (rest-n*(16+112))/pairBytes)
	s.stats.RAMBytes = fixed + r/16 + int64(len(s.cache))*64 + n*pairBytes + int64(cap(s.arena)) +
		int64(len(s.recent.slots))*pairBytes
	return s, nil
}

// Load implements Store. The site of a key is made up: see TextLoader.
func (s *mercatorA) Load(keys []uint64) error {
	if err := s.checkLoad(keys); err != nil {
		return err
	}
	if s.loading == nil {
		f, err := s.seen.create()
		if err != nil {
			return s.fail("load", err)
		}
		s.loadTo, s.loading = f, s.newPageWriter(newWriter(f, s.bufs[2], s.bufs[3]))
	}
	for _, k := range keys {
		// The highest bits in place of a site keep the order.
		if err := s.loading.put(sitePair(uint32(k>>32), k)); err != nil {
			return s.fail("load", err)
		}
	}
	return nil
}

// LoadLinks implements TextLoader.
func (s *mercatorA) LoadLinks(links []Link) error {
	if err := s.checkLoadLinks(links); err != nil {
		return err
	}
	for _, l := range links {
		if s.recent.full(1) {
			if err := s.merge(context.Background()); err != nil {
				return err
			}
		}
		if s.recent.add(sitePair(siteOf(l.Text), l.Key)) {
			s.stats.Known++
		}
	}
	return nil
}

// loadEnd writes what Load has left.
func (s *mercatorA) loadEnd() error {
	if s.loading == nil {
		return nil
	}
	w := s.loading
	s.loading = nil
	if err := w.w.finish(); err != nil {
		return s.fail("load", err)
	}
	s.stats.FileBytes = w.w.size()
	return s.fail("load", s.seen.replace(s.loadTo, w.w.size(), s.stats.Known))
}

// Add implements Store: links that are found in RAM are answered at once.
func (s *mercatorA) Add(links []Link) error {
	if err := s.checkLinks(links); err != nil {
		return err
	}
	if err := s.loadEnd(); err != nil {
		return err
	}
	for i := range links {
		l := &links[i]
		// Before the look at the table: a check puts what waits into it.
		if len(s.batch) == cap(s.batch) || len(s.arena)+2+len(l.Text) > cap(s.arena) {
			if err := s.putOut(false); err != nil {
				return err
			}
			if err := s.check(context.Background()); err != nil {
				return err
			}
		}
		p := sitePair(siteOf(l.Text), l.Key)
		if s.cached(l.Key) || s.recent.has(p) {
			if err := s.put(false, *l, false); err != nil {
				return err
			}
			continue
		}
		p.tag |= uint64(len(s.arena)) << 1
		s.batch = append(s.batch, p)
		s.arena = binary.LittleEndian.AppendUint16(s.arena, uint16(len(l.Text)))
		s.arena = append(s.arena, l.Text...)
	}
	return s.putOut(false)
}

// Flush implements Store.
func (s *mercatorA) Flush(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	if err := s.loadEnd(); err != nil {
		return err
	}
	return s.check(ctx)
}

// cached says whether a key is in the cache of popular keys, and makes it the youngest of its set.
func (s *mercatorA) cached(key uint64) bool {
	set := s.cacheSet(key)
	for i, k := range set {
		if k == key && key != 0 {
			copy(set[1:i+1], set[:i])
			set[0] = key
			return true
		}
	}
	return false
}

// remember puts a key into the cache, at the cost of the oldest of its set.
func (s *mercatorA) remember(key uint64) {
	if !s.cached(key) {
		set := s.cacheSet(key)
		copy(set[1:], set[:7])
		set[0] = key
	}
}

func (s *mercatorA) cacheSet(key uint64) *[8]uint64 {
	return &s.cache[spread(key, len(s.cache))]
}

// check answers the batch.
func (s *mercatorA) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.fail("check", err)
	}
	if len(s.batch) == 0 {
		return nil
	}
	if s.recent.full(len(s.batch)) {
		if err := s.merge(ctx); err != nil {
			return err
		}
	}
	sortPairs(s.batch)
	if err := s.lookUp(ctx); err != nil {
		return s.fail("look up", err)
	}
	s.stats.Batches++
	s.stats.BatchLinks += int64(len(s.batch))
	for _, p := range s.batch {
		fresh := p.tag&tagFresh != 0
		if fresh {
			s.recent.add(p.bare())
		}
		s.remember(p.urlKey())
		at := p.tag & math.MaxUint32 >> 1
		end := at + 2 + uint64(binary.LittleEndian.Uint16(s.arena[at:]))
		if err := s.put(false, Link{p.urlKey(), s.arena[at+2 : end : end]}, fresh); err != nil {
			return err
		}
	}
	err := s.putOut(false)
	s.batch, s.arena = s.batch[:0], s.arena[:0]
	return err
}

// lookUp looks for the sorted batch in the file, and marks the first link of each key that isn't there.
func (s *mercatorA) lookUp(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.readers))
	rest := s.batch
	for i := range s.readers {
		n := len(rest) / (len(s.readers) - i)
		for n > 0 && n < len(rest) && rest[n].bare() == rest[n-1].bare() {
			n++
		}
		part := rest[:n]
		rest = rest[n:]
		if n == 0 {
			continue
		}
		wg.Go(func() { errs[i] = s.readers[i].lookUp(ctx, s, part) })
	}
	wg.Wait()
	for i := range s.readers {
		s.stats.Seeks += s.readers[i].seeks
		s.readers[i].seeks = 0
	}
	return errors.Join(errs...)
}

// merge writes the file anew with the new keys of the table in it, and empties that.
func (s *mercatorA) merge(ctx context.Context) error {
	ps := s.recent.sorted()
	s.first = s.first[:0]
	dropped := int64(0)
	err := s.seen.merge(&s.stats, 0, s.bufs, func(r *reader, w *writer) (added int64, err error) {
		dropped, err = mergePages(ctx, ps, r, s.newPageWriter(w))
		return int64(len(ps)) - dropped, err
	})
	if err != nil {
		return s.fail("merge", err)
	}
	s.recent.clear()
	s.stats.Known -= dropped // links that were loaded twice
	return nil
}

// Close implements Store.
func (s *mercatorA) Close() error {
	if s.err == ErrClosed {
		return nil
	}
	if s.loading != nil {
		_ = s.loading.w.stop() // what it wrote is given up
	}
	s.err, s.batch, s.arena, s.cache, s.recent = ErrClosed, nil, nil, nil, recentTable{}
	return errors.Join(s.files.close(), s.removeDir())
}
