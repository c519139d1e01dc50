package drum

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
)

// The arrival-order text log, for stores that only ask "seen or not" (Options.Aux = AuxLog). The aux of all
// buckets of a directory go to one log, compressed; a bucket's record is the key and the number of its text
// in the log. A pass seals all buckets and logs at once. A round writes, beside the new part, the numbers of
// its unique tuples: an immutable sorted list in the format of a part, keys being numbers. When all buckets
// are merged, the logs are read once, span by span, a bitmap of the span's uniques in RAM, and their texts
// are emitted.

// texts is the part of a Drum that belongs to the logs.
type texts struct {
	// seal is held for reading by Add, and exclusively while all is sealed and by Freeze.
	seal sync.RWMutex
	// logs has one per directory. sealed ones are nil unless a pass is under way; they and uniques are changed
	// by Pass alone, under the gate.
	logs    []*textLog
	sealed  []*textLog
	uniques []uniqueList
	files   []*cacheFile // of the lists
}

// textLog is the log of one directory and one pass.
type textLog struct {
	// mu guards the fields below until the log is sealed, and the pending mark; it is held while a block is
	// written.
	mu   sync.Mutex
	s    stream
	next uint64 // number of the next text
	at   cursor // of a sealed log: what has been streamed
}

// uniqueList is the numbers of the unique tuples of a round, in the log of directory log.
type uniqueList struct {
	part   part
	bucket int
	log    int

	// off and seen are a block of the list and the numbers before it, none of which later spans need; in RAM
	// only.
	off  int64
	seen int64
}

func (d *Drum) newLog(dir int) *textLog {
	return &textLog{s: stream{kind: logBlocks, bucket: dir, dir: dir}}
}

// logged is true when aux goes to logs.
func (o *Options) logged() bool { return o.Aux == AuxLog }

// logBatch is the number of tuples whose texts are appended under one hold of a log.
const logBatch = 64

// addLogged is Add's loop with logs; it returns the payload bytes of the keys.
func (d *Drum) addLogged(ts []Tuple) (bytes int64, err error) {
	d.texts.seal.RLock()
	defer d.texts.seal.RUnlock()
	var numbers [logBatch]uint64
	for len(ts) > 0 {
		n := min(len(ts), logBatch)
		for dir, log := range d.texts.logs {
			if err := d.appendTexts(log, dir, ts[:n], &numbers); err != nil {
				return bytes, err
			}
		}
		for i := range ts[:n] {
			t := &ts[i]
			b := &d.buckets[uint64(t.Key)>>d.shift]
			b.mu.Lock()
			m, err := d.appendNumbered(b, t.Key, numbers[i])
			b.mu.Unlock()
			if err != nil {
				return bytes, err
			}
			bytes += int64(m)
		}
		ts = ts[n:]
	}
	return bytes, nil
}

// appendTexts appends the aux of those tuples whose bucket is in directory dir.
func (d *Drum) appendTexts(log *textLog, dir int, ts []Tuple, numbers *[logBatch]uint64) error {
	log.mu.Lock()
	defer log.mu.Unlock()
	for i := range ts {
		t := &ts[i]
		if len(d.texts.logs) > 1 && d.buckets[uint64(t.Key)>>d.shift].open.keys.dir != dir {
			continue
		}
		s := &log.s
		if err := d.room(s, binary.MaxVarintLen32+len(t.Aux)); err != nil {
			return err
		}
		if s.records == 0 {
			s.base = log.next
		}
		s.buf = append(binary.AppendUvarint(s.buf, uint64(len(t.Aux))), t.Aux...)
		s.records++
		numbers[i] = log.next
		log.next++
	}
	return nil
}

// appendNumbered adds a tuple with its text's number to the bucket's open input. b.mu is held.
func (d *Drum) appendNumbered(b *bucket, key Key, number uint64) (int, error) {
	in := b.open
	s := &in.keys
	if err := d.room(s, 8+binary.MaxVarintLen64); err != nil {
		return 0, err
	}
	if s.records == 0 {
		s.base, s.last = number, number
	}
	before := len(s.buf)
	s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(key))
	s.buf = binary.AppendVarint(s.buf, int64(number-s.last))
	s.last = number
	s.records++
	n := len(s.buf) - before
	in.tuples++
	in.bytes += int64(n)
	d.charge(b, in, entryBytes)
	return n, nil
}

// sealAll makes all that has been added the input of a pass.
func (d *Drum) sealAll() {
	t := &d.texts
	t.seal.Lock()
	defer t.seal.Unlock()
	t.sealed, t.logs = t.logs, nil
	d.logSealed.Store(true)
	for dir := range d.dirs() {
		t.logs = append(t.logs, d.newLog(dir))
	}
	for i := range d.buckets {
		if d.buckets[i].open.tuples > 0 {
			d.seal(&d.buckets[i], i)
		}
	}
}

// listUniques writes the numbers of the round's new tuples, whose entries are no longer needed.
func (p *pass) listUniques(in *input, i int) (uniqueList, error) {
	es, n := p.round.entries, 0
	for j := range es {
		if es[j].tag&tagNew != 0 {
			es[n].key = es[j].arrival()
			n++
		}
	}
	if n == 0 {
		return uniqueList{}, nil
	}
	sortEntries(es[:n])
	pf, err := p.uniqueFile((i + 1) % p.d.dirs())
	if err != nil {
		return uniqueList{}, err
	}
	p.w.open(pf, i, Rice)
	for j := range es[:n] {
		if err := p.w.add(es[j].key, nil); err != nil {
			return uniqueList{}, err
		}
	}
	made, err := p.w.finish()
	return uniqueList{part: made, bucket: i, log: in.keys.dir, off: made.off}, err
}

// uniqueFile returns the pass's file of lists in directory dir.
func (p *pass) uniqueFile(dir int) (*passFile, error) {
	if p.lists[dir] == nil {
		c, f, err := p.d.files.create(dir, uniqueKind)
		if err != nil {
			return nil, err
		}
		p.lists[dir] = &passFile{cache: c, f: f, end: c.size}
		p.d.gate.Lock() // several workers
		p.d.texts.files = append(p.d.texts.files, c)
		p.d.gate.Unlock()
	}
	return p.lists[dir], nil
}

// installUniques adds a list to the pass. The gate is held.
func (d *Drum) installUniques(u uniqueList) {
	if u.part.gen == 0 {
		return
	}
	d.texts.uniques = append(d.texts.uniques, u)
	d.unstreamed.Add(u.part.keys)
}

// bitmap is the uniques of one span of a log: the numbers from lo to hi - 1.
type bitmap struct {
	log    int
	lo, hi uint64
	kept   uint64 // later spans may begin here
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
		return nil // nothing left
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

// streamBlocks goes through the blocks of a log; done is false if ctx ended before.
func (p *pass) streamBlocks(ctx context.Context, log *textLog, dir int) (done bool, err error) {
	d := p.d
	var r blockReader
	if err := r.open(d, &log.s, log.at, &p.chunk); err != nil {
		return false, err
	}
	defer r.close()
	p.span.log, p.span.lo, p.span.hi, p.span.kept = dir, 0, 0, 0
	for {
		if ctx.Err() != nil {
			return false, nil
		}
		ok, err := r.load()
		if !ok || err != nil {
			return !ok, err
		}
		end := r.base + uint64(r.records)
		if end > log.next {
			return false, corrupt(r.path(), r.off, fmt.Sprintf("texts up to number %d", log.next), fmt.Sprint(end))
		}
		if r.base < p.span.lo || end > p.span.hi {
			if err := p.buildSpan(log, r.base, end); err != nil {
				return false, err
			}
		}
		if err := p.streamBlock(log, &r); err != nil {
			return false, err
		}
	}
}

// streamBlock emits the uniques of one block of a log, and moves its cursor on, as one unit.
func (p *pass) streamBlock(log *textLog, r *blockReader) error {
	d := p.d
	p.batch, p.emitted = p.batch[:0], 0
	d.gate.Lock()
	defer d.gate.Unlock()
	d.emitting.Store(true)
	defer d.emitting.Store(false)
	b := r.payload
	for i := range r.records {
		text, n := parseAux(b)
		if n == 0 {
			return corrupt(r.path(), r.off, "text record", fmt.Sprintf("% x", b[:min(len(b), 16)]))
		}
		b = b[n:]
		if !p.span.has(r.base + uint64(i)) {
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
	log.at = r.at(r.records)
	d.unstreamed.Add(-int64(p.emitted))
	d.counts.emitted.add(p.emitted)
	return nil
}

// buildSpan makes the bitmap of the span that begins with number lo, and has the numbers before end at least.
func (p *pass) buildSpan(log *textLog, lo, end uint64) error {
	m, lists := &p.span, p.d.texts.uniques
	if lo < m.kept || m.kept == 0 {
		for i := range lists {
			lists[i].off, lists[i].seen = lists[i].part.off, 0
		}
	}
	m.lo, m.hi = lo, max(end, min(log.next, lo+8*uint64(p.d.opt.SpanBytes)))
	// The next span begins with the block that doesn't end in this one, which has a buffer's bytes at most.
	m.kept = max(lo, m.hi-min(m.hi, uint64(p.d.opt.BufferBytes)))
	words := int((m.hi - m.lo + 63) / 64)
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

// endLogged drops the logs and lists, whose files have been closed, when all has been streamed.
func (d *Drum) endLogged() error {
	t := &d.texts
	if n := d.unstreamed.Load(); n != 0 {
		return fmt.Errorf("drum: %s: %d unique texts are in no log", d.opt.Name, n)
	}
	d.gate.Lock()
	defer d.gate.Unlock()
	sealed, files := t.sealed, t.files
	t.sealed, t.uniques, t.files = nil, nil, nil
	d.logSealed.Store(false)
	for _, log := range sealed {
		log.mu.Lock()
		d.release(&log.s)
		log.mu.Unlock()
		d.logBytes.Add(-log.s.written)
		if err := d.files.removeStream(&log.s); err != nil {
			return err
		}
	}
	for _, c := range files {
		if err := d.files.remove(d.opt.path(c.dir, uniqueName(c.gen)), c.epoch, c.size); err != nil {
			return err
		}
	}
	return nil
}

// releaseLogs frees the buffers of the logs.
func (d *Drum) releaseLogs() {
	for _, log := range slices.Concat(d.texts.logs, d.texts.sealed) {
		log.mu.Lock()
		d.release(&log.s)
		log.mu.Unlock()
	}
}
