package drum

import (
	"fmt"

	"drumbeat/disk"
)

// scanBlock is a block of a stream: n records starting with number first. n < 0 is a gap of unknown length.
type scanBlock struct {
	off   int64
	first int64
	n     int64
	bad   bool
}

// blocks lists the readable blocks of a stream from a cursor on, and the gaps. It calls each, if not nil,
// for every good block. It takes a few bytes of memory per block.
func (s *scanner) blocks(st *stream, at cursor, each func(r *blockReader) error) ([]scanBlock, error) {
	var list []scanBlock
	chunk := disk.Alloc(walkChunkBytes)
	defer func() { disk.Free(chunk) }()
	var r blockReader
	if err := r.open(s.w.d, st, at, &chunk); err != nil {
		if err := s.report(err); err != nil {
			return nil, err
		}
		list = append(list, scanBlock{off: at.off, n: -1, bad: true})
		at.off = st.written
		if err := r.open(s.w.d, st, at, &chunk); err != nil {
			return nil, err
		}
	}
	defer r.close()
	for {
		off := r.next
		ok, err := r.load()
		if err == nil && ok {
			if err = s.parses(&r); err == nil {
				list = append(list, scanBlock{off: r.off, n: int64(r.records)})
				if each != nil {
					if err := each(&r); err != nil {
						return nil, err
					}
				}
				continue
			}
		}
		if err == nil {
			return list, nil
		}
		if small, ok := s.smaller(err, &chunk, &r.c, off); ok {
			chunk = small
			continue
		}
		if err := s.report(err); err != nil {
			return nil, err
		}
		gap, next := s.nextBlock(&r, off, st.written)
		list = append(list, gap)
		r.next = next
		r.c.off, r.c.lo, r.c.hi = next, 0, 0
	}
}

// parses verifies the records of the reader's block.
func (s *scanner) parses(r *blockReader) error {
	b := r.payload
	if r.s.kind.isLog() {
		texts := newBlockTexts(r.s.kind, b, &s.dec)
		for range r.records {
			if _, ok := texts.next(); !ok {
				return corrupt(r.path(), r.off, "records", texts.shown())
			}
		}
		return nil
	}
	rec := keyRecord{prefix: s.w.d.opt.prefix(r.s.bucket)}
	for range r.records {
		n := 0
		if r.s.kind == keyBlocks {
			if n = rec.parse(&s.w.d.opt, b); n > 0 && rec.key>>s.w.d.shift != uint64(r.s.bucket) {
				n = 0
			}
		} else {
			_, n = parseAux(b)
		}
		if n == 0 {
			return corrupt(r.path(), r.off, "records", fmt.Sprintf("% x", b[:min(len(b), 16)]))
		}
		b = b[n:]
	}
	return nil
}

// nextBlock skips the bad block at off. It returns the gap, and the offset of the next good header or the
// end.
func (s *scanner) nextBlock(r *blockReader, off, end int64) (gap scanBlock, next int64) {
	gap = scanBlock{off: off, n: -1, bad: true}
	next = off + pageBytes
	if h, ok := s.head(r, off); ok { // the header is intact and gives the number of lost records
		gap.n = int64(h.records)
		next = off + pageUp(bucketFrameBytes+int64(h.stored))
	}
	last := int64(0) // skip what the state has beyond the end of the file
	if r.c.f != nil {
		last, _ = s.w.d.fs().Size(r.c.f.Name())
	}
	for last = min(last, end); next < last; next += pageBytes {
		if _, ok := s.head(r, next); ok {
			return gap, next
		}
		gap.n = -1
	}
	if next < end {
		gap.n = -1
	}
	return gap, end
}

// head reads the header of a block of the reader's stream.
func (s *scanner) head(r *blockReader, off int64) (h bucketHeader, ok bool) {
	var b [bucketHeaderBytes]byte
	if r.c.f == nil || disk.ReadFull(r.c.f, b[:], off) != nil || h.parse(b[:], r.c.f.Name(), off) != nil {
		return h, false
	}
	return h, h.kind == r.s.kind && h.bucket == uint32(r.s.bucket) && h.gen == r.s.gen
}

// number sets the first record number of each block. total is the number of records. It computes the length
// of a single gap of unknown length. With several, everything from the first to the last counts as bad.
func number(list []scanBlock, total int64) []scanBlock {
	sum, first, last := int64(0), -1, -1
	for i, b := range list {
		if b.n >= 0 {
			sum += b.n
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	if first < 0 && sum < total { // a lost buffer, or the end of a file
		list = append(list, scanBlock{n: -1, bad: true})
		first, last = len(list)-1, len(list)-1
	}
	if first >= 0 {
		gap := scanBlock{bad: true, n: total}
		for i, b := range list {
			if i < first || i > last {
				gap.n -= b.n
			}
		}
		gap.n = max(0, gap.n)
		list = append(append(append([]scanBlock{}, list[:first]...), gap), list[last+1:]...)
	}
	at := int64(0)
	for i := range list {
		list[i].first = at
		at += list[i].n
	}
	return list
}

// salvage passes on the tuples of an input that are readable in both streams, except the first done. It
// returns the number of tuples passed on in total.
func (s *scanner) salvage(is *InputState, done int64) (int64, error) {
	in := is.input(&s.w.d.opt)
	var lists [2][]scanBlock
	for i, st := range []*stream{&in.keys, &in.aux} {
		if err := s.fill(st); err != nil {
			return done, err
		}
		at := []cursor{in.keysAt, in.auxAt}[i]
		blocks, err := s.blocks(st, at, nil)
		if err != nil {
			return done, err
		}
		// A lost buffer, or its lost end, is another gap after the blocks in the file.
		if st.fill > 0 {
			if b := s.saved[st.fill]; b == nil || int64(len(b.bytes())) < b.want {
				blocks = append(blocks, scanBlock{n: -1, bad: true})
			}
		}
		lists[i] = number(blocks, int64(at.rec)+in.tuples)
		for j := range lists[i] {
			lists[i][j].first -= int64(at.rec) // numbers count from the cursor
		}
	}
	from := done
	for _, k := range lists[0] {
		for _, a := range lists[1] {
			lo, hi := max(k.first, a.first, from), min(k.first+k.n, a.first+a.n, in.tuples)
			if k.bad || a.bad || lo >= hi {
				continue
			}
			if err := s.stretch(in, k, a, lo, hi); err != nil {
				return done, err
			}
			done += hi - lo
		}
	}
	return done, nil
}

// stretch passes on the tuples lo to hi - 1, which are in one block of keys and one of aux.
func (s *scanner) stretch(in *input, k, a scanBlock, lo, hi int64) error {
	var readers [2]blockReader
	for i, b := range []scanBlock{k, a} {
		st := []*stream{&in.keys, &in.aux}[i]
		chunk := disk.Alloc(64 << 10)
		defer func() { disk.Free(chunk) }()
		if err := readers[i].open(s.w.d, st, cursor{off: b.off}, &chunk); err != nil {
			return err
		}
		defer readers[i].close()
	}
	keys := recordReader{r: &readers[0], skip: uint32(lo - k.first)}
	aux := recordReader{r: &readers[1], skip: uint32(lo - a.first)}
	rec := keyRecord{prefix: s.w.d.opt.prefix(in.keys.bucket)}
	var text []byte
	for range hi - lo {
		if err := keys.next(func(b []byte) int { return rec.parse(&s.w.d.opt, b) }); err != nil {
			return err
		}
		if err := aux.next(func(b []byte) (n int) { text, n = parseAux(b); return n }); err != nil {
			return err
		}
		if s.scan.Tuple == nil {
			continue
		}
		if err := s.scan.Tuple(Tuple{Key: Key(rec.key), Op: rec.op, Value: rec.value, Aux: text}); err != nil {
			return err
		}
	}
	return nil
}

// log scans a text log from its cursor on, one span of numbers at a time.
func (s *scanner) log(ls *LogState) error {
	if ls.Dir < 0 || ls.Dir >= s.w.d.dirs() {
		return s.report(fmt.Errorf("invalid log %+v", *ls))
	}
	st := ls.stream()
	if err := s.fill(st); err != nil {
		return err
	}
	at := cursor{}
	if ls.Sealed {
		at.off = ls.Text.At
		if at.off >= ls.Text.Bytes && ls.Text.Record > 0 {
			return nil // streamed to its end
		}
	}
	return s.texts(ls, st, at)
}

// texts is log from a cursor on.
func (s *scanner) texts(ls *LogState, st *stream, at cursor) error {
	lists := s.listsOf(ls)
	span := bitmap{log: ls.Dir}
	first, read := int64(-1), int64(0)
	_, err := s.blocks(st, at, func(r *blockReader) error {
		end := r.base + uint64(r.records)
		if end > ls.Next {
			return s.report(corrupt(r.path(), r.off, fmt.Sprintf("texts up to number %d", ls.Next), fmt.Sprint(end)))
		}
		if first < 0 {
			first = int64(r.base)
		}
		read += int64(r.records)
		if ls.Sealed && (r.base < span.lo || end > span.hi) {
			if err := s.mark(&span, lists, r.base, max(end, min(ls.Next, r.base+8*uint64(s.spanBytes())))); err != nil {
				return err
			}
		}
		return s.eachText(ls, r, &span)
	})
	if err != nil {
		return err
	}
	if at.off == 0 { // else, if the first block is lost, the number of its first text is unknown
		first = 0
	}
	if first >= 0 {
		s.found.LostTexts += max(0, int64(ls.Next)-first-read)
	}
	return nil
}

func (s *scanner) spanBytes() int {
	if s.scan.SpanBytes > 0 {
		return s.scan.SpanBytes
	}
	return 32 << 20
}

// eachText passes on the texts of a good block.
func (s *scanner) eachText(ls *LogState, r *blockReader, span *bitmap) error {
	texts := newBlockTexts(r.s.kind, r.payload, &s.dec)
	for i := range uint64(r.records) {
		text, _ := texts.next() // parses has read them
		unique := ls.Sealed && span.has(r.base+i)
		s.found.Texts++
		if text == nil {
			if unique {
				return s.report(corrupt(r.path(), r.off, fmt.Sprintf("text number %d", r.base+i),
					"a text that is left out"))
			}
			continue
		}
		if unique {
			s.found.Uniques++
		}
		if s.scan.Text != nil {
			if err := s.scan.Text(text, unique); err != nil {
				return err
			}
		}
	}
	return nil
}

// scanList is a list of numbers, and the offset at which the next span may start to read it.
type scanList struct {
	u    *UniqueState
	from int64
}

func (s *scanner) listsOf(ls *LogState) []scanList {
	var lists []scanList
	for i := range s.st.Uniques {
		if u := &s.st.Uniques[i]; ls.Sealed && u.Log == ls.Dir {
			lists = append(lists, scanList{u: u, from: u.Offset})
		}
	}
	return lists
}

// mark builds the bitmap of the numbers lo to hi - 1. Spans ascend.
func (s *scanner) mark(m *bitmap, lists []scanList, lo, hi uint64) error {
	m.lo, m.hi = lo, hi
	words := int((hi - lo + 63) / 64)
	if cap(m.words) < words {
		m.words = make([]uint64, words)
	}
	m.words = m.words[:words]
	clear(m.words)
	for i := range lists {
		l := &lists[i]
		if len(l.u.Numbers) > 0 {
			m.mark(l.u.Numbers)
			continue
		}
		err := s.part(l.u.part(), l.u.Bucket, uniqueKind, l.from, func(r *partReader) (bool, error) {
			if m.mark(r.keys) {
				return false, nil
			}
			if r.last < lo {
				l.from = r.at() // later spans do not need the block
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
