package drum

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

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
	// Logs and Uniques are the text logs and the lists of unique numbers of a pass that has not ended.
	Logs    []LogState    `json:"logs,omitempty"`
	Uniques []UniqueState `json:"uniques,omitempty"`
	// Unstreamed is how many of the listed texts have not been emitted.
	Unstreamed int64 `json:"unstreamed,omitempty"`
	// Aux is that of the Options.
	Aux AuxMode `json:"aux,omitempty"`
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

// LogState is a text log: Next is the number of the text that comes next. A sealed one has been streamed up
// to the place in Text.
type LogState struct {
	Dir    int         `json:"d,omitempty"`
	Sealed bool        `json:"sealed,omitempty"`
	Text   StreamState `json:"text"`
	Next   uint64      `json:"next"`
	// Buffered is how many of its texts are in a tail, not in its file.
	Buffered uint32 `json:"buffered,omitempty"`
}

// UniqueState is a list of numbers in the log of directory Log; its place is that of a part.
type UniqueState struct {
	PartState
	Log int `json:"log,omitempty"`
}

// Frozen is a store at the moment of Freeze, until Commit.
type Frozen struct {
	d       *Drum
	st      *State
	buffers []*frozenBuffer
	doomed  []doomedFile
}

// frozenBuffer is the prefix of a buffer that belongs to the frozen moment. Its fields are guarded by mu,
// that of its bucket or log.
type frozenBuffer struct {
	mu   *sync.Mutex
	slot tailSlot
	base uint64
	s    *stream
	n    int    // bytes of s.buf, its head included
	data []byte // the payload, if the buffer had to be reset before it was saved
}

// tailSlot says which buffer the bytes are of. The bucket of a log is its directory.
type tailSlot struct {
	bucket int
	sealed bool
	kind   blockKind
}

// settle copies the frozen prefix of a buffer that is about to be reset. The mu of its bucket or log is held.
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
		V: stateVersion, Buckets: d.opt.Buckets, ValueBytes: d.opt.ValueBytes, Op: d.opt.Op, Aux: d.opt.Aux,
	}}
	if d.opt.logged() {
		d.texts.seal.Lock()
		defer d.texts.seal.Unlock()
		f.freezeLogs()
	}
	for i := range d.buckets {
		f.freeze(i)
	}
	f.st.Gen, f.st.Unstreamed = d.gen.Load(), d.unstreamed.Load()
	f.doomed = d.files.takeDoomed()
	return f
}

func (f *Frozen) freeze(i int) {
	b := &f.d.buckets[i]
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.part; p.gen != 0 {
		f.st.Parts = append(f.st.Parts, p.state(i))
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
			f.freezeBuffer(s, &b.mu, in == b.sealed)
		}
	}
}

// freezeBuffer notes what a stream has in its buffer. mu, which guards it, is held.
func (f *Frozen) freezeBuffer(s *stream, mu *sync.Mutex, sealed bool) {
	s.pending = nil
	if s.records == 0 {
		return
	}
	slot := tailSlot{bucket: s.bucket, sealed: sealed, kind: s.kind}
	s.pending = &frozenBuffer{mu: mu, slot: slot, base: s.base, s: s, n: len(s.buf)}
	f.buffers = append(f.buffers, s.pending)
}

// freezeLogs is freeze for the text logs. texts.seal is held.
func (f *Frozen) freezeLogs() {
	t := &f.d.texts
	for i, log := range slices.Concat(t.sealed, t.logs) {
		log.mu.Lock()
		sealed := i < len(t.sealed)
		if log.next > 0 || sealed {
			f.st.Logs = append(f.st.Logs, LogState{
				Dir: log.s.dir, Sealed: sealed, Text: log.s.state(log.at), Next: log.next,
				Buffered: log.s.records,
			})
			f.freezeBuffer(&log.s, &log.mu, sealed)
		}
		log.mu.Unlock()
	}
	for i := range t.uniques {
		u := &t.uniques[i] // whose off and seen the pass changes at any time
		f.st.Uniques = append(f.st.Uniques, UniqueState{PartState: u.part.state(u.bucket), Log: u.log})
	}
}

func (p part) state(bucket int) PartState {
	return PartState{Bucket: bucket, Dir: p.dir, Gen: p.gen, Offset: p.off, Bytes: p.size, Keys: p.keys}
}

func (ps *PartState) part() part {
	return part{gen: ps.Gen, dir: ps.Dir, off: ps.Offset, size: ps.Bytes, keys: ps.Keys}
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
	fb.mu.Lock()
	defer fb.mu.Unlock()
	payload := fb.data
	if s := fb.s; s != nil {
		payload = s.buf[bucketHeaderBytes:fb.n]
		if s.pending == fb {
			s.pending = nil
		}
	}
	piece = appendTail(piece, fb.slot, fb.base, payload)
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
//	0      4    bucket  of a text log, the number of the directory
//	4      1    kind    1 keys, 2 aux, 3 text log
//	5      1    sealed  1 if a merge has begun
//	6      2    zero
//	8      4    length  n
//	12     8    base    as in the head of a block
//	20     n    payload records as in a block
func appendTail(dst []byte, slot tailSlot, base uint64, payload []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(slot.bucket))
	sealed := byte(0)
	if slot.sealed {
		sealed = 1
	}
	dst = append(dst, byte(slot.kind), sealed, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint64(dst, base)
	return append(dst, payload...)
}

const tailHeadBytes = 20
