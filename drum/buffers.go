package drum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// At a checkpoint, the content of partly filled buffers is saved to one append-only file per directory.
// Each checkpoint appends what has entered the buffers since the previous one. A buffer leaves dead bytes
// in the file once it is written to its bucket file or its tuples are merged. When the dead bytes exceed
// the live ones, the next checkpoint saves all buffers of the directory to a new file. So the bytes saved
// again never exceed those saved for the first time. The files take at most twice the content of the
// buffers, three times while a checkpoint replaces a file, plus bufferSlack.
//
// A filling is the life of a buffer from its first record until it is written or dropped. The first Freeze
// that finds it gives it a number. The state lists the fillings in the buffers and the number of bytes of
// each. All other entries of a file are dead.

// bufferSlack is the number of dead bytes that does not justify a new file.
const bufferSlack = 2 * pageBytes

// syncBytes is the number of bytes that Save writes between syncs. Otherwise dirty pages would accumulate,
// and the kernel would then block all writers.
const syncBytes = 32 << 20

// bufferFile is the file of one directory. Freeze and Save, which never overlap, own all fields except live.
type bufferFile struct {
	dir     int
	gen     uint64 // 0: no file yet
	written int64  // whole pages
	// live is the number of bytes in the file whose records are still in buffers.
	live atomic.Int64
}

// crowded reports whether more than half of the file is dead.
func (bf *bufferFile) crowded() bool { return bf.written > 2*bf.live.Load()+bufferSlack }

// vacate ends the filling of a buffer.
func (s *stream) vacate() {
	if s.saved > 0 {
		s.in.live.Add(-int64(s.saved))
	}
	s.fill, s.saved = 0, 0
}

// bufferWriter appends entries to a bufferFile in frames of about frameBytes.
type bufferWriter struct {
	d        *Drum
	bf       *bufferFile
	f        disk.File // nil until the first frame
	frame    []byte
	unsynced int64
}

// frameBytes is the approximate size of a frame.
const frameBytes = 1 << 20

// begin reserves space for the frame's header if the frame is empty.
func (w *bufferWriter) begin() {
	if len(w.frame) == 0 {
		w.frame = append(w.frame, make([]byte, frameHeaderBytes)...)
	}
}

// flush writes the frame.
func (w *bufferWriter) flush() error {
	if len(w.frame) == 0 {
		return nil
	}
	if w.f == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	putFrame(w.frame, w.bf.gen)
	w.frame = binary.LittleEndian.AppendUint64(w.frame, xxhash.Sum64(w.frame))
	end := pageUp(len(w.frame))
	w.frame = slices.Grow(w.frame, end-len(w.frame))[:end]
	clear(w.frame[frameHeaderBytes+frameLength(w.frame)+checksumBytes:])
	if _, err := w.f.WriteAt(w.frame, w.bf.written); err != nil {
		return fmt.Errorf("drum: write %s: %w", w.f.Name(), err)
	}
	w.bf.written += int64(end)
	w.d.counts.bufferWritten.add(end)
	w.frame = w.frame[:0]
	if w.unsynced += int64(end); w.unsynced >= syncBytes {
		w.unsynced = 0
		if err := w.f.Sync(); err != nil {
			return fmt.Errorf("drum: sync %s: %w", w.f.Name(), err)
		}
	}
	return nil
}

// open opens the file, or creates it if it has no content yet.
func (w *bufferWriter) open() (err error) {
	d, name := w.d, w.d.opt.path(w.bf.dir, buffersName(w.bf.gen))
	if w.bf.written > 0 {
		if w.f, err = d.fs().Open(name); err != nil {
			return fmt.Errorf("drum: open %s: %w", name, err)
		}
		return nil
	}
	if w.f, err = d.fs().Create(name); err != nil {
		return fmt.Errorf("drum: create %s: %w", name, err)
	}
	h := disk.Header{Kind: buffersKind, Version: formatVersion, Number: w.bf.gen, Place: uint64(w.bf.dir)}
	if _, err := w.f.WriteAt(h.Append(nil), 0); err != nil {
		return fmt.Errorf("drum: write %s: %w", name, err)
	}
	w.bf.written = pageBytes
	return nil
}

func (w *bufferWriter) close() error {
	err := w.flush()
	if w.f != nil {
		err = errors.Join(err, w.f.Close())
	}
	w.f = nil
	return err
}

// bufferEntry is a part of a buffer in a frame.
type bufferEntry struct {
	fill   uint64
	bucket int
	kind   blockKind
	from   int // bytes of the filling in earlier entries
	base   uint64
	bytes  []byte
}

// savedBuffer is the content of a buffer at a checkpoint, assembled from its entries.
type savedBuffer struct {
	want int64 // bytes
	path string
	kind blockKind
	base uint64
	buf  []byte // space for a block header, then the bytes; nil before the first entry
}

// bytes returns the records read so far.
func (b *savedBuffer) bytes() []byte {
	if b.buf == nil {
		return nil
	}
	return b.buf[bucketHeaderBytes:]
}

// savedBuffers maps fillings to the buffers of a state.
type savedBuffers map[uint64]*savedBuffer

// bufferReader assembles the buffers of a state.
type bufferReader struct {
	opt   *Options
	saved savedBuffers
	// get returns an empty buffer with room for n bytes of payload.
	get func(n int) []byte
	// damaged, if not nil, is called for each unreadable part. If it returns nil, reading continues after
	// that part; a buffer that misses a part keeps what precedes it.
	damaged func(err error) error
	frame   []byte
	// some means that the state names few of the fillings. The reader then reads the entry headers of a
	// frame first, and skips frames without a wanted filling.
	some bool
}

// readBuffers reads the content of the buffers of st, which must be valid. After an error, saved holds the
// buffers allocated so far.
func (r *bufferReader) readBuffers(st *State) error {
	r.saved = savedBuffers{}
	paths := map[int]string{}
	for _, bs := range st.Buffered {
		paths[bs.Dir] = r.opt.path(bs.Dir, buffersName(bs.Gen))
	}
	expect := func(kind blockKind, dir int, s StreamState) error {
		switch {
		case s.Fill == 0:
			return nil
		case r.saved[s.Fill] != nil || paths[dir] == "":
			return r.report(fmt.Errorf("state lists filling %d twice, or has no file for it", s.Fill))
		}
		r.saved[s.Fill] = &savedBuffer{want: s.Buffered, kind: kind, path: paths[dir]}
		return nil
	}
	for i := range st.Inputs {
		is := &st.Inputs[i]
		if err := errors.Join(expect(keyBlocks, is.Dir, is.Keys), expect(auxBlocks, is.Dir, is.Aux)); err != nil {
			return err
		}
	}
	for i := range st.Logs {
		if err := expect(st.Logs[i].kind(), st.Logs[i].Dir, st.Logs[i].Text); err != nil {
			return err
		}
	}
	for _, bs := range st.Buffered {
		if err := r.report(r.file(bs, paths[bs.Dir])); err != nil {
			return err
		}
	}
	for fill, b := range r.saved {
		if n := len(b.bytes()); int64(n) != b.want {
			want := fmt.Sprintf("%d bytes of %s of filling %d", b.want, b.kind, fill)
			if err := r.report(corrupt(b.path, 0, want, fmt.Sprint(n))); err != nil {
				return err
			}
		}
	}
	return nil
}

// report asks damaged whether an error ends the reading.
func (r *bufferReader) report(err error) error {
	if err == nil || r.damaged == nil {
		return err
	}
	return r.damaged(err)
}

// file reads the entries of one file.
func (r *bufferReader) file(bs BufferState, name string) error {
	f, err := r.opt.Set.FS.OpenRead(name)
	if err != nil {
		return fmt.Errorf("drum: open %s: %w", name, err)
	}
	defer f.Close()
	h := disk.Header{Kind: buffersKind, Version: formatVersion, Number: bs.Gen, Place: uint64(bs.Dir)}
	err = disk.CheckHeader(f, h)
	size, sizeErr := f.Size()
	if err == nil && sizeErr == nil && size < bs.Bytes {
		err = corrupt(name, size, fmt.Sprintf("%d bytes", bs.Bytes), fmt.Sprintf("%d bytes", size))
	}
	if err := r.report(errors.Join(err, sizeErr)); err != nil {
		return err
	}
	bs.Bytes = min(bs.Bytes, size)
	for off := int64(pageBytes); off < bs.Bytes; {
		if r.some {
			wanted, size, err := r.wants(f, bs, off)
			if err != nil {
				return err
			}
			if !wanted {
				off += size
				continue
			}
		}
		payload, size, err := r.frameAt(f, bs, off)
		if err == nil {
			err = r.take(payload, name, off+frameHeaderBytes, bs.Bytes)
		}
		if err := r.report(err); err != nil {
			return err
		}
		off += max(size, pageBytes)
		// After an unreadable header, find the next one.
		for ; size == 0 && off < bs.Bytes; off += pageBytes {
			if _, err := r.headAt(f, bs, off); err == nil {
				break
			}
		}
	}
	return nil
}

// wants reports whether the frame at off has an entry of a wanted filling, and returns the frame's size in
// the file.
func (r *bufferReader) wants(f disk.File, bs BufferState, off int64) (wanted bool, size int64, err error) {
	n, err := r.headAt(f, bs, off)
	if err != nil {
		return false, 0, err
	}
	size = pageUp(int64(frameHeaderBytes + n + checksumBytes))
	var head [entryHeaderBytes]byte
	end := off + frameHeaderBytes + int64(n)
	for at := off + frameHeaderBytes; at < end; {
		if err := disk.ReadFull(f, head[:], at); err != nil {
			return false, 0, fmt.Errorf("drum: read %s: %w", f.Name(), err)
		}
		fill, length := entryHead(head[:])
		if r.saved[fill] != nil {
			return true, size, nil
		}
		if at += entryHeaderBytes + length; at > end {
			return true, size, nil // take will report the wrong checksum
		}
	}
	return false, size, nil
}

// headAt returns the length of the payload of the frame at off.
func (r *bufferReader) headAt(f disk.File, bs BufferState, off int64) (int, error) {
	var head [frameHeaderBytes]byte
	if err := disk.ReadFull(f, head[:], off); err != nil {
		return 0, fmt.Errorf("drum: read %s: %w", f.Name(), err)
	}
	n, err := parseFrame(head[:], bs.Gen, f.Name(), off)
	if err == nil && int64(n) > bs.Bytes-off-frameHeaderBytes-checksumBytes {
		err = corrupt(f.Name(), off+16, fmt.Sprintf("a frame up to %d", bs.Bytes), fmt.Sprintf("%d bytes", n))
	}
	return n, err
}

// frameAt returns the payload of the frame at off and the frame's size in the file. The size is 0 if the
// header is unreadable.
func (r *bufferReader) frameAt(f disk.File, bs BufferState, off int64) (payload []byte, size int64, err error) {
	n, err := r.headAt(f, bs, off)
	if err != nil {
		return nil, 0, err
	}
	end := frameHeaderBytes + n
	r.frame = slices.Grow(r.frame[:0], end+checksumBytes)[:end+checksumBytes]
	size = pageUp(int64(len(r.frame)))
	if err := disk.ReadFull(f, r.frame, off); err != nil {
		return nil, size, fmt.Errorf("drum: read %s: %w", f.Name(), err)
	}
	return r.frame[frameHeaderBytes:end], size, checkSum(r.frame[:end], r.frame[end:], f.Name(), off)
}

// take appends the entries of a frame's payload to their buffers. No buffer has more than limit bytes.
func (r *bufferReader) take(b []byte, name string, off, limit int64) error {
	for len(b) > 0 {
		var e bufferEntry
		n := e.parse(b)
		if n == 0 {
			return corrupt(name, off, "an entry", fmt.Sprintf("% x", b[:min(len(b), entryHeaderBytes)]))
		}
		if s := r.saved[e.fill]; s != nil {
			if err := r.report(s.add(&e, r.get, name, off, limit)); err != nil {
				return err
			}
		}
		b = b[n:]
		off += int64(n)
	}
	return nil
}

// add appends an entry, which must continue the bytes read so far.
func (b *savedBuffer) add(e *bufferEntry, get func(n int) []byte, name string, off, limit int64) error {
	n := len(b.bytes())
	if e.kind != b.kind || e.from != n || int64(n+len(e.bytes)) > b.want || b.want > limit {
		return corrupt(name, off, fmt.Sprintf("%s of filling %d from byte %d, up to %d bytes", b.kind, e.fill, n,
			b.want), fmt.Sprintf("%s from byte %d, %d bytes", e.kind, e.from, len(e.bytes)))
	}
	if b.buf == nil {
		b.buf, b.base = get(int(b.want)), e.base
	}
	b.buf = append(b.buf, e.bytes...)
	return nil
}
