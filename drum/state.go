package drum

import (
	"encoding/binary"
	"fmt"
	"math/bits"
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

// tail is a buffer read back from a tail file.
type tail struct {
	slot    tailSlot
	base    uint64
	payload []byte
}

// readTails reads the buffers of st.
func (st *State) readTails(set disk.Set, take func(t tail) error) error {
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
			if n > uint64(len(piece)-tailHeadBytes) || slot.kind < keyBlocks || slot.kind > logBlocks ||
				slot.kind != logBlocks && slot.bucket >= st.Buckets {
				return fmt.Errorf("tail %+v has an invalid head % x", ref, piece[:tailHeadBytes])
			}
			t := tail{slot, binary.LittleEndian.Uint64(piece[12:]), piece[tailHeadBytes : tailHeadBytes+n]}
			if err := take(t); err != nil {
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
	if st.ValueBytes != d.opt.ValueBytes || st.Op != d.opt.Op || st.Aux != d.opt.Aux {
		return fmt.Errorf("store has values of %d bytes, operation %d, aux mode %d; options say %d, %d, %d",
			st.ValueBytes, st.Op, st.Aux, d.opt.ValueBytes, d.opt.Op, d.opt.Aux)
	}
	d.gen.Store(st.Gen)
	for _, f := range []func(*State, map[string]int64) error{d.restoreParts, d.restoreInputs, d.restoreLogs} {
		if err := f(st, want); err != nil {
			return err
		}
	}
	if err := d.files.clean(want); err != nil {
		return err
	}
	return st.readTails(d.opt.Set, d.restoreTail)
}

// restoreTail fills a buffer.
func (d *Drum) restoreTail(t tail) error {
	s := d.streamOf(t.slot)
	if s == nil || s.buf != nil {
		return fmt.Errorf("tail of %s of bucket %d, which has none", t.slot.kind, t.slot.bucket)
	}
	n, last, err := d.opt.countRecords(t)
	if err != nil {
		return fmt.Errorf("tail of %s of bucket %d: %w", t.slot.kind, t.slot.bucket, err)
	}
	s.buf = append(d.bufs.get(len(t.payload)), t.payload...)
	s.records, s.base, s.last = n, t.base, last
	return nil
}

// streamOf returns the stream of a slot, nil if there is none that may have a buffer.
func (d *Drum) streamOf(slot tailSlot) *stream {
	if slot.kind == logBlocks {
		logs := d.texts.logs
		if slot.sealed {
			logs = d.texts.sealed
		}
		if slot.bucket >= len(logs) || logs[slot.bucket].next == 0 {
			return nil
		}
		return &logs[slot.bucket].s
	}
	in := d.buckets[slot.bucket].open
	if slot.sealed {
		in = d.buckets[slot.bucket].sealed
	}
	switch {
	case in == nil || in.tuples == 0:
		return nil
	case slot.kind == keyBlocks:
		return &in.keys
	}
	return &in.aux
}

func (d *Drum) restoreParts(st *State, want map[string]int64) error {
	for _, ps := range st.Parts {
		p := ps.part()
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

// restoreLogs brings back the text logs and the lists of a pass.
func (d *Drum) restoreLogs(st *State, want map[string]int64) error {
	t := &d.texts
	for _, ls := range st.Logs {
		if ls.Dir < 0 || ls.Dir >= d.dirs() || !d.opt.logged() {
			return fmt.Errorf("invalid log %+v", ls)
		}
		log := d.newLog(ls.Dir)
		log.next, log.at = ls.Next, cursor{off: ls.Text.At, rec: ls.Text.Record}
		log.s.gen, log.s.written = ls.Text.Gen, ls.Text.Bytes
		d.logBytes.Add(log.s.written)
		if log.s.gen != 0 {
			want[d.opt.path(log.s.dir, bucketName(logBlocks, log.s.bucket, log.s.gen))] = log.s.written
		}
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
		p := us.part()
		if err := checkPart(p, d.dirs()); err != nil || us.Log < 0 || us.Log >= len(t.sealed) {
			return fmt.Errorf("invalid list %+v: %w", us, err)
		}
		t.uniques = append(t.uniques, uniqueList{part: p, bucket: us.Bucket, log: us.Log})
		name := d.opt.partPath(uniqueKind, p.dir, p.gen)
		want[name] = max(want[name], p.off+p.size)
		if files[p.gen] == nil {
			files[p.gen] = &cacheFile{gen: p.gen, dir: p.dir}
			t.files = append(t.files, files[p.gen])
		}
		files[p.gen].size = want[name]
	}
	d.unstreamed.Store(st.Unstreamed)
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

// countRecords returns the number of records in a buffer, and with text logs the number of the last one's
// text.
func (o *Options) countRecords(t tail) (n uint32, last uint64, err error) {
	var rec keyRecord
	b, last := t.payload, t.base
	for len(b) > 0 {
		size := 0
		if t.slot.kind == keyBlocks {
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
