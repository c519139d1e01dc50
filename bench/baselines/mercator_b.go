package baselines

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"drumbeat/disk"
)

// mercatorB is the batch disk check of section IV.A: a batch of m links has 16 bytes each in RAM, a key and
// a pointer, where the pointer is the link's number in the batch, the length of its text, and the verdict.
// The text goes to a file in order of arrival. When the RAM is full,
//
//	the pairs are sorted;
//	seen, 8 bytes a key in ascending order, is read, merged with them and rewritten; new ones are marked;
//	the pairs are put back in order of arrival;
//	the text is read, and goes out with the verdicts.
//
// So a batch costs 2f + mpH bytes for the keys, f being the size of seen, and 2mb for the text: the terms
// of equation (3).
type mercatorB struct {
	base
	files files
	seen  seenFile
	batch []pair

	bufs     [][]byte // two for writing text, or reading it with the verdicts; two more for a merge
	text     disk.File
	textOut  *writer // nil: no link waits
	loading  *writer // nil: nothing is being loaded
	loadFile disk.File
}

// The fields of a pair's tag, from the lowest bit: verdict, length of the text, number.
const (
	tagFresh      = 1
	tagLength     = 1
	tagNumber     = 16
	tagLengthMask = 1<<(tagNumber-tagLength) - 1
)

func openMercatorB(b base) (Store, error) {
	chunk := chunkBytes(b.o.RAMBytes)
	s := &mercatorB{base: b, files: files{fs: b.o.FS, dir: b.o.Dir}}
	s.seen.files = &s.files
	s.bufs = buffers(4, textRoom+chunk)
	rest := b.o.RAMBytes - emitBytes - 4*int64(textRoom+chunk)
	s.batch = make([]pair, 0, min(rest/pairBytes, math.MaxInt32))
	s.stats.RAMBytes = b.o.RAMBytes - rest + int64(cap(s.batch))*pairBytes
	var err error
	if s.text, err = s.files.create("text"); err != nil {
		return nil, fmt.Errorf("baselines: open %s: %w", s.name, err)
	}
	return s, nil
}

// Load implements Store.
func (s *mercatorB) Load(keys []uint64) error {
	if err := s.checkLoad(keys); err != nil {
		return err
	}
	if s.loading == nil {
		f, err := s.seen.create()
		if err != nil {
			return s.fail("load", err)
		}
		s.loadFile, s.loading = f, newWriter(f, s.bufs[2], s.bufs[3])
	}
	for _, k := range keys {
		if err := putKey(s.loading, k); err != nil {
			return s.fail("load", err)
		}
	}
	return nil
}

// putKey writes a key. Chunks are whole numbers of them.
func putKey(w *writer, key uint64) error {
	if w.room() == 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.buf = binary.LittleEndian.AppendUint64(w.buf, key)
	return nil
}

// loadEnd writes what Load left in the buffer.
func (s *mercatorB) loadEnd() error {
	if s.loading == nil {
		return nil
	}
	w := s.loading
	s.loading = nil
	if err := w.finish(); err != nil {
		return s.fail("load", err)
	}
	s.stats.FileBytes = w.size()
	return s.fail("load", s.seen.replace(s.loadFile, w.size(), s.stats.Known))
}

// Add implements Store.
func (s *mercatorB) Add(links []Link) error {
	if err := s.checkLinks(links); err != nil {
		return err
	}
	if err := s.loadEnd(); err != nil {
		return err
	}
	for i := range links {
		if len(s.batch) == cap(s.batch) {
			if err := s.check(context.Background()); err != nil {
				return err
			}
		}
		if s.textOut == nil {
			s.textOut = newWriter(s.text, s.bufs[0], s.bufs[1])
		}
		l := &links[i]
		tag := uint64(len(s.batch))<<tagNumber | uint64(len(l.Text))<<tagLength
		s.batch = append(s.batch, pair{l.Key, tag})
		if err := s.textOut.write(l.Text); err != nil {
			return s.fail("write text", err)
		}
	}
	return nil
}

// Flush implements Store.
func (s *mercatorB) Flush(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	if err := s.loadEnd(); err != nil {
		return err
	}
	return s.check(ctx)
}

// check answers the batch.
func (s *mercatorB) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.fail("check", err)
	}
	if len(s.batch) == 0 {
		return nil
	}
	if err := s.textOut.finish(); err != nil {
		return s.fail("write text", err)
	}
	size := s.textOut.size()
	s.textOut = nil
	sortPairs(s.batch)
	err := s.seen.merge(&s.stats, textRoom, s.bufs, func(r *reader, w *writer) (int64, error) {
		return s.merge(ctx, r, w)
	})
	if err != nil {
		return s.fail("merge", err)
	}
	s.stats.Batches++
	s.stats.BatchLinks += int64(len(s.batch))
	restoreArrival(s.batch)
	r := newReader(s.text, size, textRoom, s.bufs[0], s.bufs[1])
	err = s.answer(ctx, r)
	r.stop()
	s.batch = s.batch[:0]
	return err
}

// merge merges the sorted batch with the known keys of r into w, marks the first link of each new key, and
// counts the new keys.
func (s *mercatorB) merge(ctx context.Context, r *reader, w *writer) (added int64, err error) {
	ps := s.batch
	var old []byte
	for i := 0; i < len(ps); {
		key := ps[i].key
		for {
			n := lowerKeys(old, key)
			if err := w.write(old[:n]); err != nil {
				return 0, err
			}
			if old = old[n:]; len(old) > 0 || r.end() {
				break
			}
			if old, err = r.more(ctx, nil); err != nil {
				return 0, err
			}
		}
		if len(old) == 0 || binary.LittleEndian.Uint64(old) != key {
			ps[i].tag |= tagFresh
			added++
			if err := putKey(w, key); err != nil {
				return 0, err
			}
		}
		for i++; i < len(ps) && ps[i].key == key; i++ {
		}
	}
	return added, copyRest(ctx, old, r, w)
}

// copyRest writes old and the rest of r.
func copyRest(ctx context.Context, old []byte, r *reader, w *writer) error {
	for {
		err := w.write(old)
		if err != nil || r.end() {
			return err
		}
		if old, err = r.more(ctx, nil); err != nil {
			return err
		}
	}
}

// lowerKeys returns the length in bytes of the prefix of p, ascending keys, that is below key. The search
// doubles its step, so a run of n keys costs log n.
func lowerKeys(p []byte, key uint64) int {
	n := len(p) / 8
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(p[8*i:]) }
	hi := 1
	for hi <= n && at(hi-1) < key {
		hi *= 2
	}
	lo, hi := hi/2, min(hi-1, n)
	for lo < hi {
		if mid := (lo + hi) / 2; at(mid) < key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo * 8
}

// answer emits the batch with the text that r reads.
func (s *mercatorB) answer(ctx context.Context, r *reader) error {
	var window []byte
	for _, p := range s.batch {
		n := int(p.tag >> tagLength & tagLengthMask)
		if len(window) < n {
			if err := s.putOut(); err != nil {
				return err
			}
			var err error
			if window, err = r.more(ctx, window); err != nil {
				return s.fail("read text", err)
			}
		}
		if err := s.put(Link{p.key, window[:n:n]}, p.tag&tagFresh != 0); err != nil {
			return err
		}
		window = window[n:]
	}
	return s.putOut()
}

// Close implements Store.
func (s *mercatorB) Close() error {
	if s.err == ErrClosed {
		return nil
	}
	for _, w := range []*writer{s.textOut, s.loading} {
		if w != nil {
			_ = w.stop() // its output is discarded
		}
	}
	s.err, s.batch, s.bufs = ErrClosed, nil, nil
	return errors.Join(s.files.close(), s.removeDir())
}
