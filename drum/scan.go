package drum

import (
	"errors"
	"fmt"
	"slices"

	"drumbeat/disk"
)

// Cache returns the cache part of st, for a ScanState of the cache alone.
func (st *State) Cache() *State {
	c := *st
	c.Inputs, c.Logs, c.Uniques, c.Buffered, c.Unstreamed = nil, nil, nil, nil, 0
	return &c
}

// Waiting returns st without the cache.
func (st *State) Waiting() *State {
	c := *st
	c.Parts = nil
	return &c
}

// Sealed returns the part of st with the unique texts that are not emitted yet: the sealed text logs.
func (st *State) Sealed() *State {
	c := *st
	c.Parts, c.Inputs = nil, nil
	c.Logs = slices.DeleteFunc(slices.Clone(st.Logs), func(l LogState) bool { return !l.Sealed })
	return &c
}

// InDirectory returns the part of st whose files are in directory number dir, for stores without text logs. Several
// goroutines may scan the parts of one state.
func (st *State) InDirectory(dir int) *State {
	c := *st
	c.Parts = slices.DeleteFunc(slices.Clone(st.Parts), func(p PartState) bool { return p.Dir != dir })
	c.Inputs = slices.DeleteFunc(slices.Clone(st.Inputs), func(in InputState) bool { return in.Dir != dir })
	c.Buffered = slices.DeleteFunc(slices.Clone(st.Buffered), func(b BufferState) bool { return b.Dir != dir })
	return &c
}

// Scan holds the functions that ScanState calls for the content of a store. Nil functions are not called.
// Bytes are valid during a call. An error of a function ends the scan and is returned.
type Scan struct {
	// Entry is called for the entries of the cache, in key order.
	Entry func(key Key, value []byte) error
	// Tuple is called for the tuples that wait in buckets. For stores with text logs see Text.
	Tuple func(t Tuple) error
	// Text is called, in stores with text logs, for every text after the log's cursor: texts that wait for
	// their merge, unique texts not emitted yet (unique), and known texts.
	Text func(aux []byte, unique bool) error
	// Damaged is called once for each unreadable part, and the scan continues after it. If nil, the first
	// damage ends the scan.
	Damaged func(err error) error
	// SpanBytes bounds the bitmap of unique texts; 0 means 32 MiB.
	SpanBytes int
}

// Found counts what a scan has read, and what it could not read.
type Found struct {
	Entries, Tuples, Texts, Uniques                 int64
	LostEntries, LostTuples, LostTexts, LostUniques int64
}

// Damaged reports whether anything was lost.
func (f *Found) Damaged() bool { return f.LostEntries+f.LostTuples+f.LostTexts+f.LostUniques > 0 }

// ScanState reads and verifies everything that st names and that is still needed. It continues after damage
// if Scan.Damaged is set. It changes nothing. It takes memory for SpanBytes, the content of buffers and a
// few read buffers.
func ScanState(set disk.Set, name string, st *State, scan Scan) (Found, error) {
	var found Found
	w, err := newWalker(set, name, st)
	if err != nil {
		return found, fmt.Errorf("drum: scan %s: %w", name, err)
	}
	s := &scanner{w: w, st: st, scan: scan, found: &found, reported: map[string]bool{}}
	if err := s.run(); err != nil {
		return found, fmt.Errorf("drum: scan %s: %w", name, err)
	}
	return found, nil
}

type scanner struct {
	w        *walker
	st       *State
	scan     Scan
	found    *Found
	saved    savedBuffers
	dec      textDecoder
	reported map[string]bool // places of damage, so that each is reported once
	// the position at which the chunk was last made small, so that it happens once
	small   *chunkReader
	smallAt int64
}

func (s *scanner) run() error {
	for i := range s.st.Parts {
		if err := s.cachePart(&s.st.Parts[i]); err != nil {
			return err
		}
	}
	if err := s.readBuffers(); err != nil {
		return err
	}
	for i := range s.st.Inputs {
		if err := s.input(&s.st.Inputs[i]); err != nil {
			return err
		}
	}
	for i := range s.st.Logs {
		if err := s.log(&s.st.Logs[i]); err != nil {
			return err
		}
	}
	s.found.LostUniques = max(0, s.st.Unstreamed-s.found.Uniques)
	return nil
}

// report passes damage to Scan.Damaged.
func (s *scanner) report(err error) error {
	if s.scan.Damaged == nil {
		return err
	}
	text := err.Error()
	if c := (*disk.CorruptError)(nil); errors.As(err, &c) {
		text = fmt.Sprint(c.Path, c.Offset)
	}
	if s.reported[text] {
		return nil
	}
	s.reported[text] = true
	return s.scan.Damaged(err)
}

// readBuffers reads the content of buffers.
func (s *scanner) readBuffers() error {
	r := bufferReader{opt: &s.w.d.opt, get: makeBuffer, damaged: s.report}
	err := r.readBuffers(s.st)
	s.saved = r.saved
	return err
}

func (s *scanner) cachePart(ps *PartState) error {
	before, late := s.found.Entries, ps.Late
	entry := func(key uint64, value []byte) error {
		if s.scan.Entry == nil {
			return nil
		}
		return s.scan.Entry(Key(key), value)
	}
	err := s.part(ps.part(), ps.Bucket, cacheKind, ps.Offset, func(r *partReader) (bool, error) {
		s.found.Entries += int64(len(r.keys))
		for i, key := range r.keys {
			for ; len(late) > 0 && late[0] < key; late = late[1:] {
				if err := entry(late[0], nil); err != nil {
					return false, err
				}
			}
			if err := entry(key, r.value(i)); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	s.found.LostEntries += max(0, ps.Keys-(s.found.Entries-before))
	s.found.Entries += int64(len(ps.Late))
	for ; err == nil && len(late) > 0; late = late[1:] {
		err = entry(late[0], nil)
	}
	return err
}

// part calls each for the readable blocks of a part from offset start on, until each returns false.
func (s *scanner) part(p part, bucket int, kind string, start int64, each func(r *partReader) (bool, error)) error {
	if err := checkPart(p, s.w.d.dirs()); err != nil {
		return s.report(err)
	}
	path := s.w.d.opt.partPath(kind, p.dir, p.gen)
	f, err := s.w.d.fs().OpenRead(path)
	if err != nil {
		return s.report(fmt.Errorf("open %s: %w", path, err))
	}
	defer f.Close()
	h := disk.Header{Kind: kind, Version: formatVersion, Number: p.gen, Place: uint64(p.dir)}
	if err := disk.CheckHeader(f, h); err != nil {
		if err := s.report(err); err != nil {
			return err
		}
	}
	chunk := disk.Alloc(walkChunkBytes)
	defer func() { disk.Free(chunk) }()
	r := partReader{opt: &s.w.d.opt, shift: s.w.d.shift, keys: make([]uint64, 0, blockKeys),
		numbers: kind == uniqueKind}
	if s.w.d.opt.ValueBytes == variableValues {
		r.ends = make([]uint32, 0, blockKeys)
	}
	r.open(p, bucket, chunkReader{f: f, buf: &chunk, count: &s.w.d.counts.cacheRead})
	whole := start == p.off
	r.c.off = start
	for {
		at := r.at()
		ok, err := r.load()
		switch {
		case err == nil && !ok:
			return nil
		case err == nil:
			more, err := each(&r)
			if err != nil || !more {
				return err
			}
			continue
		case at == p.off+p.size && !whole:
			return nil // the key count is meaningless, since some blocks were skipped
		}
		if small, ok := s.smaller(err, &chunk, &r.c, at); ok {
			chunk = small
			continue
		}
		if err := s.report(err); err != nil {
			return err
		}
		whole = false
		next := s.nextCacheBlock(f, &r, at+1, p.off+p.size, bucket)
		if next < 0 {
			return nil
		}
		r.c.off, r.c.lo, r.c.hi = next, 0, 0
	}
}

// smaller replaces chunk by one page, so that a failed read can be retried once: a large chunk reaches into
// blocks after the wanted one. The chunk grows again for a block larger than a page.
func (s *scanner) smaller(err error, chunk *[]byte, c *chunkReader, at int64) ([]byte, bool) {
	if isCorrupt(err) || len(*chunk) <= pageBytes || s.small == c && s.smallAt == at {
		return nil, false
	}
	s.small, s.smallAt = c, at
	disk.Free(*chunk)
	c.off, c.lo, c.hi = at, 0, 0
	return disk.Alloc(pageBytes), true
}

func isCorrupt(err error) bool {
	var c *disk.CorruptError
	return errors.As(err, &c)
}

// nextCacheBlock returns the offset of the next valid block header of the bucket, or -1 if there is none.
func (s *scanner) nextCacheBlock(f disk.File, r *partReader, from, end int64, bucket int) int64 {
	size, err := f.Size()
	if err != nil {
		return -1
	}
	end = min(end, size)
	return disk.FindMagic(f, from, end, cacheMagic, func(off int64) bool {
		var head [cacheHeaderBytes]byte
		var h cacheHeader
		return off+cacheHeaderBytes <= end && disk.ReadFull(f, head[:], off) == nil &&
			h.parse(head[:], f.Name(), off) == nil && h.bucket == uint32(bucket) && h.values == r.opt.valueCode()
	})
}

// input scans the tuples of a bucket. It reads keys and aux in parallel until the first damage. From there
// on it matches them by record number.
func (s *scanner) input(is *InputState) error {
	if is.Dir < 0 || is.Dir >= s.w.d.dirs() {
		return s.report(fmt.Errorf("invalid input %+v", *is))
	}
	if s.st.Aux == AuxLog {
		return s.loggedKeys(is)
	}
	done := int64(0)
	var stop error
	err := s.w.input(is, s.saved, func(t Tuple) error {
		done++
		if s.scan.Tuple != nil {
			stop = s.scan.Tuple(t)
		}
		return stop
	})
	if stop != nil {
		return stop
	}
	if err != nil {
		if err := s.report(err); err != nil {
			return err
		}
		done, err = s.salvage(is, done)
		if err != nil {
			return err
		}
	}
	s.found.Tuples += done
	s.found.LostTuples += is.Tuples - done
	return nil
}

// loggedKeys verifies the keys of a bucket whose texts are in a log.
func (s *scanner) loggedKeys(is *InputState) error {
	in := is.input(&s.w.d.opt)
	if err := s.fill(&in.keys); err != nil {
		return err
	}
	blocks, err := s.blocks(&in.keys, in.keysAt, nil)
	if err != nil {
		return err
	}
	n := -int64(in.keysAt.rec)
	for _, b := range blocks {
		n += max(0, b.n)
	}
	s.found.Tuples += min(n, is.Tuples)
	s.found.LostTuples += max(0, is.Tuples-n)
	return nil
}

// fill gives a stream its buffer, if that was readable.
func (s *scanner) fill(st *stream) error {
	err := s.w.fill(st, s.saved)
	if err != nil {
		delete(s.saved, st.fill)
		err = s.report(err)
	}
	return err
}
