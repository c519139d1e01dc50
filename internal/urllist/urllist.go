// Package urllist reads the URLs of lists that archives and crawlers write: one URL a line, CDX and CDXJ files,
// WARC files, and tables in Parquet with a column "url", such as Common Crawl's columnar index.
//
// A file of lines may be compressed by gzip (in any number of members, as ZipNum indexes are) or Zstandard. The form
// is that of each line, so lists can be concatenated:
//
//	URL or host                          nothing else, or a comment after " #"
//	URL 2026-12-24T18:00:00Z             with a deadline, as RFC 3339 has times, and perhaps a comment
//	{"url": "...", ...}                  JSON lines
//	SURT 20240102030405 {"url": "..."}   CDXJ
//	SURT 20240102030405 URL ...          CDX with at least seven fields
//	fields by the last " CDX ..." line   CDX with the URL in the field "a"
//
// Empty lines, comments, headers and pywb's "!" lines have no URL. A WARC file has those of its captures. Lines, rows
// and captures whose URL is not of HTTP (dns:, urn:) or that of a robots.txt, and lines of no known form, are skipped
// and counted. URLs are passed on as they are; whoever reads them checks them.
//
// The content says what a file is, not its name. A Reader holds one line of at most MaxLine bytes in RAM, a window of
// at most MaxWindow of Zstandard, and of Parquet what tabular.ReadColumn does. Damaged data is an error. The package
// starts no goroutines.
package urllist

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"drumbeat/internal/tabular"
	"drumbeat/warc"
)

const (
	// MaxLine is the longest line of a list in bytes. Longer lines are skipped, and counted.
	MaxLine = 1 << 20
	// MaxWindow is the largest window of a Zstandard frame in bytes: that of zstd --long.
	MaxWindow = 128 << 20
	// HeadBytes is the length of the beginning of a file by which IsList and NewReader recognize it.
	HeadBytes = 64 << 10
)

// Beginnings of files.
const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
	dictMagic = "\x5d\x2a\x4d\x18" // the frame of a dictionary, in WARC files
	warcMagic = "WARC/"
)

// Reader turns a list into lines with a URL each. It is an io.Reader, for one goroutine.
type Reader struct {
	lines   *bufio.Reader
	zst     *zstd.Decoder
	pull    func() (url string, err error, ok bool) // of files that do not consist of lines
	stop    func()
	packed  string // how the lines are compressed
	column  int    // of the URL in CDX lines, by the last header; -1: none yet
	line    []byte
	out     []byte
	due     time.Time // deadline of the last line
	URLs    int64     // lines, rows or captures with a URL so far
	Skipped int64     // those without one: headers and comments apart
	// Err is the error that ended the list, other than io.EOF.
	Err error
}

// IsList reports whether a file that begins with head, its first HeadBytes, is more than URLs, one a line, in text.
func IsList(head []byte) bool {
	for _, magic := range []string{gzipMagic, zstdMagic, dictMagic, warcMagic} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	if tabular.IsParquet(head) {
		return true
	}
	for line := range bytes.Lines(head) {
		line = bytes.TrimRight(line, "\r\n")
		if isHeader(line) {
			return true
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '!' {
			fields := bytes.Fields(line)
			return line[0] == '{' || isCDXJ(fields) || isCDX(fields) || isWatch(fields)
		}
	}
	return false
}

// NewReader returns a reader of the list in r. Parquet must be a file: an io.ReaderAt and io.Seeker. The caller must
// call Close.
func NewReader(r io.Reader) (*Reader, error) {
	l := &Reader{column: -1, lines: bufio.NewReaderSize(r, 256<<10)}
	head, err := l.lines.Peek(HeadBytes)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("urllist: %w", err)
	}
	err = nil
	switch {
	case tabular.IsParquet(head):
		err = l.openParquet(r)
	case bytes.HasPrefix(head, []byte(warcMagic)):
		err = errors.New("a WARC file that is not compressed: compress it with one gzip member for each record")
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		err = errors.New("a zip archive: unpack it first")
	case isWARC(head):
		l.push(func(row func(url []byte) error) error {
			return warc.Read(l.lines, 0, func(rec *warc.Record) error {
				if !rec.IsCapture() {
					return nil
				}
				url := strings.Trim(rec.Get("WARC-Target-URI"), "<>") // in angle brackets in WARC/1.0
				return row([]byte(url))
			})
		})
	case bytes.HasPrefix(head, []byte(gzipMagic)):
		var z *gzip.Reader
		if z, err = gzip.NewReader(l.lines); err == nil {
			l.lines = bufio.NewReaderSize(z, 256<<10)
		}
		l.packed = "gzip"
	case bytes.HasPrefix(head, []byte(zstdMagic)):
		if l.zst, err = newZstd(l.lines); err == nil {
			l.lines = bufio.NewReaderSize(l.zst, 256<<10)
		}
		l.packed = "Zstandard"
	}
	if err != nil {
		return nil, l.fail(err)
	}
	return l, nil
}

// fail says what an error means.
func (l *Reader) fail(err error) error {
	if l.packed != "" {
		err = fmt.Errorf("damaged %s data: %w", l.packed, err)
	}
	return fmt.Errorf("urllist: %w", err)
}

func newZstd(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(MaxWindow))
}

// isWARC reports whether the first text of a compressed file is that of a WARC record.
func isWARC(head []byte) bool {
	var first [len(warcMagic)]byte
	switch {
	case bytes.HasPrefix(head, []byte(dictMagic)):
		return true
	case bytes.HasPrefix(head, []byte(gzipMagic)):
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return false
		}
		_, _ = io.ReadFull(z, first[:])
	case bytes.HasPrefix(head, []byte(zstdMagic)):
		z, err := newZstd(bytes.NewReader(head))
		if err != nil {
			return false
		}
		defer z.Close()
		_, _ = io.ReadFull(z, first[:])
	}
	return string(first[:]) == warcMagic
}

// openParquet makes a table's column the rows.
func (l *Reader) openParquet(r io.Reader) error {
	file, ok := r.(interface {
		io.ReaderAt
		io.Seeker
	})
	if !ok {
		return errors.New("a table in Parquet is read only from a file")
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.New("a table in Parquet is read only from a file, not from a pipe")
	}
	l.push(func(row func([]byte) error) error { return tabular.ReadColumn(file, size, "url", row) })
	return nil
}

var errStopped = errors.New("stopped")

// push makes Read return the URLs that each passes to its row, in which it may keep nothing.
func (l *Reader) push(each func(row func(url []byte) error) error) {
	l.pull, l.stop = iter.Pull2(func(yield func(string, error) bool) {
		err := each(func(url []byte) error {
			if !yield(string(url), nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && err != errStopped {
			yield("", err)
		}
	})
}

// Close frees memory.
func (l *Reader) Close() {
	if l.stop != nil {
		l.stop()
	}
	if l.zst != nil {
		l.zst.Close()
	}
}

// Read implements io.Reader.
func (l *Reader) Read(b []byte) (int, error) {
	for len(l.out) == 0 {
		if err := l.next(); err != nil {
			if err != io.EOF {
				err = l.fail(err)
				l.Err = err
			}
			return 0, err
		}
	}
	n := copy(b, l.out)
	l.out = l.out[n:]
	return n, nil
}

// Next returns the next URL or host, and its deadline if the line has one. The error is io.EOF at the end. Use either
// Next or Read.
func (l *Reader) Next() (url string, deadline time.Time, err error) {
	for len(l.out) == 0 {
		l.due = time.Time{}
		if err := l.next(); err != nil {
			if err != io.EOF {
				err = l.fail(err)
			}
			return "", time.Time{}, err
		}
	}
	url = string(l.out[:len(l.out)-1])
	l.out = l.out[:0]
	return url, l.due, nil
}

// next reads a line into out; out stays empty if it has no URL.
func (l *Reader) next() error {
	if l.pull != nil {
		url, err, ok := l.pull()
		if !ok {
			return io.EOF
		}
		if err == nil {
			l.found(httpURL(url))
		}
		return err
	}
	long, err := l.readLine()
	if err != nil && (err != io.EOF || len(l.line) == 0) {
		return err
	}
	line := bytes.TrimSpace(l.line)
	switch {
	case long:
		l.Skipped++
	case len(line) == 0 || line[0] == '#' || line[0] == '!': // pywb's "!meta" lines
	case isHeader(l.line):
		l.column = -1
		for i, field := range bytes.Fields(line)[1:] {
			if string(field) == "a" {
				l.column = i
			}
		}
	default:
		l.found(l.urlOf(line))
	}
	return nil
}

// found takes the URL of a line, "" if it has none.
func (l *Reader) found(url string) {
	if url == "" {
		l.Skipped++
		return
	}
	l.URLs++
	l.out = append(append(l.out[:0], url...), '\n')
}

// readLine reads a line, or skips one that is too long.
func (l *Reader) readLine() (long bool, err error) {
	l.line = l.line[:0]
	for {
		part, err := l.lines.ReadSlice('\n')
		if len(l.line)+len(part) > MaxLine {
			long = true
		} else {
			l.line = append(l.line, part...)
		}
		if err != bufio.ErrBufferFull {
			return long, err
		}
	}
}

// isHeader reports whether a line names the fields of the following CDX lines.
func isHeader(line []byte) bool {
	return bytes.HasPrefix(line, []byte(" CDX ")) || bytes.HasPrefix(line, []byte("CDX "))
}

// isCDXJ reports whether a line has a key, a time and JSON.
func isCDXJ(fields [][]byte) bool { return len(fields) > 2 && fields[2][0] == '{' && digits(fields[1]) }

// isCDX reports whether a line has the fields of a CDX line without a header: key, time, URL and more.
func isCDX(fields [][]byte) bool { return len(fields) >= 7 && digits(fields[1]) }

// isWatch reports whether a line has a URL and a deadline.
func isWatch(fields [][]byte) bool {
	if len(fields) < 2 || len(fields) > 2 && fields[2][0] != '#' {
		return false
	}
	_, err := time.Parse(time.RFC3339, string(fields[1]))
	return err == nil
}

// urlOf returns the URL of a line: "" if it has none that can be crawled.
func (l *Reader) urlOf(line []byte) string {
	fields := bytes.Fields(line)
	switch {
	case line[0] == '{':
		var row struct{ URL string }
		if json.Unmarshal(line, &row) != nil {
			return ""
		}
		return httpURL(row.URL)
	case len(fields) == 1:
		return string(fields[0]) // a URL or a host: the crawl says what is wrong with it
	case isCDXJ(fields):
		var row struct{ URL string }
		if json.Unmarshal(line[bytes.IndexByte(line, '{'):], &row) != nil {
			return ""
		}
		return httpURL(row.URL)
	case l.column >= 0:
		if l.column >= len(fields) {
			return ""
		}
		return httpURL(string(fields[l.column]))
	case isCDX(fields):
		return httpURL(string(fields[2]))
	case isWatch(fields):
		l.due, _ = time.Parse(time.RFC3339, string(fields[1]))
		return string(fields[0])
	case fields[1][0] == '#': // a comment after a seed
		return string(fields[0])
	}
	return ""
}

// httpURL returns a URL of an archive if it is one of HTTP that fits into a line, "" otherwise: dns:, urn:, warcinfo,
// and robots.txt files, which are no pages.
func httpURL(url string) string {
	if lower := strings.ToLower(url[:min(len(url), 8)]); !strings.HasPrefix(lower, "http://") && lower != "https://" {
		return ""
	}
	if len(url) > MaxLine || strings.ContainsAny(url, " \t\r\n\x00") {
		return ""
	}
	if origin, is := strings.CutSuffix(url, "/robots.txt"); is && strings.Count(origin, "/") == 2 {
		return ""
	}
	return url
}

// digits reports whether a field is a time of a CDX line.
func digits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) >= 4 && len(b) <= 17
}
