package drum

import (
	"fmt"
	"slices"

	"drumbeat/disk"
)

// Lookup returns the value of key in the cache of st, and whether the key is there. Like ScanState it
// verifies what it reads and changes nothing. It reads the headers of the bucket's blocks up to the key, 40
// bytes each, and the key's block: for a store of n keys about n/k/8192 headers and 64 KiB.
func Lookup(set disk.Set, name string, st *State, key Key) (value []byte, found bool, err error) {
	w, err := newWalker(set, name, st)
	if err == nil {
		value, found, err = w.lookup(st, uint64(key))
	}
	if err != nil {
		return nil, false, fmt.Errorf("drum: look up %x in %s: %w", uint64(key), name, err)
	}
	return value, found, nil
}

func (w *walker) lookup(st *State, key uint64) (value []byte, found bool, err error) {
	bucket := int(key >> w.d.shift)
	i := slices.IndexFunc(st.Parts, func(p PartState) bool { return p.Bucket == bucket })
	if i < 0 {
		return nil, false, nil
	}
	if _, late := slices.BinarySearch(st.Parts[i].Late, key); late {
		return []byte{}, true, nil
	}
	p := st.Parts[i].part()
	if err := checkPart(p, w.d.dirs()); err != nil {
		return nil, false, err
	}
	f, err := w.d.opt.openPart(p, cacheKind)
	if err != nil {
		return nil, false, err
	}
	block, err := blockOf(f, p, bucket, key)
	if err != nil || block.size == 0 {
		f.Close() // read only
		return nil, false, err
	}
	chunk := disk.Alloc(pageUp(int(block.size)) + 2*pageBytes)
	defer func() { disk.Free(chunk) }()
	r := partReader{opt: &w.d.opt, shift: w.d.shift, keys: make([]uint64, 0, blockKeys)}
	if w.d.opt.ValueBytes == variableValues {
		r.ends = make([]uint32, 0, blockKeys)
	}
	r.open(block, bucket, chunkReader{f: f, buf: &chunk, count: &w.d.counts.cacheRead})
	defer r.c.close()
	if ok, err := r.load(); err != nil || !ok {
		return nil, false, err
	}
	n, found := slices.BinarySearch(r.keys, key)
	if !found {
		return nil, false, nil
	}
	return slices.Clone(r.value(n)), true, nil
}

// blockOf returns the only block of a part that may hold key. Its size is 0 if there is none.
func blockOf(f disk.File, p part, bucket int, key uint64) (block part, err error) {
	var head [cacheHeaderBytes]byte
	end := p.off + p.size
	for off := p.off; off < end; {
		if end-off < cacheFrameBytes {
			return part{}, corrupt(f.Name(), off, "a block", fmt.Sprintf("%d bytes before the end", end-off))
		}
		if err := disk.ReadFull(f, head[:], off); err != nil {
			return part{}, fmt.Errorf("drum: read %s: %w", f.Name(), err)
		}
		var h cacheHeader
		if err := h.parse(head[:], f.Name(), off); err != nil {
			return part{}, err
		}
		size := cacheFrameBytes + int64(h.payload)
		if h.bucket != uint32(bucket) || size > end-off {
			return part{}, corrupt(f.Name(), off+8,
				fmt.Sprintf("a block of bucket %d, at most %d bytes", bucket, end-off),
				fmt.Sprintf("one of bucket %d, %d bytes", h.bucket, size))
		}
		if h.first > key {
			break
		}
		block = part{gen: p.gen, dir: p.dir, off: off, size: size, keys: int64(h.keys)}
		off += size
	}
	return block, nil
}

// WalkKey calls fn for every tuple of key that waits in its bucket or in saved buffers of st, in order of
// arrival. The tuple's bytes are valid during the call. Like ScanState, WalkKey verifies what it reads and
// changes nothing. It reads the bucket's files and the frames of saved buffers that have tuples of the
// bucket. With text logs it also reads the block headers, and the blocks with the tuples' texts.
func WalkKey(set disk.Set, name string, st *State, key Key, fn func(t Tuple) error) error {
	w, err := newWalker(set, name, st)
	if err == nil {
		err = w.key(st, uint64(key), fn)
	}
	if err != nil {
		return fmt.Errorf("drum: walk key %x of %s: %w", uint64(key), name, err)
	}
	return nil
}

func (w *walker) key(st *State, key uint64, fn func(t Tuple) error) error {
	bucket := *st
	bucket.Inputs = slices.Clone(st.Inputs)
	bucket.Inputs = slices.DeleteFunc(bucket.Inputs,
		func(is InputState) bool { return is.Bucket != int(key>>w.d.shift) })
	bucket.Logs = nil
	saved, err := w.someBuffers(&bucket)
	if err != nil {
		return err
	}
	for i := range bucket.Inputs {
		is := &bucket.Inputs[i]
		if is.Dir < 0 || is.Dir >= w.d.dirs() {
			return fmt.Errorf("invalid input %+v", *is)
		}
		if st.Aux == AuxLog {
			err = w.loggedKey(st, is, saved, key, fn)
		} else {
			err = w.input(is, saved, func(t Tuple) error {
				if uint64(t.Key) != key {
					return nil
				}
				return fn(t)
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// someBuffers is buffers for a state that names few of the fillings of its files. It skips frames without
// them.
func (w *walker) someBuffers(st *State) (savedBuffers, error) {
	r := bufferReader{opt: &w.d.opt, get: makeBuffer, some: true}
	err := r.readBuffers(st)
	return r.saved, err
}

// loggedKey calls fn for the tuples of a key that wait in an input, with their texts.
func (w *walker) loggedKey(st *State, is *InputState, saved savedBuffers, key uint64, fn func(t Tuple) error) error {
	var numbers []uint64
	err := w.eachNumber(is, saved, func(k, number uint64) {
		if k == key {
			numbers = append(numbers, number)
		}
	})
	if err != nil || len(numbers) == 0 {
		return err
	}
	slices.Sort(numbers) // concurrent adders may take numbers out of the bucket's order
	i := slices.IndexFunc(st.Logs, func(ls LogState) bool { return ls.Dir == is.Dir && ls.Sealed == is.Sealed })
	if i < 0 {
		return fmt.Errorf("no log in directory %d for the texts of bucket %d", is.Dir, is.Bucket)
	}
	return w.textsOf(st, &st.Logs[i], numbers, func(text []byte) error {
		return fn(Tuple{Key: Key(key), Op: st.Op, Aux: text})
	})
}

// textsOf calls fn for the texts of a log with the given numbers, which ascend.
func (w *walker) textsOf(st *State, ls *LogState, numbers []uint64, fn func(text []byte) error) error {
	one := *st
	one.Inputs, one.Logs = nil, []LogState{*ls}
	s := ls.stream()
	fileTexts := ls.Next - uint64(ls.Buffered)
	if numbers[len(numbers)-1] >= fileTexts {
		saved, err := w.someBuffers(&one)
		if err != nil {
			return err
		}
		if err := w.fill(s, saved); err != nil {
			return err
		}
	}
	at := int64(0)
	for len(numbers) > 0 {
		var err error
		if at, err = w.logBlockOf(s, at, numbers[0], fileTexts); err != nil {
			return err
		}
		if numbers, err = w.textsIn(s, at, numbers, fn); err != nil {
			return err
		}
	}
	return nil
}

// logBlockOf returns the offset of the log block that has a text. The search starts at from, the offset of
// a block. For a text in the buffer it returns the end of the file.
func (w *walker) logBlockOf(s *stream, from int64, number, fileTexts uint64) (int64, error) {
	if number >= fileTexts {
		return s.written, nil
	}
	name := w.d.opt.path(s.dir, bucketName(s.kind, s.bucket, s.gen))
	f, err := w.d.fs().OpenRead(name)
	if err != nil {
		return 0, fmt.Errorf("drum: open %s: %w", name, err)
	}
	defer f.Close()
	var head [bucketHeaderBytes]byte
	for off := from; off+bucketFrameBytes <= s.written; {
		if err := disk.ReadFull(f, head[:], off); err != nil {
			return 0, fmt.Errorf("drum: read %s: %w", name, err)
		}
		var h bucketHeader
		if err := h.parse(head[:], name, off); err != nil {
			return 0, err
		}
		if h.base <= number && number < h.base+uint64(h.records) {
			return off, nil
		}
		off += pageUp(bucketFrameBytes + int64(h.stored))
	}
	return 0, corrupt(name, s.written, fmt.Sprintf("a block with text %d", number), "the end")
}

// textsIn calls fn for the texts of a block with the given numbers, of which it must have the first. It
// returns the remaining numbers.
func (w *walker) textsIn(s *stream, at int64, numbers []uint64, fn func(text []byte) error) ([]uint64, error) {
	chunk := disk.Alloc(pageBytes)
	defer func() { disk.Free(chunk) }()
	var r blockReader
	if err := r.open(w.d, s, cursor{off: at}, &chunk); err != nil {
		return nil, err
	}
	defer r.close()
	if ok, err := r.load(); err != nil {
		return nil, err
	} else if !ok || numbers[0] < r.base || numbers[0] >= r.base+uint64(r.records) {
		return nil, corrupt(r.path(), at, fmt.Sprintf("a block with text %d", numbers[0]),
			fmt.Sprintf("%d from %d on", r.records, r.base))
	}
	texts := newBlockTexts(s.kind, r.payload, &textDecoder{})
	for i := uint64(0); i < uint64(r.records) && len(numbers) > 0; i++ {
		text, ok := texts.next()
		if !ok {
			return nil, corrupt(r.path(), r.off, "text record", texts.shown())
		}
		if r.base+i != numbers[0] {
			continue
		}
		numbers = numbers[1:]
		if text == nil {
			continue
		}
		if err := fn(text); err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// KeyFiles returns the paths of the files that Lookup and WalkKey may read for the given keys.
func KeyFiles(set disk.Set, name string, st *State, keys []Key) []string {
	w, err := newWalker(set, name, st)
	if err != nil {
		return nil // Lookup reports the error
	}
	buckets := map[int]bool{}
	for _, key := range keys {
		buckets[int(uint64(key)>>w.d.shift)] = true
	}
	some := *st
	some.Uniques, some.Parts, some.Inputs = nil, nil, nil
	for _, p := range st.Parts {
		if buckets[p.Bucket] {
			some.Parts = append(some.Parts, p)
		}
	}
	for _, is := range st.Inputs {
		if buckets[is.Bucket] {
			some.Inputs = append(some.Inputs, is)
		}
	}
	return Files(set, name, &some)
}
