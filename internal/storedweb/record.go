package storedweb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/warc"
)

// maxSlots bounds the records that are read at once, nameSlots those of DNS answers: a client that reads
// slowly must not delay them.
const (
	maxSlots  = 32
	nameSlots = 4
)

// slotBytes is the part of a record that a slot holds. The rest is read twice: to verify it, and to send it.
const slotBytes = 256 << 10

// slot reads a record at a time.
type slot struct {
	w      *Web
	reader warc.RecordReader
	closer disk.File // the file of the record if it does not stay open
	block  []byte    // the beginning of the block
	out    []byte
}

// slots are the free slots.
type slots chan *slot

func newSlots(w *Web, n int) slots {
	c := make(slots, n)
	for range n {
		c <- &slot{w: w}
	}
	return c
}

// take waits for a slot.
func (c slots) take() *slot { return <-c }

func (c slots) give(s *slot) {
	s.shut()
	c <- s
}

// close waits for all slots, and frees their memory.
func (c slots) close() {
	for range cap(c) {
		s := c.take()
		s.reader.Close()
	}
}

// shut closes the record's file if it does not stay open.
func (s *slot) shut() {
	if s.closer != nil {
		s.reader.Close()
		s.closer.Close() // read only
		s.closer = nil
	}
}

// open opens the record of an entry.
func (s *slot) open(e *entry) (*warc.Record, error) { return s.openAt(e.file, e.offset) }

func (s *slot) openAt(number uint32, offset int64) (*warc.Record, error) {
	s.shut()
	f := &s.w.files[number]
	data := f.opened
	if data == nil {
		var err error
		if data, err = s.w.opt.FS.OpenRead(f.path); err != nil {
			return nil, fmt.Errorf("storedweb: %w", err)
		}
		s.closer = data
	}
	rec, err := s.reader.Open(data, f.size, offset)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return rec, nil
}

// load verifies the block of an open record and fills s.block with its beginning. If the block is longer,
// the reader is then at the first byte that s.block does not have.
func (s *slot) load(e *entry, rec *warc.Record) error {
	n := int(min(rec.Size, slotBytes))
	if cap(s.block) < n {
		s.block = make([]byte, max(n, min(slotBytes, 2*cap(s.block))))
	}
	s.block = s.block[:n]
	_, err := io.ReadFull(&s.reader, s.block)
	if err == nil {
		_, err = io.Copy(io.Discard, &s.reader)
	}
	if err == nil && rec.Size > slotBytes {
		if _, err = s.open(e); err == nil {
			_, err = io.CopyN(io.Discard, &s.reader, slotBytes)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: record at %d: %w", s.w.files[e.file].path, e.offset, err)
	}
	return nil
}

// errNotStored means that a URL is not stored.
var errNotStored = errors.New("not stored")

// capture finds the newest capture of a key and opens its record. If digest is not "", it takes the newest
// response with that payload digest, no revisit.
func (s *slot) capture(key, digest string) (e entry, rec *warc.Record, err error) {
	err = s.w.table.find(key, func(x *entry) (bool, error) {
		got, err := s.open(x)
		if err != nil {
			return false, err
		}
		target := got.Get("WARC-Target-URI")
		if found, ok := urlKey(target); (!ok || found != key) && strings.ToLower(target) != key {
			return false, nil // of another URL with the same hash
		}
		switch got.Type() {
		case "response":
		case "revisit":
			if digest != "" {
				return false, nil
			}
		default:
			return false, fmt.Errorf("%s: a %.20q record at %d, want a response", s.w.files[x.file].path,
				got.Type(), x.offset)
		}
		if digest != "" && got.Get("WARC-Payload-Digest") != digest {
			return false, nil
		}
		e, rec = *x, got
		return true, nil
	})
	if err == nil && rec == nil {
		err = errNotStored
	}
	return e, rec, err
}

// reply is a stored response, ready to be sent: head, the body's beginning, and how much of the reader follows.
type reply struct {
	head, body []byte
	rest       int64
	close      bool // the connection must end after it
	revisit    bool
}

// reply loads the response of an open record, and of the original to which a revisit refers. It is valid
// until the slot reads another record.
func (s *slot) reply(e *entry, rec *warc.Record, headOnly bool) (*reply, error) {
	if err := s.load(e, rec); err != nil {
		return nil, err
	}
	r := &reply{}
	if rec.Type() == "revisit" {
		own := parseHead(bytes.Clone(s.block[:headEnd(s.block)]))
		of, ok := urlKey(rec.Get("WARC-Refers-To-Target-URI"))
		if !ok {
			return nil, errors.New("a revisit that names no other URL")
		}
		x, original, err := s.capture(of, rec.Get("WARC-Payload-Digest"))
		if err == nil {
			err = s.load(&x, original)
		}
		if err != nil {
			return nil, fmt.Errorf("the original of a revisit, %.200s: %w", of, err)
		}
		r.revisit, rec = true, original
		s.finish(r, rec, own, headOnly)
		return r, nil
	}
	s.finish(r, rec, nil, headOnly)
	return r, nil
}

// finish fills r with the response in s.block. own is the head of a revisit, or nil.
func (s *slot) finish(r *reply, rec *warc.Record, own *head, headOnly bool) {
	end := headEnd(s.block)
	h := parseHead(s.block[:end])
	r.body = s.block[end:]
	size := rec.Size - int64(end)
	r.rest = rec.Size - int64(len(s.block))
	sent := h
	if own != nil && len(own.line) > 0 {
		own.length, own.chunked, own.framing = h.length, h.chunked, h.framing
		sent = own
	}
	cut := rec.Get("WARC-Truncated") != ""
	s.out = append(append(s.out[:0], sent.line...), "\r\n"...)
	s.out = append(s.out, sent.fields...)
	s.out = append(s.out, sent.framing...)
	r.close = cut || sent.close
	switch {
	case headOnly || sent.status < 200 || sent.status == 204 || sent.status == 304:
		r.body, r.rest = nil, 0
		r.close = r.close || sent.status < 200
	case sent.chunked:
		r.close = r.close || sent.length != lengthNone
	case sent.length == lengthNone:
		n := size
		if cut {
			n++ // so the client sees that the body ends early
		}
		s.out = fmt.Appendf(s.out, "Content-Length: %d\r\n", n)
	default:
		r.close = r.close || sent.length != size
	}
	r.head = append(s.out, "\r\n"...)
	s.out = r.head
}

// fetchTime returns how long the exchange of an entry took.
func (s *slot) fetchTime(e *entry) time.Duration {
	rec, err := s.openAt(e.file, e.offset+e.length)
	if err != nil || rec.Type() != "metadata" || rec.Size > maxMeta {
		return 0
	}
	block, err := io.ReadAll(&s.reader)
	if err != nil {
		return 0
	}
	return time.Duration(min(metaNumber(block, "fetchTimeMs"), maxDelay.Milliseconds())) * time.Millisecond
}

// maxDelay bounds the delay of an answer.
const maxDelay = 10 * time.Minute
