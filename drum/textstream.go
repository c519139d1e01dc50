package drum

import (
	"context"
	"fmt"
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

// stream emits the unique texts of one log from its cursor on.
func (p *pass) stream(ctx context.Context, dir int) error {
	d := p.d
	log := d.texts.sealed[dir]
	if log.at.off >= log.s.written && log.at.rec >= log.s.records {
		return nil // fully streamed
	}
	done, err := p.streamBlocks(ctx, log, dir)
	if err != nil {
		err = fmt.Errorf("drum: stream texts of %s in directory %d: %w", d.opt.Name, dir, err)
		d.fail(err)
	} else if !done {
		return ctx.Err()
	}
	return err
}

// streamBlocks streams the blocks of a log. done is false if ctx ended first.
func (p *pass) streamBlocks(ctx context.Context, log *textLog, dir int) (done bool, err error) {
	var r textReader
	if err := r.open(p.d, log, &p.chunk); err != nil {
		return false, err
	}
	defer r.close()
	p.span.log, p.span.lo, p.span.hi, p.span.kept = dir, 0, 0, 0
	for {
		if ctx.Err() != nil {
			return false, nil
		}
		b, err := r.next()
		if b == nil || err != nil {
			return b == nil, err
		}
		end := b.base + uint64(b.records)
		if end > log.next {
			return false, corrupt(r.r.path(), b.off, fmt.Sprintf("texts up to number %d", log.next), fmt.Sprint(end))
		}
		if b.base < p.span.lo || end > p.span.hi {
			if err := p.buildSpan(log, b.base, end); err != nil {
				return false, err
			}
		}
		if err := p.streamBlock(log, b, r.r.path()); err != nil {
			return false, err
		}
	}
}

// streamBlock emits the unique texts of one block of a log and advances the log's cursor, as one unit.
func (p *pass) streamBlock(log *textLog, block *textBlock, path string) error {
	d := p.d
	p.batch, p.emitted = p.batch[:0], 0
	d.gate.Lock()
	defer d.gate.Unlock()
	d.emitting.Store(true)
	defer d.emitting.Store(false)
	b := block.payload
	for i := range block.records {
		text, n := parseAux(b)
		if n == 0 {
			return corrupt(path, block.off, "text record", fmt.Sprintf("% x", b[:min(len(b), 16)]))
		}
		b = b[n:]
		if !p.span.has(block.base + uint64(i)) {
			continue
		}
		if d.opt.Emit == nil {
			p.emitted++
			continue
		}
		p.batch = append(p.batch, Result{Op: d.opt.Op, New: true, Aux: text})
		if len(p.batch) == batchResults {
			if err := p.send(0); err != nil {
				return err
			}
		}
	}
	if err := p.send(0); err != nil {
		return err
	}
	log.at = block.end
	d.unstreamed.Add(-int64(p.emitted))
	d.counts.emitted.add(p.emitted)
	return nil
}

// buildSpan builds the bitmap of the span that starts with number lo and includes at least the numbers
// below end.
func (p *pass) buildSpan(log *textLog, lo, end uint64) error {
	m, lists := &p.span, p.d.texts.uniques
	if lo < m.kept || m.kept == 0 {
		for i := range lists {
			lists[i].off, lists[i].seen = lists[i].part.off, 0
		}
	}
	m.lo, m.hi = lo, max(end, min(log.next, lo+8*uint64(p.d.opt.SpanBytes)))
	// The next span starts with the block that does not end in this one. A block has at most LogBytes
	// texts.
	m.kept = max(lo, m.hi-min(m.hi, uint64(p.d.opt.LogBytes)))
	words := int((m.hi - m.lo + 63) / 64)
	if o := &p.d.opt; 8*int64(words) > max(o.BucketBytes, int64(o.SpanBytes))-p.round.touchedBytes() {
		p.round.free() // both do not fit into RAMBytes
	}
	m.words = grow(m.words, words)[:words]
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
		for _, number := range r.keys {
			if number >= m.hi {
				return nil
			}
			if number >= m.lo {
				i := number - m.lo
				m.words[i/64] |= 1 << (i % 64)
			}
		}
		if r.last < m.kept {
			u.off, u.seen = r.at(), r.seen
		}
	}
}
