package drum

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"drumbeat/disk"
)

const stateVersion = 3

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
	// Buffered are the files with what was in buffers, Fills is the last number of a filling.
	Buffered []BufferState `json:"buffered,omitempty"`
	Fills    uint64        `json:"fills,omitempty"`
}

// BufferState is a file with what was in buffers at checkpoints, of which Bytes bytes count.
type BufferState struct {
	Dir   int    `json:"d,omitempty"`
	Gen   uint64 `json:"g"`
	Bytes int64  `json:"n"`
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
// the offset of a block, or Bytes for the buffer; Record the number of records of it that are done. Fill is the number
// of the buffer's filling, 0 if it is empty, and Buffered its bytes.
type StreamState struct {
	Gen    uint64 `json:"g,omitempty"`
	Bytes  int64  `json:"n,omitempty"`
	At     int64  `json:"at,omitempty"`
	Record uint32 `json:"rec,omitempty"`

	Fill     uint64 `json:"f,omitempty"`
	Buffered int64  `json:"b,omitempty"`
}

// LogState is a text log: Next is the number of the text that comes next. A sealed one has been streamed up
// to the place in Text.
type LogState struct {
	Dir    int         `json:"d,omitempty"`
	Sealed bool        `json:"sealed,omitempty"`
	Text   StreamState `json:"text"`
	Next   uint64      `json:"next"`
	// Buffered is how many of its texts are in the buffer, not in its file.
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
	buffers [][]*frozenBuffer // by directory
	spare   []frozenBuffer    // for the next of them
	doomed  []doomedFile
}

// frozenBuffer is the part of a buffer that belongs to the frozen moment and has not been saved. Its fields are
// guarded by mu, that of its bucket or log.
type frozenBuffer struct {
	mu      *sync.Mutex
	entry   bufferEntry // without bytes
	s       *stream
	n       int    // bytes of s.buf, its head included
	settled []byte // the bytes, if the buffer had to be reset before they were saved
}

// settle copies what is frozen of a buffer that is about to be reset. The mu of its bucket or log is held.
func (s *stream) settle() {
	if fb := s.pending; fb != nil {
		fb.settled = slices.Clone(s.buf[bucketHeaderBytes+fb.entry.from : fb.n])
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
		Parts: make([]PartState, 0, len(d.buckets)), Inputs: make([]InputState, 0, len(d.buckets)),
	}, doomed: d.files.takeDoomed()}
	f.prepareBuffers()
	if d.opt.logged() {
		d.texts.seal.Lock()
		defer d.texts.seal.Unlock()
		f.freezeLogs()
	}
	for i := range d.buckets {
		f.freeze(i)
	}
	for dir := range f.buffers {
		if bf := d.held[dir]; bf.gen == 0 && len(f.buffers[dir]) > 0 {
			bf.gen = d.gen.Add(1)
		}
	}
	f.st.Gen, f.st.Unstreamed, f.st.Fills = d.gen.Load(), d.unstreamed.Load(), d.fills
	return f
}

// prepareBuffers decides which files of saved buffers begin anew.
func (f *Frozen) prepareBuffers() {
	d := f.d
	f.buffers = make([][]*frozenBuffer, d.dirs())
	for dir, bf := range d.held {
		f.buffers[dir] = make([]*frozenBuffer, 0, 2*len(d.buckets)/d.dirs()+2)
		if bf.crowded() {
			f.doomed = append(f.doomed, doomedFile{d.opt.path(dir, buffersName(bf.gen)), bf.written})
			d.held[dir] = &bufferFile{dir: dir}
		}
	}
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
		for _, s := range []*stream{&in.keys, &in.aux} {
			f.freezeBuffer(s, &b.mu)
			s.epoch = 0 // the manifest will name it, even if an Add made it a moment ago
		}
		f.st.Inputs = append(f.st.Inputs, InputState{
			Bucket: i, Sealed: in == b.sealed, Dir: in.keys.dir,
			Keys: in.keys.state(in.keysAt), Aux: in.aux.state(in.auxAt),
			Tuples: in.tuples, Values: in.values, Bytes: in.bytes,
		})
	}
}

// frozenChunk is how many frozenBuffers are made at once.
const frozenChunk = 256

// freezeBuffer notes what a stream has in its buffer that has not been saved. mu, which guards it, is held.
func (f *Frozen) freezeBuffer(s *stream, mu *sync.Mutex) {
	s.pending = nil
	if s.records == 0 {
		return
	}
	if s.fill == 0 {
		f.d.fills++
		s.fill = f.d.fills
	}
	if bf := f.d.held[s.dir]; s.in != bf {
		s.in, s.saved = bf, 0
	}
	if len(s.buf)-bucketHeaderBytes == s.saved {
		return
	}
	if len(f.spare) == 0 {
		f.spare = make([]frozenBuffer, frozenChunk)
	}
	s.pending, f.spare = &f.spare[0], f.spare[1:]
	*s.pending = frozenBuffer{mu: mu, s: s, n: len(s.buf), entry: bufferEntry{
		fill: s.fill, bucket: s.bucket, kind: s.kind, base: s.base, from: s.saved,
	}}
	f.buffers[s.dir] = append(f.buffers[s.dir], s.pending)
}

// freezeLogs is freeze for the text logs. texts.seal is held.
func (f *Frozen) freezeLogs() {
	t := &f.d.texts
	for i, log := range slices.Concat(t.sealed, t.logs) {
		log.mu.Lock()
		sealed := i < len(t.sealed)
		if log.next > 0 || sealed {
			f.freezeBuffer(&log.s, &log.mu)
			log.s.epoch = 0
			f.st.Logs = append(f.st.Logs, LogState{
				Dir: log.s.dir, Sealed: sealed, Text: log.s.state(log.at), Next: log.next,
				Buffered: log.s.records,
			})
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
	st := StreamState{Gen: s.gen, Bytes: s.written, At: at.off, Record: at.rec}
	if s.records > 0 {
		st.Fill, st.Buffered = s.fill, int64(len(s.buf)-bucketHeaderBytes)
	}
	return st
}

// Save writes what came into buffers since the last Save, and belongs to the frozen moment, to the files of saved
// buffers, and returns the State. It runs beside Adds and passes. The State counts once the caller has synced all
// directories and made it durable. tails, which may be nil, only counts the bytes.
func (f *Frozen) Save(tails *disk.Tails) (*State, error) {
	if err := f.d.failed(); err != nil {
		return nil, err
	}
	before := f.d.counts.bufferWritten.Load()
	for dir := range f.buffers {
		if err := f.saveBuffers(dir); err != nil {
			err = fmt.Errorf("drum: save %s: %w", f.d.opt.Name, err)
			f.d.fail(err)
			return nil, err
		}
	}
	f.buffers, f.spare = nil, nil
	if tails != nil {
		tails.Count(f.d.counts.bufferWritten.Load() - before)
	}
	return f.st, nil
}

// saveBuffers appends to the file of one directory.
func (f *Frozen) saveBuffers(dir int) (err error) {
	bf := f.d.held[dir]
	w := bufferWriter{d: f.d, bf: bf}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, fb := range f.buffers[dir] {
		w.begin()
		w.frame = f.take(fb, w.frame)
		if len(w.frame) >= frameBytes {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	if bf.written > 0 {
		f.st.Buffered = append(f.st.Buffered, BufferState{Dir: dir, Gen: bf.gen, Bytes: bf.written})
	}
	return nil
}

// take appends what was frozen of a buffer to a frame, and lets go of the buffer.
func (f *Frozen) take(fb *frozenBuffer, frame []byte) []byte {
	fb.mu.Lock()
	defer fb.mu.Unlock()
	e := fb.entry
	e.bytes = fb.settled
	if s := fb.s; s != nil {
		e.bytes = s.buf[bucketHeaderBytes+e.from : fb.n]
		s.saved = fb.n - bucketHeaderBytes
		s.in.live.Add(int64(len(e.bytes)))
		if s.pending == fb {
			s.pending = nil
		}
	}
	fb.s, fb.settled = nil, nil
	return e.append(frame)
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
