package publish

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"drumbeat/internal/bug"
	"drumbeat/internal/langid"
	"drumbeat/internal/maintext"
	"drumbeat/internal/pagetext"
	"drumbeat/internal/response"
	"drumbeat/state/extract"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Bounds of published WARC files in bytes: the columnar index has 32 bits for offsets and lengths. A file of
// maxFileBytes is full, so an offset behind a request stays within them.
const (
	maxFileBytes = 2e9
	maxRecord    = math.MaxInt32
)

// output returns the file of a subset. It begins with a warcinfo record, that of the WARC file with another name.
func (s *splitter) output(to Subset) (*output, error) {
	if s.out[to] != nil {
		return s.out[to], nil
	}
	base, suffix, made := s.v.Name, ".warc.gz", to == WET || to == WAT
	n := s.ended[to]
	if made {
		suffix, n = fmt.Sprintf(".warc.%s.gz", to), s.ended[Pages]
	}
	if n > 0 {
		base += fmt.Sprintf(".%d", n+1)
	}
	name := base + suffix
	o, err := s.j.create(fmt.Sprintf("%s/%s/%s", s.j.segment(s.segment), to, name))
	if err != nil {
		return nil, err
	}
	s.out[to] = o
	random := s.j.random(o.path)
	if made {
		w, err := warc.NewConversions(o, name, []warc.Field{{Name: "software", Value: s.j.opt.Software},
			{Name: "isPartOf", Value: s.j.report.Name}}, s.infoDate, random)
		if to == WET {
			s.wet = w
		} else {
			s.wat = w
		}
		return o, err
	}
	block := fmt.Appendf(s.info[:len(s.info):len(s.info)], "isPartOf: %s\r\n", s.j.report.Name)
	_, err = o.Write(warc.Warcinfo(name, block, s.infoDate, random))
	return o, err
}

// roll ends the file of a subset if it is full, with the files that are made of it.
func (s *splitter) roll(of Subset) error {
	if o := s.out[of]; o == nil || o.Size() < s.j.opt.FileBytes {
		return nil
	}
	err := s.end(of)
	for _, made := range []Subset{WET, WAT} {
		if err == nil && of == Pages {
			err = s.end(made)
		}
	}
	s.ended[of]++
	return err
}

// copy copies the record in a range of the WARC file, and returns its place.
func (s *splitter) copy(to Subset, from, length int64) (offset, now int64, err error) {
	o, err := s.output(to)
	if err != nil {
		return 0, 0, err
	}
	offset = o.Size()
	if !strings.HasSuffix(s.v.File(), ".gz") {
		err = s.pack(o, from)
	} else {
		var n int64
		if n, err = io.Copy(o, io.NewSectionReader(s.r, from, length)); err == nil && n < length {
			err = s.corrupt(from+n, "a record", "the end of the file")
		}
	}
	return offset, o.Size() - offset, err
}

// packLevel is the deflate level of records that come from Zstandard frames.
const packLevel = 3

// pack writes the record of a Zstandard frame as a gzip member.
func (s *splitter) pack(o *output, from int64) (err error) {
	if s.gzip == nil {
		if s.gzip, err = gzip.NewWriterLevel(o, packLevel); err != nil {
			return err
		}
	}
	s.gzip.Reset(o)
	text, err := s.reader.Text(s.r, s.r.Size(), from)
	if err != nil {
		return s.corrupt(from, "a record", err.Error())
	}
	in := &failing{r: text}
	_, err = io.Copy(s.gzip, in)
	if in.err != nil {
		return s.corrupt(from, "a record", in.err.Error())
	}
	if err == nil {
		err = s.gzip.Close()
	}
	return err
}

// failing keeps the error of a reader, which io.Copy does not tell from that of the writer.
type failing struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != io.EOF {
		f.err = err
	}
	return n, err
}

// others copies the records between two captures: metadata follows the one before, requests precede the next.
func (s *splitter) others(from, end int64, next Subset) error {
	type record struct {
		at      int64
		to      Subset
		request bool
	}
	var list []record
	err := s.reader.Each(s.r, from, end, func(rec *warc.Record, block io.Reader) (err error) {
		r := record{at: rec.Offset, to: Diagnostics}
		switch {
		case rec.Type() == "warcinfo":
			if s.info, err = io.ReadAll(io.LimitReader(block, warc.MaxSifted)); err == nil {
				s.infoDate, err = time.Parse(time.RFC3339, rec.Get("WARC-Date"))
			}
			r.to = numSubsets // each file has its own
		case rec.Type() == "request":
			r.to, r.request = next, true
		case rec.Get("WARC-Concurrent-To") != "":
			r.to = s.last
			if rec.Type() == "metadata" && s.visit != nil {
				var meta []byte
				meta, err = io.ReadAll(io.LimitReader(block, warc.MaxSifted))
				s.visit.meta(meta)
			}
		}
		list = append(list, r)
		return err
	})
	if err != nil {
		return s.corrupt(from, "records", err.Error())
	}
	for i, r := range list {
		to := end
		if i+1 < len(list) {
			to = list[i+1].at
		}
		if r.to == numSubsets {
			continue
		}
		if r.request {
			s.asked = true
			if err := s.roll(next); err != nil {
				return err
			}
		}
		if _, _, err := s.copy(r.to, r.at, to-r.at); err != nil {
			return err
		}
	}
	return nil
}

// capture copies a capture, after it was read to its end, and writes its line.
func (s *splitter) capture(x *warc.Indexed, to Subset) error {
	c := &captured{URL: x.URL, MIME: x.MIME, Status: fmt.Sprint(x.Status), Redirect: x.Redirect,
		Digest: strings.TrimPrefix(x.Digest, "sha1:"), Truncated: x.Truncated}
	if err := s.endVisit(); err != nil {
		return err
	}
	if !s.asked {
		if err := s.roll(to); err != nil {
			return err
		}
	}
	s.asked = false
	w, err := s.examine(x, to, c)
	if err != nil {
		return err
	}
	offset, length, err := s.copy(to, x.Offset, x.Length)
	if err != nil {
		return err
	}
	s.last = to
	s.part.Captures[to]++
	switch {
	case !strings.HasPrefix(x.URL, "http"):
		return nil // a rendered page or a DNS answer
	case length > s.j.opt.RecordBytes || offset > maxRecord:
		s.part.Long++
		return nil
	}
	c.Filename, c.Offset, c.Length = s.out[to].path, fmt.Sprint(offset), fmt.Sprint(length)
	if s.line, err = c.append(s.line[:0], x.Time); err != nil {
		return err
	}
	_, err = s.lines.Write(s.line)
	host := weburl.TrimDot(weburl.Split([]byte(x.URL)).Host)
	s.visit = &visit{host: string(host), at: x.Time.Unix(), to: to, status: x.Status,
		length: length, language: c.Languages}
	if err == nil && w != nil {
		err = s.describe(w, x, c)
	}
	return err
}

// examine reads a capture, verifies it, and writes the text of a page. It returns what WAT has of it; nil if that has
// nothing.
func (s *splitter) examine(x *warc.Indexed, to Subset, c *captured) (w *wat, err error) {
	texts := to == Pages && !s.j.opt.NoTexts
	if texts && extract.HasPage(x) {
		var counts extract.Counts
		page := new(watPage)
		err := extract.WithDoc(s.data, x, &counts, page.token,
			func(rec *warc.StoredRecord, resp *response.Response, doc *maintext.Doc) error {
				c.RecordID, c.Detected, c.Charset = recordID(rec.Record), "text/html", charsetName(doc.Charset)
				w = newWAT(rec, resp, x, page)
				return s.text(x, rec, doc, c)
			})
		if err != nil || w != nil {
			return w, err
		}
	}
	rec, err := s.data.Record(x)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rec.Close() }() // the file stays open
	c.RecordID = recordID(rec.Record)
	if x.IsRevisit() || x.Kind == warc.KindDNS {
		if _, err := io.Copy(io.Discard, rec); err != nil {
			return nil, s.corrupt(x.Offset, "a record", err.Error())
		}
		return nil, nil
	}
	resp, err := response.Open(rec, func(string) {})
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	begin, err := c.sniff(resp)
	if texts {
		w = newWAT(rec, resp, x, nil)
		if c.Detected == "text/html" {
			page := new(watPage)
			w.Envelope.Payload.Response.HTML = page
			// What a page has before a fault is right: its codings, or a tag that is too long.
			_ = bug.Contained(func() error {
				_, err := pagetext.Walk(io.MultiReader(bytes.NewReader(begin), resp.Body), resp.ContentType(),
					func(t *pagetext.Token) error { page.token(t); return nil })
				return err
			})
		}
	}
	return w, resp.End(err)
}

// text writes the text of a page.
func (s *splitter) text(x *warc.Indexed, rec *warc.StoredRecord, doc *maintext.Doc, c *captured) error {
	if _, err := s.output(WET); err != nil {
		return err
	}
	if code, _ := langid.Language(doc.Main); code != langid.Undetermined {
		c.Languages = code
	}
	s.part.Captures[WET]++
	return s.wet.Write(&warc.Conversion{URL: x.URL, Date: x.Time, RefersTo: rec.Get("WARC-Record-ID"),
		Languages: c.Languages, Text: doc.Text})
}

// recordID returns the UUID of a record.
func recordID(rec *warc.Record) string {
	id := strings.Trim(rec.Get("WARC-Record-ID"), "<>")
	return strings.TrimPrefix(id, "urn:uuid:")
}
