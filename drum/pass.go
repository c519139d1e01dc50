package drum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drumbeat/disk"
)

// Pass merges what is due and returns the number of rounds. It first finishes an interrupted pass. Then, if
// Full, it merges all buckets, or with Options.Each those that are full. An early pass merges every bucket
// with tuples. Tuples added meanwhile wait for the next pass. Pass checks ctx between rounds. When ctx ends
// or Options.Reserve fails, the rest stays due. A second call waits until the first ends.
func (d *Drum) Pass(ctx context.Context, early bool) (rounds int, err error) {
	d.passMu.Lock()
	defer d.passMu.Unlock()
	if err := d.failed(); err != nil {
		return 0, err
	}
	all := early || d.overDisk() || !d.opt.Each && d.full.Load() > 0
	if !all && !d.Full() {
		return 0, nil
	}
	began, moved, inRAM := time.Now(), d.Stats(), d.counts.ramMoved.Load()
	c := newMergeWorkers(d)
	err = c.run(ctx, all)
	if closeErr := c.close(); closeErr != nil {
		d.fail(closeErr)
		err = errors.Join(err, closeErr)
	}
	now := d.Stats()
	predicted := 0.0
	if now.IOBytes() != moved.IOBytes() { // else the store is in RAM
		predicted = max(0, d.opt.passCost(&moved, &now)-float64(d.counts.ramMoved.Load()-inRAM))
	}
	d.counts.passed(time.Since(began), now.IOBytes()-moved.IOBytes(), predicted)
	if err != nil {
		err = fmt.Errorf("drum: pass over %s: %w", d.opt.Name, err)
	}
	return int(c.rounds.Load()), err
}

// listChunkBytes is the size of reads of lists of numbers. Each span needs only a small part of each list.
const listChunkBytes = 32 << 10

// pass holds the memory and the files of one worker of a Pass.
type pass struct {
	d *Drum

	round  round
	merge  merge
	sorter sorter
	old    partReader
	second partReader
	w      partWriter
	files  []*passFile // by directory, created when needed
	lists  []*passFile // the same for the numbers of unique tuples

	// chunk is the read buffer for keys, the old part and aux, one after another. extra is that of second.
	chunk, extra, listChunk []byte
	// read is the open file of the part last read.
	read    partFile
	readGen uint64

	aux     auxReader
	texts   textDecoder // of the logs
	arena   []byte      // texts of batch
	batch   []Result
	emitted int
	spans   []bitmap // by log
}

func newPass(d *Drum) *pass {
	p := &pass{d: d, files: make([]*passFile, d.dirs()), lists: make([]*passFile, d.dirs())}
	o := &d.opt
	p.round.opt = o
	p.chunk = disk.Alloc(int(o.chunkBytes()))
	p.extra = disk.Alloc(int(max(o.maxCacheBlock(), int64(o.BufferBytes))))
	p.listChunk = disk.Alloc(listChunkBytes)
	for _, r := range []*partReader{&p.old, &p.second} {
		r.opt, r.shift = o, d.shift
		r.keys = allocate[uint64](blockKeys + manyKeys)[:0]
		if o.ValueBytes == variableValues {
			r.ends = allocate[uint32](blockKeys)[:0]
		}
	}
	p.w = partWriter{
		d:    d,
		buf:  disk.Alloc(pageUp(o.BufferBytes + pageBytes + int(o.maxCacheBlock())))[:0],
		keys: allocate[uint64](blockKeys)[:0],
	}
	p.merge = merge{d: d, old: &p.old, w: &p.w, round: &p.round}
	p.sorter.anyArrival = o.logged()
	if o.ValueBytes != 0 {
		p.w.lengths = allocate[uint32](blockKeys)[:0]
		p.w.values = disk.Alloc(blockValueBytes + o.MaxValueBytes)[:0]
		p.merge.scratch = disk.Alloc(o.MaxValueBytes)
		p.merge.between = disk.Alloc(o.MaxValueBytes)
	}
	if o.Apply != nil {
		p.merge.items = make([]Item, runItems)
		p.merge.arena.buf = disk.Alloc(runItems * o.OutBytes)
	}
	return p
}

// close closes the files.
func (p *pass) close() error {
	err := errors.Join(p.closeFiles(p.files, true), p.closeFiles(p.lists, false))
	if p.read != nil {
		p.read.Close() // read only
		p.read, p.readGen = nil, 0
	}
	return err
}

// free frees the memory.
func (p *pass) free() {
	p.round.free()
	m := &p.merge
	for _, b := range [][]byte{
		p.chunk, p.extra, p.listChunk, p.arena, p.w.buf, p.w.values, m.scratch, m.between, m.arena.buf,
	} {
		disk.Free(b)
	}
	for _, r := range []*partReader{&p.old, &p.second} {
		free(r.keys)
		free(r.ends)
	}
	free(p.w.keys)
	free(p.w.lengths)
	for i := range p.spans {
		free(p.spans[i].words)
	}
}

// closeFiles closes the files of a pass. If counted, it deletes those without live parts.
func (p *pass) closeFiles(files []*passFile, counted bool) error {
	var errs []error
	for dir, pf := range files {
		if pf == nil {
			continue
		}
		files[dir] = nil
		errs = append(errs, pf.close())
		if counted {
			errs = append(errs, p.d.files.endPass(pf.cache))
		} else {
			pf.cache.size = pf.end
		}
	}
	return errors.Join(errs...)
}

// drain merges the sealed input of a bucket, if any, and returns the number of rounds.
func (p *pass) drain(ctx context.Context, b *bucket, i int) (rounds int, err error) {
	for b.sealed != nil {
		if err := ctx.Err(); err != nil {
			return rounds, err
		}
		release, err := p.d.reserve(p.need(b))
		if err != nil {
			return rounds, fmt.Errorf("reserve space for bucket %d: %w", i, err)
		}
		err = p.doRound(b, i)
		release()
		if err != nil {
			err = fmt.Errorf("drum: merge bucket %d of %s: %w", i, p.d.opt.Name, err)
			p.d.fail(err)
			return rounds, err
		}
		rounds++
	}
	return rounds, nil
}

// reserve reserves space for the writes of a round or a copy. release is not nil if err is nil.
func (d *Drum) reserve(need int64) (release func(), err error) {
	if d.opt.Reserve == nil {
		return func() {}, nil
	}
	return d.opt.Reserve(need)
}

// need returns an upper bound of the bytes that the next round writes.
func (p *pass) need(b *bucket) int64 {
	in, o := b.sealed, &p.d.opt
	tuples := min(in.tuples, max(1, o.BucketBytes/o.TupleBytes(0)))
	keys := (maxRiceBytes + valueOffsetBytes) * tuples
	return max(b.part.size, maxRiceBytes*b.part.keys) + keys + min(in.values, o.BucketBytes) + 2*pageBytes
}

// doRound merges a prefix of the sealed input.
func (p *pass) doRound(b *bucket, i int) error {
	o := &p.d.opt
	if o.BeginRound != nil {
		o.BeginRound()
	}
	if o.EndRound != nil {
		defer o.EndRound()
	}
	keysAt, err := p.round.load(p.d, b.sealed, b.part.keys, &p.chunk)
	if err != nil {
		return err
	}
	p.sorter.sort(p.round.entries)
	p.merge.held, p.merge.hold = p.merge.held[:0], p.holds(b)
	made, err := p.mergePart(b, i, func() error {
		if p.merge.hold {
			p.old.useIndexes(&b.index, &p.d.indexBytes)
			return p.merge.probe(p.round.entries)
		}
		return p.merge.run(p.round.entries)
	})
	if err != nil {
		return err
	}
	var uniques uniqueList
	if o.logged() {
		if uniques, err = p.listUniques(b.sealed, i); err != nil {
			return err
		}
	} else {
		restoreArrival(p.round.entries)
	}
	p.d.gate.Lock()
	defer p.d.gate.Unlock()
	p.d.emitting.Store(true)
	defer p.d.emitting.Store(false)
	auxAt := cursor{}
	if o.logged() {
		p.d.installUniques(uniques)
	} else {
		all := len(p.round.entries)
		if auxAt, err = p.emit(b.sealed); err != nil {
			return err
		}
		if n := len(p.round.entries); n < all {
			if keysAt, err = p.keysAfter(b.sealed, n); err != nil {
				return err
			}
		}
	}
	return p.install(b, made, keysAt, auxAt)
}

// mergePart runs merge from the bucket's part to a new part, and returns the new part.
func (p *pass) mergePart(b *bucket, i int, merge func() error) (part, error) {
	c, err := p.reader(b.part, cacheKind, &p.chunk)
	if err != nil {
		return part{}, err
	}
	p.old.open(b.part, i, c)
	p.old.late = b.late
	p.merge.begin = func() error {
		pf, err := p.file((i + 1) % p.d.dirs())
		if err == nil {
			p.w.open(pf, i, p.d.opt.Codec)
		}
		return err
	}
	p.merge.reread = func() (*partReader, error) {
		c, err := p.reader(b.part, cacheKind, &p.extra)
		if err == nil {
			p.second.open(b.part, i, c)
			p.second.late = b.late
		}
		return &p.second, err
	}
	if err := merge(); err != nil {
		return part{}, err
	}
	if !p.merge.result.changed {
		return b.part, nil
	}
	return p.w.finish()
}

// reader returns a chunkReader on the file of pt. It keeps the file open for the next part.
func (p *pass) reader(pt part, kind string, buf *[]byte) (chunkReader, error) {
	c := chunkReader{buf: buf, count: &p.d.counts.cacheRead}
	if pt.gen == 0 {
		return c, nil
	}
	if p.readGen != pt.gen {
		if p.read != nil {
			p.read.Close() // read only
			p.read, p.readGen = nil, 0
		}
		if rf := p.d.files.inRAM(pt.gen); rf != nil {
			p.read = rf
		} else if f, err := p.d.opt.openPart(pt, kind); err == nil {
			p.read = f
		} else {
			return c, err
		}
		p.readGen = pt.gen
	}
	c.f = p.read
	if _, ok := p.read.(*ramFile); ok {
		c.count = &p.d.counts.ramMoved
	}
	return c, nil
}

// file returns the pass's cache file in directory dir.
func (p *pass) file(dir int) (*passFile, error) {
	if p.files[dir] == nil {
		pf, err := p.d.files.create(dir, cacheKind)
		if err != nil {
			return nil, err
		}
		p.files[dir] = pf
	}
	return p.files[dir], nil
}

// install makes made the bucket's part, and advances or drops the sealed input. The gate is held.
func (p *pass) install(b *bucket, made part, keysAt, auxAt cursor) error {
	d, in, old, late := p.d, b.sealed, b.part, []uint64(nil) // a new part has the late keys
	if made == old {
		late = withLate(b.late, p.merge.held)
	}
	more := int64(len(late) - len(b.late))
	n := int64(len(p.round.entries)) // those that were emitted
	values := int64(0)
	if d.opt.ValueBytes != 0 {
		values = int64(p.round.offsets[n])
	}
	bytes := in.bytes
	if n < in.tuples {
		bytes = in.bytes * n / in.tuples // an estimate: the exact length is not recorded
	}
	b.mu.Lock()
	b.part, b.late = made, late
	in.tuples -= n
	in.bytes -= bytes
	in.values -= values
	in.cost -= n*d.opt.TupleBytes(0) + values
	in.keysAt, in.auxAt = keysAt, auxAt
	if in.tuples == 0 {
		b.sealed = nil
		d.sealed.Add(-1)
		d.release(&in.keys)
		d.release(&in.aux)
	}
	b.mu.Unlock()
	d.tuples.Add(-n)
	d.bytes.Add(-bytes)
	d.keys.Add(made.keys - old.keys + more)
	d.lateKeys.Add(more)
	d.counts.rounds.add(1)
	d.counts.merged.add(int(n))
	d.counts.changed.add(int(p.merge.result.entries))
	if in.tuples == 0 {
		if err := errors.Join(d.files.removeStream(&in.keys), d.files.removeStream(&in.aux)); err != nil {
			return err
		}
	}
	if made == old {
		return nil
	}
	return d.files.replace(old, made)
}

func (p *pass) copyPart(b *bucket, i int) error {
	p.merge.hold = false
	made, err := p.mergePart(b, i, p.merge.copy)
	if err != nil {
		return err
	}
	p.d.gate.Lock()
	defer p.d.gate.Unlock()
	old, late := b.part, int64(len(b.late))
	b.mu.Lock()
	b.part, b.late = made, nil
	b.mu.Unlock()
	p.d.keys.Add(made.keys - old.keys - late) // entries may have been expunged
	p.d.lateKeys.Add(-late)
	return p.d.files.replace(old, made)
}
