package weburl

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
)

// Limits of a URL.
const (
	// DefaultMaxBytes is the default limit of a canonical URL's length, the longest that was in common use
	// when browsers had such limits.
	DefaultMaxBytes = 2083
	// Unlimited lifts the limit.
	Unlimited = -1
	// MaxHostBytes is the limit of a host's length in a canonical URL. DNS carries names of up to 253 bytes,
	// so a longer one names no server; the standard would accept it. It is ErrTooLong.
	MaxHostBytes = 255
	// maxRawHost bounds the host that is looked at at all, as punycode takes quadratic time.
	maxRawHost = 1024
	// maxBaseBytes bounds a base, which is copied for each relative reference of a page.
	maxBaseBytes = 8 << 10
)

// Options of a Resolver. The zero value is ready for use.
type Options struct {
	MaxBytes int // limit of a canonical URL's length in bytes; 0 = DefaultMaxBytes, or Unlimited
	// Fold gives escapes their one spelling, by FoldEscapes. Bases must have it, too.
	Fold bool
}

// Resolver makes canonical URLs of references. It belongs to one goroutine.
type Resolver struct {
	max  int
	fold bool
	// What ends the run of a plain path and of a plain query.
	plain      *[256]uint8
	queryStops uint8

	scratch []byte // the reference without tabs and newlines
	rebased []byte // the last base that Rebase made
	hosts   hostParser
	encoder queryEncoder
}

// NewResolver returns a Resolver.
func NewResolver(opt Options) *Resolver {
	r := &Resolver{max: opt.MaxBytes, fold: opt.Fold, plain: &plainClass, queryStops: encodedInQuery | endsQuery}
	if r.fold {
		r.plain, r.queryStops = &foldClass, encodedInQuery|endsQuery|beginsEscape
	}
	if r.max == 0 {
		r.max = DefaultMaxBytes
	}
	return r
}

// Base is the URL that references are relative to, kept in the form that resolving needs. Reuse it with Set.
type Base struct {
	// Query is the encoding of the page, in which non-ASCII characters of a query travel. nil is UTF-8.
	Query encoding.Encoding

	url     []byte
	hostEnd int   // where the authority ends and the path starts
	dirEnd  int   // behind the last '/' of the path
	pathEnd int   // where the query starts, with its '?'
	dirs    []int // behind each '/' of the path: where "../" leads to
	foreign bool  // another scheme than ours: all that is relative to it is ErrScheme
}

// NewBase returns a Base of a canonical URL.
func NewBase(canonical []byte) (*Base, error) {
	b := new(Base)
	if err := b.Set(canonical); err != nil {
		return nil, err
	}
	return b, nil
}

// Set makes b the base of a canonical URL, which it copies. The encoding is back to UTF-8. ErrParse if it
// isn't one.
func (b *Base) Set(canonical []byte) error {
	p := Split(canonical)
	if p.Scheme == nil || len(p.Host) == 0 || len(p.Path) == 0 {
		return ErrParse
	}
	b.url = append(b.url[:0], canonical...)
	b.hostEnd = len(canonical) - len(p.Path)
	b.pathEnd = len(canonical)
	if i := bytes.IndexByte(p.Path, '?'); i >= 0 {
		b.pathEnd = b.hostEnd + i
	}
	b.dirs = b.dirs[:0]
	for i, c := range b.url[b.hostEnd:b.pathEnd] {
		if c == '/' {
			b.dirs = append(b.dirs, b.hostEnd+i+1)
		}
	}
	b.dirEnd = b.dirs[len(b.dirs)-1]
	b.foreign, b.Query = false, nil
	return nil
}

// URL returns the base, valid until the next Set or Rebase. Empty if Rebase has led to another scheme.
func (b *Base) URL() []byte {
	if b.foreign {
		return nil
	}
	return b.url
}

// Rebase replaces b by what a page's <base href> makes of it: the reference resolved. Where that is no URL, or
// one of data: or javascript:, b stays, as HTML asks; with another foreign scheme relative references are
// foreign. A base may exceed the limit of a URL, up to 8 KiB; beyond that it stays, too.
func (r *Resolver) Rebase(b *Base, href []byte) error {
	limit := r.max
	r.max = maxBaseBytes
	out, err := r.AppendResolve(r.rebased[:0], b, href)
	r.max = limit
	if err == ErrScheme {
		scheme, _ := cutScheme(r.clean(href))
		b.foreign = b.foreign || !isFold(scheme, "data") && !isFold(scheme, "javascript")
	}
	if err != nil {
		return err
	}
	r.rebased = out
	query := b.Query
	err = b.Set(out)
	b.Query = query
	return err
}

// AppendResolve resolves ref, the UTF-8 text of a link, against base and appends the canonical URL to dst.
// base may be nil for a reference that must be absolute. On an error, one of ErrScheme, ErrTooLong and
// ErrParse, it returns dst as it was. ErrScheme comes before ErrParse: a reference of another scheme is not
// looked into.
//
// It takes linear time and, but for hosts other than plain ASCII names and addresses, allocates only what dst
// lacks.
func (r *Resolver) AppendResolve(dst []byte, base *Base, ref []byte) ([]byte, error) {
	var err error
	out, ok := r.appendPlain(dst, base, ref)
	if !ok {
		out, err = r.appendURL(dst, base, r.clean(ref))
		if r.fold && err == nil {
			out = out[:len(dst)+len(FoldEscapes(out[len(dst):]))]
		}
	}
	if err == nil && r.max >= 0 && len(out)-len(dst) > r.max {
		err = ErrTooLong
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Canonical returns the canonical form of an absolute URL, with the default limits.
func Canonical(s string) (string, error) {
	out, err := NewResolver(Options{}).AppendResolve(nil, nil, []byte(s))
	return string(out), err
}

// clean cuts control bytes and spaces off both ends and takes all tabs and newlines out.
func (r *Resolver) clean(ref []byte) []byte {
	for len(ref) > 0 && ref[0] <= ' ' {
		ref = ref[1:]
	}
	for len(ref) > 0 && ref[len(ref)-1] <= ' ' {
		ref = ref[:len(ref)-1]
	}
	i := 0
	for i < len(ref) && !isTabOrNewline(ref[i]) {
		i++
	}
	if i == len(ref) {
		return ref
	}
	r.scratch = append(r.scratch[:0], ref[:i]...)
	for _, c := range ref[i:] {
		if !isTabOrNewline(c) {
			r.scratch = append(r.scratch, c)
		}
	}
	return r.scratch
}

func isTabOrNewline(c byte) bool { return c == '\t' || c == '\n' || c == '\r' }

func isSlash(c byte) bool { return c == '/' || c == '\\' }

// appendURL resolves a cleaned reference. The states of the standard's parser that matter for our two schemes
// fold into: a scheme or none, then two slashes (an authority follows), one (a path) or none (a path to
// append).
func (r *Resolver) appendURL(dst []byte, base *Base, ref []byte) ([]byte, error) {
	https, absolute := false, false
	scheme, rest := cutScheme(ref)
	if scheme != nil {
		switch {
		case isFold(scheme, "http"):
		case isFold(scheme, "https"):
			https = true
		default:
			return dst, ErrScheme
		}
		// "http:x" is relative to a base of the same scheme, and else the host x, however many slashes it
		// lacks.
		absolute = base == nil || base.foreign || base.https() != https ||
			len(rest) >= 2 && rest[0] == '/' && rest[1] == '/'
	} else {
		if base == nil {
			return dst, ErrParse
		}
		if base.foreign {
			return dst, ErrScheme
		}
		https = base.https()
	}
	if absolute || len(rest) >= 2 && isSlash(rest[0]) && isSlash(rest[1]) {
		for len(rest) > 0 && isSlash(rest[0]) {
			rest = rest[1:]
		}
		return r.appendAbsolute(dst, base, https, rest)
	}
	start := len(dst)
	switch {
	case len(rest) == 0 || rest[0] == '#':
		return append(dst, base.url...), nil
	case rest[0] == '?':
		dst = append(dst, base.url[:base.pathEnd]...)
	case isSlash(rest[0]):
		dst = append(dst, base.url[:base.hostEnd]...)
		dst = append(dst, '/')
		dst, rest = appendPath(dst, start+base.hostEnd, rest[1:])
	default:
		dst = append(dst, base.url[:base.dirEnd]...)
		dst, rest = appendPath(dst, start+base.hostEnd, rest)
	}
	return r.appendQuery(dst, base, rest), nil
}

func (b *Base) https() bool { return len(b.url) > 4 && b.url[4] == 's' }

// appendAbsolute appends the URL whose authority starts rest.
func (r *Resolver) appendAbsolute(dst []byte, base *Base, https bool, rest []byte) ([]byte, error) {
	end := 0
	for end < len(rest) && byteClass[rest[end]]&endsHost == 0 {
		end++
	}
	authority, rest := rest[:end], rest[end:]
	if https {
		dst = append(dst, "https://"...)
	} else {
		dst = append(dst, "http://"...)
	}
	dst, err := r.appendAuthority(dst, https, authority)
	if err != nil {
		return dst, err
	}
	pathStart := len(dst)
	dst = append(dst, '/')
	if len(rest) > 0 && isSlash(rest[0]) {
		dst, rest = appendPath(dst, pathStart, rest[1:])
	}
	return r.appendQuery(dst, base, rest), nil
}

// appendAuthority appends host and port, without user and without the default port.
func (r *Resolver) appendAuthority(dst []byte, https bool, authority []byte) ([]byte, error) {
	if i := bytes.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	host, port := authority, []byte(nil)
	bracket := false
	for i, c := range authority {
		if c == '[' {
			bracket = true
		} else if c == ']' {
			bracket = false
		} else if c == ':' && !bracket {
			host, port = authority[:i], authority[i+1:]
			break
		}
	}
	if len(host) == 0 {
		return dst, ErrParse
	}
	start := len(dst)
	dst, err := r.hosts.append(dst, host)
	if err != nil {
		return dst, err
	}
	if len(dst)-start > MaxHostBytes {
		return dst, ErrTooLong
	}
	if len(port) == 0 {
		return dst, nil
	}
	number := 0
	for _, c := range port {
		if c < '0' || c > '9' {
			return dst, ErrParse
		}
		if number = 10*number + int(c-'0'); number > 65535 {
			return dst, ErrParse
		}
	}
	if https && number == 443 || !https && number == 80 {
		return dst, nil
	}
	return strconv.AppendInt(append(dst, ':'), int64(number), 10), nil
}

// appendPath appends the segments of path, up to its query or fragment, to dst, which ends in a '/' and whose
// path starts with the one at pathStart. It returns what it left of path.
func appendPath(dst []byte, pathStart int, path []byte) (out, rest []byte) {
	segment := len(dst)
	for i := 0; ; {
		run := i
		for i < len(path) && byteClass[path[i]]&stopsPath == 0 {
			i++
		}
		dst = append(dst, path[run:i]...)
		if i < len(path) && byteClass[path[i]]&encodedInPath != 0 {
			dst, i = appendEncoded(dst, path, i)
			continue
		}
		switch dots(dst[segment:]) {
		case 1:
			dst = dst[:segment]
		case 2:
			dst = dst[:segment]
			if segment-1 > pathStart {
				dst = dst[:pathStart+bytes.LastIndexByte(dst[pathStart:segment-1], '/')+1]
			}
		default:
			if i < len(path) && isSlash(path[i]) {
				dst = append(dst, '/')
			}
		}
		if i == len(path) || !isSlash(path[i]) {
			return dst, path[i:]
		}
		i++
		segment = len(dst)
	}
}

// dots returns 1 for a "." segment, 2 for a ".." segment, in any of their spellings, and else 0.
func dots(segment []byte) int {
	if len(segment) == 0 || len(segment) > 6 || segment[0] != '.' && segment[0] != '%' {
		return 0
	}
	n := 0
	for len(segment) > 0 {
		switch {
		case segment[0] == '.':
			segment = segment[1:]
		case len(segment) >= 3 && segment[0] == '%' && segment[1] == '2' && segment[2]|0x20 == 'e':
			segment = segment[3:]
		default:
			return 0
		}
		n++
	}
	if n > 2 {
		return 0
	}
	return n
}

// appendQuery appends the query that starts rest, if one does, up to the fragment.
func (r *Resolver) appendQuery(dst []byte, base *Base, rest []byte) []byte {
	if len(rest) == 0 || rest[0] != '?' {
		return dst
	}
	dst = append(dst, '?')
	rest = rest[1:]
	mark := len(dst)
	for i := 0; ; {
		run := i
		for i < len(rest) && byteClass[rest[i]]&(encodedInQuery|endsQuery) == 0 {
			i++
		}
		dst = append(dst, rest[run:i]...)
		if i == len(rest) || rest[i] == '#' {
			return dst
		}
		if base != nil && base.Query != nil && (rest[i] >= utf8.RuneSelf || base.Query == japanese.ISO2022JP) {
			if end := bytes.IndexByte(rest, '#'); end >= 0 {
				rest = rest[:end]
			}
			return r.appendTranscoded(dst[:mark], base.Query, rest)
		}
		dst, i = appendEncoded(dst, rest, i)
	}
}

// appendEncoded appends the percent-encoding of the character at s[i] and returns the place behind it. A byte
// that is not part of UTF-8 text counts as U+FFFD.
func appendEncoded(dst, s []byte, i int) ([]byte, int) {
	if s[i] < utf8.RuneSelf {
		return appendPercent(dst, s[i]), i + 1
	}
	char, size := utf8.DecodeRune(s[i:])
	if char == utf8.RuneError && size == 1 {
		return append(dst, "%EF%BF%BD"...), i + 1
	}
	for _, c := range s[i : i+size] {
		dst = appendPercent(dst, c)
	}
	return dst, i + size
}

func appendPercent(dst []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(dst, '%', digits[c>>4], digits[c&15])
}

// cutScheme splits "scheme:rest"; scheme is nil if there is none.
func cutScheme(ref []byte) (scheme, rest []byte) {
	for i, c := range ref {
		switch {
		case byteClass[c]&isAlpha != 0:
		case i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			return ref[:i], ref[i+1:]
		default:
			return nil, ref
		}
	}
	return nil, ref
}

// isFold reports whether s is word, which is in lower case, in any case.
func isFold(s []byte, word string) bool {
	if len(s) != len(word) {
		return false
	}
	for i, c := range s {
		if c|0x20 != word[i] {
			return false
		}
	}
	return true
}

// IsDotSegment tells whether a path segment means a place, "." or ".." in any of their spellings: no canonical URL has one.
func IsDotSegment(segment []byte) bool { return dots(segment) != 0 }
