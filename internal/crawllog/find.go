package crawllog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

// Find calls fn with the entries of some URLs, the newest files first, and goes on behind damage, which it hands to damaged. It
// ends when fn returns io.EOF, which isn't an error then, and when it has read maxBytes, compressed; cut says that it did. Lines of other
// URLs aren't decoded: some 500 MB of log, uncompressed, take a second. Memory: a frame.
func Find(opt Options, st *State, urls []string, maxBytes int64, fn func(*Entry) error, damaged func(error) error) (cut bool, err error) {
	if err := opt.defaults(); err != nil {
		return false, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrame))
	if err != nil {
		return false, fmt.Errorf("crawllog: find: %w", err)
	}
	defer dec.Close()
	all, err := outfile.List(opt.outfile(), &st.Files)
	if err != nil {
		return false, fmt.Errorf("crawllog: find: %w", err)
	}
	f := finder{want: map[string]bool{}}
	for _, url := range urls {
		f.want[string(appendString(nil, url, maxURL))] = true
	}
	s := scanner{dec: dec, fn: fn, damaged: damaged, sum: &Scanned{}, only: f.wanted}
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

// finder knows the lines of some URLs.
type finder struct {
	want map[string]bool // URLs as they stand in a line, quotes included
}

// What a line has before its URL: Append's form.
const (
	lineHead  = `{"ts":"`
	lineURL   = `","url":`
	beforeURL = len(lineHead) + len(timeForm) + len(lineURL)
)

// wanted tells whether a line is of one of the URLs; of lines of another form, whether decoding it says so.
func (f *finder) wanted(line []byte) bool {
	if len(line) <= beforeURL || string(line[:len(lineHead)]) != lineHead || string(line[beforeURL-len(lineURL):beforeURL]) != lineURL {
		var e Entry
		return json.Unmarshal(line, &e) != nil || f.want[string(appendString(nil, e.URL, maxURL))]
	}
	url := line[beforeURL:]
	for end := 1; ; end++ {
		i := bytes.IndexAny(url[end:], `"\`)
		if i < 0 {
			return true // no line of ours: that is for the decoder to say
		}
		if end += i; url[end] == '"' {
			return f.want[string(url[:end+1])]
		}
		if end++; end >= len(url) {
			return true
		}
	}
}
