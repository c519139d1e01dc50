package drum

import (
	"fmt"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/s2"

	"drumbeat/bench/links"
	"drumbeat/disk"
)

// linkBatch is the number of links per call of add; maxBatches bounds the number of such calls per
// goroutine between two readings of the clock. All goroutines begin a round at once and the last one ends
// it, so a round must be long compared with occasional work of one goroutine: coding a 1 MiB block of text
// of 10,000 links.
const (
	linkBatch  = 512
	maxBatches = 128
)

// drumSource yields the links of a run and knows the right answers.
type drumSource struct {
	job    *drumJob
	stream *links.Stream
	file   *links.Reader

	links, fresh, textBytes int64
	verdict                 verdict // of the fresh links
}

func newDrumSource(job *drumJob) (*drumSource, error) {
	s := &drumSource{job: job}
	var err error
	switch {
	case job.URLs != "" && job.Links > 0:
		s.file, err = links.OpenEndless(job.URLs)
	case job.URLs != "":
		s.file, err = links.Open(job.URLs)
	default:
		s.stream, err = links.New(job.Stream)
	}
	if err != nil {
		return nil, fmt.Errorf("bench: drum: %w", err)
	}
	return s, nil
}

// next fills b with at most n links. If links are numbered it appends the numbers to the texts.
func (s *drumSource) next(b *links.Batch, n int) error {
	if s.file != nil {
		if err := s.file.Next(b, n); err != nil {
			return fmt.Errorf("bench: drum: %w", err)
		}
	} else {
		s.stream.Next(b, n)
	}
	for i, text := range b.Texts {
		s.textBytes += int64(len(text))
		if b.Fresh != nil && b.Fresh[i] {
			s.fresh++
			if s.job.Numbered {
				s.verdict.number(uint64(s.links) + uint64(i))
			} else {
				s.verdict.text(text)
			}
		}
	}
	s.links += int64(len(b.Keys))
	return nil
}

func (s *drumSource) close() {
	if s.file != nil {
		_ = s.file.Close() // read only
	}
}

// verdict is an order-independent hash over the links reported as new.
type verdict struct{ sum, count uint64 }

// text adds a link by its text.
func (v *verdict) text(b []byte) {
	v.sum += xxhash.Sum64(b)
	v.count++
}

// number adds a link by its number in the stream.
func (v *verdict) number(n uint64) {
	n ^= n >> 29
	n *= 0xbf58476d1ce4e5b9
	v.sum += n ^ n>>32
	v.count++
}

// drumQueue is the term p of the theorems: it appends the texts of new URLs to a queue on disk. The queue
// restarts at queueBytes to bound its disk space. It is compressed if the form's texts are.
type drumQueue struct {
	f       disk.File
	buf     []byte
	packed  []byte
	pack    bool
	off     int64
	written int64
	found   verdict
	by      bool // links are numbered
}

const (
	queueChunk = 1 << 20
	queueBytes = 256 << 20
)

func newDrumQueue(fs disk.FS, name string, pack, numbered bool) (*drumQueue, error) {
	f, err := fs.Create(name)
	if err != nil {
		return nil, fmt.Errorf("bench: drum: queue: %w", err)
	}
	q := &drumQueue{f: f, pack: pack, buf: disk.Alloc(queueChunk + 64<<10)[:0], by: numbered}
	if pack {
		q.packed = disk.Alloc(s2.MaxEncodedLen(cap(q.buf)))
	}
	return q, nil
}

// append adds a new URL: its text, or its number if links are numbered.
func (q *drumQueue) append(text []byte, number uint64) error {
	if q.by {
		q.found.number(number)
	} else {
		q.found.text(text)
	}
	if len(q.buf)+len(text)+2 > cap(q.buf) {
		if err := q.flush(); err != nil {
			return err
		}
	}
	q.buf = append(append(q.buf, byte(len(text)), byte(len(text)>>8)), text...)
	return nil
}

func (q *drumQueue) flush() error {
	b := q.buf
	if q.pack {
		b = s2.Encode(q.packed[:cap(q.packed)], b)
	}
	if _, err := q.f.WriteAt(b, q.off); err != nil {
		return fmt.Errorf("bench: drum: write queue: %w", err)
	}
	q.written += int64(len(b))
	if q.off += int64(len(b)); q.off > queueBytes {
		q.off = 0
	}
	q.buf = q.buf[:0]
	return nil
}

func (q *drumQueue) close() {
	_ = q.f.Close() // the file is not read
	disk.Free(q.buf[:cap(q.buf)])
	disk.Free(q.packed)
}

// openFS counts open files.
type openFS struct {
	disk.FS
	open, peak atomic.Int64
}

func (o *openFS) count(f disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	n := o.open.Add(1)
	for {
		p := o.peak.Load()
		if n <= p || o.peak.CompareAndSwap(p, n) {
			break
		}
	}
	return &openFile{File: f, fs: o}, nil
}

// Create implements disk.FS.
func (o *openFS) Create(name string) (disk.File, error) { return o.count(o.FS.Create(name)) }

// Open implements disk.FS.
func (o *openFS) Open(name string) (disk.File, error) { return o.count(o.FS.Open(name)) }

// OpenRead implements disk.FS.
func (o *openFS) OpenRead(name string) (disk.File, error) { return o.count(o.FS.OpenRead(name)) }

type openFile struct {
	disk.File
	fs *openFS
}

func (f *openFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}
