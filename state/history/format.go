package history

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/disk"
)

// A file is a disk.Header, then records. Each record is the uvarint length of its body, the body, and the
// xxhash64 of both. The first byte of a body is its kind. The first record is recordStart.
const (
	fileKind    = "hist"
	fileVersion = 1

	recordStart   = 1 // varint Unix ms of the first record, uvarint interval in ms
	recordColumns = 2 // uvarint number of columns kept, then new ones: byte of decimals, uvarint length, name
	recordSample  = 3 // varint ms since the last record, then pairs: uvarint columns skipped, varint difference
	recordEvent   = 4 // varint ms since the last record, uvarint length and text of its name, rest: description
)

// Bounds of what a reader accepts.
const (
	maxRecord  = 1 << 20
	maxColumns = 1 << 14
	maxName    = 512
	maxFile    = 8 << 20
	maxText    = 1 << 10 // of an event
	checkBytes = 8
	// startBytes is the largest size of the header and the first record.
	startBytes = disk.HeaderBytes + 1 + 1 + 2*binary.MaxVarintLen64 + checkBytes
)

// decimals of the columns of fractions.
const fractionDecimals = 6

// column is a series of a file.
type column struct {
	name     string
	decimals uint8 // values are integers in units of 10^-decimals
}

// scale returns the number of units in 1.
func (c *column) scale() float64 {
	if c.decimals == 0 {
		return 1
	}
	return math.Pow10(int(c.decimals))
}

// units returns a value in units of the column; 0 for NaN.
func (c *column) units(v float64) int64 {
	v = math.Round(v * c.scale())
	switch {
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	case v != v:
		return 0
	}
	return int64(v)
}

// encoder makes the records of one file.
type encoder struct {
	last    int64 // ms of the last record
	columns []column
	values  []int64
	body    []byte // reused
}

// record appends the record with e.body.
func (e *encoder) record(dst []byte) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(dst, uint64(len(e.body)))
	dst = append(dst, e.body...)
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

// begin appends the header and the first record of a file.
func (e *encoder) begin(dst []byte, number uint64, ms, interval int64) []byte {
	*e = encoder{last: ms, body: e.body}
	dst = disk.Header{Kind: fileKind, Version: fileVersion, Number: number}.Append(dst)
	e.body = binary.AppendVarint(append(e.body[:0], recordStart), ms)
	e.body = binary.AppendUvarint(e.body, uint64(interval))
	return e.record(dst)
}

// table appends the record that makes columns those of the file, unless they are already. Values of columns
// that were not there begin at 0.
func (e *encoder) table(dst []byte, columns []column) []byte {
	kept := len(e.columns)
	if kept > len(columns) || !slices.Equal(e.columns, columns[:kept]) {
		kept = 0
	}
	if kept == len(columns) {
		return dst
	}
	e.columns = append(e.columns[:kept], columns[kept:]...)
	e.values = append(e.values[:kept], make([]int64, len(columns)-kept)...)
	e.body = binary.AppendUvarint(append(e.body[:0], recordColumns), uint64(kept))
	for _, c := range columns[kept:] {
		e.body = binary.AppendUvarint(append(e.body, c.decimals), uint64(len(c.name)))
		e.body = append(e.body, c.name...)
	}
	return e.record(dst)
}

// sample appends a sample. values are those of all columns.
func (e *encoder) sample(dst []byte, ms int64, values []int64) []byte {
	e.body = binary.AppendVarint(append(e.body[:0], recordSample), ms-e.last)
	e.last = ms
	skipped := uint64(0)
	for i, v := range values {
		if v == e.values[i] {
			skipped++
			continue
		}
		e.body = binary.AppendUvarint(e.body, skipped)
		e.body = binary.AppendVarint(e.body, v-e.values[i]) // may wrap, and so does the decoder
		e.values[i], skipped = v, 0
	}
	return e.record(dst)
}

// event appends an event.
func (e *encoder) event(dst []byte, ev *Event) []byte {
	ms := ev.Time.UnixMilli()
	e.body = binary.AppendVarint(append(e.body[:0], recordEvent), ms-e.last)
	e.last = ms
	what, text := ev.What[:min(len(ev.What), maxText)], ev.Text[:min(len(ev.Text), maxText)]
	e.body = binary.AppendUvarint(e.body, uint64(len(what)))
	e.body = append(append(e.body, what...), text...)
	return e.record(dst)
}

// Event is something that happened to the crawl.
type Event struct {
	Time time.Time `json:"time"`
	What string    `json:"what"` // a word, such as start, stop, crash, change
	Text string    `json:"text"`
}

// decoder reads the records of one file.
type decoder struct {
	path     string
	data     []byte
	at       int   // offset of the next record
	start    int64 // ms
	interval int64
	last     int64 // ms of the last record
	columns  []column
	values   []int64
	changed  int // number of recordColumns so far
}

// item is what next has read.
type item uint8

const (
	itemEnd    item = iota // the file has no further whole record
	itemSample             // last and values
	itemEvent
)

// newDecoder reads the header and the first record of a file.
func newDecoder(path string, data []byte, number uint64) (*decoder, error) {
	want := disk.Header{Kind: fileKind, Version: fileVersion, Number: number}.Append(nil)
	d := &decoder{path: path, data: data, at: len(want)}
	if len(data) < len(want) || string(data[:len(want)]) != string(want) {
		if v := versionOf(data, want); v != fileVersion {
			return nil, fmt.Errorf("history: %s has format version %d, this program reads %d", path, v, fileVersion)
		}
		return nil, &disk.CorruptError{Path: path, Want: "header of a history file", Got: "something else"}
	}
	body := d.record()
	if body == nil || body[0] != recordStart {
		return nil, d.corrupt()
	}
	f := fields{rest: body[1:]}
	d.start = f.varint()
	interval := f.uvarint()
	if d.last, d.interval = d.start, int64(interval); f.bad || len(f.rest) > 0 || interval > math.MaxInt64/4 {
		return nil, d.corrupt()
	}
	return d, nil
}

// versionOf returns the version in a whole header of a history file; fileVersion for other data.
func versionOf(data, want []byte) uint32 {
	const magic, sum = 12, disk.HeaderBytes - 8 // lengths of magic and kind, and of what the checksum covers
	if len(data) < len(want) || string(data[:magic]) != string(want[:magic]) ||
		binary.LittleEndian.Uint64(data[sum:]) != xxhash.Sum64(data[:sum]) {
		return fileVersion
	}
	return binary.LittleEndian.Uint32(data[magic:])
}

func (d *decoder) corrupt() error {
	return &disk.CorruptError{Path: d.path, Offset: int64(d.at), Want: "a record of the history", Got: "something else"}
}

// record returns the body of the next record and moves behind it; nil if it is not whole.
func (d *decoder) record() []byte {
	rest := d.data[d.at:]
	n, w := binary.Uvarint(rest)
	if w <= 0 || n == 0 || n > maxRecord || uint64(len(rest)-w) < n+checkBytes {
		return nil
	}
	end := w + int(n)
	if binary.LittleEndian.Uint64(rest[end:]) != xxhash.Sum64(rest[:end]) {
		return nil
	}
	d.at += end + checkBytes
	return rest[w:end]
}

// next reads up to the next sample or event. At itemEnd, at is the end of the whole records.
func (d *decoder) next(ev *Event) item {
	for {
		before := d.at
		body := d.record()
		if body == nil {
			return itemEnd
		}
		kind, f := body[0], fields{rest: body[1:]}
		switch kind {
		case recordColumns:
			d.table(&f)
		case recordSample:
			d.sample(&f)
		case recordEvent:
			d.last += f.varint()
			what := f.text(f.uvarint())
			*ev = Event{Time: time.UnixMilli(d.last).UTC(), What: what, Text: string(f.rest)}
		default:
			f.bad = true
		}
		switch {
		case f.bad: // the checksum is right, so a program wrote this; nothing behind it can be read
			d.at = before
			return itemEnd
		case kind == recordSample:
			return itemSample
		case kind == recordEvent:
			return itemEvent
		}
	}
}

func (d *decoder) table(f *fields) {
	kept := f.uvarint()
	if kept > uint64(len(d.columns)) {
		f.bad = true
		return
	}
	d.columns, d.values = slices.Clip(d.columns[:kept]), d.values[:kept]
	for len(f.rest) > 0 && !f.bad {
		decimals := f.rest[0]
		f.rest = f.rest[1:]
		n := f.uvarint()
		if decimals > fractionDecimals || n > maxName || len(d.columns) == maxColumns {
			f.bad = true
			return
		}
		d.columns = append(d.columns, column{f.text(n), decimals})
		d.values = append(d.values, 0)
	}
	d.changed++
}

func (d *decoder) sample(f *fields) {
	d.last += f.varint()
	rest, values := f.rest, d.values
	for len(rest) > 0 {
		skipped, w := binary.Uvarint(rest)
		if w <= 0 || skipped >= uint64(len(values)) {
			f.bad = true
			return
		}
		v, n := binary.Varint(rest[w:])
		if n <= 0 {
			f.bad = true
			return
		}
		values[skipped] += v
		values, rest = values[skipped+1:], rest[w+n:]
	}
}

// fields reads the fields of a body. bad is set once one is not whole.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) uvarint() uint64 {
	v, w := binary.Uvarint(f.rest)
	f.skip(w)
	return v
}

func (f *fields) varint() int64 {
	v, w := binary.Varint(f.rest)
	f.skip(w)
	return v
}

func (f *fields) skip(w int) {
	if w <= 0 {
		f.bad, f.rest = true, nil
		return
	}
	f.rest = f.rest[w:]
}

func (f *fields) text(n uint64) string {
	if n > uint64(len(f.rest)) {
		f.bad, f.rest = true, nil
		return ""
	}
	s := string(f.rest[:n])
	f.rest = f.rest[n:]
	return s
}
