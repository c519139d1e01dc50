package baselines

import (
	"context"
	"io"

	"drumbeat/disk"
)

// textRoom is the room in front of a chunk for the rest of a text or of a record of Polybot's file. Rooms
// and chunks are whole pages so that disk.Direct can bypass the page cache; large slices begin at a page
// boundary.
const textRoom = 3 * disk.DirectAlign

// chunkBytes returns the size of single reads and writes for a store with ram bytes. It is 1 MiB, above
// which disks don't get faster, or less if four chunks would exceed a sixteenth of the RAM.
func chunkBytes(ram int64) int {
	return int(min(1<<20, max(64<<10, ram/64))) / disk.DirectAlign * disk.DirectAlign
}

// reader reads a file from start to end. It reads the next chunk while the caller uses the current one.
type reader struct {
	f         disk.File
	off, size int64
	room      int // bytes in front of each chunk, for the rest of the one before
	chunk     int
	bufs      [2][]byte // room + chunk each
	at        int
	busy      bool // a read into bufs[at^1] is under way
	done      chan readResult
}

type readResult struct {
	n   int
	err error
}

// newReader reads the first size bytes of f. a and b are buffers of room + chunk bytes.
func newReader(f disk.File, size int64, room int, a, b []byte) *reader {
	r := &reader{f: f, size: size, room: room, chunk: len(a) - room, bufs: [2][]byte{a, b}}
	r.done = make(chan readResult, 1)
	r.startRead()
	return r
}

// startRead starts to read the next chunk, if there is one, into the unused buffer.
func (r *reader) startRead() {
	n := int(min(int64(r.chunk), r.size-r.off))
	if n == 0 {
		return
	}
	p, off := r.bufs[r.at^1][r.room:r.room+n], r.off
	r.off += int64(n)
	r.busy = true
	go func() {
		got, err := r.f.ReadAt(p, off)
		if got == len(p) {
			err = nil
		} else if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		r.done <- readResult{got, err}
	}()
}

// more returns rest, at most room bytes, followed by the next chunk; at the end, rest alone. It invalidates
// the slice that it returned before.
func (r *reader) more(ctx context.Context, rest []byte) ([]byte, error) {
	if !r.busy {
		return rest, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	got := <-r.done
	r.busy = false
	if got.err != nil {
		return nil, got.err
	}
	r.at ^= 1
	buf := r.bufs[r.at]
	start := r.room - len(rest)
	copy(buf[start:], rest)
	r.startRead()
	return buf[start : r.room+got.n], nil
}

// end reports whether the file has no further chunk.
func (r *reader) end() bool { return !r.busy }

// stop waits for the read that is under way.
func (r *reader) stop() {
	if r.busy {
		<-r.done
		r.busy = false
	}
}

// writer writes a file from its start. It writes a chunk while the caller fills the next one.
type writer struct {
	f    disk.File
	off  int64 // offset of buf in the file
	buf  []byte
	next []byte
	busy bool // next is being written
	done chan error
}

// newWriter writes to f in chunks of the size of the buffers.
func newWriter(f disk.File, a, b []byte) *writer {
	return &writer{f: f, buf: a[:0], next: b[:0], done: make(chan error, 1)}
}

// size returns the number of bytes accepted.
func (w *writer) size() int64 { return w.off + int64(len(w.buf)) }

// room returns the free bytes in the current chunk, at least 1 after a call of flush.
func (w *writer) room() int { return cap(w.buf) - len(w.buf) }

// write appends p.
func (w *writer) write(p []byte) error {
	for {
		n := min(len(p), w.room())
		w.buf = append(w.buf, p[:n]...)
		if p = p[n:]; len(p) == 0 {
			return nil
		}
		if err := w.flush(); err != nil {
			return err
		}
	}
}

// flush starts to write the current chunk, after it has waited for the one before.
func (w *writer) flush() error {
	if err := w.stop(); err != nil {
		return err
	}
	if len(w.buf) == 0 {
		return nil
	}
	p, off := w.buf, w.off
	w.off += int64(len(p))
	w.buf, w.next = w.next[:0], w.buf
	w.busy = true
	go func() {
		_, err := w.f.WriteAt(p, off)
		w.done <- err
	}()
	return nil
}

// finish writes the rest and waits for it.
func (w *writer) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.stop()
}

// stop waits for the write that is under way.
func (w *writer) stop() error {
	if !w.busy {
		return nil
	}
	w.busy = false
	return <-w.done
}

// buffers returns n buffers of size bytes each.
func buffers(n, size int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = make([]byte, size)
	}
	return all
}
