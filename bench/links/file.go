package links

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// maxLine bounds the length of a line, in bytes.
const maxLine = 64 << 10

// Reader reads URLs from a file, one per line; it decompresses a file whose name ends with .gz. The key of
// a URL is a 64-bit hash of its text. Reader skips empty lines.
type Reader struct {
	name  string
	lines int64
	f     *os.File
	z     *gzip.Reader
	scan  *bufio.Scanner
}

// Open opens a file of URLs.
func Open(name string) (*Reader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	r := &Reader{name: name, f: f}
	in := io.Reader(f)
	if strings.HasSuffix(name, ".gz") {
		if r.z, err = gzip.NewReader(bufio.NewReaderSize(f, 1<<20)); err != nil {
			f.Close() // read only
			return nil, fmt.Errorf("links: open %s: %w", name, err)
		}
		in = r.z
	}
	r.scan = bufio.NewScanner(in)
	r.scan.Buffer(make([]byte, 1<<20), 1<<20)
	return r, nil
}

// Next fills b with the next n links, fewer at the end of the file, and none after it.
func (r *Reader) Next(b *Batch, n int) error {
	b.reset(n, 0)
	b.Fresh = nil
	b.arena = b.arena[:0]
	ends := 0
	for ends < n && r.scan.Scan() {
		r.lines++
		line := r.scan.Bytes()
		if len(line) > maxLine {
			return fmt.Errorf("links: read %s: line %d has %d bytes, at most %d", r.name, r.lines, len(line), maxLine)
		}
		if len(line) == 0 {
			continue
		}
		b.Keys = append(b.Keys, xxhash.Sum64(line))
		// The arena may move while it grows. Until the end the texts only record their lengths; then they
		// become slices of the arena.
		b.arena = append(b.arena, line...)
		b.Texts = append(b.Texts, line[:len(line):len(line)])
		ends++
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
