package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"

	"drumbeat/internal/mimetype"
	"drumbeat/internal/response"
	"drumbeat/parse"
	"drumbeat/warc"
)

// captured is the object of a line of the index, with the names of Common Crawl.
type captured struct {
	URL       string `json:"url"`
	MIME      string `json:"mime"`
	Detected  string `json:"mime-detected,omitempty"`
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	Length    string `json:"length"`
	Offset    string `json:"offset"`
	Filename  string `json:"filename"`
	Charset   string `json:"charset,omitempty"`
	Languages string `json:"languages,omitempty"`
	Truncated string `json:"truncated,omitempty"`
	Redirect  string `json:"redirect,omitempty"`
	RecordID  string `json:"recordid,omitempty"`
}

const stamp14 = "20060102150405"

// append appends a line of the index.
func (c *captured) append(dst []byte, at time.Time) ([]byte, error) {
	dst = append(warc.AppendKey(dst, []byte(c.URL), warc.KeyPywb), ' ')
	dst = append(at.UTC().AppendFormat(dst, stamp14), ' ')
	out := bytes.NewBuffer(dst)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c); err != nil { // which ends the line
		return nil, fmt.Errorf("publish: the line of %.200s: %w", c.URL, err)
	}
	return out.Bytes(), nil
}

// parseLine reads a line.
func parseLine(line []byte) (key []byte, at time.Time, c *captured, err error) {
	head := warc.LineKey(line)
	key, stamp, _ := bytes.Cut(head, []byte{' '})
	c = new(captured)
	if at, err = time.Parse(stamp14, string(stamp)); err == nil {
		err = json.Unmarshal(line[len(head):], c)
	}
	if err != nil {
		err = fmt.Errorf("publish: the line %.200q of the index: %w", line, err)
	}
	return key, at, c, err
}

// sniffBytes is how much of a body is looked at: MIME Sniffing and the prescan of HTML need up to 1445 and 1024 bytes.
const sniffBytes = 1445

// sniff finds the type and the charset of a body by its beginning, and returns that and the error of reading it.
func (c *captured) sniff(resp *response.Response) (begin []byte, err error) {
	begin = make([]byte, sniffBytes)
	n, err := io.ReadFull(resp.Body, begin)
	if begin = begin[:n]; err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	if n == 0 {
		return nil, err
	}
	declared := resp.ContentType()
	page := parse.IsPage(declared, begin, resp.NoSniff)
	c.Detected = detect(mimetype.Extract(declared), begin, page)
	if page || strings.HasPrefix(c.Detected, "text/") {
		if name, named := parse.FindEncoding(begin, declared); named {
			c.Charset = charsetName(name)
		}
	}
	return begin, err
}

// detect returns the type of a body: what its first bytes show (WHATWG, MIME Sniffing), or the declared type if they
// show no more than text, XML or binary data, and do not contradict it.
func detect(declared mimetype.Type, begin []byte, page bool) string {
	if page {
		return "text/html"
	}
	found := mimetype.Parse(http.DetectContentType(begin)).Essence
	text := strings.HasPrefix(declared.Essence, "text/") || declared.IsXML() ||
		strings.HasSuffix(declared.Essence, "json") || strings.HasSuffix(declared.Essence, "javascript")
	if found == "text/html" { // which browsers, and the crawl, do not take for a page
		found = "text/plain"
	}
	switch {
	case found == "text/plain" && text, found == "text/xml" && declared.IsXML(),
		found == "application/octet-stream" && !text && declared.Essence != "":
		return declared.Essence
	}
	return found
}

// charsetName returns the name that IANA prefers for a charset of the Encoding standard.
func charsetName(label string) string {
	if enc, err := htmlindex.Get(label); err == nil {
		if name, err := ianaindex.MIME.Name(enc); err == nil {
			return name
		}
	}
	return label
}
