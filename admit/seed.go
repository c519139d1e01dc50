package admit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/cespare/xxhash/v2"

	"drumbeat/internal/bug"
	"drumbeat/state"
	"drumbeat/weburl"
)

// ParseSeed parses a line of a seed file. It returns the canonical URL, or "" for a blank line or comment.
// bare is true for a host name without scheme: the crawler tries https first, then http.
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

// HasScheme reports whether a seed starts with a scheme: true for "mailto:x" and "http://host", false for
// "host:8080/path".
func HasScheme(line string) bool {
	scheme, rest, ok := strings.Cut(line, ":")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#[") || rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		return false
	}
	return strings.HasPrefix(rest, "//") || !strings.Contains(scheme, ".")
}

// ScanSeeds reads a seed file, returns its xxhash64, and adds the sites that --scope needs to p.Sites.
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

// firstSeedLines bounds the search of FirstSeeds in a file of comments and faults.
const firstSeedLines = 1000

// FirstSeeds returns up to n URLs from the begin of a seed file, where a host without a scheme has the one that is
// tried first.
func FirstSeeds(file io.Reader, n int) (urls []string) {
	lines := NewLineReader(file)
	for range firstSeedLines {
		line, _, err := lines.Next()
		if err != nil || len(urls) == n {
			break
		}
		if url, _, err := ParseSeed(string(line)); err == nil && url != "" {
			urls = append(urls, url)
		}
	}
	return urls
}

// ExtendScope adds the site of a seed that came while the crawl runs to p.Sites, which keeps it across
// restarts.
func (p *Policy) ExtendScope(url []byte) {
	host := weburl.Split(url).Host
	p.Sites.extend(host, p.Hasher.PLDKey(p.Suffixes.PLDBytes(host)))
}

// maxSeedLine limits a line of the seed file, in bytes. Longer lines are refused and counted.
const maxSeedLine = 64 << 10

// lineReader splits lines and counts bytes. For an overlong line it returns the text "line too long", which is no URL.
type lineReader struct {
	br   *bufio.Reader
	line []byte
}

// NewLineReader returns a reader of lines of at most maxSeedLine bytes.
func NewLineReader(r io.Reader) *lineReader { return &lineReader{br: bufio.NewReaderSize(r, 128<<10)} }

// Next returns a line without its end, and its length in the file. The line is valid until the next call.
func (l *lineReader) Next() (line []byte, n int64, err error) {
	l.line = l.line[:0]
	long := false
	for {
		part, err := l.br.ReadSlice('\n')
		n += int64(len(part))
		if !long && len(l.line)+len(part) <= maxSeedLine {
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
			return []byte("line too long"), n, nil
		}
		return bytes.TrimRight(l.line, "\r\n"), n, nil
	}
}
