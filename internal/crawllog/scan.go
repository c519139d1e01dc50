package crawllog

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

const (
	frameMagic = "\x28\xb5\x2f\xfd"
	// maxFrame bounds a frame in the file and in RAM; the frames of a Log have a few hundred KiB.
	maxFrame = 64 << 20
)

// Scanned counts the data that Scan read.
type Scanned struct {
	Files, Lines, Bytes int64
	Absent, Of          int64 // files that are not there, of all that the state covers
}

// Scan reads a whole log: the final files and the data that st names. It passes damage to damaged and
// continues after it. It calls fn with each entry, valid during the call. Missing final files are not an
// error: they may have been moved away. Memory: one frame.
func Scan(opt Options, st *State, fn func(*Entry) error, damaged func(error) error) (Scanned, error) {
	var sum Scanned
	s, all, err := newScanner(&opt, st, fn, damaged)
	if err != nil {
		return sum, fmt.Errorf("crawllog: scan: %w", err)
	}
	defer s.dec.Close()
	s.sum = &sum
	sum.Absent, sum.Of = outfile.Absent(all, &st.Files, 0)
	for i := range all {
		if err := s.file(&opt, all[i].Streams[0]); err != nil {
			return sum, fmt.Errorf("crawllog: scan: %w", err)
		}
	}
	lines, err := disk.ReadTail(opt.State, st.Lines)
	if err != nil {
		return sum, damaged(err)
	}
	sum.Bytes += int64(len(lines))
	return sum, s.lines(lines, fmt.Sprintf("tails-%010d", st.Lines.Gen), st.Lines.Off)
}

// newScanner returns a scanner with an open decoder, and the files of a log.
func newScanner(opt *Options, st *State, fn func(*Entry) error, damaged func(error) error) (*scanner, []outfile.Content,
	error) {
	if err := opt.defaults(); err != nil {
		return nil, nil, err
	}
	all, err := outfile.List(opt.outfile(), &st.Files)
	if err != nil {
		return nil, nil, err
	}
	dec, err := newDecoder()
	return &scanner{dec: dec, fn: fn, damaged: damaged, sum: &Scanned{}}, all, err
}

// newDecoder returns a decoder of single frames.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrame))
}

type scanner struct {
	dec     *zstd.Decoder
	fn      func(*Entry) error
	damaged func(error) error
	sum     *Scanned
	only    func(line []byte) bool // if set, other lines aren't decoded
	frame   []byte
	text    []byte
}

func (s *scanner) file(opt *Options, c outfile.StreamContent) error {
	if c.Path == "" && c.Tail.Len == 0 {
		return nil
	}
	b, err := c.Open(opt.Set.FS, opt.State)
	if err != nil {
		if err := s.damaged(err); err != nil {
			return err
		}
	}
	if b == nil {
		return nil
	}
	s.sum.Files++
	s.sum.Bytes += b.Size()
	return errors.Join(s.frames(c, b), b.Close())
}

// frames reads frame after frame.
func (s *scanner) frames(c outfile.StreamContent, b *outfile.Bytes) error {
	for off := int64(0); off < b.Size(); {
		n, err := s.load(b, off)
		if err == nil {
			if err := s.lines(s.text, c.Path, off); err != nil {
				return err
			}
			off += n
			continue
		}
		err = s.damaged(&disk.CorruptError{Path: c.Path, Offset: off, Want: "a zstd frame", Got: err.Error()})
		if err != nil {
			return err
		}
		off = disk.FindMagic(b, off+1, b.Size(), frameMagic, func(at int64) bool {
			_, err := s.load(b, at)
			return err == nil
		})
		if off < 0 {
			return nil
		}
	}
	return nil
}

// load decodes the frame at off into s.text and returns its length in the file.
func (s *scanner) load(b *outfile.Bytes, off int64) (int64, error) {
	n, err := frameLength(b, off)
	if err != nil {
		return 0, err
	}
	if int64(cap(s.frame)) < n {
		s.frame = make([]byte, n)
	}
	s.frame = s.frame[:n]
	if _, err := b.ReadAt(s.frame, off); err != nil {
		return 0, err
	}
	s.text, err = s.dec.DecodeAll(s.frame, s.text[:0])
	return n, err
}

// frameLength returns the length of a frame from its block headers (RFC 8878 3.1.1), without decoding.
func frameLength(b *outfile.Bytes, off int64) (int64, error) {
	head := make([]byte, min(zstd.HeaderMaxSize, b.Size()-off))
	if _, err := b.ReadAt(head, off); err != nil {
		return 0, err
	}
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		return 0, err
	}
	n := int64(h.HeaderSize)
	for {
		var block [3]byte
		if _, err := b.ReadAt(block[:], off+n); err != nil {
			return 0, err
		}
		bits := int64(block[0]) | int64(block[1])<<8 | int64(block[2])<<16
		size := bits >> 3
		if kind := bits >> 1 & 3; kind == 1 {
			size = 1
		}
		n += int64(len(block)) + size
		if n > maxFrame {
			return 0, fmt.Errorf("frame of more than %d bytes", maxFrame)
		}
		if bits&1 != 0 {
			break
		}
	}
	if h.HasCheckSum {
		n += 4
	}
	if off+n > b.Size() {
		return 0, fmt.Errorf("frame of %d bytes, but the file has only %d more", n, b.Size()-off)
	}
	return n, nil
}

// lines decodes whole lines and calls fn with their entries.
func (s *scanner) lines(text []byte, path string, off int64) error {
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if s.only != nil && whole && !s.only(line) {
			text = rest
			continue
		}
		var e Entry
		err := e.UnmarshalJSON(line)
		if err == nil && !whole {
			err = errors.New("no end of line")
		}
		if err != nil {
			err := s.damaged(&disk.CorruptError{Path: path, Offset: off, Want: "a line of JSON", Got: err.Error()})
			if err != nil {
				return err
			}
		} else {
			s.sum.Lines++
			if err := s.fn(&e); err != nil {
				return err
			}
		}
		text = rest
	}
	return nil
}

// Files returns the options of the store of the log's files.
func (o Options) Files() outfile.Options {
	_ = o.defaults() // without a directory there are no files
	return o.outfile()
}
