package crawllog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"drumbeat/disk"
)

// Find calls fn with the entries of some URLs, the newest files first. It passes damage to damaged and
// continues after it. It stops without an error if fn returns io.EOF, or when it has read maxBytes
// (compressed); then cut is true. Lines of other URLs are not decoded: 500 MB of log, uncompressed, take
// about a second. Memory: one frame.
func Find(opt Options, st *State, urls []string, maxBytes int64,
	fn func(*Entry) error, damaged func(error) error) (cut bool, err error) {
	s, all, err := newScanner(&opt, st, fn, damaged)
	if err != nil {
		return false, fmt.Errorf("crawllog: find: %w", err)
	}
	defer s.dec.Close()
	f := finder{want: map[string]bool{}}
	for _, url := range urls {
		f.want[string(appendString(nil, url, maxURL))] = true
	}
	s.only = f.wanted
	lines, err := disk.ReadTail(opt.State, st.Lines)
	if err != nil {
		if err := damaged(err); err != nil {
			return false, err
		}
	}
	err = s.lines(lines, fmt.Sprintf("tails-%010d", st.Lines.Gen), st.Lines.Off)
	for _, c := range slices.Backward(all) {
		if err != nil || s.sum.Bytes >= maxBytes {
			break
		}
		err = s.file(&opt, c.Streams[0])
	}
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("crawllog: find: %w", err)
	}
	return s.sum.Bytes >= maxBytes, nil
}

// finder selects the lines of some URLs.
type finder struct {
	want map[string]bool // URLs in the form of a line, with quotes
}

// The text before the URL in a line, as Append writes it.
const (
	lineHead  = `{"ts":"`
	lineURL   = `","url":`
	beforeURL = len(lineHead) + len(timeForm) + len(lineURL)
)

// wanted reports whether a line is for one of the URLs. It decodes lines of another form than Append's.
func (f *finder) wanted(line []byte) bool {
	if len(line) <= beforeURL || string(line[:len(lineHead)]) != lineHead ||
		string(line[beforeURL-len(lineURL):beforeURL]) != lineURL {
		var e Entry
		return json.Unmarshal(line, &e) != nil || f.want[string(appendString(nil, e.URL, maxURL))]
	}
	url := line[beforeURL:]
	for end := 1; ; end++ {
		i := bytes.IndexAny(url[end:], `"\`)
		if i < 0 {
			return true // not a line of Append: the decoder reports it
		}
		if end += i; url[end] == '"' {
			return f.want[string(url[:end+1])]
		}
		if end++; end >= len(url) {
			return true
		}
	}
}
