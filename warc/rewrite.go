package warc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"

	"drumbeat/disk"
	"drumbeat/internal/httphead"
	"drumbeat/internal/mimetype"
	"drumbeat/warc/outfile"
)

// Edit says what Rewrite does with a record. The zero value copies it.
type Edit struct {
	Drop bool
	// Fields are the new lines of a metadata record.
	Fields []Field
	// Refers is the capture to which a revisit record refers from now on. With Whole, the record becomes a response
	// with Payload instead, framed as its head says.
	Refers  *Original
	Whole   bool
	Payload *io.SectionReader
}

// Shift says where the records of a file from offset Old on are after a Rewrite, up to the next Shift: at By
// more bytes, or nowhere.
type Shift struct {
	Old, By int64
	Gone    bool
}

// Moved returns the offset of a record after a Rewrite; ok is false if the record is gone.
func Moved(shifts []Shift, offset int64) (now int64, ok bool) {
	i := sort.Search(len(shifts), func(i int) bool { return shifts[i].Old > offset }) - 1
	if i < 0 {
		return offset, true
	}
	return offset + shifts[i].By, !shifts[i].Gone
}

// MovedLength returns the length after a Rewrite of a record that stays, in bytes.
func MovedLength(shifts []Shift, offset, length int64) (now int64, ok bool) {
	by := int64(0)
	for i := sort.Search(len(shifts), func(i int) bool { return shifts[i].Old > offset }) - 1; i < len(shifts); i++ {
		switch {
		case i < 0:
		case shifts[i].Old <= offset:
			if by = shifts[i].By; shifts[i].Gone {
				return 0, false
			}
		case shifts[i].Old > offset+length:
			return length, true
		case !shifts[i].Gone:
			return length + shifts[i].By - by, true
		}
	}
	return length, true
}

// Rewritten is the result of a Rewrite.
type Rewritten struct {
	Shifts                 []Shift // by offset
	DataBytes, IndexBytes  int64   // of the new files; 0 for one that was moved away
	Records, Dropped, Made int64   // records copied, left out, and encoded again
}

// rewriteBytes is the length of a read when records are copied.
const rewriteBytes = 1 << 20

// Rewrite writes a copy of the volume with the given name beside it, without the records that edit drops:
// copied records keep their bytes. Index lines follow their records; a redirect that hide reports is left out.
// The new files are final and durable, and replace files of that name. A volume whose WARC file was moved away
// gets a new index. It takes the memory of the index, one read, and what edit returns.
func (v *Volume) Rewrite(name string, edit func(p *Piece) (Edit, error),
	hide func(url string) bool) (*Rewritten, error) {
	w := &rewriter{v: v, hide: hide, edit: edit, e: newEncoder(v.opt, nil)}
	w.file = name + v.c.Streams[dataStream].Suffix
	err := w.run(name)
	for _, f := range []*disk.Staged{w.data, w.index} {
		if f != nil {
			f.Abort()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("warc: rewrite %s: %w", v.Name, err)
	}
	return &w.out, nil
}

// rewriter is the state of a Rewrite.
type rewriter struct {
	v    *Volume
	hide func(string) bool
	edit func(p *Piece) (Edit, error)
	file string // new name of the WARC file
	e    *Encoder
	p    Prepared
	out  Rewritten

	b           *outfile.Bytes
	data, index *disk.Staged
	from, to    int64 // bytes to copy
	made        int64 // length of the record that was encoded last
	buf         []byte
	lines       [][]byte
}

func (w *rewriter) run(name string) error {
	v := w.v
	lines, err := v.lines()
	if err != nil {
		return err
	}
	path := func(file string) string { return v.opt.Set.Path(v.Dir, subdir, file) }
	if v.HasData() {
		w.b, err = v.c.Streams[dataStream].Open(v.opt.Set.FS, v.opt.State)
		if w.b != nil {
			defer w.b.Close()
		}
		if err == nil {
			w.data, err = disk.Stage(v.opt.Set.FS, path(w.file))
		}
		if err == nil {
			err = w.records(lines)
		}
	} else {
		w.file = v.Name + gzSuffix // of the file that was moved away
		err = w.orphans(lines)
	}
	if err == nil && v.HasIndex() {
		w.index, err = disk.Stage(v.opt.Set.FS, path(name+indexSuffix))
		if err == nil {
			sortBytes(w.lines)
			for i := 0; i < len(w.lines) && err == nil; i++ {
				_, err = w.index.Write(w.lines[i])
			}
			w.out.IndexBytes = w.index.Size()
		}
	}
	for i, f := range []*disk.Staged{w.data, w.index} {
		if from := []string{v.Data, v.Index}[i]; f != nil && err == nil && v.Final && from != "" {
			err = f.CopyMode(from)
		}
	}
	for _, step := range []func(*disk.Staged) error{(*disk.Staged).End, (*disk.Staged).Rename} {
		for _, f := range []*disk.Staged{w.data, w.index} {
			if f != nil && err == nil {
				err = step(f)
			}
		}
	}
	return err
}

// records writes the records, and makes the lines of the index.
func (w *rewriter) records(lines []siftLine) error {
	next := 0
	err := w.v.sift(w.b, lines, func(p *Piece) error {
		var l *siftLine
		if next < len(lines) && lines[next].offset == p.Offset {
			l = &lines[next]
			next++
		}
		edit := Edit{}
		var err error
		if p.Type != "" {
			edit, err = w.edit(p)
		}
		if err == nil {
			err = w.piece(p, edit, l)
		}
		return err
	})
	if err == nil {
		err = w.copy()
	}
	w.out.DataBytes = w.data.Size()
	return err
}

// piece writes a record and its line, or leaves them out.
func (w *rewriter) piece(p *Piece, edit Edit, l *siftLine) error {
	if p.Type == "warcinfo" { // it has the name of the file
		return w.put(p, w.info)
	}
	switch {
	case edit.Drop:
		w.out.Dropped++
		if err := w.copy(); err != nil {
			return err
		}
		w.shift(Shift{Old: p.Offset, Gone: true})
		return nil
	case edit.Fields != nil:
		return w.put(p, func(rec *Record) error { return w.metadata(rec, edit.Fields) })
	case edit.Whole:
		if err := w.put(p, func(rec *Record) error { return w.whole(rec, edit.Payload) }); err != nil {
			return err
		}
		return w.line(l, func(o *indexObject) { o.MIME = mimeOf(p.Record.Block) })
	case edit.Refers != nil:
		if err := w.put(p, func(rec *Record) error { return w.refers(rec, *edit.Refers) }); err != nil {
			return err
		}
		return w.line(l, nil)
	}
	w.out.Records++
	if w.to != p.Offset {
		if err := w.copy(); err != nil {
			return err
		}
		w.from = p.Offset
		w.shift(Shift{Old: p.Offset, By: w.data.Size() - p.Offset})
	}
	w.to = p.Offset + p.Length
	return w.line(l, nil)
}

// shift appends a Shift, unless it says what the one before says.
func (w *rewriter) shift(s Shift) {
	if n := len(w.out.Shifts); n == 0 && (s.By != 0 || s.Gone) ||
		n > 0 && (w.out.Shifts[n-1].By != s.By || w.out.Shifts[n-1].Gone != s.Gone) {
		w.out.Shifts = append(w.out.Shifts, s)
	}
}

// copy copies the records that wait for it.
func (w *rewriter) copy() error {
	if w.buf == nil {
		w.buf = make([]byte, rewriteBytes)
	}
	for w.from < w.to {
		n := min(int64(len(w.buf)), w.to-w.from)
		if _, err := io.ReadFull(io.NewSectionReader(w.b, w.from, n), w.buf[:n]); err != nil {
			return whole(err)
		}
		if _, err := w.data.Write(w.buf[:n]); err != nil {
			return err
		}
		w.from += n
	}
	return nil
}

// put writes a record that encode has made.
func (w *rewriter) put(p *Piece, encode func(rec *Record) error) error {
	w.out.Made++
	if p.Record == nil || p.Record.Size != int64(len(p.Record.Block)) {
		return fmt.Errorf("the record at %d has %d bytes and cannot be changed", p.Offset, p.Length)
	}
	if err := w.copy(); err != nil {
		return err
	}
	if w.e.zst == nil && w.v.c.Streams[dataStream].Suffix == zstSuffix {
		var err error
		if w.e.zst, err = newZstFormat(LevelFast, fileDecoder(w.b).dict); err != nil {
			return err
		}
	}
	w.shift(Shift{Old: p.Offset, By: w.data.Size() - p.Offset})
	w.p.buf = w.p.buf[:0]
	before := w.data.Size()
	if err := encode(p.Record); err != nil {
		return fmt.Errorf("the record at %d: %w", p.Offset, err)
	}
	_, err := w.data.Write(w.p.buf)
	w.made = w.data.Size() - before
	w.from, w.to = p.Offset+p.Length, p.Offset+p.Length
	w.shift(Shift{Old: w.to, By: w.data.Size() - w.to})
	return err
}

func keepField(*Field) bool { return true }

// info encodes the warcinfo record with the new name.
func (w *rewriter) info(rec *Record) error {
	w.e.header(beginInfo, rec, func(f *Field) bool {
		if strings.EqualFold(f.Name, "WARC-Filename") {
			f.Value = w.file
		}
		return true
	})
	w.e.member(&w.p, typeFields, rec.Block, nil, false)
	return nil
}

// metadata encodes a metadata record with other lines.
func (w *rewriter) metadata(rec *Record, fields []Field) error {
	w.e.header(beginMetadata, rec, keepField)
	var block []byte
	for _, f := range fields {
		block = appendField(block, f.Name, f.Value)
	}
	w.e.member(&w.p, typeFields, block, nil, false)
	return nil
}

// refers encodes a revisit record that refers to another capture.
func (w *rewriter) refers(rec *Record, of Original) error {
	w.e.header(beginRevisit, rec, func(f *Field) bool {
		switch strings.ToLower(f.Name) {
		case "warc-refers-to-target-uri":
			f.Value = string(appendURL(nil, of.URL))
		case "warc-refers-to-date":
			f.Value = of.Date.UTC().Format(dateFormat)
		case "warc-refers-to":
			return false
		}
		return true
	})
	w.e.member(&w.p, typeRevisit, rec.Block, nil, false)
	return nil
}

// largeBody is the length of a payload in bytes above which it is not held in RAM.
const largeBody = 1 << 20

// whole encodes a revisit record as a response with the payload.
func (w *rewriter) whole(rec *Record, payload *io.SectionReader) error {
	head, size := rec.Block, payload.Size()
	body := io.Reader(io.NewSectionReader(payload, 0, size))
	if httphead.Chunked(head) {
		before, after := strconv.FormatInt(size, 16)+"\r\n", "\r\n0\r\n\r\n"
		body = io.MultiReader(strings.NewReader(before), body, strings.NewReader(after))
		size += int64(len(before) + len(after))
	}
	encoded := false
	for l := (httphead.Lines{Rest: head}); l.Next(); {
		encoded = encoded || httphead.Is(l.Key, "content-encoding") && len(l.Value) > 0
	}
	begin := beginWhole
	stored := encoded && size > 0
	if stored || size > smallBody {
		begin = beginResponse
	}
	w.e.header(begin, rec, func(f *Field) bool {
		name := strings.ToLower(f.Name)
		return name != "warc-profile" && !strings.HasPrefix(name, "warc-refers-to")
	})
	if size > largeBody {
		out := bufio.NewWriterSize(w.data, streamBytes)
		if err := w.e.endLarge(out, head, size, stored, body); err != nil {
			return err
		}
		return out.Flush()
	}
	data, err := io.ReadAll(body)
	if err == nil && int64(len(data)) < size {
		err = io.ErrUnexpectedEOF
	}
	w.e.member(&w.p, typeResponse, head, data, stored)
	return err
}

// mimeOf returns the type that a head names, in the form of the index.
func mimeOf(head []byte) string {
	var values []string
	for l := (httphead.Lines{Rest: head}); l.Next(); {
		if httphead.Is(l.Key, "content-type") {
			values = append(values, string(l.Value))
		}
	}
	if t := mimetype.Extract(strings.Join(values, ", ")).Essence; t != "" {
		return t[:min(len(t), maxIndexMIME)]
	}
	return "unk"
}

// line takes a line of the index for the record that is written last or will be copied next.
func (w *rewriter) line(l *siftLine, change func(o *indexObject)) error {
	if l == nil {
		return nil
	}
	loc := Location{File: w.file, Offset: w.data.Size(), Length: l.length}
	if w.to > w.from { // it will be copied
		loc.Offset += w.to - w.from - l.length
	} else {
		loc.Length = w.made
		loc.Offset -= loc.Length
	}
	text, err := w.lineAt(l, loc, change)
	w.lines = append(w.lines, text)
	return err
}

// lineAt returns a line with another location and, if change is set or its redirect is to be hidden, other values.
func (w *rewriter) lineAt(l *siftLine, loc Location, change func(o *indexObject)) ([]byte, error) {
	if change == nil && !bytes.Contains(l.text, []byte(`, "redirect": "`)) {
		return appendIndexTail(slices.Clone(l.text[:bytes.LastIndex(l.text, []byte(tailName))]), loc), nil
	}
	o, stamp, err := parseObject(l.text)
	if err != nil {
		return nil, &disk.CorruptError{Path: w.v.Index, Want: "a line of the index", Got: err.Error()}
	}
	if change != nil {
		change(&o)
	}
	if o.Redirect != "" && w.hide(string(latin1(o.Redirect))) {
		o.Redirect = ""
	}
	text := o.append(nil, &line{stamp: stamp}, loc, KeyPywb)
	key, _, _ := bytes.Cut(l.text, []byte{' '}) // which may be that of an earlier version
	return slices.Concat(key, text[bytes.IndexByte(text, ' '):]), nil
}

// orphans makes the lines of an index whose WARC file was moved away.
func (w *rewriter) orphans(lines []siftLine) error {
	for i := range lines {
		l := &lines[i]
		x, err := (&indexFile{path: w.v.Index}).parse(l.text)
		if err != nil {
			return &disk.CorruptError{Path: w.v.Index, Want: "a line of the index", Got: err.Error()}
		}
		p := Piece{Offset: l.offset, Length: l.length, Type: "response", URL: strings.TrimPrefix(x.URL, RenderedPrefix),
			Kind: x.Kind, Digest: x.Digest, Time: x.Time, Redirect: x.Redirect}
		edit, err := w.edit(&p)
		if err != nil {
			return err
		}
		if edit.Drop {
			w.out.Dropped++
			continue
		}
		w.out.Records++
		text, err := w.lineAt(l, Location{File: x.File, Offset: l.offset, Length: l.length}, nil)
		if err != nil {
			return err
		}
		w.lines = append(w.lines, text)
	}
	return nil
}

// parseObject parses a line of an index, without judging its values.
func parseObject(text []byte) (o indexObject, stamp string, err error) {
	fields := strings.SplitN(strings.TrimSuffix(string(text), "\n"), " ", 3)
	if len(fields) != 3 {
		return o, "", errors.New("no key, time or object")
	}
	return o, fields[1], json.Unmarshal([]byte(fields[2]), &o)
}

// EditLine returns a line of an index without a redirect that goes reports; keep is false if goes reports its URL. file
// is the name of the WARC file.
func EditLine(text []byte, goes func(url string) bool) (next []byte, keep bool, file string, err error) {
	o, stamp, err := parseObject(text)
	if err != nil {
		return nil, false, "", err
	}
	if goes(string(latin1(o.URL))) {
		return nil, false, o.Filename, nil
	}
	if o.Redirect == "" || !goes(string(latin1(o.Redirect))) {
		return text, true, o.Filename, nil
	}
	offset, err1 := strconv.ParseInt(o.Offset, 10, 64)
	length, err2 := strconv.ParseInt(o.Length, 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return nil, false, "", err
	}
	o.Redirect = ""
	next = o.append(nil, &line{stamp: stamp}, Location{File: o.Filename, Offset: offset, Length: length}, KeyPywb)
	key, _, _ := bytes.Cut(text, []byte{' '})
	return slices.Concat(key, next[bytes.IndexByte(next, ' '):]), true, o.Filename, nil
}
