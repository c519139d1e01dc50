package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

// Indexed is a capture as described by an index line.
type Indexed struct {
	Capture
	Time      time.Time // start of the fetch
	MIME      string
	Redirect  string // target of the response's redirect, or ""
	Truncated string
	Simhash   uint64 // of the page's text; 0: none
}

// Find calls fn for each of the canonical urls that an index lists as a page, the newest files first. It
// searches final indexes, which are sorted, with about 20 reads of 4 KiB each, and reads the others
// completely. It ignores indexes that were moved away. It passes unreadable data to damaged and continues.
// It stops when all urls have been found.
func Find(opt Options, st *State, urls []string, fn func(*Indexed) error, damaged func(error) error) error {
	keys := map[string][]string{}
	left := 0
	for _, url := range urls {
		all := keyPrefixes(url)
		if slices.Contains(keys[all[0]], url) {
			continue
		}
		left++
		for _, key := range all {
			keys[key] = append(keys[key], url)
		}
	}
	prefixes := make([]string, 0, len(keys))
	for key := range keys {
		prefixes = append(prefixes, key)
	}
	slices.Sort(prefixes)
	return searchIndexes(opt, st, damaged, func(x *indexFile) error {
		take := func(text []byte) error {
			end := bytes.IndexByte(text, ' ')
			if end < 0 {
				return nil
			}
			list := keys[string(text[:end+1])]
			if len(list) == 0 {
				return nil
			}
			found, err := x.parse(text)
			if err != nil || found.Kind != KindPage || !slices.Contains(list, found.URL) {
				return err
			}
			for _, key := range keyPrefixes(found.URL) {
				keys[key] = slices.DeleteFunc(keys[key], func(u string) bool { return u == found.URL })
			}
			left--
			if err := fn(found); err != nil || left > 0 {
				return err
			}
			return errFound
		}
		if !x.sorted {
			return x.lines(0, take)
		}
		for _, prefix := range prefixes {
			if len(keys[prefix]) == 0 {
				continue
			}
			if err := x.withPrefix([]byte(prefix), take); err != nil {
				return err
			}
		}
		return nil
	})
}

// FindHost calls fn for captures of the host of a canonical URL, on all ports and schemes, the newest files
// first, until fn returns enough. Of each index it reads only the first maxBytes of the host's lines.
func FindHost(opt Options, st *State, url string, maxBytes int64, fn func(url string) (enough bool),
	damaged func(error) error) error {
	hostOf := func(url string) string {
		host, _, _, _ := splitURL(appendLower(nil, appendURL(nil, url)))
		return string(host)
	}
	host := hostOf(url)
	if host == "" {
		return nil
	}
	var prefixes []string // for example com,example) and com,example:8080)
	for _, form := range []KeyForm{KeyPywb, keyFormer} {
		key := string(appendReversed(nil, []byte(host), form))
		prefixes = append(prefixes, key+")", key+":")
	}
	slices.Sort(prefixes)
	prefixes = slices.Compact(prefixes)
	begins := func(text []byte) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return bytes.HasPrefix(text, []byte(p)) })
	}
	return searchIndexes(opt, st, damaged, func(x *indexFile) error {
		left := maxBytes
		take := func(text []byte) error {
			if !begins(text) {
				return nil
			}
			if left -= int64(len(text)); left < 0 {
				return errNext
			}
			found, err := x.parse(text)
			// The key of an IPv6 address may begin as that of a shorter one with a port.
			same := err == nil && (host[0] != '[' || hostOf(found.URL) == host)
			if same && found.Kind == KindPage && fn(found.URL) {
				err = errFound
			}
			return err
		}
		if !x.sorted {
			return x.lines(0, take)
		}
		for _, p := range prefixes {
			if err := x.withPrefix([]byte(p), take); err != nil {
				return err
			}
		}
		return nil
	})
}

// Errors that end the search of all files, or of the current one.
var (
	errFound = errors.New("found")
	errNext  = errors.New("next file")
)

// searchIndexes calls search for each index, the newest first.
func searchIndexes(opt Options, st *State, damaged func(error) error, search func(x *indexFile) error) error {
	return searchContents(opt, st, damaged, func(*outfile.Content) {}, search)
}

// searchContents is searchIndexes that calls orphan for volumes whose index was moved away.
func searchContents(opt Options, st *State, damaged func(error) error, orphan func(*outfile.Content),
	search func(x *indexFile) error) error {
	opt.defaults()
	all, err := outfile.List(opt.outfile(), &st.Files)
	if err != nil {
		return fmt.Errorf("warc: find: %w", err)
	}
	// Names begin with the time.
	slices.SortStableFunc(all, func(a, b outfile.Content) int { return cmp.Compare(b.Name, a.Name) })
	for i := range all {
		s := all[i].Streams[indexStream]
		if s.Path == "" && s.Tail.Len == 0 {
			orphan(&all[i])
			continue
		}
		b, err := s.Open(opt.Set.FS, opt.State)
		if err == nil {
			err = search(&indexFile{b: b, path: s.Path, sorted: s.Changed, data: all[i].Streams[dataStream]})
		}
		if b != nil {
			err = errors.Join(err, b.Close())
		}
		switch {
		case errors.Is(err, errFound):
			return nil
		case err != nil && !errors.Is(err, errNext):
			if err := damaged(fmt.Errorf("warc: find in %s: %w", s.Path, err)); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexFile is an index being searched.
type indexFile struct {
	b      *outfile.Bytes
	path   string
	sorted bool
	data   outfile.StreamContent // the WARC file
}

// indexPage is the size of a read in a search, in bytes.
const indexPage = 4096

// lines calls fn for each line from offset from on, at which a line begins.
func (x *indexFile) lines(from int64, fn func(text []byte) error) error {
	r := bufio.NewReaderSize(io.NewSectionReader(x.b, from, x.b.Size()-from), indexPage)
	if !x.sorted {
		r = bufio.NewReaderSize(io.NewSectionReader(x.b, from, x.b.Size()-from), 1<<20)
	}
	for {
		text, err := readBounded(r)
		if len(text) == 0 && err == io.EOF {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		if err := fn(text); err != nil {
			return err
		}
	}
}

// maxIndexLine bounds an index line in bytes: a URL and a redirect with each byte escaped, and more.
const maxIndexLine = 1 << 20

// readBounded reads a line with its end. A damaged index may have none.
func readBounded(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxIndexLine {
			return nil, fmt.Errorf("a line of more than %d bytes", maxIndexLine)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// withPrefix calls fn for the lines of a sorted index that begin with prefix.
func (x *indexFile) withPrefix(prefix []byte, fn func(text []byte) error) error {
	// A line that is below prefix, or the first one, begins at lo. Lines from hi on are not below prefix.
	lo, hi := int64(0), x.b.Size()
	var low, high []byte // the lines found at lo and hi
	for hi-lo > indexPage {
		mid := (lo + hi) / 2
		at, text, err := x.lineFrom(mid)
		if err != nil {
			return err
		}
		if text != nil && at < hi {
			// Damage must not mislead the search.
			text, _, _ = bytes.Cut(text, []byte{'\n'})
			if !isIndexLine(text) || bytes.Compare(text, low) < 0 || high != nil && bytes.Compare(text, high) > 0 {
				return &disk.CorruptError{Path: x.path, Offset: at, Want: "a line in order",
					Got: fmt.Sprintf("%.60q", text)}
			}
			if bytes.Compare(text, prefix) < 0 {
				lo, low = at, text
				continue
			}
			high = text
		}
		hi = mid
	}
	err := x.lines(lo, func(text []byte) error {
		switch {
		case bytes.HasPrefix(text, prefix):
			return fn(text)
		case bytes.Compare(text, prefix) > 0:
			return errBeyond
		}
		return nil
	})
	if errors.Is(err, errBeyond) {
		return nil
	}
	return err
}

// isIndexLine reports whether a line, or its beginning, has a key, a time and an object.
func isIndexLine(line []byte) bool {
	_, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok || len(rest) < len(stamp14)+2 {
		return len(line) >= indexPage-1 // the beginning of a long key
	}
	for _, c := range rest[:len(stamp14)] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return string(rest[len(stamp14):][:2]) == " {"
}

var errBeyond = errors.New("beyond")

// lineFrom returns the first line that begins at or after an offset, up to indexPage bytes of it; nil after
// the last line.
func (x *indexFile) lineFrom(off int64) (at int64, text []byte, err error) {
	buf := make([]byte, indexPage)
	for at = off; at < x.b.Size(); {
		n, err := x.b.ReadAt(buf, max(0, at-1))
		if err != nil && err != io.EOF {
			return 0, nil, err
		}
		if at == 0 {
			return 0, buf[:n], nil
		}
		i := bytes.IndexByte(buf[:n], '\n')
		if i < 0 {
			at += int64(n)
			if n == 0 {
				break
			}
			continue
		}
		at += int64(i)
		if at >= x.b.Size() {
			break
		}
		n, err = x.b.ReadAt(buf, at)
		if err != nil && err != io.EOF {
			return 0, nil, err
		}
		return at, buf[:n], nil
	}
	return x.b.Size(), nil, nil
}

// parse parses a line.
func (x *indexFile) parse(text []byte) (*Indexed, error) {
	fields := strings.SplitN(strings.TrimSuffix(string(text), "\n"), " ", 3)
	fail := func(what string) (*Indexed, error) {
		return nil, fmt.Errorf("%s in %q", what, text[:min(len(text), 60)])
	}
	if len(fields) != 3 {
		return fail("no key, time or object")
	}
	var o indexObject
	if err := json.Unmarshal([]byte(fields[2]), &o); err != nil {
		return fail("invalid JSON object")
	}
	if !disk.PlainName(o.Filename) {
		return fail("no plain file name")
	}
	if !distinctKeys(fields[2]) {
		return fail("a repeated key")
	}
	when, err0 := time.Parse(stamp14, fields[1])
	status, err1 := strconv.Atoi(o.Status)
	length, err2 := strconv.ParseInt(o.Length, 10, 64)
	offset, err3 := strconv.ParseInt(o.Offset, 10, 64)
	simhash, err4 := uint64(0), error(nil)
	if o.Simhash != "" {
		simhash, err4 = strconv.ParseUint(o.Simhash, 16, 64)
	}
	if errors.Join(err0, err1, err2, err3, err4) != nil {
		return fail("invalid number or time")
	}
	return &Indexed{
		Capture: Capture{File: o.Filename, Offset: offset, Length: length, URL: string(latin1(o.URL)),
			Status: status, Digest: o.Digest, Kind: kindOf(o.URL, o.Type)},
		Time: when, MIME: o.MIME, Redirect: o.Redirect, Truncated: o.Truncated, Simhash: simhash,
	}, nil
}
