package warc

import (
	"fmt"
	"time"
)

// RenderedPrefix begins the target of a rendered page. Its own URL follows. A record with the URL itself would replace
// the response in each replay tool that makes its index from the records, since such a tool shows the latest capture.
const RenderedPrefix = "urn:rendered:"

var renderedPrefix = []byte(RenderedPrefix)

// Rendered is a page as a browser rendered it. It is stored as a resource record beside the response.
type Rendered struct {
	// URL is the canonical URL of the page.
	URL []byte
	// Date is when it was rendered.
	Date time.Time
	// Of is the id of the page's response record, as Encoder.ResponseID returns it.
	Of string
	// HTML is the DOM, in UTF-8.
	HTML []byte
	// Truncated says why HTML is incomplete: length, time or unspecified; "" if it is complete.
	Truncated string
}

// ResponseID returns the id of the response record of the exchange that was prepared last, for Rendered.Of.
func (e *Encoder) ResponseID() string { return string(e.response[:]) }

// PrepareRendered encodes a rendered page into p and drops p's earlier content.
func (e *Encoder) PrepareRendered(p *Prepared, x *Rendered) error {
	if len(x.URL) == 0 || len(x.Of) != uuidBytes {
		return fmt.Errorf("warc: prepare rendered %q: no URL, or no response", x.URL)
	}
	p.buf, p.index = p.buf[:0], p.index[:0]
	e.url = appendURL(append(e.url[:0], RenderedPrefix...), x.URL)
	e.setDate(x.Date)
	e.sha.Reset()
	e.sha.Write(x.HTML)
	e.appendDigest(e.payload[:0])
	if e.level == LevelFast && len(x.HTML) > smallBody {
		e.begin(beginResource)
	} else {
		e.begin(beginSmall)
	}
	e.ownID()
	e.field(fieldConcurrent)
	e.text = append(append(e.text, x.Of...), '>')
	e.field(fieldPayload)
	e.text = append(e.text, e.payload[:]...)
	if x.Truncated != "" {
		e.field(fieldTruncated)
		e.text = appendValue(e.text, x.Truncated)
	}
	e.member(p, typeHTML, nil, x.HTML, false)
	p.response = span{0, int64(len(p.buf))}
	p.head = 0
	p.index = e.appendIndexHead(p.index, &Exchange{MIME: renderedType, Status: renderedStatus, Truncated: x.Truncated})
	p.indexHead = len(p.index)
	return nil
}

// The MIME type of a rendered page, and the status that index tools use for a resource.
const (
	renderedType   = "text/html"
	renderedStatus = 200
)
