package contents

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/plan"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/revisit"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// bodyValue is the value of a body: the page that has it. Encoding: digest, Unix seconds (4 bytes, little-endian),
// URL.
type bodyValue struct {
	digest [20]byte // of the payload, for a page that is stored
	date   time.Time
	url    []byte
}

func (v *bodyValue) append(dst []byte) []byte {
	dst = append(dst, v.digest[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(v.date.Unix()))
	return append(dst, v.url...)
}

var errContent = errors.New("crawl: damaged value in the store of contents")

func (v *bodyValue) decode(b []byte) error {
	if len(b) <= plan.ContentHead {
		return errContent
	}
	copy(v.digest[:], b)
	v.date = time.Unix(int64(binary.LittleEndian.Uint32(b[20:])), 0)
	v.url = b[plan.ContentHead:]
	return nil
}

// Page is a response whose links and metadata are known.
type Page struct {
	Rec     *weburl.Record
	Resp    *fetch.Response
	Links   *admit.Batch
	Records *warc.Prepared
	Log     func() *crawllog.Entry // its line of the crawl log, without its position; nil for none
	Visited func(*weburl.Record)   // puts the visit into a record
}

// Body is what a worker knows of a page's body, and the memory to tell the store of it.
type Body struct {
	compared bool // key is set
	plain    bool // the payload is the body: it came without content coding
	key      drum.Key
	first    bodyValue // the page that had it first, if known
	known    bool
	value    []byte // memory of first.url

	// The tuple, its value and aux, and a part of aux.
	tuple             [1]drum.Tuple
	own, aux, capture []byte

	text state.NearEntry // of a text that is compared; its Simhash is 0 otherwise
	near []byte          // memory of Waiting.Near
}

// keepAux bounds the memory that a Body keeps.
const keepAux = 1 << 20

// Release frees large memory.
func (b *Body) Release() {
	if cap(b.aux) > keepAux {
		b.aux, b.capture = nil, nil
	}
}

// DuplicateOf returns the URL of the page that had the body first, "" if none is known.
func (b *Body) DuplicateOf() string {
	if !b.known {
		return ""
	}
	return string(b.first.url)
}

// CapturedAt returns revisit.History.Captured of a URL with the body, if its record refers to a known first
// page.
func (b *Body) CapturedAt(url []byte) (at int64, known bool) {
	if !b.known {
		return 0, false
	}
	return capturedAt(url, &b.first), true
}

// PrepareRevisit prepares a revisit record of x, if the body is known and such a record is shorter.
func (b *Body) PrepareRevisit(e *warc.Encoder, dst *warc.Prepared, x *warc.Exchange) (prepared bool, err error) {
	if !b.known {
		return false, nil
	}
	of := warc.Original{URL: b.first.url, Date: b.first.date}
	// The key is of the payload, whose digest is known unless it was not stored.
	if b.plain && b.first.digest != ([20]byte{}) {
		x.Digest = &b.first.digest
	}
	b.known, err = e.PrepareRevisit(dst, x, of, b.first.digest)
	return b.known, err
}

// capturedAt is History.Captured of a URL whose body became a revisit record that refers to a first capture:
// 0 if that is of another URL.
func capturedAt(url []byte, first *bodyValue) int64 {
	if !bytes.Equal(url, first.url) {
		return 0
	}
	return max(1, first.date.Unix())
}

// becameRevisit notes in a URL's record that its body, which had waited, became a revisit record.
func becameRevisit(rec *weburl.Record, first *bodyValue) error {
	if !revisit.Visited(rec.Visits) {
		return nil
	}
	h, err := state.HistoryOf(rec)
	if err != nil {
		return err
	}
	h.Captured = capturedAt(rec.URL, first)
	rec.Visits = h.Append(nil)
	return nil
}
