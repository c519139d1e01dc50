package drum

import (
	"fmt"
	"slices"

	"drumbeat/disk"
)

// walk calls fn for every tuple that waits in st. The first damage ends it. With text logs ScanState
// returns all texts; walk returns those whose keys wait in buckets.
func walk(set disk.Set, name string, st *State, fn func(t Tuple) error) error {
	if st.Aux != AuxLog {
		_, err := ScanState(set, name, st.Waiting(), Scan{Tuple: fn})
		return err
	}
	w, err := newWalker(set, name, st)
	if err != nil {
		return err
	}
	return w.waiting(st, fn)
}

// walkCache calls fn for every entry of the cache. The first damage ends it.
func walkCache(set disk.Set, name string, st *State, fn func(key Key, value []byte) error) error {
	_, err := ScanState(set, name, st.Cache(), Scan{Entry: fn})
	return err
}

// walkUniques calls fn for every unique text that is not emitted yet. The first damage ends it.
func walkUniques(set disk.Set, name string, st *State, fn func(aux []byte) error) error {
	found, err := ScanState(set, name, st.Sealed(), Scan{Text: func(aux []byte, unique bool) error {
		if !unique {
			return nil
		}
		return fn(aux)
	}})
	if err == nil && found.Uniques != st.Unstreamed {
		err = fmt.Errorf("found %d unique texts, the state has %d", found.Uniques, st.Unstreamed)
	}
	return err
}

// waiting calls fn for the texts in the logs whose keys wait in buckets, except those that are left out.
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

// logs reads the logs and calls fn for the texts whose numbers choose marks.
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
		var marked []uint64 // grows with the numbers found, so that a state alone cannot make it large
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
		texts := newBlockTexts(s.kind, r.payload, &textDecoder{})
		for range r.records {
			text, ok := texts.next()
			if !ok {
				return corrupt(r.path(), r.off, "text record", texts.shown())
			}
			if at := number / 64; text != nil && at < uint64(len(marked)) && marked[at]>>(number%64)&1 != 0 {
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
