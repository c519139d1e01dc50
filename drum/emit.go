package drum

import "fmt"

// batchResults is the maximum number of results per call of Emit.
const batchResults = 512

// emit passes the wanted results of the round, whose entries are in order of arrival, to Options.Emit. It
// returns the cursor of in's aux after them. With Options.Yield it may drop the last entries. The gate is held.
func (p *pass) emit(in *input) (cursor, error) {
	o := &p.d.opt
	p.aux = auxReader{p: p, in: in}
	defer p.aux.r.close()
	p.batch, p.emitted = p.batch[:0], 0
	es, skip := p.round.entries, 0
	// Before a block of aux is replaced, emit the results that refer to it, all but the last.
	before := func() error { return p.send(1) }
	for i := range es {
		if i > 0 && o.Yield && p.d.pausing.Load() > 0 {
			p.round.entries, es = es[:i], es[:i]
			break
		}
		e := &es[i]
		r := Result{
			Key: Key(e.key), Op: e.op(), New: e.tag&tagNew != 0, Found: e.tag&tagFound != 0,
		}
		if o.Apply != nil {
			r.Result, r.Out = p.round.results[i], p.round.out(uint64(i))
		}
		p.batch = append(p.batch, r)
		last := &p.batch[len(p.batch)-1]
		if o.Emit == nil || !o.wants(last) {
			p.batch = p.batch[:len(p.batch)-1]
			skip++
			continue
		}
		aux, err := p.aux.take(skip, before)
		if err != nil {
			return cursor{}, err
		}
		last = &p.batch[len(p.batch)-1]
		last.Aux, last.Value, skip = aux, p.round.value(uint64(i)), 0
		if len(p.batch) == batchResults {
			if err := p.send(0); err != nil {
				return cursor{}, err
			}
		}
	}
	if err := p.send(0); err != nil {
		return cursor{}, err
	}
	p.d.counts.emitted.add(p.emitted)
	if int64(len(es)) == in.tuples {
		return cursor{}, nil // the input is used up
	}
	return p.aux.end(skip)
}

// keysAfter returns the cursor after the next n keys of in, which have been read before. It reads them again: at most
// BucketBytes, in a round that has ended early.
func (p *pass) keysAfter(in *input, n int) (cursor, error) {
	var br blockReader
	if err := br.open(p.d, &in.keys, in.keysAt, &p.chunk); err != nil {
		return cursor{}, err
	}
	defer br.close()
	for left := uint32(n) + in.keysAt.rec; ; left -= br.records {
		ok, err := br.load()
		if err != nil {
			return cursor{}, err
		}
		if !ok {
			return cursor{}, corrupt(br.path(), br.next, fmt.Sprintf("%d more tuples", left), "end")
		}
		if left <= br.records {
			return br.at(left), nil
		}
	}
}

// wants is Options.Wanted with its default.
func (o *Options) wants(r *Result) bool {
	if o.Wanted != nil {
		return o.Wanted(r)
	}
	return r.Op&Check != 0
}

// send emits the batch except its last keep results, which stay in it.
func (p *pass) send(keep int) error {
	n := len(p.batch) - keep
	if n > 0 {
		if err := p.d.opt.Emit(p.batch[:n]); err != nil {
			return fmt.Errorf("emit %d results: %w", n, err)
		}
	}
	p.emitted += n
	p.batch = p.batch[:copy(p.batch, p.batch[n:])]
	return nil
}

// auxReader reads aux records in order of arrival.
type auxReader struct {
	p      *pass
	in     *input
	opened bool
	r      blockReader
	rec    uint32 // records taken from the current block
	b      []byte // the rest of the block
}

// take skips some records and returns the next one. It calls before when it is about to replace the block
// of the records returned so far.
func (a *auxReader) take(skip int, before func() error) ([]byte, error) {
	if err := a.skip(skip, before); err != nil {
		return nil, err
	}
	if err := a.fill(before); err != nil {
		return nil, err
	}
	aux, n := parseAux(a.b)
	if n == 0 {
		return nil, a.corrupt()
	}
	a.b = a.b[n:]
	a.rec++
	return aux, nil
}

// fill makes sure that the current block has records left.
func (a *auxReader) fill(before func() error) error {
	for !a.opened || a.rec == a.r.records {
		skip := 0
		if !a.opened {
			if err := a.r.open(a.p.d, &a.in.aux, a.in.auxAt, &a.p.chunk); err != nil {
				return err
			}
			a.opened, skip = true, int(a.in.auxAt.rec)
		} else if before != nil {
			if err := before(); err != nil {
				return err
			}
		}
		ok, err := a.r.load()
		if err != nil {
			return err
		}
		if !ok {
			return corrupt(a.r.path(), a.r.next, "more aux records", "end")
		}
		a.rec, a.b = 0, a.r.payload
		if err := a.skip(skip, before); err != nil {
			return err
		}
	}
	return nil
}

func (a *auxReader) skip(n int, before func() error) error {
	for n > 0 {
		if err := a.fill(before); err != nil {
			return err
		}
		m := min(n, int(a.r.records-a.rec))
		n -= m
		if a.rec += uint32(m); a.rec == a.r.records {
			continue
		}
		for range m {
			_, k := parseAux(a.b)
			if k == 0 {
				return a.corrupt()
			}
			a.b = a.b[k:]
		}
	}
	return nil
}

func (a *auxReader) corrupt() error {
	return corrupt(a.r.path(), a.r.off, "aux record", fmt.Sprintf("% x", a.b[:min(len(a.b), 16)]))
}

// end skips some more records and returns the cursor.
func (a *auxReader) end(skip int) (cursor, error) {
	if !a.opened && skip == 0 {
		return a.in.auxAt, nil
	}
	if err := a.skip(skip, nil); err != nil {
		return cursor{}, err
	}
	return a.r.at(a.rec), nil
}
