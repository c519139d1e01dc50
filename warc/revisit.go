package warc

import (
	"bufio"
	"bytes"
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

// profileIdentical is the profile of a revisit record whose body is that of an earlier capture (WARC 1.1,
// 6.7.2).
const profileIdentical = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"

// mimeRevisit is the type of a revisit in an index.
const mimeRevisit = "warc/revisit"

var beginRevisit = newFragment("WARC/1.1\r\nWARC-Type: revisit\r\nWARC-Target-URI: ", blockFinal)

// Revisit turns the response of p into a revisit record, which has the HTTP head without the body and names
// the capture that has the body. The caller has compared the payload digests. The other records, which name
// the response by its id, stay.
func (e *Encoder) Revisit(p *Prepared, of Original) error {
	rec, head, err := e.reopen(p)
	if err != nil {
		return fmt.Errorf("warc: revisit: %w", err)
	}
	e.text, e.marks = e.text[:0], e.marks[:0]
	e.field(beginRevisit)
	e.text = append(e.text, rec.Get("WARC-Target-URI")...)
	for _, f := range rec.Fields {
		switch strings.ToLower(f.Name) {
		case "warc-type", "warc-target-uri", "warc-block-digest", "content-type", "content-length":
			continue
		}
		e.text = append(e.text, "\r\n"...)
		e.text = append(e.text, f.Name...)
		e.text = append(e.text, ": "...)
		e.text = appendValue(e.text, f.Value)
	}
	e.text = append(e.text, "\r\nWARC-Profile: "+profileIdentical+"\r\nWARC-Refers-To-Target-URI: "...)
	e.text = appendURL(e.text, of.URL)
	e.text = append(e.text, "\r\nWARC-Refers-To-Date: "...)
	e.text = of.Date.UTC().AppendFormat(e.text, dateFormat)
	var out Prepared
	from, end := p.response.offset, p.response.offset+p.response.length
	out.buf = append(out.buf, p.buf[:from]...)
	e.member(&out, typeRevisit, head, nil, false)
	p.response.length = int64(len(out.buf)) - from
	p.buf = append(out.buf, p.buf[end:]...)
	return p.indexRevisit()
}

// reopen returns the record of p's response, and its HTTP head.
func (e *Encoder) reopen(p *Prepared) (*Record, []byte, error) {
	dec := &decoder{}
	if e.zst != nil {
		dec.dict, dec.dictID = e.zst.dict, e.zst.dictID
	}
	member := p.buf[p.response.offset:][:p.response.length]
	text, err := dec.open(&countReader{r: bufio.NewReader(bytes.NewReader(member))})
	if err != nil {
		return nil, nil, err
	}
	r := bufio.NewReader(text)
	rec, err := readHeader(r)
	if err != nil {
		return nil, nil, whole(err)
	}
	head := make([]byte, min(int64(p.head), rec.Size))
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, nil, whole(err)
	}
	return rec, head, nil
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
	p.index = append(append(append([]byte(nil), line[:from]...), mimeRevisit...), line[end:]...)
	p.indexHead = len(p.index)
	return nil
}
