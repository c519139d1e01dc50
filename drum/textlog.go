package drum

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// The text log in order of arrival, for stores that only ask whether a key was seen (Options.Aux = AuxLog).
// The aux of all buckets of a directory go to one compressed log. A bucket's record is the key and the
// number of its text in the log. A pass seals all buckets and logs at once. Besides the new part, a round
// writes the numbers of its unique tuples: an immutable sorted list in the format of a part, with numbers
// as keys. Once all buckets are merged, the logs are read once, span by span. A bitmap in RAM marks the
// unique texts of a span, and these are emitted.

// texts holds the logs of a Drum.
type texts struct {
	// Add holds seal for reading. sealAll and Freeze hold it for writing.
	seal   sync.RWMutex
	recent *recentKeys
	// logs has one log per directory. sealed is nil unless a pass is in progress. Only Pass changes sealed
	// and uniques, under the gate.
	logs    []*textLog
	sealed  []*textLog
	uniques []uniqueList
	few     atomic.Int64 // numbers of lists in RAM, at least
	files   []*cacheFile // of the lists
}

// textLog is the log of one directory and one pass.
type textLog struct {
	// Until the log is sealed, mu guards next, tickets, prev and s except its file. It always guards the
	// pending mark.
	mu      sync.Mutex
	s       stream
	prev    []byte // the text before in the buffer; empty at its start, and after a restart
	next    uint64 // number of the next text
	tickets uint64 // number of full buffers taken out
	at      cursor // position up to which a sealed log has been streamed

	// turn is the ticket of the full buffer that may be written next to the file of s. A holder of
	// texts.seal for writing finds all of them written.
	turnMu sync.Mutex
	turned sync.Cond
	turn   uint64
}

// uniqueList holds the numbers of a round's unique tuples in the log of directory log: in a part of a file, or in RAM
// and in the state if they are few. A small crawl makes a pass for each page, and a file for a number is two pages.
type uniqueList struct {
	part    part
	numbers []uint64 // ascending; nil if they are in part
	bucket  int
	log     int

	// off is the offset of a block of the list, and seen the count of numbers before it. Later spans need
	// none of these numbers. Both are only in RAM.
	off  int64
	seen int64
}

func (d *Drum) newLog(dir int) *textLog {
	log := &textLog{s: stream{kind: logBlocks, bucket: dir, dir: dir}}
	log.turned.L = &log.turnMu
	return log
}

// logged reports whether aux goes to logs.
func (o *Options) logged() bool { return o.Aux == AuxLog }

// logBatch is the number of tuples whose texts are appended under one hold of the log's lock.
const logBatch = 64

// textBatch describes the texts of a batch.
type textBatch struct {
	numbers [logBatch]uint64
	leftOut [logBatch]bool
}

// addLogged is the loop of Add for stores with logs. It returns the payload bytes of the keys.
func (d *Drum) addLogged(ts []Tuple) (bytes int64, err error) {
	d.texts.seal.RLock()
	defer d.texts.seal.RUnlock()
	var batch textBatch
	recent := d.texts.recent
	for len(ts) > 0 {
		n := min(len(ts), logBatch)
		for i := range ts[:n] {
			batch.leftOut[i] = recent.has(ts[i].Key)
		}
		for dir, log := range d.texts.logs {
			if err := d.appendTexts(log, dir, ts[:n], &batch); err != nil {
				return bytes, err
			}
		}
		for i := range ts[:n] {
			t := &ts[i]
			b := &d.buckets[uint64(t.Key)>>d.shift]
			b.mu.Lock()
			m, err := d.appendNumbered(b, t.Key, batch.numbers[i])
			b.mu.Unlock()
			if err != nil {
				return bytes, err
			}
			if !batch.leftOut[i] {
				recent.put(t.Key) // only now: a tuple whose text is left out must come after this one
			}
			bytes += int64(m)
		}
		ts = ts[n:]
	}
	return bytes, nil
}

// appendTexts appends the aux of the tuples whose bucket is in directory dir.
func (d *Drum) appendTexts(log *textLog, dir int, ts []Tuple, batch *textBatch) error {
	log.mu.Lock()
	defer log.mu.Unlock()
	prev := log.prev
	for i := range ts {
		t := &ts[i]
		if len(d.texts.logs) > 1 && d.buckets[uint64(t.Key)>>d.shift].open.keys.dir != dir {
			continue
		}
		s := &log.s
		n := maxTextOverhead + len(t.Aux)
		for s.buf != nil && len(s.buf)+n+checksumBytes > cap(s.buf) {
			d.name(s)
			full, ticket := log.takeOut()
			log.mu.Unlock()
			err := d.writeText(log, full, ticket)
			log.mu.Lock()
			if err != nil {
				return err
			}
			prev = log.prev // others may have begun the next buffer
		}
		if s.buf == nil {
			s.buf = d.logBufs.get(n)
		}
		if s.records == 0 {
			s.base = log.next
		}
		switch {
		case s.kind == plainBlocks:
			s.buf = append(binary.AppendUvarint(s.buf, uint64(len(t.Aux))), t.Aux...)
		case batch.leftOut[i]:
			s.buf = append(s.buf, leftOut)
		default:
			s.buf = appendText(s.buf, prev, t.Aux)
			prev = t.Aux
		}
		s.records++
		batch.numbers[i] = log.next
		log.next++
	}
	log.prev = append(log.prev[:0], prev...) // the caller may change its bytes
	return nil
}

// takeOut takes the full buffer out of the log. The caller holds mu.
func (log *textLog) takeOut() (full stream, ticket uint64) {
	s := &log.s
	s.settle()
	full = stream{kind: s.kind, bucket: s.bucket, gen: s.gen, buf: s.buf, records: s.records, base: s.base}
	s.buf, s.records, log.prev = nil, 0, log.prev[:0]
	s.vacate()
	ticket = log.tickets
	log.tickets++
	return full, ticket
}

// logWriters is the number of full log buffers in progress that RAMBytes allows for: one for each
// concurrent Add, usually as many as cores. Each further concurrent Add takes one more buffer and block.
const logWriters = 4

// writeText encodes a full buffer, concurrently with others. It writes the block after all blocks with
// lower tickets.
func (d *Drum) writeText(log *textLog, full stream, ticket uint64) error {
	block, pack := d.pack(&full)
	log.turnMu.Lock()
	for log.turn != ticket {
		log.turned.Wait()
	}
	log.turnMu.Unlock()
	err := d.failed() // an earlier block may have failed and left a hole in the file
	if err == nil {
		err = d.writeBlock(&log.s, block)
	}
	if err != nil {
		d.fail(err)
	}
	log.turnMu.Lock()
	log.turn++
	log.turned.Broadcast()
	log.turnMu.Unlock()
	if pack != nil {
		d.packs.put(pack)
	}
	d.logBufs.put(full.buf)
	return err
}

// appendNumbered adds a tuple with its text's number to the bucket's open input. The caller holds b.mu.
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
	s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(key))[:before+d.keyBytes]
	s.buf = binary.AppendVarint(s.buf, int64(number-s.last))
	s.last = number
	s.records++
	n := len(s.buf) - before
	in.tuples++
	in.bytes += int64(n)
	d.charge(b, in, entryBytes)
	return n, nil
}

// sealAll makes everything added so far the input of a pass.
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

// A round's list of at most fewNumbers stays in RAM, unless the lists of the pass already have maxFewNumbers there: a
// state in the manifest has 20 bytes for each.
const (
	fewNumbers    = 16
	maxFewNumbers = 1 << 10
)

// listUniques writes the numbers of the round's new tuples. It overwrites the round's entries.
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
	p.sorter.sort(es[:n])
	if n <= fewNumbers && int(p.d.texts.few.Add(int64(n))) <= maxFewNumbers {
		numbers := make([]uint64, n)
		for j := range numbers {
			numbers[j] = es[j].key
		}
		return uniqueList{numbers: numbers, bucket: i, log: in.keys.dir}, nil
	}
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
		pf, err := p.d.files.create(dir, uniqueKind)
		if err != nil {
			return nil, err
		}
		p.lists[dir] = pf
		p.d.gate.Lock() // several workers may add files
		p.d.texts.files = append(p.d.texts.files, pf.cache)
		p.d.gate.Unlock()
	}
	return p.lists[dir], nil
}

// installUniques adds a list to the pass. The gate is held.
func (d *Drum) installUniques(u uniqueList) {
	if u.part.gen == 0 && u.numbers == nil {
		return
	}
	d.texts.uniques = append(d.texts.uniques, u)
	d.unstreamed.Add(u.part.keys + int64(len(u.numbers)))
}

// endLogged drops the logs and lists once all unique texts are emitted. The files must be closed.
func (d *Drum) endLogged() error {
	t := &d.texts
	if n := d.unstreamed.Load(); n != 0 {
		return fmt.Errorf("drum: %s: %d unique texts are in no log", d.opt.Name, n)
	}
	d.gate.Lock()
	defer d.gate.Unlock()
	sealed, files := t.sealed, t.files
	t.sealed, t.uniques, t.files = nil, nil, nil
	t.few.Store(0)
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
		if err := d.files.discard(c); err != nil {
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
