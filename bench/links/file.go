package links

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// maxLine bounds the length of a line, in bytes.
const maxLine = 64 << 10

// Reader reads URLs from a file, one per line; it decompresses a file whose name ends with .gz. The key of
// a URL is a 64-bit hash of its text. Reader skips empty lines.
type Reader struct {
	name   string
	lines  int64
	f      *os.File
	z      *gzip.Reader
	scan   *bufio.Scanner
	repeat bool
	rounds int64
	host   []byte // of this round, before the host of each URL
}

// Open opens a file of URLs.
func Open(name string) (*Reader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	r := &Reader{name: name, f: f}
	if err := r.start(); err != nil {
		f.Close() // read only
		return nil, err
	}
	return r, nil
}

// OpenEndless opens a file of URLs that begins again at its end, on other hosts: the number of the round becomes a
// subdomain of every host, so each round has as many new URLs as the first, in the same order. Next returns no links
// only if the file is empty.
func OpenEndless(name string) (*Reader, error) {
	r, err := Open(name)
	if err == nil {
		r.repeat = true
	}
	return r, err
}

// start begins at the start of the file.
func (r *Reader) start() error {
	in := io.Reader(r.f)
	if strings.HasSuffix(r.name, ".gz") {
		z, err := gzip.NewReader(bufio.NewReaderSize(r.f, 1<<20))
		if err != nil {
			return fmt.Errorf("links: open %s: %w", r.name, err)
		}
		r.z, in = z, z
	}
	r.scan = bufio.NewScanner(in)
	r.scan.Buffer(make([]byte, 1<<20), 1<<20)
	r.lines = 0
	return nil
}

// again begins the next round of an endless file. It returns false if there is none.
func (r *Reader) again() (bool, error) {
	if !r.repeat || r.lines == 0 || r.scan.Err() != nil {
		return false, nil
	}
	if _, err := r.f.Seek(0, io.SeekStart); err != nil {
		return false, fmt.Errorf("links: read %s again: %w", r.name, err)
	}
	r.rounds++
	r.host = append(strconv.AppendInt(append(r.host[:0], 'r'), r.rounds, 10), '.')
	return true, r.start()
}

// appendURL appends a URL, on the host of the round.
func (r *Reader) appendURL(dst, line []byte) []byte {
	if r.rounds > 0 {
		if scheme, rest, ok := bytes.Cut(line, []byte("://")); ok {
			dst = append(append(dst, scheme...), "://"...)
			return append(append(dst, r.host...), rest...)
		}
	}
	return append(dst, line...)
}

// Next fills b with the next n links, fewer at the end of the file, and none after it.
func (r *Reader) Next(b *Batch, n int) error {
	b.reset(n, 0)
	b.Fresh = nil
	b.arena = b.arena[:0]
	for len(b.Texts) < n {
		if !r.scan.Scan() {
			if more, err := r.again(); err != nil {
				return err
			} else if !more {
				break
			}
			continue
		}
		r.lines++
		line := r.scan.Bytes()
		if len(line) > maxLine {
			return fmt.Errorf("links: read %s: line %d has %d bytes, want at most %d", r.name, r.lines,
				len(line), maxLine)
		}
		if len(line) == 0 {
			continue
		}
		// The arena may move while it grows. Until the end the texts only record their lengths; then they
		// become slices of the arena.
		at := len(b.arena)
		b.arena = r.appendURL(b.arena, line)
		text := b.arena[at:]
		b.Keys, b.Texts = append(b.Keys, xxhash.Sum64(text)), append(b.Texts, text)
	}
	at := 0
	for i := range b.Texts {
		end := at + len(b.Texts[i])
		b.Texts[i] = b.arena[at:end:end]
		at = end
	}
	if err := r.scan.Err(); err != nil {
		return fmt.Errorf("links: read %s: after line %d: %w", r.name, r.lines, err)
	}
	return nil
}

// Close closes the file.
func (r *Reader) Close() error {
	var err error
	if r.z != nil {
		err = r.z.Close()
	}
	if err = errors.Join(err, r.f.Close()); err != nil {
		return fmt.Errorf("links: close %s: %w", r.name, err)
	}
	return nil
}
