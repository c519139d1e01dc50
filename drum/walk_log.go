package drum

import (
	"fmt"
	"slices"

	"drumbeat/disk"
)

// WalkUniques calls fn for every text that a pass has found unique and not emitted yet: the State of a store
// with text logs may lie between the two. Memory: a bitmap of 32 MiB at most, what was in buffers. Like Walk it
// verifies and changes nothing.
func WalkUniques(set disk.Set, name string, st *State, fn func(aux []byte) error) error {
	w, err := newWalker(set, name, st)
	if err == nil {
		err = w.uniques(st, fn)
	}
	if err != nil {
		return fmt.Errorf("drum: walk unique texts of %s: %w", name, err)
	}
	return nil
}

func (w *walker) uniques(st *State, fn func(aux []byte) error) error {
	text := func(aux []byte, unique bool) error {
		if !unique {
			return nil
		}
		return fn(aux)
	}
	s := &scanner{w: w, st: st, scan: Scan{Text: text}, found: &Found{}}
	if err := s.readBuffers(); err != nil {
		return err
	}
	for i := range st.Logs {
		if !st.Logs[i].Sealed {
			continue
		}
		if err := s.log(&st.Logs[i]); err != nil {
			return err
		}
	}
	if s.found.Uniques != st.Unstreamed {
		return fmt.Errorf("%d unique texts found, the state says %d", s.found.Uniques, st.Unstreamed)
	}
	return nil
}

// waiting is Walk for a store with text logs: it goes through the logs and calls fn for the texts whose keys
// wait in buckets.
func (w *walker) waiting(st *State, fn func(t Tuple) error) error {
	choose := func(ls *LogState, saved savedBuffers, mark func(uint64)) error {
		for i := range st.Inputs {
			is := &st.Inputs[i]
			if is.Dir != ls.Dir || is.Sealed != ls.Sealed {
				continue
			}
			if err := w.markInput(is, saved, mark); err != nil {
				return err
			}
		}
		return nil
	}
	return w.logs(st, choose, func(text []byte) error { return fn(Tuple{Op: st.Op, Aux: text}) })
}

// logs goes through the logs: choose marks the numbers of those texts for which fn is called.
func (w *walker) logs(
	st *State, choose func(ls *LogState, saved savedBuffers, mark func(uint64)) error, fn func(text []byte) error,
) error {
	saved, err := w.buffers(st)
	if err != nil {
		return err
	}
	for i := range st.Logs {
		ls := &st.Logs[i]
		if ls.Dir < 0 || ls.Dir >= w.d.dirs() {
			return fmt.Errorf("invalid log %+v", *ls)
		}
		var marked []uint64 // grows with the numbers that are found: the state alone shall not take memory
		wrong := false
		err = choose(ls, saved, func(number uint64) {
			if number >= ls.Next {
				wrong = true
				return
			}
			if need := int(number/64) + 1; need > len(marked) {
				marked = slices.Grow(marked, need-len(marked))[:need]
			}
			marked[number/64] |= 1 << (number % 64)
		})
		if wrong {
			err = fmt.Errorf("a number beyond the %d texts of the log in directory %d", ls.Next, ls.Dir)
		}
		if err == nil {
			err = w.log(ls, saved, marked, fn)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stream returns the log's stream, but for its buffer.
func (ls *LogState) stream() *stream {
	return &stream{
		kind: logBlocks, bucket: ls.Dir, dir: ls.Dir, gen: ls.Text.Gen, written: ls.Text.Bytes, fill: ls.Text.Fill,
	}
}

// log calls fn for the marked texts of a log.
func (w *walker) log(ls *LogState, saved savedBuffers, marked []uint64, fn func(text []byte) error) error {
	s := ls.stream()
	if err := w.fill(s, saved); err != nil {
		return err
	}
	chunk := disk.Alloc(walkChunkBytes)
	defer func() { disk.Free(chunk) }()
	var r blockReader
	if err := r.open(w.d, s, cursor{}, &chunk); err != nil {
		return err
	}
	defer r.close()
	number := uint64(0)
	for {
		ok, err := r.load()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if r.base != number {
			return corrupt(r.path(), r.off, fmt.Sprintf("text number %d", number), fmt.Sprint(r.base))
		}
		for b, i := r.payload, uint32(0); i < r.records; i++ {
			text, n := parseAux(b)
			if n == 0 {
				return corrupt(r.path(), r.off, "text record", fmt.Sprintf("% x", b[:min(len(b), 16)]))
			}
			b = b[n:]
			if at := number / 64; at < uint64(len(marked)) && marked[at]>>(number%64)&1 != 0 {
				if err := fn(text); err != nil {
					return err
				}
			}
			number++
		}
	}
	if number != ls.Next {
		return corrupt(r.path(), r.next, fmt.Sprintf("%d texts", ls.Next), fmt.Sprint(number))
	}
	return nil
}

// markInput marks the numbers that wait in an input.
func (w *walker) markInput(is *InputState, saved savedBuffers, mark func(number uint64)) error {
	return w.eachNumber(is, saved, func(_, number uint64) { mark(number) })
}

// eachNumber calls fn with the keys that wait in an input, and the numbers of their texts.
func (w *walker) eachNumber(is *InputState, saved savedBuffers, fn func(key, number uint64)) error {
	in := is.input(&w.d.opt)
	if err := w.fill(&in.keys, saved); err != nil {
		return err
	}
	chunk := disk.Alloc(walkChunkBytes)
	defer func() { disk.Free(chunk) }()
	var r blockReader
	if err := r.open(w.d, &in.keys, in.keysAt, &chunk); err != nil {
		return err
	}
	defer r.close()
	left, skip := in.tuples, in.keysAt.rec
	for left > 0 {
		ok, err := r.load()
		if err != nil {
			return err
		}
		if !ok {
			return corrupt(r.path(), r.next, fmt.Sprintf("%d more tuples", left), "end")
		}
		rec := keyRecord{prefix: w.d.opt.prefix(is.Bucket)}
		number := r.base
		for b, i := r.payload, uint32(0); i < r.records; i++ {
			n := rec.parse(&w.d.opt, b)
			if n == 0 || rec.key>>w.d.shift != uint64(is.Bucket) {
				return corrupt(r.path(), r.off, fmt.Sprintf("record of bucket %d", is.Bucket),
					fmt.Sprintf("% x", b[:min(len(b), 16)]))
			}
			b = b[n:]
			number += rec.delta
			if i >= skip {
				fn(rec.key, number)
				left--
			}
		}
		skip = 0
	}
	return nil
}
