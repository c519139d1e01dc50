package drum

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"drumbeat/disk"
)

const stateVersion = 1

// State describes a store at one moment; it goes into the manifest of a checkpoint.
type State struct {
	// V is the version of this description.
	V int `json:"v"`
	// Buckets, ValueBytes and Op are those of the Options; they stay what they were when the store was made.
	Buckets    int `json:"buckets"`
	ValueBytes int `json:"value_bytes,omitempty"`
	Op         Op  `json:"op,omitempty"`
	// Gen is the last generation given to a file.
	Gen uint64 `json:"gen"`
	// Parts are the non-empty parts of the cache, Inputs the non-empty inputs.
	Parts  []PartState  `json:"parts,omitempty"`
	Inputs []InputState `json:"inputs,omitempty"`
	// Tails holds what was in buffers: pieces as described at appendTail.
	Tails []disk.Ref `json:"tails,omitempty"`
}

// PartState is a bucket's part of the cache: Bytes bytes at Offset of cache file Gen in directory Dir.
type PartState struct {
	Bucket int    `json:"b"`
	Dir    int    `json:"d,omitempty"`
	Gen    uint64 `json:"g"`
	Offset int64  `json:"o"`
	Bytes  int64  `json:"n"`
	Keys   int64  `json:"k"`
}

// InputState is what waits in a bucket, and how far a sealed input has been merged.
type InputState struct {
	Bucket int         `json:"b"`
	Sealed bool        `json:"sealed,omitempty"`
	Dir    int         `json:"d,omitempty"`
	Keys   StreamState `json:"keys"`
	Aux    StreamState `json:"aux"`
	// Tuples, Values and Bytes are what is left of it: tuples, bytes of values, bytes of payload.
	Tuples int64 `json:"n"`
	Values int64 `json:"v,omitempty"`
	Bytes  int64 `json:"bytes"`
}

// StreamState is one file of an input (Gen 0: none yet), and the place up to which it has been merged: At is
// the offset of a block, or Bytes for the buffer; Record the number of records of it that are done.
type StreamState struct {
	Gen    uint64 `json:"g,omitempty"`
	Bytes  int64  `json:"n,omitempty"`
	At     int64  `json:"at,omitempty"`
	Record uint32 `json:"rec,omitempty"`
}

// check verifies what Open and Walk rely on.
func (st *State) check() error {
	if st.V != stateVersion {
		return fmt.Errorf("state has version %d, this program reads %d", st.V, stateVersion)
	}
	if st.Buckets < 1 || bits.OnesCount(uint(st.Buckets)) != 1 {
		return fmt.Errorf("state has %d buckets", st.Buckets)
	}
	return nil
}

// Frozen is a store at the moment of Freeze, until Commit.
type Frozen struct {
	d       *Drum
	st      *State
	buffers []*frozenBuffer
	doomed  []doomedFile
}

// frozenBuffer is the prefix of a buffer that belongs to the frozen moment. Its fields are guarded by the mu
// of its bucket.
type frozenBuffer struct {
	slot tailSlot
	s    *stream
	n    int    // bytes of s.buf, its head included
	data []byte // the payload, if the buffer had to be reset before it was saved
}

// tailSlot says which buffer of a bucket the bytes are of.
type tailSlot struct {
	bucket int
	sealed bool
	kind   blockKind
}

// settle copies the frozen prefix of a buffer that is about to be reset. The bucket's mu is held.
func (s *stream) settle() {
	if fb := s.pending; fb != nil {
		fb.data = slices.Clone(s.buf[bucketHeaderBytes:fb.n])
		fb.s, s.pending = nil, nil
	}
}

// Freeze takes the moment that the next State describes. It touches memory only. No emission may be running:
// call it between Pause and Resume when passes run, and with the Adds held off if their batches are to be
// whole. The last Frozen must have been saved or given up.
func (d *Drum) Freeze() *Frozen {
	if d.emitting.Load() {
		panic("BUG: drum: " + d.opt.Name + ": Freeze during an emission")
	}
	f := &Frozen{d: d, st: &State{
		V: stateVersion, Buckets: d.opt.Buckets, ValueBytes: d.opt.ValueBytes, Op: d.opt.Op,
	}}
	for i := range d.buckets {
		f.freeze(i)
	}
	f.st.Gen = d.gen.Load()
	f.doomed = d.files.takeDoomed()
	return f
}

func (f *Frozen) freeze(i int) {
	b := &f.d.buckets[i]
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.part; p.gen != 0 {
		f.st.Parts = append(f.st.Parts, PartState{
			Bucket: i, Dir: p.dir, Gen: p.gen, Offset: p.off, Bytes: p.size, Keys: p.keys,
		})
	}
	for _, in := range []*input{b.sealed, b.open} {
		if in == nil || in.tuples == 0 {
			continue
		}
		f.st.Inputs = append(f.st.Inputs, InputState{
			Bucket: i, Sealed: in == b.sealed, Dir: in.keys.dir,
			Keys: in.keys.state(in.keysAt), Aux: in.aux.state(in.auxAt),
			Tuples: in.tuples, Values: in.values, Bytes: in.bytes,
		})
		for _, s := range []*stream{&in.keys, &in.aux} {
			s.pending = nil
			if s.records == 0 {
				continue
			}
			s.pending = &frozenBuffer{
				slot: tailSlot{bucket: i, sealed: in == b.sealed, kind: s.kind}, s: s, n: len(s.buf),
			}
			f.buffers = append(f.buffers, s.pending)
		}
	}
}

func (s *stream) state(at cursor) StreamState {
	return StreamState{Gen: s.gen, Bytes: s.written, At: at.off, Record: at.rec}
}

// tailBytes is about how much goes into one piece of a tail.
const tailBytes = 1 << 20

// Save writes what is in RAM and belongs to the frozen moment to the tails and returns the State. It runs
// beside Adds and passes. The State counts once the caller has synced all directories and made it durable.
func (f *Frozen) Save(tails *disk.Tails) (*State, error) {
	if err := f.d.failed(); err != nil {
		return nil, err
	}
	pieces := make([][]byte, f.d.dirs())
	flush := func(dir, min int) error {
		if len(pieces[dir]) == 0 || len(pieces[dir]) < min {
			return nil
		}
		ref, err := tails.Write(dir, pieces[dir])
		if err != nil {
			f.d.fail(err)
			return fmt.Errorf("drum: save %s: %w", f.d.opt.Name, err)
		}
		f.st.Tails = append(f.st.Tails, ref)
		pieces[dir] = pieces[dir][:0]
		return nil
	}
	for _, fb := range f.buffers {
		dir := fb.slot.bucket % f.d.dirs()
		pieces[dir] = f.take(fb, pieces[dir])
		if err := flush(dir, tailBytes); err != nil {
			return nil, err
		}
	}
	f.buffers = nil
	for dir := range pieces {
		if err := flush(dir, 0); err != nil {
			return nil, err
		}
	}
	return f.st, nil
}

// take appends the frozen prefix of a buffer to a piece, and lets go of the buffer.
func (f *Frozen) take(fb *frozenBuffer, piece []byte) []byte {
	mu := &f.d.buckets[fb.slot.bucket].mu
	mu.Lock()
	defer mu.Unlock()
	payload := fb.data
	if s := fb.s; s != nil {
		payload = s.buf[bucketHeaderBytes:fb.n]
		if s.pending == fb {
			s.pending = nil
		}
	}
	piece = appendTail(piece, fb.slot, payload)
	fb.s, fb.data = nil, nil
	return piece
}

// Commit deletes what the frozen state has replaced. Call it when the manifest with the State is durable.
func (f *Frozen) Commit() error {
	for _, file := range f.doomed {
		if err := f.d.fs().Remove(file.name); err != nil {
			err = fmt.Errorf("drum: commit %s: %w", f.d.opt.Name, err)
			f.d.fail(err)
			return err
		}
	}
	f.doomed = nil
	return nil
}

// appendTail appends one buffer to a piece of a tail:
//
//	offset size field   meaning
//	0      4    bucket
//	4      1    kind    1 keys, 2 aux
//	5      1    sealed  1 if a merge has begun
//	6      2    zero
//	8      4    length  n
//	12     n    payload records as in a block of the bucket file
func appendTail(dst []byte, slot tailSlot, payload []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(slot.bucket))
	sealed := byte(0)
	if slot.sealed {
		sealed = 1
	}
	dst = append(dst, byte(slot.kind), sealed, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	return append(dst, payload...)
}

const tailHeadBytes = 12

// readTails reads the buffers of st.
func (st *State) readTails(set disk.Set, take func(slot tailSlot, payload []byte) error) error {
	for _, ref := range st.Tails {
		piece, err := disk.ReadTail(set, ref)
		if err != nil {
			return err
		}
		for len(piece) > 0 {
			if len(piece) < tailHeadBytes {
				return fmt.Errorf("tail %+v ends within a head", ref)
			}
			n := uint64(binary.LittleEndian.Uint32(piece[8:]))
			slot := tailSlot{
				bucket: int(binary.LittleEndian.Uint32(piece)), kind: blockKind(piece[4]), sealed: piece[5] == 1,
			}
			if n > uint64(len(piece)-tailHeadBytes) || slot.bucket >= st.Buckets ||
				slot.kind != keyBlocks && slot.kind != auxBlocks {
				return fmt.Errorf("tail %+v has an invalid head % x", ref, piece[:tailHeadBytes])
			}
			if err := take(slot, piece[tailHeadBytes:tailHeadBytes+n]); err != nil {
				return err
			}
			piece = piece[tailHeadBytes+n:]
		}
	}
	return nil
}

// restore brings the store into the state st.
func (d *Drum) restore(st *State) error {
	want := map[string]int64{}
	if st == nil {
		return d.files.clean(want)
	}
	if st.ValueBytes != d.opt.ValueBytes || st.Op != d.opt.Op {
		return fmt.Errorf("store has values of %d bytes and operation %d, options say %d and %d",
			st.ValueBytes, st.Op, d.opt.ValueBytes, d.opt.Op)
	}
	d.gen.Store(st.Gen)
	if err := d.restoreParts(st, want); err != nil {
		return err
	}
	if err := d.restoreInputs(st, want); err != nil {
		return err
	}
	if err := d.files.clean(want); err != nil {
		return err
	}
	return st.readTails(d.opt.Set, func(slot tailSlot, payload []byte) error {
		in := d.buckets[slot.bucket].open
		if slot.sealed {
			in = d.buckets[slot.bucket].sealed
		}
		if in == nil || in.tuples == 0 {
			return fmt.Errorf("tail of an empty input of bucket %d", slot.bucket)
		}
		s := &in.keys
		if slot.kind == auxBlocks {
			s = &in.aux
		}
		n, err := d.opt.countRecords(slot.kind, payload)
		if err != nil {
			return fmt.Errorf("tail of bucket %d: %w", slot.bucket, err)
		}
		s.buf = append(d.bufs.get(len(payload)), payload...)
		s.records = n
		return nil
	})
}

func (d *Drum) restoreParts(st *State, want map[string]int64) error {
	for _, ps := range st.Parts {
		p := part{gen: ps.Gen, dir: ps.Dir, off: ps.Offset, size: ps.Bytes, keys: ps.Keys}
		if err := checkPart(p, d.dirs()); err != nil || ps.Bucket < 0 || ps.Bucket >= len(d.buckets) {
			return fmt.Errorf("part of bucket %d: %w", ps.Bucket, err)
		}
		d.buckets[ps.Bucket].part = p
		d.keys.Add(p.keys)
		c := d.files.caches[p.gen]
		if c == nil {
			c = &cacheFile{gen: p.gen, dir: p.dir}
			d.files.caches[p.gen] = c
		}
		c.live += p.space()
		c.size = max(c.size, p.off+p.space())
		name := d.opt.path(p.dir, cacheName(p.gen))
		want[name] = max(want[name], p.off+p.size)
	}
	return nil
}

func (d *Drum) restoreInputs(st *State, want map[string]int64) error {
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
			if in.cost >= d.opt.BucketBytes {
				b.full = true
				d.full.Add(1)
			}
		}
		d.tuples.Add(in.tuples)
		d.bytes.Add(in.bytes)
		for _, s := range []*stream{&in.keys, &in.aux} {
			if s.gen != 0 {
				want[d.opt.path(s.dir, bucketName(s.kind, s.bucket, s.gen))] = s.written
			}
		}
	}
	return nil
}

// input returns the input that is describes, but for its buffers.
func (is *InputState) input(o *Options) *input {
	stream := func(kind blockKind, s StreamState) (stream, cursor) {
		return stream{kind: kind, bucket: is.Bucket, dir: is.Dir, gen: s.Gen, written: s.Bytes},
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

// countRecords returns the number of records in a payload.
func (o *Options) countRecords(kind blockKind, b []byte) (n uint32, err error) {
	var rec keyRecord
	for len(b) > 0 {
		size := 0
		if kind == keyBlocks {
			size = rec.parse(o, b)
		} else {
			_, size = parseAux(b)
		}
		if size == 0 {
			return 0, fmt.Errorf("invalid record % x", b[:min(len(b), 16)])
		}
		b = b[size:]
		n++
	}
	return n, nil
}
