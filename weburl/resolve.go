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
	// DefaultMaxBytes is the default limit of a canonical URL's length, the longest in common use when
	// browsers had such limits.
	DefaultMaxBytes = 2083
	// Unlimited removes the limit.
	Unlimited = -1
	// MaxHostBytes is the limit of a host's length in a canonical URL. The DNS has names of up to 253 bytes,
	// so a longer one names no server. It is ErrTooLong here, although the standard accepts it.
	MaxHostBytes = 255
	// maxRawHost bounds the hosts that are parsed at all, because punycode takes quadratic time.
	maxRawHost = 1024
	// maxBaseBytes bounds a base, which is copied for each relative reference of a page.
	maxBaseBytes = 8 << 10
)

// Options configure a Resolver. The zero value is usable.
type Options struct {
	MaxBytes int // limit of a canonical URL's length; 0 = DefaultMaxBytes, or Unlimited
	// Fold applies FoldEscapes. Bases must be folded too.
	Fold bool
}

// Resolver converts references to canonical URLs. It belongs to one goroutine.
type Resolver struct {
	max  int
	fold bool
	// The class table and the classes that end a plain path and a plain query.
	plain      *[256]uint8
	queryStops uint8

	scratch []byte // the reference without tabs and newlines
	rebased []byte // the last base made by Rebase
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

// Base is the URL to which references are relative, prepared for resolving. Reuse it with Set.
type Base struct {
	// Query is the encoding of non-ASCII characters in queries, that of the page; nil means UTF-8.
	Query encoding.Encoding

	url     []byte
	hostEnd int   // end of the authority, start of the path
	dirEnd  int   // index after the last '/' of the path
	pathEnd int   // start of the query, '?' included
	dirs    []int // index after each '/' of the path: the targets of "../"
	foreign bool  // another scheme: relative references are ErrScheme
}

// NewBase returns a Base for a canonical URL.
func NewBase(canonical []byte) (*Base, error) {
	b := new(Base)
	if err := b.Set(canonical); err != nil {
		return nil, err
	}
	return b, nil
}

// Set sets b to a canonical URL, which it copies, and resets the encoding to UTF-8. The error is ErrParse if
// the URL is not canonical.
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

// URL returns the base, valid until the next Set or Rebase; nil if Rebase changed it to another scheme.
func (b *Base) URL() []byte {
	if b.foreign {
		return nil
	}
	return b.url
}

// Rebase applies a page's <base href> to b. If the reference is invalid or has the scheme data or
// javascript, b stays, as HTML specifies. With another foreign scheme, relative references become ErrScheme.
// A base may exceed the limit of a URL, up to 8 KiB; a longer one is ignored.
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
// base may be nil if ref must be absolute. On an error, which is ErrScheme, ErrTooLong or ErrParse, it
// returns dst unchanged. ErrScheme takes precedence over ErrParse: references of other schemes are not
// parsed.
//
// It takes linear time. It allocates only to grow dst, or for hosts that are not plain ASCII names or
// addresses.
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

// Canonical returns the canonical form of an absolute URL within the default limits.
func Canonical(s string) (string, error) {
	out, err := NewResolver(Options{}).AppendResolve(nil, nil, []byte(s))
	return string(out), err
}

// clean trims control bytes and spaces from both ends and removes all tabs and newlines.
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

// appendURL resolves a cleaned reference. For http and https the states of the standard's parser reduce to:
// an optional scheme, followed by two slashes (an authority), one slash (an absolute path) or none (a
// relative path).
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
		// "http:x" is relative if the base has the same scheme. Otherwise x is the host, however many
		// slashes are missing.
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

// appendAbsolute appends the URL whose authority begins rest.
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

// appendAuthority appends host and port, without user and default port.
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

// appendPath appends the segments of path, up to its query or fragment, to dst. dst ends in '/', and its
// path starts with the '/' at pathStart. It returns the rest of path.
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

// dots returns 1 for a "." segment and 2 for a ".." segment, in any spelling, else 0.
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

// appendQuery appends the query at the start of rest, if there is one, without the fragment.
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

// appendEncoded appends the percent-encoding of the character at s[i] and returns the index after it.
// Invalid UTF-8 becomes U+FFFD.
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

// isFold reports whether s equals word, which is in lower case, ignoring case.
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

// IsDotSegment reports whether a path segment is "." or ".." in any spelling. Canonical URLs have no such
// segments.
func IsDotSegment(segment []byte) bool { return dots(segment) != 0 }
