package drum

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"drumbeat/disk"
)

// stateVersion is the version of State. Version 4 had at most 16 late keys a bucket, version 3 none; older
// ones are refused.
const (
	stateVersion      = 5
	leastStateVersion = 3
)

// State is the state of a store at one moment. It belongs in the manifest of a checkpoint.
type State struct {
	// V is the format version.
	V int `json:"v"`
	// Buckets, ValueBytes and Op are those of Options at the store's creation.
	Buckets    int `json:"buckets"`
	ValueBytes int `json:"value_bytes,omitempty"`
	Op         Op  `json:"op,omitempty"`
	// Gen is the last generation given to a file.
	Gen uint64 `json:"gen"`
	// Parts holds the non-empty parts of the cache, Inputs the non-empty inputs.
	Parts  []PartState  `json:"parts,omitempty"`
	Inputs []InputState `json:"inputs,omitempty"`
	// Logs and Uniques hold the text logs, and the lists of unique numbers of an unfinished pass.
	Logs    []LogState    `json:"logs,omitempty"`
	Uniques []UniqueState `json:"uniques,omitempty"`
	// Unstreamed is the number of listed texts that have not been emitted.
	Unstreamed int64 `json:"unstreamed,omitempty"`
	// Aux is that of Options.
	Aux AuxMode `json:"aux,omitempty"`
	// Buffered holds the files with the content of buffers. Fills is the number of the last filling.
	Buffered []BufferState `json:"buffered,omitempty"`
	Fills    uint64        `json:"fills,omitempty"`
}

// Keys returns the number of entries in the cache.
func (st *State) Keys() (n int64) {
	for i := range st.Parts {
		n += st.Parts[i].Keys + int64(len(st.Parts[i].Late))
	}
	return n
}

// Bytes returns the size of the cache on disk.
func (st *State) Bytes() (n int64) {
	for i := range st.Parts {
		n += st.Parts[i].Bytes
	}
	return n
}

// BufferState is a file with the content of buffers at checkpoints. Its first Bytes bytes are valid.
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
	// Late has the keys of the bucket's cache that are not in the part, ascending.
	Late []uint64 `json:"late,omitempty"`
}

// InputState is a bucket's pending input. A sealed one may be partly merged.
type InputState struct {
	Bucket int         `json:"b"`
	Sealed bool        `json:"sealed,omitempty"`
	Dir    int         `json:"d,omitempty"`
	Keys   StreamState `json:"keys"`
	Aux    StreamState `json:"aux"`
	// Tuples, Values and Bytes are the remaining tuples, bytes of values and bytes of payload.
	Tuples int64 `json:"n"`
	Values int64 `json:"v,omitempty"`
	Bytes  int64 `json:"bytes"`
}

// StreamState is one file of an input (Gen 0 for none) and the position up to which it has been merged. At
// is the offset of a block, or Bytes for the buffer. Record is the number of records of that block already
// merged. Fill is the number of the buffer's filling, 0 if it is empty. Buffered is the number of bytes in
// the buffer.
type StreamState struct {
	Gen    uint64 `json:"g,omitempty"`
	Bytes  int64  `json:"n,omitempty"`
	At     int64  `json:"at,omitempty"`
	Record uint32 `json:"rec,omitempty"`

	Fill     uint64 `json:"f,omitempty"`
	Buffered int64  `json:"b,omitempty"`
}

// LogState is a text log. Next is the number of the next text. A sealed log has been streamed up to the
// position in Text.
type LogState struct {
	Dir    int         `json:"d,omitempty"`
	Sealed bool        `json:"sealed,omitempty"`
	Text   StreamState `json:"text"`
	Next   uint64      `json:"next"`
	// Coded says that its texts are coded (textcode.go). Older versions of the program wrote them plainly.
	Coded bool `json:"coded,omitempty"`
	// Buffered is the number of its texts that are in the buffer.
	Buffered uint32 `json:"buffered,omitempty"`
}

// UniqueState is a list of numbers in the log of directory Log. It is stored like a part, or here if Numbers is not
// empty.
type UniqueState struct {
	PartState
	Log     int      `json:"log,omitempty"`
	Numbers []uint64 `json:"numbers,omitempty"` // ascending
}

// Frozen is the state of a store at a Freeze, in use until Commit.
type Frozen struct {
	d       *Drum
	st      *State
	buffers [][]*frozenBuffer // by directory
	spare   []frozenBuffer    // preallocated frozenBuffers
	doomed  []doomedFile
	ram     []*ramFile // to be saved
}

// frozenBuffer is the unsaved part of a buffer at the frozen moment. The mu of its bucket or log guards its
// fields.
type frozenBuffer struct {
	mu      *sync.Mutex
	entry   bufferEntry // without bytes
	s       *stream
	n       int    // bytes of s.buf, header included
	settled []byte // a copy of the bytes, if the buffer was reset before they were saved
}

// settle copies the frozen part of a buffer that is about to be reset. The caller holds the mu of its
// bucket or log.
func (s *stream) settle() {
	if fb := s.pending; fb != nil {
		fb.settled = slices.Clone(s.buf[bucketHeaderBytes+fb.entry.from : fb.n])
		fb.s, s.pending = nil, nil
	}
}

// Freeze captures the state for the next State, in memory only. No emission may be running: call Freeze
// between Pause and Resume while passes run. If batches must not be split, no Add may run either. The
// previous Frozen must have been saved or abandoned.
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
	f.ram = d.files.name(f.st)
	for dir := range f.buffers {
		if bf := d.held[dir]; bf.gen == 0 && len(f.buffers[dir]) > 0 {
			bf.gen = d.gen.Add(1)
		}
	}
	f.st.Gen, f.st.Unstreamed, f.st.Fills = d.gen.Load(), d.unstreamed.Load(), d.fills
	return f
}

// prepareBuffers replaces the crowded files of saved buffers by new ones.
func (f *Frozen) prepareBuffers() {
	d := f.d
	f.buffers = make([][]*frozenBuffer, d.dirs())
	for dir, bf := range d.held {
		f.buffers[dir] = make([]*frozenBuffer, 0, 2*len(d.buckets)/d.dirs()+2)
		if bf.crowded() {
			f.doomed = append(f.doomed, doomedFile{name: d.opt.path(dir, buffersName(bf.gen)), size: bf.written})
			d.held[dir] = &bufferFile{dir: dir}
		}
	}
}

func (f *Frozen) freeze(i int) {
	b := &f.d.buckets[i]
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.part; p.gen != 0 {
		ps := p.state(i)
		ps.Late = b.late
		f.st.Parts = append(f.st.Parts, ps)
	}
	for _, in := range []*input{b.sealed, b.open} {
		if in == nil || in.tuples == 0 {
			continue
		}
		for _, s := range []*stream{&in.keys, &in.aux} {
			f.freezeBuffer(s, &b.mu)
			s.epoch = 0 // the manifest will name it, even if an Add has just created it
		}
		f.st.Inputs = append(f.st.Inputs, InputState{
			Bucket: i, Sealed: in == b.sealed, Dir: in.keys.dir,
			Keys: in.keys.state(in.keysAt), Aux: in.aux.state(in.auxAt),
			Tuples: in.tuples, Values: in.values, Bytes: in.bytes,
		})
	}
}

// frozenChunk is the number of frozenBuffers allocated at once.
const frozenChunk = 256

// freezeBuffer records the unsaved content of a stream's buffer. The caller holds mu, which guards the
// stream.
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

// freezeLogs is freeze for the text logs. The caller holds texts.seal.
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
				Buffered: log.s.records, Coded: log.s.kind == logBlocks,
			})
		}
		log.mu.Unlock()
	}
	for i := range t.uniques {
		u := &t.uniques[i] // the pass may change its off and seen at any time
		f.st.Uniques = append(f.st.Uniques,
			UniqueState{PartState: u.part.state(u.bucket), Log: u.log, Numbers: u.numbers})
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

// Save appends the unsaved content of buffers at the frozen moment to the files of saved buffers, writes the
// files of parts that are only in RAM, and returns the State. It may run concurrently with Add and Pass. The
// State is valid once the caller has synced all directories and made it durable. Save adds the bytes written
// to tails, which may be nil.
func (f *Frozen) Save(tails *disk.Tails) (*State, error) {
	if err := f.d.failed(); err != nil {
		return nil, err
	}
	err := f.saveRAM(tails)
	before := f.d.counts.bufferWritten.Load()
	for dir := 0; dir < len(f.buffers) && err == nil; dir++ {
		err = f.saveBuffers(dir)
	}
	if err != nil {
		err = fmt.Errorf("drum: save %s: %w", f.d.opt.Name, err)
		f.d.fail(err)
		return nil, err
	}
	f.buffers, f.spare, f.ram = nil, nil, nil
	if tails != nil {
		tails.Count(f.d.counts.bufferWritten.Load() - before)
	}
	return f.st, nil
}

// saveRAM writes the files of parts that are only in RAM.
func (f *Frozen) saveRAM(tails *disk.Tails) error {
	for _, rf := range f.ram {
		n, err := rf.saveOnce()
		if err != nil {
			return err
		}
		f.d.counts.bufferWritten.add(n)
		if tails != nil {
			tails.CountFile(int64(n))
		}
	}
	return nil
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

// take appends the frozen content of a buffer to a frame, and releases the buffer.
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

// Commit deletes the files that the frozen state no longer names. Call it once the manifest with the State
// is durable.
func (f *Frozen) Commit() error {
	for _, file := range f.doomed {
		if f.d.files.abandon(file.ram) {
			continue
		}
		if err := f.d.fs().Remove(file.name); err != nil {
			err = fmt.Errorf("drum: commit %s: %w", f.d.opt.Name, err)
			f.d.fail(err)
			return err
		}
	}
	f.doomed = nil
	return nil
}
