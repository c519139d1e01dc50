package warc

import (
	"bufio"
	"bytes"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Original is the capture to whose body a revisit record refers.
type Original struct {
	URL  []byte // canonical
	Date time.Time
}

// These are the profiles of revisit records: the body is that of an earlier capture (WARC 1.1, 6.7.2), or the server
// says that it has not changed since (6.7.3).
const (
	profileIdentical   = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	profileNotModified = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
)

// mimeRevisit is the type of a revisit in an index.
const mimeRevisit = "warc/revisit"

var (
	beginRevisit     = newFragment("WARC/1.1\r\nWARC-Type: revisit\r\nWARC-Target-URI: ", blockFinal)
	fieldRefers      = newFragment("\r\nWARC-Profile: "+profileIdentical+"\r\nWARC-Refers-To-Target-URI: ", 0)
	fieldNotModified = newFragment("\r\nWARC-Profile: "+profileNotModified+"\r\nWARC-Refers-To-Target-URI: ", 0)
)

// Revisit turns the response of p into a revisit record, which has the HTTP head without the body and names
// the capture that has the body. The caller has compared the payload digests. The other records, which name
// the response by its id, stay.
func (e *Encoder) Revisit(p *Prepared, of Original) error {
	rec, head, err := e.reopen(p)
	if err != nil {
		return fmt.Errorf("warc: revisit: %w", err)
	}
	e.header(beginRevisit, rec, keepField)
	e.refersTo(fieldRefers, of)
	e.replace(p, typeRevisit, head)
	return p.indexRevisit()
}

// HeadOnly turns the response of p into a record that has the HTTP head alone, truncated for an unspecified reason, and
// adds lines to its metadata record. The payload of the record is empty, and so is that of its digest. The record keeps
// its id, and loses its simhash in the index. p is a whole capture of a page, with a metadata record and a digest.
func (e *Encoder) HeadOnly(p *Prepared, lines []Field) error {
	rec, head, err := e.reopen(p)
	if err != nil {
		return fmt.Errorf("warc: head only: %w", err)
	}
	end := p.response.offset + p.response.length
	meta, r, err := e.decode(p.buf[end:])
	if err != nil {
		return fmt.Errorf("warc: head only: metadata: %w", err)
	}
	block, err := io.ReadAll(io.LimitReader(r, min(meta.Size, MaxSifted)))
	if err != nil || meta.Type() != "metadata" || int64(len(block)) < meta.Size {
		return fmt.Errorf("warc: head only: metadata: %w", errors.Join(errPrepared, err))
	}
	e.digestPayload(&Exchange{})
	e.header(beginWhole, rec, func(f *Field) bool {
		if strings.EqualFold(f.Name, "WARC-Payload-Digest") {
			f.Value = "sha1:" + string(e.payload[:])
		}
		return true
	})
	e.field(fieldTruncated)
	e.text = append(e.text, unspecified...)
	p.buf = p.buf[:end] // the new metadata follow
	e.replace(p, typeResponse, head)
	e.header(beginMetadata, meta, keepField)
	for _, f := range lines {
		block = appendField(block, f.Name, f.Value)
	}
	e.member(p, typeFields, block, nil, false)
	return p.indexHeadOnly(e.payload[:])
}

// unspecified is the reason of WARC 1.1 for a record that is cut off by choice.
const unspecified = "unspecified"

// header begins a record with the fields of rec, but for those that depend on the block and those that change
// reports or rewrites.
func (e *Encoder) header(begin *fragment, rec *Record, change func(f *Field) (keep bool)) {
	e.text, e.marks = e.text[:0], e.marks[:0]
	e.field(begin)
	e.text = append(e.text, rec.Get("WARC-Target-URI")...)
	for _, f := range rec.Fields {
		switch strings.ToLower(f.Name) {
		case "warc-type", "warc-target-uri", "warc-block-digest", "content-type", "content-length":
			continue
		}
		if !change(&f) {
			continue
		}
		e.text = append(append(append(e.text, "\r\n"...), f.Name...), ": "...)
		e.text = appendValue(e.text, f.Value)
	}
}

// replace puts a record without a body in the place of p's response. e.text has its header.
func (e *Encoder) replace(p *Prepared, kind *fragment, head []byte) {
	from, end := p.response.offset, p.response.offset+p.response.length
	rest := bytes.Clone(p.buf[end:]) // small: the metadata
	p.buf = p.buf[:from]
	e.member(p, kind, head, nil, false)
	p.response.length = int64(len(p.buf)) - from
	p.buf = append(p.buf, rest...)
}

// PrepareRevisit is Prepare for a response whose body was seen before. If its payload digest is the given one, p
// becomes a capture with a revisit record, and same is true. Otherwise p is empty.
func (e *Encoder) PrepareRevisit(p *Prepared, x *Exchange, of Original, digest [digestRaw]byte) (same bool, _ error) {
	if err := e.request(p, x); err != nil {
		return false, err
	}
	e.digestPayload(x)
	var want [digestBytes]byte
	if base32.StdEncoding.Encode(want[:], digest[:]); want != e.payload {
		p.buf = p.buf[:0]
		return false, nil
	}
	e.revisit(p, x, fieldRefers, of, true)
	return true, nil
}

// PrepareNotModified is Prepare for a response with status 304: p becomes a capture with a revisit record that refers
// to the capture with the body that the server says is current.
func (e *Encoder) PrepareNotModified(p *Prepared, x *Exchange, of Original) error {
	if err := e.request(p, x); err != nil {
		return err
	}
	e.revisit(p, x, fieldNotModified, of, false)
	return nil
}

// revisit appends a revisit record and the metadata, with the digest of e.payload or without one.
func (e *Encoder) revisit(p *Prepared, x *Exchange, profile *fragment, of Original, digest bool) {
	p.response.offset = int64(len(p.buf))
	if !digest {
		clear(e.payload[:])
	}
	e.begin(beginRevisit)
	e.text = append(append(e.text, e.response[:]...), '>')
	e.connection(x)
	if digest {
		e.field(fieldPayload)
		e.text = append(e.text, e.payload[:]...)
	}
	e.refersTo(profile, of)
	e.member(p, typeRevisit, x.Head, nil, false)
	p.response.length, p.head = int64(len(p.buf))-p.response.offset, len(x.Head)
	mime := x.MIME
	x.MIME = mimeRevisit
	e.metadata(p, x)
	x.MIME = mime
}

// refersTo appends the fields of a revisit record.
func (e *Encoder) refersTo(profile *fragment, of Original) {
	e.field(profile)
	e.text = appendURL(e.text, of.URL)
	e.text = append(e.text, "\r\nWARC-Refers-To-Date: "...)
	e.text = of.Date.UTC().AppendFormat(e.text, dateFormat)
}

// reopen returns the record of p's response, and its HTTP head.
func (e *Encoder) reopen(p *Prepared) (*Record, []byte, error) {
	rec, r, err := e.decode(p.buf[p.response.offset:][:p.response.length])
	if err != nil {
		return nil, nil, err
	}
	head := make([]byte, min(int64(p.head), rec.Size))
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, nil, whole(err)
	}
	return rec, head, nil
}

// decode opens the first record of some members. r has its block.
func (e *Encoder) decode(members []byte) (rec *Record, r *bufio.Reader, _ error) {
	if e.dec == nil {
		e.dec = new(decoder)
		if e.zst != nil {
			e.dec.dict, e.dec.dictID = e.zst.dict, e.zst.dictID
		}
	}
	text, err := e.dec.open(bufio.NewReader(bytes.NewReader(members)))
	if err != nil {
		return nil, nil, err
	}
	r = bufio.NewReader(text)
	if rec, err = readHeader(r); err != nil {
		return nil, nil, whole(err)
	}
	return rec, r, nil
}

// indexHeadOnly replaces the digest in the index line, and says that the record is truncated.
func (p *Prepared) indexHeadOnly(digest []byte) error {
	line := p.index[:p.indexHead]
	_, at, ok := bytes.Cut(line, []byte(`"digest": "sha1:`)) // within a URL the quotes are escaped
	if !ok || len(at) < len(digest) {
		return errPrepared
	}
	copy(at, digest)
	if i := bytes.LastIndex(line, []byte(`, "simhash": "`)); i >= 0 {
		line = line[:i] // the last field of a page
	}
	p.index = append(append(append(line, `, "truncated": "`...), unspecified...), '"')
	p.indexHead = len(p.index)
	return nil
}

// indexRevisit replaces the type in the index line.
func (p *Prepared) indexRevisit() error {
	const name = `, "mime": "` // within a URL the quotes are escaped
	line := p.index[:p.indexHead]
	from := bytes.Index(line, []byte(name))
	if from < 0 {
		return errPrepared
	}
	from += len(name)
	end := from
	for end < len(line) && line[end] != '"' {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(line) {
		return errors.New("warc: damaged index line")
	}
	rest := bytes.Clone(line[end:])
	p.index = append(append(line[:from], mimeRevisit...), rest...)
	p.indexHead = len(p.index)
	return nil
}
