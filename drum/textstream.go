package drum

import (
	"context"
	"fmt"

	"drumbeat/disk"
)

// bitmap marks the unique texts of one span of a log: the numbers from lo to hi - 1.
type bitmap struct {
	log    int
	lo, hi uint64
	kept   uint64 // no later span starts below this number
	words  []uint64
}

func (m *bitmap) has(number uint64) bool {
	i := number - m.lo
	return m.words[i/64]>>(i%64)&1 != 0
}

// mark sets the bits of ascending numbers within the span. past reports that one is beyond it.
func (m *bitmap) mark(numbers []uint64) (past bool) {
	for _, number := range numbers {
		if number >= m.hi {
			return true
		}
		if number >= m.lo {
			i := number - m.lo
			m.words[i/64] |= 1 << (i % 64)
		}
	}
	return false
}

// logStream emits the unique texts of one log from its cursor on.
type logStream struct {
	log   *textLog
	dir   int
	r     textReader
	chunk []byte // memory of its own, if there are fewer workers than logs
	span  *bitmap
}

// stream emits the unique texts of the sealed logs. The logs are on different disks, which read ahead
// together. The stream takes a block of each log in turn, or of the next that has one: that is roughly the
// order of arrival, and a slow disk delays only its own texts.
func (c *mergeWorkers) stream(ctx context.Context) error {
	p := c.workers[0]
	live, err := c.openStreams()
	defer func() {
		for _, s := range live {
			s.close()
		}
	}()
	for err == nil && len(live) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := live[0]
		live = live[1:]
		for n := 0; n < len(live) && !s.r.ahead(); n++ {
			s, live = live[0], append(live[1:], s)
		}
		var more bool
		if more, err = p.streamNext(s); more || err != nil {
			live = append(live, s)
		} else {
			s.close()
		}
		if err != nil {
			err = fmt.Errorf("drum: stream texts of %s in directory %d: %w", c.d.opt.Name, s.dir, err)
		}
	}
	if err != nil {
		c.d.fail(err)
	}
	return err
}

// openStreams opens the logs that have not been fully streamed. The reader of a log uses the memory of a
// worker, as long as there are workers.
func (c *mergeWorkers) openStreams() (live []*logStream, err error) {
	p, t := c.workers[0], &c.d.texts
	if len(p.spans) < len(t.sealed) {
		p.spans = make([]bitmap, len(t.sealed))
	}
	for dir, log := range t.sealed {
		if log.at.off >= log.s.written && log.at.rec >= log.s.records {
			continue
		}
		s := &logStream{log: log, dir: dir, span: &p.spans[dir]}
		words := s.span.words
		*s.span = bitmap{log: dir, words: words}
		chunk := &s.chunk
		if n := len(live); n < len(c.workers) {
			chunk = &c.workers[n].chunk
		} else if log.at.off < log.s.written {
			s.chunk = disk.Alloc(pageUp(2 * c.d.opt.LogBytes))
		}
		live = append(live, s)
		if err := s.r.open(c.d, log, chunk); err != nil {
			return live, fmt.Errorf("drum: stream texts of %s in directory %d: %w", c.d.opt.Name, dir, err)
		}
	}
	return live, nil
}

func (s *logStream) close() {
	s.r.close()
	disk.Free(s.chunk)
	s.chunk = nil
}

// streamNext emits the texts of the next block of a log. It returns false at the end.
func (p *pass) streamNext(s *logStream) (more bool, err error) {
	b, err := s.r.next()
	if b == nil || err != nil {
		return false, err
	}
	end := b.base + uint64(b.records)
	if end > s.log.next {
		return false, corrupt(s.r.r.path(), b.off, fmt.Sprintf("texts up to number %d", s.log.next), fmt.Sprint(end))
	}
	if b.base < s.span.lo || end > s.span.hi {
		if err := p.buildSpan(s, b.base, end); err != nil {
			return false, err
		}
	}
	return true, p.streamBlock(s, b)
}

// streamBlock emits the unique texts of one block of a log and advances the log's cursor, as one unit.
func (p *pass) streamBlock(s *logStream, block *textBlock) error {
	d := p.d
	p.batch, p.emitted = p.batch[:0], 0
	d.gate.Lock()
	defer d.gate.Unlock()
	d.emitting.Store(true)
	defer d.emitting.Store(false)
	if p.arena == nil {
		p.arena = disk.Alloc(d.opt.LogBytes)[:0]
	}
	p.arena = p.arena[:0]
	r := newBlockTexts(s.log.s.kind, block.payload, &p.texts)
	for i := range block.records {
		text, ok := r.next()
		if !ok {
			return corrupt(s.r.r.path(), block.off, "text record", r.shown())
		}
		if !s.span.has(block.base + uint64(i)) {
			continue
		}
		if text == nil {
			return corrupt(s.r.r.path(), block.off, fmt.Sprintf("text number %d", block.base+uint64(i)),
				"a text that is left out")
		}
		if d.opt.Emit == nil {
			p.emitted++
			continue
		}
		if len(p.batch) == batchResults || len(p.arena)+len(text) > cap(p.arena) {
			if err := p.send(0); err != nil {
				return err
			}
			p.batch, p.arena = p.batch[:0], p.arena[:0]
			if len(text) > cap(p.arena) { // it was written with larger buffers
				disk.Free(p.arena)
				p.arena = disk.Alloc(len(text))[:0]
			}
		}
		from := len(p.arena)
		p.arena = append(p.arena, text...)
		p.batch = append(p.batch, Result{Op: d.opt.Op, New: true, Aux: p.arena[from:]})
	}
	if err := p.send(0); err != nil {
		return err
	}
	s.log.at = block.end
	d.unstreamed.Add(-int64(p.emitted))
	d.counts.emitted.add(p.emitted)
	return nil
}

// buildSpan builds the bitmap of the span that starts with number lo and includes at least the numbers
// below end. The bitmaps of all logs share Options.SpanBytes.
func (p *pass) buildSpan(s *logStream, lo, end uint64) error {
	m, lists, o := s.span, p.d.texts.uniques, &p.d.opt
	if lo < m.kept || m.kept == 0 {
		for i := range lists {
			if lists[i].log == m.log {
				lists[i].off, lists[i].seen = lists[i].part.off, 0
			}
		}
	}
	most := 8 * uint64(max(8, o.SpanBytes/p.d.dirs()))
	m.lo, m.hi = lo, max(end, min(s.log.next, lo+most))
	// The next span starts with the block that does not end in this one. A block has at most LogBytes texts.
	m.kept = max(lo, m.hi-min(m.hi, uint64(o.LogBytes)))
	words := int((m.hi - m.lo + 63) / 64)
	m.words = grow(m.words, words)[:words]
	all := int64(0)
	for i := range p.spans {
		all += 8 * int64(cap(p.spans[i].words))
	}
	if all > max(o.BucketBytes, int64(o.SpanBytes))-p.round.touchedBytes() {
		p.round.free() // both do not fit into RAMBytes
	}
	clear(m.words)
	for i := range lists {
		if lists[i].log != m.log {
			continue
		}
		if err := p.markList(&lists[i], m); err != nil {
			return err
		}
	}
	return nil
}

// markList sets the bits of one list's numbers within the span.
func (p *pass) markList(u *uniqueList, m *bitmap) error {
	if u.numbers != nil {
		m.mark(u.numbers)
		return nil
	}
	c, err := p.reader(u.part, uniqueKind, &p.listChunk)
	if err != nil {
		return err
	}
	r := &p.second
	r.open(u.part, u.bucket, c)
	r.c.off, r.seen, r.numbers = u.off, u.seen, true
	defer func() { r.numbers = false }()
	for {
		ok, err := r.load()
		if !ok || err != nil {
			return err
		}
		if m.mark(r.keys) {
			return nil
		}
		if r.last < m.kept {
			u.off, u.seen = r.at(), r.seen
		}
	}
}
