package drum

import (
	"fmt"

	"drumbeat/disk"
)

// walker reads the files of a state without opening the store.
type walker struct{ d *Drum }

// walkChunkBytes is the size of a walker's reads.
const walkChunkBytes = 1 << 20

func newWalker(set disk.Set, name string, st *State) (*walker, error) {
	if err := st.check(set.Len()); err != nil {
		return nil, err
	}
	d := &Drum{opt: Options{
		Set: set, Name: name, Buckets: st.Buckets, ValueBytes: st.ValueBytes, Op: st.Op, Aux: st.Aux,
	}}
	d.shift = shiftOf(st.Buckets)
	return &walker{d}, nil
}

func (w *walker) input(is *InputState, saved savedBuffers, fn func(t Tuple) error) error {
	in := is.input(&w.d.opt)
	if is.Dir < 0 || is.Dir >= w.d.dirs() {
		return fmt.Errorf("invalid input %+v", *is)
	}
	var readers [2]blockReader
	for i, s := range []*stream{&in.keys, &in.aux} {
		if err := w.fill(s, saved); err != nil {
			return err
		}
		chunk := disk.Alloc(walkChunkBytes)
		defer func() { disk.Free(chunk) }()
		at := []cursor{in.keysAt, in.auxAt}[i]
		if err := readers[i].open(w.d, s, at, &chunk); err != nil {
			return err
		}
		defer readers[i].close()
	}
	return w.join(in, &readers[0], &readers[1], fn)
}

// buffers reads the content of a state's buffers.
func (w *walker) buffers(st *State) (savedBuffers, error) {
	r := bufferReader{opt: &w.d.opt, get: makeBuffer}
	err := r.readBuffers(st)
	return r.saved, err
}

// fill gives a stream its saved buffer, if that was read.
func (w *walker) fill(s *stream, saved savedBuffers) error {
	b := saved[s.fill]
	if b == nil {
		return nil
	}
	return s.refill(&w.d.opt, b)
}

// makeBuffer returns an empty buffer on the Go heap with capacity for n bytes.
func makeBuffer(n int) []byte { return make([]byte, bucketHeaderBytes, bucketHeaderBytes+n) }

// join reads both streams of an input in parallel.
func (w *walker) join(in *input, keys, aux *blockReader, fn func(t Tuple) error) error {
	keyRecs := recordReader{r: keys, skip: in.keysAt.rec}
	auxRecs := recordReader{r: aux, skip: in.auxAt.rec}
	rec := keyRecord{prefix: w.d.opt.prefix(in.keys.bucket)}
	parseKey := func(b []byte) int { return rec.parse(&w.d.opt, b) }
	var text []byte
	parseText := func(b []byte) (n int) { text, n = parseAux(b); return n }
	for left := in.tuples; left > 0; left-- {
		if err := keyRecs.next(parseKey); err != nil {
			return err
		}
		if rec.key>>w.d.shift != uint64(in.keys.bucket) {
			return corrupt(keys.path(), keys.off, fmt.Sprintf("keys of bucket %d", in.keys.bucket),
				fmt.Sprintf("%x", rec.key))
		}
		if err := auxRecs.next(parseText); err != nil {
			return err
		}
		if err := fn(Tuple{Key: Key(rec.key), Op: rec.op, Value: rec.value, Aux: text}); err != nil {
			return err
		}
	}
	return nil
}

// recordReader reads a stream record by record, except the first skip records.
type recordReader struct {
	r    *blockReader
	skip uint32
	left uint32
	b    []byte
}

func (rr *recordReader) next(parse func(b []byte) int) error {
	for {
		if rr.left == 0 {
			ok, err := rr.r.load()
			if err != nil {
				return err
			}
			if !ok {
				return corrupt(rr.r.path(), rr.r.next, "more records", "end")
			}
			rr.b, rr.left = rr.r.payload, rr.r.records
		}
		n := parse(rr.b)
		if n == 0 {
			return corrupt(rr.r.path(), rr.r.off, "record", fmt.Sprintf("% x", rr.b[:min(len(rr.b), 16)]))
		}
		rr.b = rr.b[n:]
		rr.left--
		if rr.skip == 0 {
			return nil
		}
		rr.skip--
	}
}
