package drum

import (
	"errors"
	"fmt"
	"slices"
)

// restore restores the store to the state st.
func (d *Drum) restore(st *State) error {
	if st == nil {
		return d.files.clean(nil)
	}
	if st.ValueBytes != d.opt.ValueBytes || st.Op != d.opt.Op || st.Aux != d.opt.Aux {
		return fmt.Errorf("store has values of %d bytes, operation %d, aux mode %d; options have %d, %d, %d",
			st.ValueBytes, st.Op, st.Aux, d.opt.ValueBytes, d.opt.Op, d.opt.Aux)
	}
	d.gen.Store(st.Gen)
	for _, f := range []func(*State) error{d.restoreParts, d.restoreInputs, d.restoreLogs} {
		if err := f(st); err != nil {
			return err
		}
	}
	if err := d.files.clean(Sizes(d.opt.Set, d.opt.Name, st)); err != nil {
		return err
	}
	return d.restoreBuffers(st)
}

// restoreBuffers fills the buffers of the restored streams.
func (d *Drum) restoreBuffers(st *State) error {
	r := bufferReader{opt: &d.opt, get: d.bufs.get}
	err := r.readBuffers(st)
	saved := r.saved
	defer func() {
		for _, b := range saved {
			if b.buf != nil {
				d.bufs.put(b.buf) // after an error
			}
		}
	}()
	if err != nil {
		return err
	}
	d.fills = st.Fills
	for _, bs := range st.Buffered {
		d.held[bs.Dir].gen, d.held[bs.Dir].written = bs.Gen, bs.Bytes
	}
	for i := range d.buckets {
		for _, in := range []*input{d.buckets[i].open, d.buckets[i].sealed} {
			if in == nil {
				continue
			}
			if err := errors.Join(d.restoreBuffer(&in.keys, saved), d.restoreBuffer(&in.aux, saved)); err != nil {
				return err
			}
		}
	}
	for _, log := range slices.Concat(d.texts.logs, d.texts.sealed) {
		if err := d.restoreBuffer(&log.s, saved); err != nil {
			return err
		}
	}
	return nil
}

// restoreBuffer fills one buffer.
func (d *Drum) restoreBuffer(s *stream, saved savedBuffers) error {
	if s.fill == 0 {
		return nil
	}
	if err := s.refill(&d.opt, saved[s.fill]); err != nil {
		return err
	}
	saved[s.fill].buf = nil
	s.in, s.saved = d.held[s.dir], len(s.buf)-bucketHeaderBytes
	s.in.live.Add(int64(s.saved))
	return nil
}

// refill gives the stream its saved buffer.
func (s *stream) refill(o *Options, b *savedBuffer) error {
	n, last, err := o.countRecords(s.kind, b)
	if err != nil {
		return fmt.Errorf("saved %s of bucket %d: %w", s.kind, s.bucket, err)
	}
	s.buf, s.records, s.base, s.last = b.buf, n, b.base, last
	return nil
}

func (d *Drum) restoreParts(st *State) error {
	for _, ps := range st.Parts {
		p := ps.part()
		if err := checkPart(p, d.dirs()); err != nil || ps.Bucket < 0 || ps.Bucket >= len(d.buckets) {
			return fmt.Errorf("part of bucket %d: %w", ps.Bucket, err)
		}
		d.buckets[ps.Bucket].part, d.buckets[ps.Bucket].late = p, ps.Late
		d.keys.Add(p.keys + int64(len(ps.Late)))
		d.lateKeys.Add(int64(len(ps.Late)))
		c := d.files.caches[p.gen]
		if c == nil {
			c = &cacheFile{gen: p.gen, kind: cacheKind, dir: p.dir}
			d.files.caches[p.gen] = c
		}
		c.live += p.space()
		d.files.bytes += p.size
		c.size = max(c.size, p.off+p.space())
	}
	return nil
}

func (d *Drum) restoreInputs(st *State) error {
	for i := range st.Inputs {
		is := &st.Inputs[i]
		if is.Bucket < 0 || is.Bucket >= len(d.buckets) || is.Dir < 0 || is.Dir >= d.dirs() || is.Tuples <= 0 {
			return fmt.Errorf("invalid input %+v", *is)
		}
		b := &d.buckets[is.Bucket]
		in := is.input(&d.opt)
		if is.Sealed {
			b.sealed = in
			d.sealed.Add(1)
		} else {
			b.open = in
			if in.cost >= d.opt.fullBytes() {
				b.full = true
				d.full.Add(1)
			}
		}
		d.tuples.Add(in.tuples)
		d.bytes.Add(in.bytes)
	}
	return nil
}

// restoreLogs restores the text logs and the lists of a pass.
func (d *Drum) restoreLogs(st *State) error {
	t := &d.texts
	for _, ls := range st.Logs {
		if ls.Dir < 0 || ls.Dir >= d.dirs() || !d.opt.logged() {
			return fmt.Errorf("invalid log %+v", ls)
		}
		log := d.newLog(ls.Dir)
		log.s.kind = ls.kind()
		log.next, log.at = ls.Next, cursor{off: ls.Text.At, rec: ls.Text.Record}
		log.s.gen, log.s.written, log.s.fill = ls.Text.Gen, ls.Text.Bytes, ls.Text.Fill
		d.logBytes.Add(log.s.written)
		if !ls.Sealed {
			t.logs[ls.Dir] = log
			continue
		}
		if len(t.sealed) != ls.Dir {
			return fmt.Errorf("log %+v out of order", ls)
		}
		t.sealed = append(t.sealed, log)
		d.logSealed.Store(true)
	}
	files := map[uint64]*cacheFile{}
	for _, us := range st.Uniques {
		if us.Log < 0 || us.Log >= len(t.sealed) {
			return fmt.Errorf("invalid list %+v", us)
		}
		if len(us.Numbers) > 0 {
			t.uniques = append(t.uniques, uniqueList{numbers: us.Numbers, bucket: us.Bucket, log: us.Log})
			t.few.Add(int64(len(us.Numbers)))
			continue
		}
		p := us.part()
		if err := checkPart(p, d.dirs()); err != nil {
			return fmt.Errorf("invalid list %+v: %w", us, err)
		}
		t.uniques = append(t.uniques, uniqueList{part: p, bucket: us.Bucket, log: us.Log})
		if files[p.gen] == nil {
			files[p.gen] = &cacheFile{gen: p.gen, kind: uniqueKind, dir: p.dir}
			t.files = append(t.files, files[p.gen])
		}
		files[p.gen].size = max(files[p.gen].size, p.off+p.size)
	}
	d.unstreamed.Store(st.Unstreamed)
	return nil
}

// input returns the input that is describes, except its buffers.
func (is *InputState) input(o *Options) *input {
	stream := func(kind blockKind, s StreamState) (stream, cursor) {
		return stream{kind: kind, bucket: is.Bucket, dir: is.Dir, gen: s.Gen, written: s.Bytes, fill: s.Fill},
			cursor{off: s.At, rec: s.Record}
	}
	in := &input{
		tuples: is.Tuples, values: is.Values, bytes: is.Bytes,
		cost: is.Tuples*o.TupleBytes(0) + is.Values,
	}
	in.keys, in.keysAt = stream(keyBlocks, is.Keys)
	in.aux, in.auxAt = stream(auxBlocks, is.Aux)
	return in
}

// countRecords returns the number of records in a buffer, and with text logs the number of the last
// record's text.
func (o *Options) countRecords(kind blockKind, saved *savedBuffer) (n uint32, last uint64, err error) {
	var rec keyRecord
	b, last := saved.bytes(), saved.base
	if kind.isLog() {
		texts := newBlockTexts(kind, b, &textDecoder{})
		for ; len(texts.b) > 0; n++ {
			if _, ok := texts.next(); !ok {
				return 0, 0, fmt.Errorf("invalid text record %s", texts.shown())
			}
		}
		return n, last, nil
	}
	for len(b) > 0 {
		size := 0
		if kind == keyBlocks {
			size = rec.parse(o, b)
			last += rec.delta
		} else {
			_, size = parseAux(b)
		}
		if size == 0 {
			return 0, 0, fmt.Errorf("invalid record % x", b[:min(len(b), 16)])
		}
		b = b[size:]
		n++
	}
	return n, last, nil
}
