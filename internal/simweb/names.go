package simweb

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// The directories of paths, to which robots rules refer by number.
const (
	dirTop = iota
	dirA
	dirDocs
	dirDocsV2
	dirPrivate
	dirPrivateOpen
	dirTmp
	dirCafe
	numDirs
)

var dirNames = [numDirs]string{
	"", "a/", "docs/", "docs/v2/", "private/", "private/open/", "tmp/", "caf%C3%A9/",
}

// The forms of a path below its directory.
const (
	formHTML   = iota // p17.html
	formSlash         // n17/
	formID            // view?id=17
	formLangID        // view?lang=en&id=17
	formPlain         // p17
	formPDF           // f17.pdf
	formPNG           // f17.png
	formJSON          // f17.json
	formText          // f17.txt
	numForms
)

var formParts = [numForms][2]string{
	{"p", ".html"}, {"n", "/"}, {"view?id=", ""}, {"view?lang=en&id=", ""}, {"p", ""},
	{"f", ".pdf"}, {"f", ".png"}, {"f", ".json"}, {"f", ".txt"},
}

// shape draws the directory and form of an index of a live host. They depend only on the index and its kind.
func shape(h *host, page uint32, k Kind) (dir, form int) {
	x := hash(h.key, uint64(page), saltPath)
	dir = pick(x&0xff, [8]uint64{62, 51, 46, 26, 20, 15, 20, 16})
	if k == NonHTML {
		return dir, formPDF + int(x>>32&3)
	}
	return dir, pick(x>>8&0xff, [8]uint64{128, 38, 26, 26, 38})
}

// pick returns the slot of x in [0, 256) among widths that sum to 256.
func pick(x uint64, widths [8]uint64) int {
	for i := range len(widths) - 1 {
		if x < widths[i] {
			return i
		}
		x -= widths[i]
	}
	return len(widths) - 1
}

// appendPath appends the path and query of a node.
func (w *Web) appendPath(dst []byte, n node) []byte {
	h := &w.hosts[n.host]
	dst = append(dst, '/')
	switch {
	case n.page == 0 && n.hop == 0:
		return dst
	case n.hop > 0:
		dst = append(dst, "hop/"...)
		dst = strconv.AppendUint(dst, uint64(n.hop), 10)
		dst = append(dst, '/')
		return strconv.AppendUint(dst, uint64(n.page), 10)
	case h.kind != liveHost:
		dst = append(dst, 'c')
		dst = strconv.AppendUint(dst, uint64(n.page), 10)
		return append(dst, ".html"...)
	}
	dir, form := shape(h, n.page, w.kind(h, n.page))
	dst = append(dst, dirNames[dir]...)
	dst = append(dst, formParts[form][0]...)
	dst = strconv.AppendUint(dst, uint64(n.page), 10)
	return append(dst, formParts[form][1]...)
}

// appendHost appends a node's host name.
func (w *Web) appendHost(dst []byte, n node) []byte {
	h := &w.hosts[n.host]
	if h.kind == spamHost {
		dst = append(dst, 's')
		dst = strconv.AppendUint(dst, n.sub, 10)
		return append(dst, h.name[2:]...)
	}
	return append(dst, h.name...)
}

// appendURL appends a node's canonical URL.
func (w *Web) appendURL(dst []byte, n node) []byte {
	h := &w.hosts[n.host]
	if h.kind == spamHost {
		dst = append(dst, "http://"...)
		dst = w.appendHost(dst, n)
	} else {
		dst = append(dst, h.origin...)
	}
	return w.appendPath(dst, n)
}

func (w *Web) url(n node) string { return string(w.appendURL(nil, n)) }

// find looks up a host by its lower-case ASCII name; sub is the number of a spam host.
func (w *Web) find(name string) (host int32, sub uint64, ok bool) {
	if i, ok := w.byName[name]; ok {
		return i, 0, true
	}
	if w.spam < 0 {
		return -1, 0, false
	}
	label, isSpam := strings.CutSuffix(name, w.hosts[w.spam].name[2:])
	if !isSpam || strings.IndexByte(label, '.') >= 0 {
		return -1, 0, false
	}
	if digits, ok := strings.CutPrefix(label, "s"); ok {
		if n, err := strconv.ParseUint(digits, 10, 32); err == nil && (digits[0] != '0' || digits == "0") {
			return w.spam, n, true
		}
	}
	return w.spam, 1 << 40, true // resolves, because the name server answers for every name, but has no pages
}

// parsePath finds the node of a path by its last number, and compares the path of that node, which it
// paints into scratch.
func (w *Web) parsePath(i int32, sub uint64, path []byte, scratch *[]byte) (node, bool) {
	h := &w.hosts[i]
	n := node{host: i, sub: sub}
	if len(path) == 1 && path[0] == '/' {
		return n, h.pages > 0 || h.kind == spamHost && sub < 1<<32
	}
	end := len(path)
	for end > 0 && !isDigit(path[end-1]) {
		end--
	}
	start := end
	for start > 0 && end-start < 10 && isDigit(path[start-1]) {
		start--
	}
	var x uint64
	for _, c := range path[start:end] {
		x = x*10 + uint64(c-'0')
	}
	limit := uint64(h.pages)
	if h.kind == spamHost {
		if sub >= 1<<32 {
			return n, false
		}
		limit = 1 << 32
	}
	if start == end || x >= limit {
		return n, false
	}
	n.page = uint32(x)
	if rest, ok := bytes.CutPrefix(path, []byte("/hop/")); ok && len(rest) > 0 && isDigit(rest[0]) {
		n.hop = rest[0] - '0'
		if n.hop == 0 || n.hop > w.lastHop(h, n.page, w.kind(h, n.page)) {
			return n, false
		}
	}
	*scratch = w.appendPath((*scratch)[:0], n)
	return n, bytes.Equal(*scratch, path)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// parseURL finds the node of a canonical URL.
func (w *Web) parseURL(url string) (node, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	slash := strings.IndexByte(rest, '/')
	if !ok || slash < 0 {
		return node{}, fmt.Errorf("simweb: parse %q: no canonical URL", url)
	}
	name, _, _ := strings.Cut(rest[:slash], ":")
	i, sub, ok := w.find(name)
	if !ok {
		return node{}, fmt.Errorf("simweb: parse %q: no such host", url)
	}
	var scratch []byte
	n, ok := w.parsePath(i, sub, []byte(rest[slash:]), &scratch)
	if !ok || w.url(n) != url {
		return node{}, fmt.Errorf("simweb: parse %q (%s): no such URL", url, scheme)
	}
	return n, nil
}
