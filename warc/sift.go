package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/httphead"
	"drumbeat/warc/outfile"
)

// Volume is a WARC file and its index, final or not.
type Volume struct {
	Dir   int    // number of the output directory
	Name  string // of both files, without suffix
	Final bool   // the state does not name it
	// Data and Index are the paths of the files; "" for one that was moved away, or whose bytes are all in a tail.
	Data, Index string

	opt *Options
	c   outfile.Content
}

// EachVolume calls fn for each WARC file that st covers, the final ones first, by directory and name. It lists them
// before the first call.
func EachVolume(opt Options, st *State, fn func(v *Volume) error) error {
	opt.defaults()
	all, err := outfile.List(opt.outfile(), &st.Files)
	if err != nil {
		return fmt.Errorf("warc: list files: %w", err)
	}
	for i := range all {
		c := &all[i]
		v := &Volume{Dir: c.Dir, Name: c.Name, Final: c.Final, Data: c.Streams[dataStream].Path,
			Index: c.Streams[indexStream].Path, opt: &opt, c: *c}
		if err := fn(v); err != nil {
			return err
		}
	}
	return nil
}

// File returns the final name of the WARC file.
func (v *Volume) File() string { return v.Name + v.c.Streams[dataStream].Suffix }

// IndexFile returns the final name of the index.
func (v *Volume) IndexFile() string { return v.Name + indexSuffix }

// HasData and HasIndex report whether the WARC file and its index are there.
func (v *Volume) HasData() bool  { return there(&v.c.Streams[dataStream]) }
func (v *Volume) HasIndex() bool { return there(&v.c.Streams[indexStream]) }

func there(s *outfile.StreamContent) bool { return s.Path != "" || s.Tail.Len > 0 }

// Size returns the length of both files in bytes.
func (v *Volume) Size() int64 {
	data, index := &v.c.Streams[dataStream], &v.c.Streams[indexStream]
	return data.Size + data.Tail.Len + index.Size + index.Tail.Len
}

// Piece is a record as Sift sees it, valid during the call.
type Piece struct {
	Offset, Length int64
	Type           string // WARC-Type; "" for a frame that is no record
	URL            string // target; of a rendered page that of the page
	Kind           string // of a capture
	Digest         string // of the payload of a capture
	Time           time.Time
	// Record is the record, with its block if that has at most MaxSifted bytes and is no body; nil for a response
	// that the index describes. Redirect is then that of the index.
	Record   *Record
	Redirect string
}

// IsCapture reports whether the record is a response, a revisit or a rendered page.
func (p *Piece) IsCapture() bool {
	return p.Type == "response" || p.Type == "revisit" || p.Type == "resource"
}

// MaxSifted bounds the blocks that Sift reads into RAM, in bytes. Heads and metadata are shorter.
const MaxSifted = 1 << 20

// siftLine is a line of an index, and where its record is.
type siftLine struct {
	offset, length int64
	text           []byte
}

// Sift calls fn with each record, in the order of the file. It skips the bodies of responses that the index
// lists, and decompresses the rest. It takes the memory of the index.
func (v *Volume) Sift(fn func(p *Piece) error) error {
	lines, err := v.lines()
	if err != nil {
		return err
	}
	b, err := v.c.Streams[dataStream].Open(v.opt.Set.FS, v.opt.State)
	if b != nil {
		defer b.Close()
	}
	if err != nil {
		return fmt.Errorf("warc: read %s: %w", v.File(), err)
	}
	return v.sift(b, lines, fn)
}

// EachRecord calls fn with each record of the WARC file, and a reader of its block (EachRecord).
func (v *Volume) EachRecord(fn func(rec *Record, block io.Reader) error) error {
	b, err := v.c.Streams[dataStream].Open(v.opt.Set.FS, v.opt.State)
	if b != nil {
		defer b.Close()
	}
	if err == nil {
		err = EachRecord(b, b.Size(), fn)
	}
	if err != nil {
		return fmt.Errorf("warc: read %s: %w", v.File(), err)
	}
	return nil
}

// EachLine calls fn with the capture of each line of the index.
func (v *Volume) EachLine(fn func(x *Indexed) error) error {
	lines, err := v.lines()
	for i := 0; err == nil && i < len(lines); i++ {
		var x *Indexed
		if x, err = v.parse(&lines[i]); err == nil {
			err = fn(x)
		}
	}
	return err
}

// lines reads the index. The lines are in the order of their records; there are none if it was moved away.
func (v *Volume) lines() ([]siftLine, error) {
	if !v.HasIndex() {
		return nil, nil
	}
	s := &v.c.Streams[indexStream]
	b, err := s.Open(v.opt.Set.FS, v.opt.State)
	if b != nil {
		defer b.Close()
	}
	var data []byte
	if err == nil {
		data = make([]byte, b.Size())
		_, err = io.ReadFull(io.NewSectionReader(b, 0, b.Size()), data)
	}
	if err != nil {
		return nil, fmt.Errorf("warc: read the index of %s: %w", v.Name, err)
	}
	var lines []siftLine
	for text := range bytes.Lines(data) {
		l := siftLine{text: text}
		var ok bool
		if l.length, l.offset, ok = cutTail(text); !ok {
			return nil, &disk.CorruptError{Path: s.Path, Want: "a line of the index", Got: fmt.Sprintf("%.60q", text)}
		}
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(a, b siftLine) int { return cmp.Compare(a.offset, b.offset) })
	return lines, nil
}

// tailName begins what appendIndexTail appends. Within values the quotes are escaped.
const tailName = `, "length": "`

// cutTail returns the numbers of what appendIndexTail has appended to a line.
func cutTail(text []byte) (length, offset int64, ok bool) {
	at := bytes.LastIndex(text, []byte(tailName))
	if at < 0 {
		return 0, 0, false
	}
	n, rest, ok1 := strings.Cut(string(text[at+len(tailName):]), `", "offset": "`)
	o, _, ok2 := strings.Cut(rest, `", "filename": "`)
	length, err1 := strconv.ParseInt(n, 10, 64)
	offset, err2 := strconv.ParseInt(o, 10, 64)
	return length, offset, ok1 && ok2 && errors.Join(err1, err2) == nil && length > 0 && offset >= 0
}

func (v *Volume) parse(l *siftLine) (*Indexed, error) {
	s := &v.c.Streams[indexStream]
	x, err := (&indexFile{path: s.Path}).parse(l.text)
	if err == nil && v.HasData() && x.File != v.File() {
		err = fmt.Errorf("a line about %.100q", x.File)
	}
	if err != nil {
		return nil, &disk.CorruptError{Path: s.Path, Want: "a line of the index", Got: err.Error()}
	}
	return x, nil
}

// sift is Sift of open files.
func (v *Volume) sift(b *outfile.Bytes, lines []siftLine, fn func(p *Piece) error) error {
	path := v.Data
	corrupt := func(at int64, err error) error {
		return &disk.CorruptError{Path: path, Offset: at, Want: "a record", Got: err.Error()}
	}
	var r RecordReader
	defer r.Close()
	next := 0
	for off := int64(0); off < b.Size(); {
		for next < len(lines) && lines[next].offset < off {
			return corrupt(lines[next].offset, errors.New("none begins there, but the index has a line about it"))
		}
		var p Piece
		var err error
		if next < len(lines) && lines[next].offset == off {
			p, err = v.indexed(&lines[next])
			next++
		}
		if err != nil {
			return err
		}
		if p.Type == "" {
			if p, err = r.sift(b, off); err != nil {
				return corrupt(off, err)
			}
		}
		p.Offset = off
		if p.Length > b.Size()-off {
			return corrupt(off, fmt.Errorf("%d bytes, beyond the end of the file", p.Length))
		}
		if err := fn(&p); err != nil {
			return err
		}
		off += p.Length
	}
	if next < len(lines) {
		return corrupt(lines[next].offset, errors.New("the end of the file, but the index has a line about it"))
	}
	return nil
}

// indexed returns what an index line says of a record; the zero value of a revisit.
func (v *Volume) indexed(l *siftLine) (p Piece, err error) {
	x, err := v.parse(l)
	if err != nil || x.IsRevisit() {
		return p, err
	}
	p = Piece{Length: l.length, Type: "response", URL: x.URL, Kind: x.Kind, Digest: x.Digest, Time: x.Time,
		Redirect: x.Redirect}
	if p.Kind == KindRendered {
		p.Type, p.URL = "resource", strings.TrimPrefix(x.URL, RenderedPrefix)
	}
	return p, nil
}

// sift reads the record at an offset.
func (r *RecordReader) sift(b *outfile.Bytes, off int64) (p Piece, err error) {
	var head [8]byte
	if _, err := b.ReadAt(head[:], off); err == nil && skippable(head[:4]) {
		return Piece{Length: 8 + int64(binary.LittleEndian.Uint32(head[4:]))}, nil
	}
	rec, err := r.Open(b, b.Size(), off)
	if err != nil {
		return p, err
	}
	p = Piece{Type: rec.Type(), URL: rec.Get("WARC-Target-URI"), Digest: rec.Get("WARC-Payload-Digest"), Record: rec}
	p.Kind = kindOf(p.URL, rec.Get("WARC-Resource-Type"))
	p.URL = strings.TrimPrefix(p.URL, RenderedPrefix)
	if date := rec.Get("WARC-Date"); date != "" {
		if p.Time, err = time.Parse(dateFormat, date); err != nil {
			return p, err
		}
	}
	if rec.Size <= MaxSifted && p.Type != "response" && p.Type != "resource" {
		rec.Block, err = io.ReadAll(r)
	} else {
		_, err = io.Copy(io.Discard, r)
	}
	if p.Type == "" && err == nil {
		err = errors.New("a record without a type")
	}
	p.Length = r.in.at()
	return p, err
}

// CopyPayload writes the payload of the response at an offset to w: its body without chunk framing. A body with invalid
// framing is written as it is. It holds at most MaxSifted bytes.
func (v *Volume) CopyPayload(offset int64, w io.Writer) error {
	b, err := v.c.Streams[dataStream].Open(v.opt.Set.FS, v.opt.State)
	if b != nil {
		defer b.Close()
	}
	var r RecordReader
	defer r.Close()
	in := bufio.NewReaderSize(nil, MaxSifted)
	chunked := false
	body := func() error { // begins the record, and passes its head
		rec, err := r.Open(b, b.Size(), offset)
		if err != nil {
			return err
		}
		in.Reset(&r)
		block, err := in.Peek(int(min(rec.Size, MaxSifted)))
		if err != nil {
			return err
		}
		at, _ := httphead.End(block, 0)
		chunked = at > 0 && httphead.Chunked(block[:at])
		_, err = in.Discard(at)
		return err
	}
	if err == nil {
		err = body()
	}
	if err == nil && chunked {
		if chunked, err = copyChunks(io.Discard, in); err == nil { // is the framing valid?
			valid := chunked
			err = body()
			chunked = valid
		}
	}
	if err == nil && chunked {
		_, err = copyChunks(w, in)
	} else if err == nil {
		_, err = io.Copy(w, in)
	}
	if err != nil {
		return fmt.Errorf("warc: read the payload at %d of %s: %w", offset, v.File(), err)
	}
	return nil
}

// Targets are the lines of a metadata record that name URLs.
var targetNames = []string{"via", "canonical", "refresh", "redirect", NearDuplicateOf}

// NearDuplicateOf is the name of the line with the URL of the page that a page nearly repeats.
const NearDuplicateOf = "nearDuplicateOf"

// NamesTarget reports whether a line of a metadata record names a URL.
func NamesTarget(name string) bool { return slices.Contains(targetNames, name) }

// PayloadDigestOf returns the digest of a payload in the form of WARC-Payload-Digest.
func PayloadDigestOf(payload io.Reader) (string, error) {
	sum := sha1.New()
	_, err := io.Copy(sum, payload)
	return digest(sum.Sum(nil)), err
}
