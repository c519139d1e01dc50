package state

import (
	"encoding/binary"
	"errors"

	"drumbeat/weburl"
)

// RenderTask is a page that a browser is to render: a record of the queue NameRender. It has the body, so that
// rendering costs neither a seek nor a second request. Encoding: version 1, flags, tries (a byte each); then, each as a
// uvarint length and bytes, the record of the URL, the id of the response record, Content-Type,
// Content-Security-Policy; then the body.
type RenderTask struct {
	Record   []byte // weburl.Record, with URL and depth
	Of       string // id of the response record; "": the rendered page is not stored
	Type     string // Content-Type
	Policy   string // Content-Security-Policy
	NoFollow bool   // its links are not taken
	Tries    uint8  // attempts that the browser did not survive
	Body     []byte // without content coding
}

const (
	renderVersion  = 1
	renderNoFollow = 1
)

var errRenderTask = errors.New("crawl: damaged record of a page to be rendered")

// Append appends the encoding of t.
func (t *RenderTask) Append(dst []byte) []byte {
	flags := byte(0)
	if t.NoFollow {
		flags = renderNoFollow
	}
	dst = append(dst, renderVersion, flags, t.Tries)
	for _, f := range [...]string{string(t.Record), t.Of, t.Type, t.Policy} {
		dst = binary.AppendUvarint(dst, uint64(len(f)))
		dst = append(dst, f...)
	}
	return append(dst, t.Body...)
}

// Decode decodes b, to which Record and Body refer afterwards, and the record of the URL into rec.
func (t *RenderTask) Decode(b []byte, rec *weburl.Record) error {
	if len(b) < 3 || b[0] != renderVersion || b[1]&^renderNoFollow != 0 {
		return errRenderTask
	}
	t.NoFollow, t.Tries = b[1] != 0, b[2]
	b = b[3:]
	var fields [4][]byte
	for i := range fields {
		n, w := binary.Uvarint(b)
		if w <= 0 || n > uint64(len(b)-w) {
			return errRenderTask
		}
		fields[i], b = b[w:w+int(n)], b[w+int(n):]
	}
	t.Record, t.Of, t.Type, t.Policy, t.Body = fields[0], string(fields[1]), string(fields[2]), string(fields[3]), b
	return rec.Decode(t.Record)
}
