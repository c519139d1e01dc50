package warc

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	mathrand "math/rand/v2"
	"net/netip"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"drumbeat/warc/deflate"
)

const (
	dateFormat = "2006-01-02T15:04:05Z" // WARC-Date
	stamp14    = "20060102150405"       // index and file names
	maxStored  = 1<<16 - 1              // size of a stored deflate block in bytes
)

// Exchange is one fetch to be stored. The Encoder only reads it and retains nothing.
type Exchange struct {
	// URL is the canonical URL.
	URL []byte
	// Date is when the fetch began.
	Date time.Time
	// IP is the server's address; the zero Addr if unknown.
	IP netip.Addr
	// Request is the request head as sent, with its empty line; empty: no request record.
	Request []byte
	// Head is the response head as received, with its empty line.
	Head []byte
	// Body is the body as received, chunked framing included.
	Body []byte
	// Large is the body if it is too large for RAM. Such an exchange is for Writer.Stream.
	Large *io.SectionReader
	// Chunked says that Body is chunked: the payload digest covers the content of the chunks.
	Chunked bool
	// Digest is the SHA-1 of the payload if the caller knows it; nil: it is computed.
	Digest *[sha1.Size]byte
	// Encoded says that Body is compressed (by Content-Encoding, or a type like image/png) and is to be
	// stored unchanged.
	Encoded bool
	// Truncated says why Body is incomplete: length, time, disconnect or unspecified; "" if it is complete.
	Truncated string
	// Protocols are the values of WARC-Protocol lines, such as "http/1.1" and "tls/1.3"; may be empty.
	Protocols []string
	// Cipher is the value of WARC-Cipher-Suite, a name of the IANA registry; "" without TLS.
	Cipher string
	// Status, MIME (without parameters) and Redirect (the target of a redirect, or "") go into the index.
	Status   int
	MIME     string
	Redirect string
	// Simhash is the simhash of the page's text, for the index; "": none.
	Simhash string
	// Kind is KindPage, KindRobots or KindScript.
	Kind string
	// Meta is the content of the metadata record; empty: no such record.
	Meta []Field
}

// Encoder makes Prepared captures. It is not safe for concurrent use; reuse it.
type Encoder struct {
	level       int
	blockDigest bool
	random      Random
	ids         [64 * 16]byte // stock of random bytes
	idsLeft     int
	sha         hash.Hash
	sum         [sha1.Size]byte
	deflate     deflate.Encoder // of LevelFast
	flate       *flate.Writer   // of the other levels; nil until first used
	out         memory          // destination of flate

	// Of the exchange: its URL escaped for header lines, and the same in lower case; its date for headers and
	// for the index, and the second they belong to; the id of the response record; the digest of the payload.
	url, lower  []byte
	date, stamp []byte
	dateOf      int64
	response    [uuidBytes]byte
	payload     [digestBytes]byte

	// Of the current record: header and head as text, and the fragments in it.
	text  []byte
	marks []mark
	block []byte

	// Of zst files; zst is nil for gz files.
	zst    *zstFormat
	pieces *zstd.Encoder // compresses large bodies; nil until first used
	xx     xxhash.Digest // checksum of a record

	dec *decoder // of Revisit; nil until first used
}

// mark locates a fragment in a text.
type mark struct {
	at int
	f  *fragment
}

const (
	uuidBytes   = 36 // length of a record id as text
	digestBytes = 32 // length of a digest in base32
	// smallBody is the length in bytes up to which a body is packed like a head, without the compressor,
	// such as that of an error or a redirect. That takes slightly more space and a tenth of the time.
	smallBody = 1 << 10
	// headLevels is the highest compression level at which heads are packed with the code of headcode.go.
	headLevels = 3
)

// Prepared is a capture ready for Writer.Append. The zero value is ready for Prepare. Reuse it to reuse its
// memory.
type Prepared struct {
	buf       []byte // gzip members or Zstandard frames
	response  span
	head      int    // bytes of the HTTP head in the response record
	index     []byte // the index line up to the location
	indexHead int
}

type span struct{ offset, length int64 }

// Bytes returns the number of bytes that Append will write to the WARC file.
func (p *Prepared) Bytes() int { return len(p.buf) }

// keepPrepared bounds the memory that a Prepared retains after Release.
const keepPrepared = 1 << 20

// Release drops the content, and the memory if it is large.
func (p *Prepared) Release() {
	p.buf, p.index = p.buf[:0], p.index[:0]
	if cap(p.buf) > keepPrepared {
		p.buf = nil
	}
}

// NewEncoder returns an Encoder with the Writer's options.
func (w *Writer) NewEncoder() *Encoder { return newEncoder(&w.opt, w.zst) }

func newEncoder(opt *Options, zst *zstFormat) *Encoder {
	e := &Encoder{random: opt.Random, zst: zst, level: opt.Level, blockDigest: opt.BlockDigest, sha: sha1.New(),
		dateOf: math.MinInt64}
	if e.random == nil {
		var seed [32]byte
		rand.Read(seed[:]) // does not fail
		e.random = mathrand.NewChaCha8(seed)
	}
	return e
}

// Prepare encodes an exchange into p and drops p's earlier content.
func (e *Encoder) Prepare(p *Prepared, x *Exchange) error {
	if err := e.request(p, x); err != nil {
		return err
	}
	p.response.offset = int64(len(p.buf))
	stored := x.Encoded && len(x.Body) > 0
	e.digestPayload(x)
	e.beginResponse(x, stored || e.level == LevelFast && len(x.Body) > smallBody)
	e.member(p, typeResponse, x.Head, x.Body, stored)
	p.response.length, p.head = int64(len(p.buf))-p.response.offset, len(x.Head)
	e.metadata(p, x)
	return nil
}

// request empties p and appends the request record, if there is one. It begins the exchange.
func (e *Encoder) request(p *Prepared, x *Exchange) error {
	if len(x.URL) == 0 || len(x.Head) == 0 {
		return fmt.Errorf("warc: prepare %q: no URL or no head", x.URL)
	}
	p.buf, p.index = p.buf[:0], p.index[:0]
	e.url = appendURL(e.url[:0], x.URL)
	e.setDate(x.Date)
	e.nextID(&e.response)
	if len(x.Request) > 0 {
		e.begin(beginRequest)
		e.ownID()
		e.connection(x)
		e.concurrent()
		e.member(p, typeRequest, x.Request, nil, false)
	}
	return nil
}

// PrepareOmitted encodes only the metadata of an exchange, of which the rest is not to be stored. It has no line in
// the index.
func (e *Encoder) PrepareOmitted(p *Prepared, x *Exchange) error {
	request := x.Request
	x.Request = nil
	err := e.request(p, x)
	x.Request = request
	if err != nil {
		return err
	}
	if len(x.Meta) == 0 {
		return fmt.Errorf("warc: prepare %q: neither a response nor metadata", x.URL)
	}
	e.begin(beginMetadata)
	e.ownID()
	e.fields(p, x)
	p.response, p.indexHead = span{}, 0
	return nil
}

// fields ends a metadata record.
func (e *Encoder) fields(p *Prepared, x *Exchange) {
	e.block = e.block[:0]
	for i := range x.Meta {
		e.block = appendField(e.block, x.Meta[i].Name, x.Meta[i].Value)
	}
	e.member(p, typeFields, e.block, nil, false)
}

// metadata appends the metadata record, if there is one, and the beginning of the index line.
func (e *Encoder) metadata(p *Prepared, x *Exchange) {
	if len(x.Meta) > 0 {
		e.begin(beginMetadata)
		e.ownID()
		e.concurrent()
		e.fields(p, x)
	}
	p.index = e.appendIndexHead(p.index, x)
	p.indexHead = len(p.index)
}

// beginResponse starts the header of the response record, after which blocks with the body follow or not.
// e.payload has the digest.
func (e *Encoder) beginResponse(x *Exchange, blocks bool) {
	if blocks {
		e.begin(beginResponse)
	} else {
		e.begin(beginWhole)
	}
	e.text = append(append(e.text, e.response[:]...), '>')
	e.connection(x)
	e.field(fieldPayload)
	e.text = append(e.text, e.payload[:]...)
	if x.Truncated != "" {
		e.field(fieldTruncated)
		e.text = appendValue(e.text, x.Truncated)
	}
	if x.Kind != KindPage {
		e.field(fieldResource)
		e.text = appendValue(e.text, x.Kind)
	}
}

// setDate formats a date.
func (e *Encoder) setDate(t time.Time) {
	if e.dateOf == t.Unix() {
		return
	}
	e.dateOf = t.Unix()
	e.date = t.UTC().AppendFormat(e.date[:0], dateFormat)
	e.stamp = t.UTC().AppendFormat(e.stamp[:0], stamp14)
}

// field appends a fragment to the text.
func (e *Encoder) field(f *fragment) {
	e.marks = append(e.marks, mark{len(e.text), f})
	e.text = append(e.text, f.text...)
}

// begin starts the header of a record about the exchange, up to its id.
func (e *Encoder) begin(f *fragment) {
	e.text, e.marks = e.text[:0], e.marks[:0]
	e.field(f)
	e.text = append(e.text, e.url...)
	e.field(fieldDate)
	e.text = append(e.text, e.date...)
	e.field(fieldID)
}

// ownID appends a new id, which ends the id field.
func (e *Encoder) ownID() {
	var id [uuidBytes]byte
	e.nextID(&id)
	e.text = append(append(e.text, id[:]...), '>')
}

// connection appends the fields about the connection.
func (e *Encoder) connection(x *Exchange) {
	if x.IP.IsValid() {
		e.field(fieldIP)
		e.text = x.IP.Unmap().WithZone("").AppendTo(e.text)
	}
	for _, p := range x.Protocols {
		e.field(fieldProtocol)
		e.text = appendValue(e.text, p)
	}
	if x.Cipher != "" {
		e.field(fieldCipher)
		e.text = appendValue(e.text, x.Cipher)
	}
}

// concurrent appends the field that names the response.
func (e *Encoder) concurrent() {
	e.field(fieldConcurrent)
	e.text = append(append(e.text, e.response[:]...), '>')
}

// nextID formats a new record id, a random UUID (version 4).
func (e *Encoder) nextID(id *[uuidBytes]byte) {
	if e.idsLeft == 0 {
		if _, err := e.random.Read(e.ids[:]); err != nil {
			panic("BUG: warc: source of random bytes failed: " + err.Error())
		}
		e.idsLeft = len(e.ids) / 16
	}
	e.idsLeft--
	u := e.ids[e.idsLeft*16:][:16]
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	var digits [32]byte
	hex.Encode(digits[:], u)
	copy(id[:8], digits[:8])
	copy(id[9:13], digits[8:12])
	copy(id[14:18], digits[12:16])
	copy(id[19:23], digits[16:20])
	copy(id[24:], digits[20:])
	id[8], id[13], id[18], id[23] = '-', '-', '-', '-'
}

// appendDigest appends the digest of e.sha in base32.
func (e *Encoder) appendDigest(dst []byte) []byte {
	return base32.StdEncoding.AppendEncode(dst, e.sha.Sum(e.sum[:0]))
}

// appendField appends a header line. The value is always a single line.
func appendField(dst []byte, name, value string) []byte {
	for i := range len(name) {
		if c := name[i]; c > ' ' && c < 0x7f && c != ':' {
			dst = append(dst, c)
		}
	}
	dst = append(dst, ": "...)
	return append(appendValue(dst, value), "\r\n"...)
}

// appendValue appends a header value, always as a single line.
func appendValue(dst []byte, value string) []byte {
	from := len(dst)
	dst = append(dst, value...)
	for i, c := range dst[from:] {
		if c < ' ' || c == 0x7f {
			dst[from+i] = ' '
		}
	}
	return dst
}

// appendURL appends a URL and percent-encodes bytes that a header line cannot contain.
func appendURL[T string | []byte](dst []byte, url T) []byte {
	const hex = "0123456789ABCDEF"
	from := len(dst)
	dst = append(dst, url...)
	for i, c := range dst[from:] {
		if c > ' ' && c < 0x7f {
			continue
		}
		dst = dst[:from+i]
		for ; i < len(url); i++ {
			if c := url[i]; c <= ' ' || c >= 0x7f {
				dst = append(dst, '%', hex[c>>4], hex[c&15])
			} else {
				dst = append(dst, c)
			}
		}
		break
	}
	return dst
}
