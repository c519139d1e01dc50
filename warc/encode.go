package warc

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/netip"
	"strconv"
	"time"

	"github.com/klauspost/compress/flate"
)

const (
	dateFormat = "2006-01-02T15:04:05Z" // WARC-Date
	stamp14    = "20060102150405"       // index and file names
	maxStored  = 1<<16 - 1              // bytes of a stored deflate block
)

// Exchange is one fetch, to be stored. The Encoder reads it only; nothing is kept.
type Exchange struct {
	// URL is the canonical URL.
	URL []byte
	// Date is when the fetch began.
	Date time.Time
	// IP is the address fetched from; the zero Addr if unknown.
	IP netip.Addr
	// Request is the head of the request as sent, with its empty line. Empty: no request record.
	Request []byte
	// Head is the head of the response as received, with its empty line.
	Head []byte
	// Body is the body as received, chunk framing included.
	Body []byte
	// Chunked says that Body is in chunks: the payload digest is of the content of the chunks.
	Chunked bool
	// Encoded says that Body is compressed (Content-Encoding, or a type like image/png): it is stored as it
	// is.
	Encoded bool
	// Truncated says why Body isn't whole: length, time, disconnect or unspecified; "" if it is.
	Truncated string
	// Protocols for WARC-Protocol lines, such as "http/1.1" and "tls/1.3". May be empty.
	Protocols []string
	// Status, MIME (without parameters) and Redirect (the target of a redirect, "" for none) are for the
	// index.
	Status   int
	MIME     string
	Redirect string
	// Meta is the content of a metadata record. Empty: no such record.
	Meta []Field
}

// Encoder makes Prepared captures. Not for concurrent use; reuse it.
type Encoder struct {
	flate    *flate.Writer
	out      memory
	random   interface{ Read(p []byte) (int, error) }
	ids      [64 * 16]byte // random bytes in store
	idsLeft  int
	head     []byte
	block    []byte
	response []byte // id of the response record being written
}

// Prepared is a capture ready for Writer.Append. The zero value may be given to Prepare; reuse it for its
// memory.
type Prepared struct {
	buf       []byte // gzip members
	response  span
	index     []byte // the index line, up to where the location stands
	indexHead int
}

type span struct{ offset, length int64 }

// Bytes returns the number of bytes that Append will write to the WARC file.
func (p *Prepared) Bytes() int { return len(p.buf) }

// memory is an io.Writer to a slice.
type memory struct{ b []byte }

func (m *memory) Write(p []byte) (int, error) {
	m.b = append(m.b, p...)
	return len(p), nil
}

// NewEncoder returns an Encoder with the Writer's options.
func (w *Writer) NewEncoder() *Encoder {
	e := &Encoder{random: w.opt.Random}
	if e.random == nil {
		e.random = rand.Reader
	}
	var err error
	if e.flate, err = flate.NewWriter(&e.out, w.opt.Level); err != nil {
		panic("BUG: warc: " + err.Error())
	}
	return e
}

// Prepare encodes an exchange into p, whose earlier content is dropped.
func (e *Encoder) Prepare(p *Prepared, x *Exchange) error {
	if len(x.URL) == 0 || len(x.Head) == 0 {
		return fmt.Errorf("warc: prepare %q: no URL or no head", x.URL)
	}
	p.buf, p.index = p.buf[:0], p.index[:0]
	e.response = e.appendID(e.response[:0])
	if len(x.Request) > 0 {
		e.begin("request", x)
		e.head = appendField(e.head, "WARC-Concurrent-To", string(e.response))
		e.member(p, "application/http; msgtype=request", x.Request, nil, false)
	}
	payload := payloadDigest(x)
	p.response.offset = int64(len(p.buf))
	e.begin("response", x)
	e.head = appendField(e.head, "WARC-Payload-Digest", payload)
	if x.Truncated != "" {
		e.head = appendField(e.head, "WARC-Truncated", x.Truncated)
	}
	e.member(p, "application/http; msgtype=response", x.Head, x.Body, x.Encoded)
	p.response.length = int64(len(p.buf)) - p.response.offset
	if len(x.Meta) > 0 {
		e.begin("metadata", x)
		e.head = appendField(e.head, "WARC-Concurrent-To", string(e.response))
		e.block = e.block[:0]
		for _, f := range x.Meta {
			e.block = appendField(e.block, f.Name, f.Value)
		}
		e.member(p, "application/warc-fields", e.block, nil, false)
	}
	p.index = appendIndexHead(p.index, x, payload)
	p.indexHead = len(p.index)
	return nil
}

// begin starts the header of a record about the exchange.
func (e *Encoder) begin(kind string, x *Exchange) {
	h := append(e.head[:0], "WARC/1.1\r\nWARC-Type: "...)
	h = append(h, kind...)
	h = append(h, "\r\nWARC-Target-URI: "...)
	h = appendURL(h, x.URL)
	h = append(h, "\r\nWARC-Date: "...)
	h = x.Date.UTC().AppendFormat(h, dateFormat)
	h = append(h, "\r\nWARC-Record-ID: "...)
	if kind == "response" {
		h = append(h, e.response...)
	} else {
		h = e.appendID(h)
	}
	h = append(h, "\r\n"...)
	if kind != "metadata" {
		if x.IP.IsValid() {
			h = append(h, "WARC-IP-Address: "...)
			h = x.IP.Unmap().WithZone("").AppendTo(h)
			h = append(h, "\r\n"...)
		}
		for _, p := range x.Protocols {
			h = appendField(h, "WARC-Protocol", p)
		}
	}
	e.head = h
}

// member ends the header in e.head and appends the record, whose block is a and then b, to p as one gzip
// member. With stored, b isn't compressed.
func (e *Encoder) member(p *Prepared, contentType string, a, b []byte, stored bool) {
	sha := sha1.New()
	sha.Write(a)
	sha.Write(b)
	e.head = appendField(e.head, "WARC-Block-Digest", digest(sha.Sum(nil)))
	e.head = appendField(e.head, "Content-Type", contentType)
	e.head = append(e.head, "Content-Length: "...)
	e.head = strconv.AppendInt(e.head, int64(len(a)+len(b)), 10)
	e.head = append(e.head, "\r\n\r\n"...)

	const end = "\r\n\r\n"
	e.out.b = append(p.buf, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255) // no name, no time, unknown system
	e.flate.Reset(&e.out)
	e.flate.Write(e.head) // writes to memory don't fail
	e.flate.Write(a)
	if stored && len(b) > 0 {
		e.flate.Flush() // ends at a byte
		e.out.b = appendStored(e.out.b, b, end)
	} else {
		e.flate.Write(b)
		e.flate.Write([]byte(end))
		e.flate.Close()
	}
	sum := crc32.ChecksumIEEE(e.head)
	sum = crc32.Update(sum, crc32.IEEETable, a)
	sum = crc32.Update(sum, crc32.IEEETable, b)
	sum = crc32.Update(sum, crc32.IEEETable, []byte(end))
	e.out.b = binary.LittleEndian.AppendUint32(e.out.b, sum)
	e.out.b = binary.LittleEndian.AppendUint32(e.out.b, uint32(len(e.head)+len(a)+len(b)+len(end)))
	p.buf, e.out.b = e.out.b, nil
}

// appendStored appends b, in stored deflate blocks, and end in a last one.
func appendStored(dst, b []byte, end string) []byte {
	for len(b) > 0 {
		n := min(len(b), maxStored)
		dst = append(dst, 0, byte(n), byte(n>>8), ^byte(n), ^byte(n>>8))
		dst = append(dst, b[:n]...)
		b = b[n:]
	}
	n := len(end)
	dst = append(dst, 1, byte(n), 0, ^byte(n), 0xff)
	return append(dst, end...)
}

// appendID appends a new record id: a random UUID (version 4) as URN, in brackets.
func (e *Encoder) appendID(dst []byte) []byte {
	if e.idsLeft == 0 {
		if _, err := e.random.Read(e.ids[:]); err != nil {
			panic("BUG: warc: source of random bytes failed: " + err.Error())
		}
		e.idsLeft = len(e.ids) / 16
	}
	e.idsLeft--
	u := e.ids[e.idsLeft*16:][:16]
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	dst = append(dst, "<urn:uuid:"...)
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, u[:n])
		u = u[n:]
	}
	return append(dst, '>')
}

func digest(sum []byte) string { return "sha1:" + base32.StdEncoding.EncodeToString(sum) }

// payloadDigest is of the body without chunk framing. What isn't well-formed chunks is taken as it is.
func payloadDigest(x *Exchange) string {
	sha := sha1.New()
	if !x.Chunked || !eachChunk(x.Body, func(p []byte) { sha.Write(p) }) {
		sha.Reset()
		sha.Write(x.Body)
	}
	return digest(sha.Sum(nil))
}

// eachChunk calls fn with the content of each chunk of a body, of which the end may be missing. It reports
// whether what there is has the form of chunks.
func eachChunk(body []byte, fn func([]byte)) bool {
	for len(body) > 0 {
		n := bytes.IndexByte(body, '\n')
		if n < 0 {
			return true // cut within a size line
		}
		line, _, _ := bytes.Cut(bytes.TrimRight(body[:n], "\r"), []byte{';'})
		size, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
		if err != nil {
			return false
		}
		body = body[n+1:]
		if size == 0 {
			return true
		}
		if int(size) > len(body) {
			fn(body)
			return true
		}
		fn(body[:size])
		body = body[size:]
		if bytes.HasPrefix(body, []byte("\r\n")) {
			body = body[2:]
		} else if bytes.HasPrefix(body, []byte("\n")) {
			body = body[1:]
		} else if len(body) > 1 {
			return false
		}
	}
	return true
}

// appendField appends a header line whose value is one line whatever it holds.
func appendField(dst []byte, name, value string) []byte {
	for i := range len(name) {
		if c := name[i]; c > ' ' && c < 0x7f && c != ':' {
			dst = append(dst, c)
		}
	}
	dst = append(dst, ": "...)
	for i := range len(value) {
		c := value[i]
		if c < ' ' || c == 0x7f {
			c = ' '
		}
		dst = append(dst, c)
	}
	return append(dst, "\r\n"...)
}

// appendURL appends a URL with what may not stand in a header line percent-encoded.
func appendURL(dst, url []byte) []byte {
	for _, c := range url {
		if c <= ' ' || c >= 0x7f {
			dst = append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}
