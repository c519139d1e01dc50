package baselines

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
	"drumbeat/drum"
)

// mercatorA is the check of 1999 by disk seeks (section IV.A and Table I of the paper). seen is one sorted
// file, in which each key has the hash of its site in front, so the URLs of a site are neighbours.
//
// A link whose key is not in the RAM cache of popular keys waits until the batch is full. Then the batch is
// sorted. Each key that the table of recent keys lacks is looked up in the file: the first key of each block
// of 4 KiB is in RAM, so a look-up reads one block, and links of one site that share a block read it once.
// When the table of recent keys is full, it is merged with the file.
type mercatorA struct {
	base
	files files
	seen  seenFile
	first []siteKey // of each block of seen
	bufs  [][]byte  // of a merge or of Load

	popular *drum.RAMCache
	recent  map[siteKey]struct{}
	most    int // keys in recent
	blocks  int // most blocks of seen
	batch   []siteLink
	arena   []byte  // the texts, in order of arrival
	order   []int32 // the links that are looked up, by key

	loading  *siteWriter // nil: nothing is being loaded
	loadFile disk.File
}

// siteLink is a link that waits.
type siteLink struct {
	k            siteKey
	length       int
	known, fresh bool // found in the cache; not found anywhere
}

// These divide RAMBytes.
const (
	recentBytes   = 64 // of a key in the map of recent keys
	siteLinkBytes = 32 // of a waiting link without its text
	meanTextBytes = 96 // assumed mean length of a text
	readers       = 16 // look-ups at once
)

func openMercatorA(b base) (Store, error) {
	quarter := b.o.RAMBytes / 4
	n := quarter / (siteLinkBytes + meanTextBytes)
	s := &mercatorA{base: b, files: files{fs: b.o.FS, dir: b.o.Dir}, popular: drum.NewRAMCache(quarter),
		recent: map[siteKey]struct{}{}, most: int(quarter / recentBytes), blocks: int(quarter / 2 / firstBytes),
		batch: make([]siteLink, 0, min(n, math.MaxInt32)), arena: make([]byte, 0, max(n*meanTextBytes, 2*MaxTextBytes)),
		bufs: buffers(4, textRoom+chunkBytes(b.o.RAMBytes))}
	s.seen.files = &s.files
	s.stats.RAMBytes = b.o.RAMBytes
	return s, nil
}

// Load implements Store. It gives keys a made-up site that keeps their order, so they differ from all links.
func (s *mercatorA) Load(keys []uint64) error {
	if err := s.checkLoad(keys); err != nil {
		return err
	}
	if s.loading == nil {
		f, err := s.seen.create()
		if err != nil {
			return s.fail("load", err)
		}
		s.loadFile, s.loading = f, &siteWriter{out: newWriter(f, s.bufs[2], s.bufs[3]), most: s.blocks}
	}
	for _, k := range keys {
		if err := s.loading.add(siteKey{uint32(k >> 32), k}); err != nil {
			return s.fail("load", err)
		}
	}
	return nil
}

// loadEnd makes the keys of Load known.
func (s *mercatorA) loadEnd() error {
	if s.loading == nil {
		return nil
	}
	w := s.loading
	s.loading = nil
	if err := w.out.finish(); err != nil {
		return s.fail("load", err)
	}
	s.stats.FileBytes, s.first = w.out.size(), w.first
	return s.fail("load", s.seen.replace(s.loadFile, w.out.size(), w.keys))
}

// LoadLinks implements TextLoader.
func (s *mercatorA) LoadLinks(links []Link) error {
	if err := s.checkLoadLinks(links); err != nil {
		return err
	}
	for _, l := range links {
		s.recent[siteKeyOf(l)] = struct{}{}
		if len(s.recent) >= s.most {
			if err := s.merge(context.Background()); err != nil {
				return err
			}
		}
	}
	s.stats.Known = s.seen.keys + int64(len(s.recent))
	return nil
}

// Add implements Store.
func (s *mercatorA) Add(links []Link) error {
	if err := s.checkLinks(links); err != nil {
		return err
	}
	if err := s.loadEnd(); err != nil {
		return err
	}
	for _, l := range links {
		if len(s.batch) == cap(s.batch) || len(s.arena)+len(l.Text) > cap(s.arena) {
			if err := s.check(context.Background()); err != nil {
				return err
			}
		}
		s.batch = append(s.batch,
			siteLink{k: siteKeyOf(l), length: len(l.Text), known: s.popular.TestAndSet(drum.Key(l.Key))})
		s.arena = append(s.arena, l.Text...)
	}
	return nil
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

// check answers the batch.
func (s *mercatorA) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.fail("check", err)
	}
	if len(s.batch) == 0 {
		return nil
	}
	if len(s.recent)+len(s.batch) > s.most {
		if err := s.merge(ctx); err != nil {
			return err
		}
	}
	s.order = s.order[:0]
	for i := range s.batch {
		if !s.batch[i].known {
			s.order = append(s.order, int32(i))
		}
	}
	slices.SortFunc(s.order, func(a, b int32) int {
		return cmp.Or(s.batch[a].k.compare(s.batch[b].k), cmp.Compare(a, b))
	})
	if err := s.lookUp(ctx); err != nil {
		return s.fail("look up", err)
	}
	s.stats.Batches++
	s.stats.BatchLinks += int64(len(s.batch))
	text := s.arena
	for i := range s.batch {
		w := &s.batch[i]
		if w.fresh {
			s.recent[w.k] = struct{}{}
		}
		if err := s.put(Link{w.k.url, text[:w.length:w.length]}, w.fresh); err != nil {
			return err
		}
		text = text[w.length:]
	}
	s.batch, s.arena = s.batch[:0], s.arena[:0]
	return s.putOut()
}

// lookUp marks the first link of each key that is not known. Readers share the sorted links.
func (s *mercatorA) lookUp(ctx context.Context) error {
	var wait sync.WaitGroup
	errs := make([]error, readers)
	rest := s.order
	for i := range readers {
		n := len(rest) / (readers - i)
		for n > 0 && n < len(rest) && s.batch[rest[n]].k == s.batch[rest[n-1]].k {
			n++ // all links of a key belong to one reader
		}
		part := rest[:n]
		rest = rest[n:]
		wait.Go(func() { errs[i] = s.lookUpPart(ctx, part) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (s *mercatorA) lookUpPart(ctx context.Context, order []int32) error {
	r := blockReader{s: s, block: -1, buf: make([]byte, blockBytes)}
	for i, at := range order {
		w := &s.batch[at]
		if i > 0 && s.batch[order[i-1]].k == w.k {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, ok := s.recent[w.k]; ok {
			continue
		}
		found, err := r.has(w.k)
		if err != nil {
			return err
		}
		w.fresh = !found
	}
	return nil
}

// merge writes the recent keys into the file.
func (s *mercatorA) merge(ctx context.Context) error {
	keys := slices.SortedFunc(maps.Keys(s.recent), siteKey.compare)
	next := siteWriter{most: s.blocks}
	err := s.seen.merge(&s.stats, textRoom, s.bufs, func(r *reader, w *writer) (int64, error) {
		next.out = w
		err := next.merge(ctx, r, keys)
		return next.keys - s.seen.keys, err
	})
	if err != nil {
		return s.fail("merge", err)
	}
	s.first = next.first
	clear(s.recent)
	return nil
}

// Close implements Store.
func (s *mercatorA) Close() error {
	if s.err == ErrClosed {
		return nil
	}
	if s.loading != nil {
		_ = s.loading.out.stop() // its output is discarded
	}
	s.popular.Close()
	s.err, s.batch, s.arena, s.recent, s.order, s.bufs = ErrClosed, nil, nil, nil, nil, nil
	return errors.Join(s.files.close(), s.removeDir())
}

// siteKey is the key of a URL behind that of its site.
type siteKey struct {
	site uint32
	url  uint64
}

const (
	siteKeyBytes = 12
	blockKeys    = 4096 / siteKeyBytes
	blockBytes   = blockKeys * siteKeyBytes
	firstBytes   = 16 // of a key in RAM
)

func (k siteKey) compare(o siteKey) int {
	return cmp.Or(cmp.Compare(k.site, o.site), cmp.Compare(k.url, o.url))
}

func decodeSiteKey(b []byte) siteKey {
	return siteKey{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:])}
}

// siteKeyOf returns the key of a link. Its site is the text between the scheme and the path.
func siteKeyOf(l Link) siteKey {
	site := l.Text
	if i := bytes.Index(site, []byte("://")); i >= 0 {
		site = site[i+3:]
	}
	if i := bytes.IndexAny(site, "/?#"); i >= 0 {
		site = site[:i]
	}
	return siteKey{uint32(xxhash.Sum64(site)), l.Key}
}

// siteWriter writes a version of the file.
type siteWriter struct {
	out   *writer
	keys  int64
	most  int       // blocks
	first []siteKey // of each block
}

// add appends a key, which must be above the last one.
func (w *siteWriter) add(k siteKey) error {
	if w.keys%blockKeys == 0 {
		if len(w.first) == w.most {
			return fmt.Errorf("the first keys of %d blocks fill their share of RAM", w.most)
		}
		w.first = append(w.first, k)
	}
	w.keys++
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, siteKeyBytes), k.site)
	return w.out.write(binary.LittleEndian.AppendUint64(b, k.url))
}

// merge writes the keys of r and the sorted keys. Those in both are kept once.
func (w *siteWriter) merge(ctx context.Context, r *reader, keys []siteKey) (err error) {
	var window []byte
	for !r.end() {
		if window, err = r.more(ctx, window); err != nil {
			return err
		}
		for ; len(window) >= siteKeyBytes; window = window[siteKeyBytes:] {
			old := decodeSiteKey(window)
			for ; len(keys) > 0 && keys[0].compare(old) < 0; keys = keys[1:] {
				if err := w.add(keys[0]); err != nil {
					return err
				}
			}
			if len(keys) > 0 && keys[0] == old {
				keys = keys[1:]
			}
			if err := w.add(old); err != nil {
				return err
			}
		}
	}
	for _, k := range keys {
		if err := w.add(k); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// blockReader reads single blocks of the file, and keeps the last one. Readers may work at the same time.
type blockReader struct {
	s     *mercatorA
	block int
	buf   []byte
}

// has looks for a key, and reads its block unless that was read last.
func (r *blockReader) has(k siteKey) (bool, error) {
	first, seen := r.s.first, &r.s.seen
	block := sort.Search(len(first), func(i int) bool { return first[i].compare(k) > 0 }) - 1
	if block < 0 {
		return false, nil
	}
	n := int(min(blockKeys, seen.keys-int64(block)*blockKeys))
	if block != r.block {
		if err := disk.ReadFull(seen.f, r.buf[:n*siteKeyBytes], int64(block)*blockBytes); err != nil {
			r.block = -1
			return false, err
		}
		r.block = block
	}
	at := func(i int) siteKey { return decodeSiteKey(r.buf[i*siteKeyBytes:]) }
	i := sort.Search(n, func(i int) bool { return at(i).compare(k) >= 0 })
	return i < n && at(i) == k, nil
}
