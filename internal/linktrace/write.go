package linktrace

import (
	"errors"
	"fmt"
	"io/fs"
	gosync "sync"
	"sync/atomic"
	"time"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/bug"
)

// Options of a Writer.
type Options struct {
	FS   disk.FS
	Path string
	// LimitBytes is the maximum size of the file; at least MinLimitBytes.
	LimitBytes int64
	// Pages returns the number of pages of the crawl so far. Add calls it, with a lock held. May be nil.
	Pages func() int64
	// HostDelay is the crawl's delay between requests to a host.
	HostDelay time.Duration
	// Ended is called once if the trace ends before Close: with ErrLimit or an error of the disk. A goroutine of its
	// own calls it, for which Close waits. May be nil.
	Ended func(why error)
}

// MinLimitBytes is the smallest limit: a header and a block.
const MinLimitBytes = disk.HeaderBytes + maxBlock

// ErrLimit is the reason for the end of a trace at its limit.
var ErrLimit = errors.New("linktrace: the trace has reached its limit")

// maxQueued bounds the blocks that wait for the disk: 4 MiB. A crawl of 10,000 pages/s with 59 links each
// fills this in 0.9 s.
const maxQueued = 64

// Writer appends to a trace.
type Writer struct {
	opt            Options
	f              disk.File
	recorded, lost atomic.Int64 // numbers of links
	done           atomic.Bool  // the trace has ended

	mu      gosync.Mutex // guards all fields below; held to copy keys or encode a block, never for I/O
	keys    []drum.Key   // keys of the next block
	gen     uint32
	links   uint64 // links in the blocks passed to the goroutine
	bytes   int64  // size of the file with these blocks
	free    [][]byte
	closed  bool
	ended   bool
	blocks  chan []byte
	writing gosync.WaitGroup
}

// Create opens a trace for appending and creates it if needed. It removes a truncated block at the end.
func Create(opt Options) (*Writer, error) {
	if opt.LimitBytes < MinLimitBytes {
		return nil, fmt.Errorf("linktrace: limit of %d bytes is too small; want at least %d",
			opt.LimitBytes, int64(MinLimitBytes))
	}
	w := &Writer{opt: opt, blocks: make(chan []byte, maxQueued), keys: make([]drum.Key, 0, blockKeys)}
	f, err := opt.FS.Create(opt.Path)
	fresh := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = opt.FS.Open(opt.Path)
	}
	if err != nil {
		return nil, fmt.Errorf("linktrace: open %s: %w", opt.Path, err)
	}
	w.f = f
	if err := w.begin(fresh); err != nil {
		err = fmt.Errorf("linktrace: cannot append to %s; choose another file: %w", opt.Path, err)
		return nil, errors.Join(err, f.Close())
	}
	w.startWriting()
	return w, nil
}

func (w *Writer) begin(fresh bool) error {
	size, err := w.f.Size()
	if err != nil {
		return err
	}
	if fresh || size == 0 {
		w.bytes, w.gen = disk.HeaderBytes, 1
		_, err := w.f.WriteAt(traceHeader().Append(nil), 0)
		return err
	}
	s, err := scan(w.f)
	if err != nil {
		return err
	}
	if s.headBytes != blockHead {
		return errors.New("an earlier release wrote it, in format version 1")
	}
	if s.Generations >= maxGeneration {
		return fmt.Errorf("the file has %d generations, the maximum", s.Generations)
	}
	if s.CutBytes > 0 {
		if err := w.f.Truncate(s.EndBytes); err != nil {
			return err
		}
	}
	w.bytes, w.links, w.gen = s.EndBytes, uint64(s.Links), uint32(s.Generations)+1
	return nil
}

// Add records keys. It drops them if the trace has ended.
func (w *Writer) Add(keys []drum.Key) {
	if w.done.Load() {
		w.lost.Add(int64(len(keys)))
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(keys) > 0 {
		n := min(len(keys), blockKeys-len(w.keys))
		w.keys = append(w.keys, keys[:n]...)
		if keys = keys[n:]; len(w.keys) == blockKeys {
			w.seal()
		}
	}
}

// seal passes the block to the goroutine. Held: mu.
func (w *Writer) seal() {
	n := len(w.keys)
	if n == 0 {
		return
	}
	h := head{keys: uint32(n), generation: w.gen, first: w.links}
	h.at = moment{time: time.Now().UnixMilli(), delay: w.opt.HostDelay.Milliseconds()}
	if w.opt.Pages != nil {
		h.at.pages = w.opt.Pages()
	}
	if w.closed || w.done.Load() {
		w.lose(n)
		return
	}
	if w.bytes+h.bytes(blockHead) > w.opt.LimitBytes {
		w.lose(n)
		w.end(ErrLimit)
		return
	}
	var b []byte
	if k := len(w.free); k > 0 {
		b, w.free = w.free[k-1][:0], w.free[:k-1]
	}
	b = appendBlock(b, h, w.keys)
	select {
	case w.blocks <- b:
		w.links, w.bytes, w.keys = w.links+uint64(n), w.bytes+h.bytes(blockHead), w.keys[:0]
	default: // the disk is too slow
		w.free = append(w.free, b)
		w.lose(n)
		w.gen = min(h.generation+1, maxGeneration)
	}
}

// lose drops the block. Held: mu.
func (w *Writer) lose(n int) {
	w.lost.Add(int64(n))
	w.keys = w.keys[:0]
}

// end ends the trace and reports why, once. Held: mu. Close waits for what it starts: the goroutine that writes has not
// ended.
func (w *Writer) end(why error) {
	w.done.Store(true)
	if !w.ended && w.opt.Ended != nil {
		w.writing.Go(func() { // without mu, which is on the way of links
			defer bug.Fatal()
			w.opt.Ended(why)
		})
	}
	w.ended = true
}

// startWriting starts the goroutine that writes; Close ends it.
func (w *Writer) startWriting() {
	at, failed := w.bytes, false
	w.writing.Go(func() {
		defer bug.Fatal()
		for b := range w.blocks {
			n := (int64(len(b)) - blockHead - blockSum) / 8
			var err error
			if !failed {
				_, err = w.f.WriteAt(b, at)
			}
			if failed = failed || err != nil; failed {
				w.lost.Add(n)
			} else {
				at += int64(len(b))
				w.recorded.Add(n)
			}
			w.mu.Lock()
			if err != nil {
				w.end(fmt.Errorf("linktrace: write %s: %w", w.opt.Path, err))
			}
			w.free = append(w.free, b)
			w.mu.Unlock()
		}
	})
}

// Links returns the number of links written to the file and the number lost since Create. Links in queued
// blocks are in neither; after Close there are none.
func (w *Writer) Links() (recorded, lost int64) { return w.recorded.Load(), w.lost.Load() }

// Close writes the remaining keys and closes the file. It returns only an error of closing; Options.Ended
// gets the others.
func (w *Writer) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.seal()
	w.closed = true
	close(w.blocks)
	w.mu.Unlock()
	w.writing.Wait()
	if err := w.f.Close(); err != nil {
		return fmt.Errorf("linktrace: close %s: %w", w.opt.Path, err)
	}
	return nil
}
