package warc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"drumbeat/disk"
	"drumbeat/warc/outfile"
)

// Verify holds the callbacks of VerifyFiles. An error of a callback ends it.
type Verify struct {
	// MaxBlock bounds the part of a block in RAM, in bytes; 0: 1 GiB. Longer blocks are read again for
	// their digests.
	MaxBlock int64
	// Capture receives each intact response or revisit record, in the order of the files; valid during the call.
	Capture func(c *Capture) error
	// Omitted, if set, receives the URL of each metadata record that stands alone (PrepareOmitted).
	Omitted func(url string) error
	// Indexed, if set, receives the captures known only from an index line: the record is unreadable or its
	// file was moved away.
	Indexed func(c *Capture) error
	// Damaged receives each fault of a file, after which verification continues. nil: the first fault ends
	// it.
	Damaged func(err error) error
}

// Capture is a response record on which header, block and index line agree.
type Capture struct {
	File           string // final name without directory
	Offset, Length int64
	URL            string
	Status         int
	Digest         string // of the payload
	Kind           string // KindPage, KindRobots, KindDNS, KindRendered or KindScript
	Revisit        bool   // the body is that of an earlier capture; false of a capture known from the index alone
}

// kindOf returns the kind of a capture. DNS answers and rendered pages are recognized by their URL, since they have
// no resource type.
func kindOf(url, resource string) string {
	switch {
	case strings.HasPrefix(url, dnsScheme):
		return KindDNS
	case strings.HasPrefix(url, RenderedPrefix):
		return KindRendered
	}
	return resource
}

// Verified are the counts of VerifyFiles.
type Verified struct {
	Files, Records, Captures, Lines int64
	Bytes                           int64
	// AbsentFiles and AbsentIndexes count the WARC files and indexes of the crawl that were moved away.
	AbsentFiles, AbsentIndexes int64
}

// VerifyFiles reads every WARC file and index. It checks format, lengths and checksums of each record, its
// digests, and that response records and index lines match one to one (offset, length, URL, status, digest).
// A final file or index that was moved away is counted, not reported as damage. It takes the memory of one
// index and one record.
func VerifyFiles(opt Options, st *State, v Verify) (Verified, error) {
	opt.defaults()
	if v.MaxBlock == 0 {
		v.MaxBlock = 1 << 30
	}
	if v.Damaged == nil {
		v.Damaged = func(err error) error { return err }
	}
	x := verifier{opt: opt, v: v}
	all, err := outfile.List(opt.outfile(), &st.Files)
	if err != nil {
		return x.sum, fmt.Errorf("warc: verify: %w", err)
	}
	serials := map[uint64]bool{}
	for i := range all {
		c := &all[i]
		if serial, ok := x.serial(c); ok && c.Streams[dataStream].Path+refText(c.Streams[dataStream].Tail) != "" {
			serials[serial] = true
		}
		if err := x.volume(c); err != nil {
			return x.sum, fmt.Errorf("warc: verify %s: %w", c.Name, err)
		}
	}
	x.sum.AbsentFiles = max(0, int64(st.Files.Serial-st.Files.Unused)-int64(len(serials)))
	return x.sum, nil
}

// refText returns "" for the reference to the empty string.
func refText(r disk.Ref) string {
	if r.Len == 0 {
		return ""
	}
	return strconv.FormatUint(r.Gen, 10)
}

type verifier struct {
	opt Options
	v   Verify
	sum Verified
}

// serial returns the serial number in a file's name.
func (x *verifier) serial(c *outfile.Content) (uint64, bool) {
	if !c.Final {
		return c.Serial, true
	}
	fields := strings.SplitN(strings.TrimPrefix(c.Name, x.opt.Prefix+"-"), "-", 3)
	if len(fields) < 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(fields[1], 10, 64)
	return n, err == nil
}

// line is the description of a record in an index.
type line struct {
	length                        int64
	url, digest, stamp, truncated string
	kind, file                    string
	status                        int
}

// volume verifies one WARC file and its index.
func (x *verifier) volume(c *outfile.Content) error {
	var lines map[int64]line
	data, index := c.Streams[dataStream], c.Streams[indexStream]
	empty := func(s outfile.StreamContent) bool { return s.Path == "" && s.Tail.Len == 0 }
	if empty(data) && empty(index) {
		return nil
	}
	if !empty(index) {
		x.sum.Files++
		lines = map[int64]line{}
		if err := x.open(index, func(b *outfile.Bytes) error { return x.index(c, index, b, lines) }); err != nil {
			return err
		}
	} else {
		x.sum.AbsentIndexes++
	}
	if empty(data) { // moved away; counted by serial
		for at, l := range lines {
			if err := x.indexed(c, at, l); err != nil {
				return err
			}
		}
		return nil
	}
	x.sum.Files++
	return x.open(data, func(b *outfile.Bytes) error { return x.data(c, data, b, lines) })
}

// open calls fn with the bytes of a stream.
func (x *verifier) open(s outfile.StreamContent, fn func(b *outfile.Bytes) error) error {
	b, err := s.Open(x.opt.Set.FS, x.opt.State)
	if err != nil {
		if err := x.v.Damaged(err); err != nil {
			return err
		}
	}
	if b == nil {
		return nil
	}
	x.sum.Bytes += b.Size()
	return errors.Join(fn(b), b.Close())
}

// damage reports a fault in a stream.
func (x *verifier) damage(s outfile.StreamContent, off int64, want, got string) error {
	path := s.Path
	if path == "" || off >= s.Size {
		path = fmt.Sprintf("%s and tails-%010d", path, s.Tail.Gen)
	}
	return x.v.Damaged(&disk.CorruptError{Path: path, Offset: off, Want: want, Got: got})
}

// index reads the lines of an index.
func (x *verifier) index(c *outfile.Content, s outfile.StreamContent, b *outfile.Bytes, lines map[int64]line) error {
	r := bufio.NewReaderSize(io.NewSectionReader(b, 0, b.Size()), int(min(b.Size(), 1<<20)))
	off, last := int64(0), ""
	for {
		text, err := r.ReadString('\n')
		if err == io.EOF && text == "" {
			return nil
		}
		if err != nil && err != io.EOF {
			return x.v.Damaged(fmt.Errorf("read %s at %d: %w", s.Path, off, err))
		}
		x.sum.Lines++
		at, l, err := parseLine(text, x.dataFiles(c)...)
		if err == nil && s.Changed && text < last {
			err = errors.New("line out of order")
		}
		if _, twice := lines[at]; err == nil && twice {
			err = fmt.Errorf("second line for offset %d", at)
		}
		if err != nil {
			if err := x.damage(s, off, "an index line", err.Error()); err != nil {
				return err
			}
		} else {
			lines[at] = l
		}
		off, last = off+int64(len(text)), text
	}
}

// dataFiles returns the name of a volume's WARC file, or the possible ones if it was moved away.
func (x *verifier) dataFiles(c *outfile.Content) []string {
	if suffix := c.Streams[dataStream].Suffix; suffix != "" {
		return []string{c.Name + suffix}
	}
	return []string{c.Name + gzSuffix, c.Name + zstSuffix}
}

// parseLine parses an index line of a file that has one of the given names.
func parseLine(text string, files ...string) (offset int64, l line, err error) {
	fail := func(what string) (int64, line, error) {
		return 0, l, fmt.Errorf("%s in %q", what, text[:min(len(text), 60)])
	}
	fields := strings.SplitN(strings.TrimSuffix(text, "\n"), " ", 3)
	if len(fields) != 3 || !strings.HasSuffix(text, "\n") {
		return fail("no key, time or object")
	}
	var o indexObject
	if err := json.Unmarshal([]byte(fields[2]), &o); err != nil {
		return fail("invalid JSON object")
	}
	status, err1 := strconv.Atoi(o.Status)
	length, err2 := strconv.ParseInt(o.Length, 10, 64)
	offset, err3 := strconv.ParseInt(o.Offset, 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return fail("invalid number")
	}
	if !slices.Contains(files, o.Filename) {
		return fail("wrong file name")
	}
	l = line{length: length, url: o.URL, digest: o.Digest, status: status, stamp: fields[1], truncated: o.Truncated,
		kind: kindOf(o.URL, o.Type), file: o.Filename}
	if fixed := fixedType(l.kind); fixed != "" && o.MIME != fixed {
		return fail("not the type of its kind")
	}
	loc := Location{File: o.Filename, Offset: offset, Length: length}
	want := o.append(nil, &l, loc, KeyPywb)
	if string(want) != text && string(o.append(nil, &l, loc, keyFormer)) != text {
		return fail("not the line of its fields, " + string(want[:min(len(want), 60)]))
	}
	return offset, l, nil
}

// fixedType returns the type that all lines of a kind have; "" for responses, which have that of their head.
func fixedType(kind string) string {
	switch kind {
	case KindDNS:
		return dnsType
	case KindRendered:
		return renderedType
	}
	return ""
}

// indexObject is the JSON object of an index line.
type indexObject struct {
	URL, MIME, Status, Digest, Redirect, Truncated, Simhash, Type, Length, Offset, Filename string
}

// append appends the line with these fields, in the form of appendIndexHead and appendIndexTail.
func (o *indexObject) append(dst []byte, l *line, loc Location, form KeyForm) []byte {
	dst = AppendKey(dst, latin1(o.URL), form)
	dst = append(append(append(dst, ' '), l.stamp...), " {"...)
	for i, f := range [...]struct{ name, value string }{{"url", o.URL}, {"mime", o.MIME},
		{"status", o.Status}, {"digest", o.Digest}, {"redirect", o.Redirect}, {"truncated", o.Truncated},
		{"simhash", o.Simhash}, {"type", o.Type}} {
		if i >= 3 && f.value == "" {
			continue
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(append(append(dst, '"'), f.name...), `": `...)
		dst = appendJSON(dst, latin1(f.value))
	}
	return appendIndexTail(dst, loc)
}

// latin1 restores the bytes that appendJSON encoded and a JSON parser decoded.
func latin1(s string) []byte {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return b
}

// memberMagic begins each record that the Encoder writes: a gzip header without name and time, for an
// unknown system.
const memberMagic = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// data reads the records of a WARC file and compares them with the index, if there is one.
func (x *verifier) data(c *outfile.Content, s outfile.StreamContent, b *outfile.Bytes, lines map[int64]line) error {
	dec, magic := fileDecoder(b), memberMagic
	if s.Suffix == zstSuffix {
		magic = frameMagic
	}
	lost := false
	for off := int64(0); off < b.Size(); {
		var stop error
		base, next := off, off
		err := dec.read(io.NewSectionReader(b, base, b.Size()-base), x.v.MaxBlock, func(rec *Record) error {
			rec.Offset += base
			next = rec.Offset + rec.Length
			if stop = x.head(s, b, dec, rec.Offset); stop == nil {
				stop = x.record(c, s, &block{Record: rec, file: b, dec: dec}, lines)
			}
			return stop
		})
		if stop != nil {
			return stop
		}
		if err == nil {
			break
		}
		lost = true
		if err := x.damage(s, next, "a record", err.Error()); err != nil {
			return err
		}
		whole := func(at int64) bool {
			found := errors.New("found")
			return errors.Is(dec.read(io.NewSectionReader(b, at, b.Size()-at), x.v.MaxBlock,
				func(*Record) error { return found }), found)
		}
		if off = disk.FindMagic(b, next+1, b.Size(), magic, whole); off < 0 {
			break
		}
	}
	for at, l := range lines {
		if err := x.indexed(c, at, l); err != nil {
			return err
		}
		if lost && at < b.Size() {
			continue // reported already
		}
		if err := x.damage(s, at, "the record of "+l.url, "none"); err != nil {
			return err
		}
	}
	return nil
}

// head verifies the header of a gzip member or of a frame. Readers check only part of it.
func (x *verifier) head(s outfile.StreamContent, b *outfile.Bytes, dec *decoder, off int64) error {
	want, what := memberMagic, "gzip"
	got := make([]byte, len(memberMagic))
	if s.Suffix == zstSuffix {
		f := frameReader{in: bufio.NewReader(io.NewSectionReader(b, off, b.Size()-off))}
		h, err := f.header()
		want = string(appendFrameHead(nil, h.size, dec.dictID, h.single && h.size <= zstWindow))
		if got, what = f.pending, "frame"; err != nil {
			got = f.head[:]
		}
	} else if _, err := b.ReadAt(got, off); err != nil {
		return x.v.Damaged(fmt.Errorf("read %s at %d: %w", s.Path, off, err))
	}
	if string(got) == want {
		return nil
	}
	return x.damage(s, off, fmt.Sprintf("a %s header %x", what, want), fmt.Sprintf("%x", got))
}

// indexed reports a capture known only from an index line.
func (x *verifier) indexed(c *outfile.Content, at int64, l line) error {
	if x.v.Indexed == nil {
		return nil
	}
	return x.v.Indexed(&Capture{File: l.file, Offset: at, Length: l.length, URL: l.url,
		Status: l.status, Digest: l.digest, Kind: l.kind})
}

// record verifies one record and removes the index line of a response from lines.
func (x *verifier) record(c *outfile.Content, s outfile.StreamContent, block *block, lines map[int64]line) error {
	x.sum.Records++
	rec := block.Record
	want, response, revisit := rec.Get("WARC-Block-Digest"), rec.IsCapture(), rec.Type() == "revisit"
	if want != "" || !response || revisit {
		got, err := block.digest(0)
		if err == nil && got != want {
			err = x.damage(s, rec.Offset, "block digest "+want, got)
		}
		if err != nil {
			return err
		}
	}
	if !response {
		if x.v.Omitted != nil && rec.Type() == "metadata" && rec.Get("WARC-Concurrent-To") == "" {
			return x.v.Omitted(rec.Get("WARC-Target-URI"))
		}
		return nil
	}
	x.sum.Captures++
	found := Capture{File: c.Name + s.Suffix, Offset: rec.Offset, Length: rec.Length, URL: rec.Get("WARC-Target-URI"),
		Status: statusOf(rec.Block), Digest: rec.Get("WARC-Payload-Digest")}
	found.Kind = kindOf(found.URL, rec.Get("WARC-Resource-Type"))
	found.Revisit = revisit
	whole := block.hasPayload
	switch found.Kind {
	case KindDNS:
		found.Status, whole = dnsStatus, block.hasDigest
	case KindRendered:
		found.Status, whole = renderedStatus, block.hasDigest
	}
	intact, err := revisit && rec.Get("WARC-Refers-To-Target-URI") != "", error(nil)
	if !revisit {
		intact, err = whole(found.Digest)
	}
	if err == nil && !intact {
		err = x.damage(s, rec.Offset, "payload digest "+found.Digest, "another payload")
	}
	if err != nil {
		return err
	}
	if lines != nil {
		l, ok := lines[rec.Offset]
		delete(lines, rec.Offset)
		want := line{length: found.Length, url: found.URL, digest: found.Digest, status: found.Status,
			stamp: digits(rec.Get("WARC-Date")), truncated: rec.Get("WARC-Truncated"), kind: found.Kind,
			file: found.File}
		if !ok {
			if err := x.damage(s, rec.Offset, "a line of the index for "+found.URL, "none"); err != nil {
				return err
			}
		} else if l != want {
			if err := x.damage(s, rec.Offset, fmt.Sprintf("the record of index line %+v", l),
				fmt.Sprintf("%+v", want)); err != nil {
				return err
			}
		}
	}
	if x.v.Capture == nil {
		return nil
	}
	return x.v.Capture(&found)
}

// digits removes everything but digits from a time.
func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

// statusOf parses the status line of a response; 0 if there is none.
func statusOf(block []byte) int {
	head, _, _ := bytes.Cut(block, []byte("\n"))
	fields := bytes.Fields(head)
	if len(fields) < 2 {
		return 0
	}
	n, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0
	}
	return n
}

// OpenFiles returns the paths of the WARC files and indexes that are not final: the crawl will rename them.
func OpenFiles(o Options, st *State) (paths []string) {
	for _, v := range st.Files.Volumes {
		paths = append(paths, outfile.OpenFiles(o.Files(), v)...)
	}
	return paths
}

// Files returns the options of the file store, for callers that inspect volumes.
func (o Options) Files() outfile.Options {
	o.defaults()
	return o.outfile()
}
