// Package urllist reads the URLs of lists that archives and crawlers write: one URL a line, CDX files, and
// CDXJ files, each of them also compressed by gzip (in any number of members, as ZipNum indexes are).
//
// The form is that of each line, so lists can be concatenated:
//
//	URL or host                          nothing else, or a comment after " #"
//	SURT 20240102030405 {"url": "..."}   CDXJ
//	SURT 20240102030405 URL ...          CDX with at least seven fields
//	fields by the last " CDX ..." line   CDX with the URL in the field "a"
//
// Empty lines, comments, headers and pywb's "!" lines have no URL. Lines whose URL is not of HTTP (dns:,
// urn:), and lines of no known form, are skipped and counted. URLs are passed on as they are; whoever reads
// them checks them.
//
// A Reader holds one line of at most MaxLine bytes in RAM. Damaged gzip data is an error. The package does no
// I/O of its own and starts no goroutines.
package urllist

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// MaxLine is the longest line of a list in bytes. Longer lines are skipped, and counted.
const MaxLine = 1 << 20

// Reader turns a list into lines with a URL each. It is an io.Reader, for one goroutine.
type Reader struct {
	lines   *bufio.Reader
	gz      *gzip.Reader
	column  int // of the URL in CDX lines, by the last header; -1: none yet
	line    []byte
	out     []byte
	URLs    int64 // lines with a URL so far
	Skipped int64 // lines without one: headers and comments apart
}

// NewReader returns a reader of the list in r.
func NewReader(r io.Reader) (*Reader, error) {
	l := &Reader{column: -1, lines: bufio.NewReaderSize(r, 256<<10)}
	magic, err := l.lines.Peek(2)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("urllist: %w", err)
	}
	if string(magic) == "\x1f\x8b" {
		if l.gz, err = gzip.NewReader(l.lines); err != nil {
			return nil, fmt.Errorf("urllist: gzip: %w", err)
		}
		l.lines = bufio.NewReaderSize(l.gz, 256<<10)
	}
	return l, nil
}

// Read implements io.Reader.
func (l *Reader) Read(b []byte) (int, error) {
	for len(l.out) == 0 {
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, l.out)
	l.out = l.out[n:]
	return n, nil
}

// next reads a line into out; out stays empty if it has no URL.
func (l *Reader) next() error {
	long, err := l.readLine()
	if err != nil && (err != io.EOF || len(l.line) == 0) {
		if err != io.EOF {
			err = fmt.Errorf("urllist: %w", err)
		}
		return err
	}
	line := bytes.TrimSpace(l.line)
	switch {
	case long:
		l.Skipped++
	case len(line) == 0 || line[0] == '#' || line[0] == '!': // pywb's "!meta" lines
	case bytes.HasPrefix(l.line, []byte(" CDX ")) || bytes.HasPrefix(l.line, []byte("CDX ")):
		l.column = -1
		for i, field := range bytes.Fields(line)[1:] {
			if string(field) == "a" {
				l.column = i
			}
		}
	default:
		url := l.urlOf(line)
		if url == "" {
			l.Skipped++
			return nil
		}
		l.URLs++
		l.out = append(append(l.out[:0], url...), '\n')
	}
	return nil
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

// urlOf returns the URL of a line: "" if it has none that can be crawled.
func (l *Reader) urlOf(line []byte) string {
	fields := bytes.Fields(line)
	var url string
	switch {
	case len(fields) == 1:
		return string(fields[0]) // a URL or a host: the crawl says what is wrong with it
	case len(fields) > 2 && fields[2][0] == '{' && digits(fields[1]): // CDXJ: key, time, JSON
		var row struct{ URL string }
		if json.Unmarshal(line[bytes.IndexByte(line, '{'):], &row) != nil {
			return ""
		}
		url = row.URL
	case l.column >= 0:
		if l.column >= len(fields) {
			return ""
		}
		url = string(fields[l.column])
	case len(fields) >= 7 && digits(fields[1]): // CDX without a header: key, time, URL
		url = string(fields[2])
	case string(fields[1]) == "#" || fields[1][0] == '#': // a comment after a seed
		return string(fields[0])
	}
	if lower := strings.ToLower(url[:min(len(url), 8)]); !strings.HasPrefix(lower, "http://") && lower != "https://" {
		return "" // dns:, urn:, warcinfo
	}
	if strings.ContainsAny(url, " \t\r\n") {
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
