package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/s2"

	"drumbeat/weburl"
)

// A message carries records from one node to another. Integers are little-endian.
//
//	offset size field    meaning
//	0      4    magic    "dbx" and the version, a digit
//	4      8    crawl    identifies the cluster's crawl
//	12     2+2  from, to nodes
//	16     8    number   of the message, from 1, of this pair of nodes
//	24     48   before   Totals of all messages of the pair before this one
//	72     48   after    Totals with this one
//	120    4    raw      bytes of the records before compression
//	124    n    records  a block of S2
//	124+n  8    checksum xxhash64 of bytes [0, 124+n)
//
// A record is its kind (1 byte), its length as uvarint, and its payload. All versions have this in common, and
// kindPages, so that each node can count and keep each message.
const (
	messageMagic = "dbx"
	messageHead  = 124
	messageSum   = 8
)

// Kinds of records.
const (
	kindLink  = 'L' // a weburl.Record, for URLseen
	kindEdge  = 'E' // length of the first PLD (1 byte), first PLD, second PLD: a link between their pages
	kindScope = 'S' // key of a host or PLD that the redirect of a seed added to the scope (8 bytes)
	kindPages = 'P' // number of pages of the crawl's limit that the receiver may fetch instead of the sender (8 bytes)
	kindMoved = 'M' // a part of the state of slots that move to the receiver (moved.go); from version 3 on
	// kindWalker is a walker of a random walk (walker.go), which counts as a link; from version 4 on.
	kindWalker = 'W'
	// kindChecked is a weburl.Record of a URL that the sender found new, for the node that visits its host
	// (division.go). It counts as a link; from version 6 on.
	kindChecked = 'C'
)

// maxPages is the largest number of pages in a record.
const maxPages = 1 << 60

// Bounds of a message. maxRecord is far above the size of a record. maxRaw is the size at which Outbox ends a
// message, and one more record.
const (
	maxRecord = 80 << 10
	maxRaw    = sealBytes + maxRecord
)

// ErrMessage means that bytes are not a message for this node. It comes wrapped.
var ErrMessage = errors.New("not a valid message")

// Totals hold the numbers and key sums of the records from one node to another.
type Totals struct {
	Links weburl.Sum `json:"links"` // by URL key
	Edges weburl.Sum `json:"edges"` // by edgeKey
}

// Records returns the number of links and edges.
func (t *Totals) Records() int64 { return t.Links.N + t.Edges.N }

// Add adds the records of o.
func (t *Totals) Add(o Totals) {
	t.Links.Merge(o.Links)
	t.Edges.Merge(o.Edges)
}

// Sub removes the records of o.
func (t *Totals) Sub(o Totals) {
	t.Links.Remove(o.Links)
	t.Edges.Remove(o.Edges)
}

// negative reports whether untrusted totals have a number below 0.
func (t *Totals) negative() bool { return t.Links.N < 0 || t.Edges.N < 0 }

func (t *Totals) append(dst []byte) []byte {
	for _, s := range [...]weburl.Sum{t.Links, t.Edges} {
		dst = binary.LittleEndian.AppendUint64(dst, s.Hi)
		dst = binary.LittleEndian.AppendUint64(dst, s.Lo)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(s.N))
	}
	return dst
}

func decodeTotals(b []byte) (t Totals) {
	for _, s := range [...]*weburl.Sum{&t.Links, &t.Edges} {
		s.Hi, s.Lo = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		s.N = int64(binary.LittleEndian.Uint64(b[16:]))
		b = b[24:]
	}
	return t
}

// edgeKey returns the key of an edge in Totals.
func edgeKey(from, to []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write([]byte{byte(len(from))}) // a Digest returns no error
	_, _ = d.Write(from)
	_, _ = d.Write(to)
	return d.Sum64()
}

// Header is the header of a message.
type Header struct {
	Version       int // 0: FirstVersion
	Crawl         uint64
	From, To      int
	Number        uint64
	Before, After Totals
	raw           uint32
}

// ReadHeader reads the header of a message of any version and checks its checksum.
func ReadHeader(msg []byte) (h Header, err error) {
	n := len(msg) - messageSum
	switch {
	case n < messageHead || n > MaxMessageBytes-messageSum:
		return h, fmt.Errorf("cluster: %w: %d bytes", ErrMessage, len(msg))
	case string(msg[:3]) != messageMagic || versionOf(msg) < FirstVersion || versionOf(msg) > lastVersion:
		return h, fmt.Errorf("cluster: %w: it begins with %q; want %q and a digit from %d", ErrMessage, msg[:4],
			messageMagic, FirstVersion)
	case xxhash.Sum64(msg[:n]) != binary.LittleEndian.Uint64(msg[n:]):
		return h, fmt.Errorf("cluster: %w: the checksum is wrong", ErrMessage)
	}
	h.Version, h.Crawl = versionOf(msg), binary.LittleEndian.Uint64(msg[4:])
	h.From, h.To = int(binary.LittleEndian.Uint16(msg[12:])), int(binary.LittleEndian.Uint16(msg[14:]))
	h.Number = binary.LittleEndian.Uint64(msg[16:])
	h.Before, h.After = decodeTotals(msg[24:]), decodeTotals(msg[72:])
	h.raw = binary.LittleEndian.Uint32(msg[120:])
	if h.Number == 0 || h.raw == 0 || h.raw > maxRaw {
		return h, fmt.Errorf("cluster: %w: number %d, %d bytes of records", ErrMessage, h.Number, h.raw)
	}
	return h, nil
}

// appendMessage appends a message with the records raw.
func appendMessage(dst []byte, h *Header, raw []byte) []byte {
	start := len(dst)
	dst = append(append(dst, messageMagic...), byte('0'+max(FirstVersion, h.Version)))
	dst = binary.LittleEndian.AppendUint64(dst, h.Crawl)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(h.From))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(h.To))
	dst = binary.LittleEndian.AppendUint64(dst, h.Number)
	dst = h.After.append(h.Before.append(dst))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(raw)))
	n := len(dst)
	dst = slices.Grow(dst, s2.MaxEncodedLen(len(raw)))
	dst = dst[:n+len(s2.Encode(dst[n:cap(dst)], raw))]
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

func appendHead(dst []byte, kind byte, n int) []byte {
	return binary.AppendUvarint(append(dst, kind), uint64(n))
}

// Sink takes the records of a message. The slices are valid during the call.
type Sink interface {
	Link(record []byte) (key uint64, err error)
	// Checked takes a URL that the sender found new, and whose host the receiver visits.
	Checked(record []byte) (key uint64, err error)
	Edge(from, to []byte) error
	Scope(key uint64) error
	Pages(n int64) error
	// Moved takes a part of the state of slots that move to the receiver.
	Moved(kind MovedKind, rec []byte) error
	// Walker takes a walker of a random walk.
	Walker(w *Walker) error
}

// errSums means that the records of a message are well formed, but differ from the sender's count.
var errSums = errors.New("its records do not have the sums of its header")

// Decoder decodes messages. The zero value is ready. It belongs to one goroutine.
type Decoder struct {
	Reads int // the latest version that it reads; 0: Version
	raw   []byte
}

// Records passes the records of a message, whose header is h, to sink. It returns an error of sink unchanged.
// Any other error is ErrMessage; sink may then have received some of the records.
func (d *Decoder) Records(msg []byte, h *Header, sink Sink) error {
	if err := readable(h.Version, d.Reads); err != nil {
		return err
	}
	raw, err := d.block(msg, h)
	if err != nil {
		return err
	}
	after := h.Before
	if err := eachRecord(raw, &after, sink); err != nil {
		return err
	}
	if after != h.After {
		return fmt.Errorf("cluster: %w: %w", ErrMessage, errSums)
	}
	return nil
}

// block returns the records of a message, uncompressed. They are valid until the next call.
func (d *Decoder) block(msg []byte, h *Header) ([]byte, error) {
	block := msg[messageHead : len(msg)-messageSum]
	n, err := s2.DecodedLen(block)
	if err == nil && n != int(h.raw) { // ReadHeader has bounded it
		err = fmt.Errorf("%d bytes of records, want %d", n, h.raw)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: %w: %w", ErrMessage, err)
	}
	raw, err := s2.Decode(d.raw[:cap(d.raw)], block) // at most h.raw bytes
	if err != nil {
		return nil, fmt.Errorf("cluster: %w: %w", ErrMessage, err)
	}
	d.raw = raw
	return raw, nil
}

// Pages returns the pages that a message lends, given its header, up to the first record with a damaged
// length. It ignores all other records.
func (d *Decoder) Pages(msg []byte, h *Header) (pages int64) {
	raw, err := d.block(msg, h)
	if err != nil {
		return 0
	}
	for len(raw) > 0 {
		kind, rec, rest, err := nextRecord(raw)
		if err != nil {
			return pages
		}
		if n, ok := pagesOf(kind, rec); ok && pages+n > 0 {
			pages += n
		}
		raw = rest
	}
	return pages
}

// nextRecord splits the first record off raw.
func nextRecord(raw []byte) (kind byte, rec, rest []byte, err error) {
	n, size := binary.Uvarint(raw[1:])
	if size <= 0 || n > maxRecord || n > uint64(len(raw)-1-size) {
		return 0, nil, nil, fmt.Errorf("cluster: %w: the length of a record is %d", ErrMessage, n)
	}
	return raw[0], raw[1+size : 1+size+int(n)], raw[1+size+int(n):], nil
}

// pagesOf returns the number of pages in a record; ok is false for other records.
func pagesOf(kind byte, rec []byte) (n int64, ok bool) {
	if kind != kindPages || len(rec) != 8 || binary.LittleEndian.Uint64(rec)-1 >= maxPages {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(rec)), true
}

// eachRecord passes the records in raw to sink and adds them to sum.
func eachRecord(raw []byte, sum *Totals, sink Sink) error {
	for len(raw) > 0 {
		kind, rec, rest, err := nextRecord(raw)
		if err != nil {
			return err
		}
		raw = rest
		pages, isPages := pagesOf(kind, rec)
		switch {
		case kind == kindLink || kind == kindChecked:
			take := sink.Link
			if kind == kindChecked {
				take = sink.Checked
			}
			key, err := take(rec)
			if err != nil {
				return err
			}
			sum.Links.Add(key)
		case kind == kindEdge && len(rec) > 2 && rec[0] > 0 && int(rec[0]) < len(rec)-1:
			from, to := rec[1:1+rec[0]], rec[1+rec[0]:]
			if err := sink.Edge(from, to); err != nil {
				return err
			}
			sum.Edges.Add(edgeKey(from, to))
		case kind == kindScope && len(rec) == 8:
			if err := sink.Scope(binary.LittleEndian.Uint64(rec)); err != nil {
				return err
			}
		case isPages:
			if err := sink.Pages(pages); err != nil {
				return err
			}
		case kind == kindMoved && len(rec) > 0 && MovedKind(rec[0]).valid():
			if err := sink.Moved(MovedKind(rec[0]), rec[1:]); err != nil {
				return err
			}
		case kind == kindWalker:
			var w Walker
			if err := w.decode(rec); err != nil {
				return err
			}
			if err := sink.Walker(&w); err != nil {
				return err
			}
			sum.Links.Add(walkerKey(rec))
		default:
			return fmt.Errorf("cluster: %w: a record of kind %q with %d bytes", ErrMessage, kind, len(rec))
		}
	}
	return nil
}
