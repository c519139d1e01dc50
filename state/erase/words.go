package erase

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"drumbeat/weburl"
)

// words finds targets in text and in bytes of any kind: URLs with their schemes, and names of hosts. It leaves out the
// keys of an index (org,example)/a), which lack www, so that they may be those of another host: the URL is beside them.
// It belongs to one goroutine.
type words struct {
	t        *Targets
	resolver *weburl.Resolver
	plain    bool // a host of a target has no dot
	buf, url []byte
}

func newWords(t *Targets, resolver *weburl.Resolver) *words {
	w := &words{t: t, resolver: resolver}
	for _, rule := range t.Names {
		w.plain = w.plain || !strings.Contains(rule, ".")
	}
	return w
}

// wordBytes is the length of a read.
const wordBytes = 256 << 10

// isWord has the bytes of a URL as crawl, index and JSON write it, and \ of JSON.
var isWord = func() (is [256]bool) {
	for c := '!'; c <= '~'; c++ {
		is[c] = !strings.ContainsRune("\"<>", c)
	}
	return is
}()

// scan calls found with each word that names a target, and its offset. The word is valid during the call. It returns
// the number of bytes. A word of more than MaxTargetBytes is looked at in parts.
func (w *words) scan(r io.Reader, found func(at int64, word []byte) error) (n int64, _ error) {
	if w.buf == nil {
		w.buf = make([]byte, MaxTargetBytes+wordBytes)
	}
	kept := 0 // bytes of the word at the end of the buffer
	for {
		got, err := io.ReadFull(r, w.buf[kept:])
		end := err != nil
		if end && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return n, err
		}
		text := w.buf[:kept+got]
		base := n - int64(kept)
		n += int64(got)
		at := 0
		for at < len(text) {
			if !isWord[text[at]] {
				at++
				continue
			}
			to := at + 1
			for to < len(text) && isWord[text[to]] {
				to++
			}
			if to == len(text) && !end && to-at < MaxTargetBytes {
				break
			}
			if w.names(text[at:to]) {
				if err := found(base+int64(at), text[at:to]); err != nil {
					return n, err
				}
			}
			at = to
		}
		if end {
			return n, nil
		}
		kept = copy(w.buf, text[at:])
	}
}

// in reports whether a text names a target.
func (w *words) in(text string) bool {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r > '~' || !isWord[byte(r)] }) {
		if w.names([]byte(word)) {
			return true
		}
	}
	return false
}

// names reports whether a word names a target.
func (w *words) names(word []byte) bool {
	if bytes.Contains(word, []byte(`\u0026`)) {
		word = bytes.ReplaceAll(word, []byte(`\u0026`), []byte{'&'})
	}
	for rest := word; ; {
		at := bytes.Index(rest, []byte("://"))
		if at < 0 {
			break
		}
		for _, scheme := range []string{"http", "https"} {
			if bytes.HasSuffix(bytes.ToLower(rest[:at]), []byte(scheme)) && w.isURL(rest[at-len(scheme):]) {
				return true
			}
		}
		rest = rest[at+3:]
	}
	return w.t.Hosts+w.t.PLDs > 0 && w.namesHost(word)
}

// isURL reports whether a URL is a target, or what precedes punctuation at its end.
func (w *words) isURL(text []byte) bool {
	if at := bytes.IndexByte(text, '\\'); at >= 0 {
		text = text[:at]
	}
	for range 4 {
		if w.t.Via(text) {
			return true
		}
		if url, err := w.resolver.AppendResolve(w.url[:0], nil, text); err == nil {
			if w.url = url; w.t.Via(url) {
				return true
			}
		}
		if n := len(text); n == 0 || !bytes.ContainsAny(text[n-1:], ".,;:!?)]}'*|`") {
			return false
		}
		text = text[:len(text)-1]
	}
	return false
}

func inName(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// namesHost reports whether a word has the name of a host that is a target.
func (w *words) namesHost(word []byte) bool {
	for at := 0; at < len(word); {
		if !inName(word[at]) {
			at++
			continue
		}
		to, dots := at, 0
		for to < len(word) && (inName(word[to]) || word[to] == '.') {
			if word[to] == '.' {
				dots++
			}
			to++
		}
		name := bytes.ToLower(bytes.Trim(word[at:to], "."))
		if (dots > 0 || w.plain) && w.t.Host(name) {
			return true
		}
		at = to
	}
	return false
}
