package admit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/cespare/xxhash/v2"

	"drumbeat/crawl/state"
	"drumbeat/internal/bug"
	"drumbeat/weburl"
)

// ParseSeed reads one line of a seed file: "" for a blank line or comment; the canonical URL otherwise. bare is true
// for a host name without a scheme: https is tried first, then http.
func ParseSeed(line string) (url string, bare bool, err error) {
	err = bug.Contained(func() (err error) {
		url, bare, err = parseSeed(line)
		return err
	})
	return url, bare, err
}

func parseSeed(line string) (url string, bare bool, err error) {
	line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
	if i := strings.Index(line, " #"); i >= 0 {
		line = strings.TrimSpace(line[:i])
	}
	if line == "" || line[0] == '#' {
		return "", false, nil
	}
	if !HasScheme(line) {
		bare = true
		line = "https://" + line
	}
	url, err = weburl.Canonical(line)
	if err != nil {
		return "", false, err
	}
	return url, bare, nil
}

// HasScheme tells "mailto:x" and "http://host" from "host:8080/path".
func HasScheme(line string) bool {
	scheme, rest, ok := strings.Cut(line, ":")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#[") || rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		return false
	}
	return strings.HasPrefix(rest, "//") || !strings.Contains(scheme, ".")
}

// ScanSeeds reads a seed file once: its checksum (xxhash64), and the sites that --scope needs.
func ScanSeeds(file io.Reader, p *Policy) (uint64, error) {
	h := xxhash.New()
	src := io.TeeReader(file, h)
	if p.Sites.kind == state.ScopeAll {
		if _, err := io.Copy(io.Discard, src); err != nil {
			return 0, fmt.Errorf("crawl: read seeds: %w", err)
		}
		return h.Sum64(), nil
	}
	lines := NewLineReader(src)
	for {
		line, _, err := lines.Next()
		if err == io.EOF {
			return h.Sum64(), nil
		}
		if err != nil {
			return 0, fmt.Errorf("crawl: read seeds: %w", err)
		}
		url, _, err := p.ParseSeed(line)
		if err != nil || url == "" {
			continue
		}
		host := weburl.Split([]byte(url)).Host
		if err := p.Sites.include(host, p.Hasher.PLDKey(p.Suffixes.PLDBytes(host))); err != nil {
			return 0, err
		}
	}
}

// MaxSeedLine bounds a line of the seed file, in bytes; longer ones are refused and counted.
const MaxSeedLine = 64 << 10

// lineReader cuts lines and counts bytes; an overlong line comes back empty with its length.
type lineReader struct {
	br   *bufio.Reader
	line []byte
}

// NewLineReader reads lines of at most MaxSeedLine bytes.
func NewLineReader(r io.Reader) *lineReader { return &lineReader{br: bufio.NewReaderSize(r, 128<<10)} }

// Next returns a line without its end, and the bytes that it took in the file.
func (l *lineReader) Next() (line []byte, n int64, err error) {
	l.line = l.line[:0]
	long := false
	for {
		part, err := l.br.ReadSlice('\n')
		n += int64(len(part))
		if !long && len(l.line)+len(part) <= MaxSeedLine {
			l.line = append(l.line, part...)
		} else {
			long = true
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && (err != io.EOF || n == 0) {
			return nil, n, err
		}
		if long {
			return []byte("line-too-long"), n, nil
		}
		return bytes.TrimRight(l.line, "\r\n"), n, nil
	}
}
