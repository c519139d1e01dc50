package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/html/charset"

	"drumbeat/internal/mimetype"
)

// Limits of the protocol and of the cost of one sitemap.
const (
	MaxURLs  = 50_000   // URLs of a sitemap, or sitemaps of an index
	MaxBytes = 50 << 20 // of a sitemap, uncompressed
	MaxLoc   = 8 << 10  // bytes of a URL's text; a longer one is a fault

	maxLayers = 2         // layers of gzip
	maxRatio  = 200       // uncompressed to received bytes, beyond freeRatio; as for pages
	freeRatio = 1 << 20   // bytes
	maxDepth  = 64        // nested elements
	maxTag    = 64 << 10  // bytes
	sniffs    = 4 << 10   // the root element must be within the first bytes
	buffer    = 32 << 10  // bytes of the buffer of each stream
	maxFaults = 1_000_000 // the count of faults ends here

	maxTranslationBytes = 64 << 10 // of the codes and URLs of the translations of an entry; the rest is left out
)

// Form is the form of a sitemap.
type Form uint8

const (
	None   Form = iota // not a sitemap
	URLSet             // pages
	Index              // other sitemaps
	List               // text with one URL a line
	RSS                // of any version
	Atom
	Packed // gzip; only Sniff returns it
)

var formNames = [...]string{"none", "urlset", "sitemapindex", "list", "rss", "atom", "packed"}

func (f Form) String() string {
	if int(f) < len(formNames) {
		return formNames[f]
	}
	return fmt.Sprintf("form %d", uint8(f))
}

// Reasons why reading ended early. The URLs found before stay valid.
var (
	ErrForm   = errors.New("sitemap: not a sitemap")
	ErrLong   = errors.New("sitemap: more bytes than the limit")
	ErrMany   = errors.New("sitemap: more URLs than the limit")
	ErrDTD    = errors.New("sitemap: document type with declarations")
	ErrDeep   = errors.New("sitemap: elements nested too deeply")
	ErrTag    = errors.New("sitemap: tag too long")
	ErrLayers = errors.New("sitemap: too many layers of gzip")
	ErrBroken = errors.New("sitemap: truncated or damaged")
)

// Options of Read.
type Options struct {
	// ContentType is the value of the header; its charset is used. May be empty.
	ContentType string
	// MaxURLs and MaxBytes lower the limits of the protocol; 0 keeps them.
	MaxURLs  int
	MaxBytes int64
	// Translations bounds those of an entry that are read.
	Translations int
}

// Summary is the result of Read.
type Summary struct {
	Form   Form
	URLs   int   // passed to found
	Faults int   // URLs and lines that could not be parsed
	Bytes  int64 // uncompressed bytes
}

// DefaultPriority is the priority of a URL for which a sitemap has none, by the protocol.
const DefaultPriority = 0.5

// Translation is another version of a page: an alternate link with hreflang in a url element, as search engines
// read it beside the protocol. The code is as it was written.
type Translation struct{ Code, URL []byte }

// Entry is a URL in a sitemap. Priority is that of the urlset, from 0 to 1, and DefaultPriority in other forms.
type Entry struct {
	Form     Form // never Packed
	URL      []byte
	Priority float64
	Modified time.Time // lastmod of the urlset; the zero time if it has none that is a date
	// Bases are the xml:base of the elements around a link in a feed, the outermost first. Links in feeds may be
	// relative: to these, and the first of these to the URL of the feed. In other forms URLs are absolute.
	Bases [][]byte
	// Translations are those of a URL in a urlset.
	Translations []Translation
}

// Read reads a sitemap and calls found with each URL. found must not keep Entry.URL,
// Entry.Bases or Entry.Translations. Read returns one of the errors above if it ended early, or the error of found.
func Read(body []byte, opt Options, found func(Entry) error) (Summary, error) {
	if opt.MaxURLs <= 0 || opt.MaxURLs > MaxURLs {
		opt.MaxURLs = MaxURLs
	}
	if opt.MaxBytes <= 0 || opt.MaxBytes > MaxBytes {
		opt.MaxBytes = MaxBytes
	}
	r := reader{opt: opt, found: found}
	src, err := r.unpack(body)
	if err == nil {
		err = r.read(src)
	}
	if r.counted != nil {
		r.sum.Bytes = r.counted.n
	}
	return r.sum, err
}

// reader is the state of one Read.
type reader struct {
	opt     Options
	found   func(Entry) error
	sum     Summary
	counted *counter
	feed    feed

	translations     []Translation // of the url element
	translationBytes int
}

// counter ends a stream with ErrLong at a limit. It wraps other errors in ErrBroken.
type counter struct {
	src     io.Reader
	n, most int64
	err     error // returned by all later reads
}

func (c *counter) Read(p []byte) (n int, err error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.n < c.most {
		n, c.err = c.src.Read(p[:min(int64(len(p)), c.most-c.n)])
		c.n += int64(n)
	} else if n, c.err = c.src.Read(p[:1]); n > 0 {
		n, c.err = 0, ErrLong
	}
	if c.err != nil && c.err != io.EOF && c.err != ErrLong {
		c.err = fmt.Errorf("%w: %w", ErrBroken, c.err)
	}
	return n, c.err
}

var gzipMagic = []byte{0x1f, 0x8b}

// unpack removes the layers of gzip.
func (r *reader) unpack(body []byte) (*bufio.Reader, error) {
	var src io.Reader = bytes.NewReader(body)
	for layer := 0; ; layer++ {
		most := r.opt.MaxBytes
		if layer > 0 { // the ratio limits all layers together
			most = min(most, max(maxRatio*int64(len(body)), freeRatio))
		}
		r.counted = &counter{src: src, most: most}
		in := bufio.NewReaderSize(r.counted, buffer)
		head, _ := in.Peek(len(gzipMagic)) // an error returns when the bytes before it have been read
		if !bytes.Equal(head, gzipMagic) {
			return in, nil
		}
		if layer == maxLayers {
			return nil, ErrLayers
		}
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBroken, err)
		}
		src = z
	}
}

// read detects encoding and form, and reads the URLs.
func (r *reader) read(in *bufio.Reader) error {
	in = r.decoded(in)
	head, err := in.Peek(sniffs)
	switch r.sum.Form = sniff(head); r.sum.Form {
	case None:
		if err != nil && err != io.EOF && len(head) < sniffs {
			return err // the bytes before the error don't show the form
		}
		if bytes.Contains(head, []byte("<!DOCTYPE")) && hasSubset(head) {
			return ErrDTD
		}
		return ErrForm
	case List:
		return r.list(in)
	}
	x := scanner{in: in, r: r}
	return x.run()
}

// decoded converts the text to UTF-8 without a byte order mark.
func (r *reader) decoded(in *bufio.Reader) *bufio.Reader {
	head, _ := in.Peek(sniffs)
	label := ""
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		_, _ = in.Discard(3)
		return in
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("<\x00")):
		label = "utf-16le"
	case bytes.HasPrefix(head, []byte("\xfe\xff")), bytes.HasPrefix(head, []byte("\x00<")):
		label = "utf-16be"
	default:
		label = mimetype.Extract(r.opt.ContentType).Charset()
		if label == "" {
			label = declared(head)
		}
		if e, name := charset.Lookup(label); e == nil || name == "utf-8" || strings.HasPrefix(name, "utf-16") {
			return in // no encoding, an unknown one, or one that the bytes contradict
		}
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		_, _ = in.Discard(2)
	}
	e, _ := charset.Lookup(label)
	return bufio.NewReaderSize(e.NewDecoder().Reader(in), buffer)
}

// declared returns the encoding of an XML declaration; "" without one.
func declared(head []byte) string {
	head = bytes.TrimLeft(head, " \t\r\n")
	if !bytes.HasPrefix(head, []byte("<?xml")) {
		return ""
	}
	end := bytes.Index(head, []byte("?>"))
	if end < 0 {
		return ""
	}
	at := bytes.Index(head[:end], []byte("encoding"))
	if at < 0 {
		return ""
	}
	rest := bytes.TrimLeft(head[at+len("encoding"):end], " \t\r\n=")
	if len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
		return ""
	}
	value, _, ok := bytes.Cut(rest[1:], rest[:1])
	if !ok {
		return ""
	}
	return string(value)
}

// Sniff detects the form of a body from its beginning. It returns feeds as their own forms, because many
// pages link to feeds.
func Sniff(body []byte) Form {
	if bytes.HasPrefix(body, gzipMagic) {
		return Packed
	}
	body = body[:min(len(body), sniffs)]
	r := reader{}
	head, _ := r.decoded(bufio.NewReader(bytes.NewReader(body))).Peek(sniffs)
	return sniff(head)
}

// sniff detects the form from the beginning of a text in UTF-8.
func sniff(head []byte) Form {
	head = bytes.TrimLeft(head, " \t\r\n\x00")
	if len(head) == 0 || head[0] != '<' {
		if isURL(firstLine(head)) {
			return List
		}
		return None
	}
	for {
		head = bytes.TrimLeft(head, " \t\r\n")
		end := ""
		switch {
		case bytes.HasPrefix(head, []byte("<?")):
			end = "?>"
		case bytes.HasPrefix(head, []byte("<!--")):
			end = "-->"
		case bytes.HasPrefix(head, []byte("<!")):
			if hasSubset(head) {
				return None
			}
			end = ">"
		case bytes.HasPrefix(head, []byte("<")):
			return rootForm(head[1:])
		default:
			return None
		}
		at := bytes.Index(head, []byte(end))
		if at < 0 {
			return None
		}
		head = head[at+len(end):]
	}
}

// hasSubset reports whether the first document type of a text has declarations.
func hasSubset(head []byte) bool {
	at := bytes.Index(head, []byte("<!DOCTYPE"))
	if at < 0 {
		return false
	}
	end := bytes.IndexByte(head[at:], '>')
	return bytes.IndexByte(head[at:], '[') >= 0 && (end < 0 || bytes.IndexByte(head[at:at+end], '[') >= 0)
}

func rootForm(tag []byte) Form {
	n := bytes.IndexAny(tag, " \t\r\n/>")
	if n < 0 {
		return None
	}
	switch elementOf(tag[:n]) {
	case elUrlset:
		return URLSet
	case elIndex:
		return Index
	case elRSS:
		return RSS
	case elFeed:
		return Atom
	}
	return None
}

func firstLine(b []byte) []byte {
	if n := bytes.IndexAny(b, "\r\n"); n >= 0 {
		b = b[:n]
	}
	return bytes.TrimSpace(b)
}

// isURL reports whether a line of a list is a URL.
func isURL(line []byte) bool {
	rest, ok := cutFold(line, "http")
	if !ok {
		return false
	}
	if tail, ok := cutFold(rest, "s"); ok {
		rest = tail
	}
	return bytes.HasPrefix(rest, []byte("://")) && !bytes.ContainsAny(line, " \t")
}

// cutFold is bytes.CutPrefix, ignoring case.
func cutFold(b []byte, prefix string) ([]byte, bool) {
	if len(b) < len(prefix) || !strings.EqualFold(string(b[:len(prefix)]), prefix) {
		return nil, false
	}
	return b[len(prefix):], true
}

// list reads a text with one URL a line.
func (r *reader) list(in *bufio.Reader) error {
	line := make([]byte, 0, 256)
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) <= MaxLoc {
			line = append(line, part...)
		} else if len(line) <= MaxLoc {
			line = append(line, part[:MaxLoc+1-len(line)]...) // a length above MaxLoc marks it
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == nil || err == io.EOF {
			for one := range bytes.SplitSeq(line, []byte("\r")) {
				if url := bytes.TrimSpace(one); len(url) > 0 {
					if err := r.take(url, isURL(url) && len(line) <= MaxLoc); err != nil {
						return err
					}
				}
			}
		}
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return err
		}
		line = line[:0]
	}
}

// take passes a URL to found, or counts a fault.
func (r *reader) take(url []byte, good bool) error {
	return r.takeWith(url, good, DefaultPriority, time.Time{})
}

func (r *reader) takeWith(url []byte, good bool, priority float64, modified time.Time) error {
	if !good {
		r.sum.Faults = min(r.sum.Faults+1, maxFaults)
		return nil
	}
	if r.sum.URLs >= r.opt.MaxURLs {
		return ErrMany
	}
	r.sum.URLs++
	return r.found(Entry{Form: r.sum.Form, URL: url, Priority: priority, Modified: modified, Bases: r.feed.refs,
		Translations: r.translations})
}
