package extract

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"drumbeat/internal/bug"
	"drumbeat/internal/langid"
	"drumbeat/internal/maintext"
	"drumbeat/internal/minhash"
	"drumbeat/internal/pagetext"
	"drumbeat/internal/response"
	"drumbeat/internal/tabular"
	"drumbeat/internal/textquality"
	"drumbeat/parse"
	"drumbeat/warc"
)

// unknownMIME is the media type in an index of a response without one.
const unknownMIME = "unk"

// isHTML tells whether a response with the media type of an index may be HTML.
func isHTML(mime string) bool { return mime == unknownMIME || pagetext.IsHTML(mime) }

// sniffBytes is how much of a body without a type is looked at.
const sniffBytes = 1445

// page adds a page to a part. Damage of its record is a *disk.CorruptError.
func (j *job) page(data *warc.Data, x *warc.Indexed, to *sink, counts *Counts) error {
	use := func(rec *warc.StoredRecord, resp *response.Response, doc *maintext.Doc) error {
		doc.NoIndex = doc.NoIndex || noIndex(resp, j.agent)
		truncated, err := to.add(data.File, x, rec, doc)
		if err != nil {
			return err
		}
		counts.Pages++
		if truncated {
			counts.Truncated++
		}
		return nil
	}
	return WithDoc(data, x, counts, nil, use)
}

// noIndex tells whether a header asks the agent not to index the page.
func noIndex(resp *response.Response, agent string) bool {
	return slices.ContainsFunc(resp.Fields("X-Robots-Tag"),
		func(tag string) bool { return parse.ParseRobotsTag([]byte(tag), agent).NoIndex })
}

// Language returns the language of a stored page, as the field Lang has it; "" for what is no page: a revisit, another
// status than 200 to 299, another type than HTML. Damage of its record is a *disk.CorruptError. It takes up to 64 MiB
// and is safe for concurrent use.
func Language(data *warc.Data, x *warc.Indexed) (code string, err error) {
	if !HasPage(x) {
		return "", nil
	}
	var counts Counts
	err = WithDoc(data, x, &counts, nil, func(_ *warc.StoredRecord, _ *response.Response, doc *maintext.Doc) error {
		code, _ = langid.Language(doc.Main)
		return nil
	})
	return code, err
}

// MainText returns the title and the main text of a stored page, as the fields Meta and Text have them; nothing for
// what is no page. Damage of its record is a *disk.CorruptError. It takes up to 64 MiB and is safe for concurrent use.
func MainText(data *warc.Data, x *warc.Indexed) (title string, text []byte, err error) {
	var counts Counts
	err = WithDoc(data, x, &counts, nil, func(_ *warc.StoredRecord, _ *response.Response, doc *maintext.Doc) error {
		title, text = doc.Title, doc.Main
		if len(text) > maxRowText {
			text = cut(text, maxRowText)
		}
		return nil
	})
	return title, text, err
}

// Pages reads one stored page after another. It belongs to one goroutine, and takes up to 64 MiB. Damage of a record
// is a *disk.CorruptError.
type Pages struct {
	Counts // of what was no page, too
	sink
	agent string
}

// NewPages returns a reader of pages for rows with the columns Columns(fields). agent is the token of the crawl's
// robots.txt rules.
func NewPages(fields []Field, agent string) *Pages {
	return &Pages{sink: sink{fields: fields}, agent: agent}
}

// Row returns the row of a page, which stays as it is; nil for what is no page.
func (p *Pages) Row(data *warc.Data, x *warc.Indexed) (row []tabular.Value, err error) {
	use := func(_ *warc.StoredRecord, resp *response.Response, doc *maintext.Doc) error {
		doc.NoIndex = doc.NoIndex || noIndex(resp, p.agent)
		p.sink.row = nil
		row, _ = p.sink.makeRow(data.File, x, doc)
		return nil
	}
	err = WithDoc(data, x, &p.Counts, nil, use)
	return row, err
}

// Signature tells a page from its copies.
type Signature struct {
	Text    [16]byte          // hash of the main text
	MinHash minhash.Signature // of the main text
	Long    bool              // the text has a MinHash
}

// Sign returns the signature of a page; ok is false for what is no page.
func (p *Pages) Sign(data *warc.Data, x *warc.Indexed) (s Signature, ok bool, err error) {
	err = WithDoc(data, x, &p.Counts, nil, func(_ *warc.StoredRecord, _ *response.Response, doc *maintext.Doc) error {
		sum := sha256.Sum256(doc.Main)
		copy(s.Text[:], sum[:])
		s.MinHash, s.Long = p.sketch.Sum(doc.Main)
		ok = true
		return nil
	})
	return s, ok, err
}

// HasPage tells whether the record of a response may have a page, by its index.
func HasPage(x *warc.Indexed) bool {
	return x.Kind == warc.KindPage && !x.IsRevisit() && x.Status >= 200 && x.Status <= 299 && isHTML(x.MIME)
}

// WithDoc reads the record of a response and calls use if it is a page; otherwise it counts what it is. Damage is a
// *disk.CorruptError. watch, if set, sees each token of the page. It takes up to 64 MiB and is safe for concurrent use.
func WithDoc(data *warc.Data, x *warc.Indexed, counts *Counts, watch func(*pagetext.Token),
	use func(*warc.StoredRecord, *response.Response, *maintext.Doc) error) error {
	rec, err := data.Record(x)
	if err != nil {
		return err
	}
	defer rec.Close() // it is shared: there is no error
	resp, err := response.Open(rec, func(string) {})
	if err != nil {
		return err
	}
	defer resp.Close()
	if resp.HeadOnly {
		counts.HeadOnly++
		return resp.SkipBody()
	}
	body := &untilError{r: bufio.NewReaderSize(resp.Body, 16<<10)}
	kind := resp.ContentType()
	if start, _ := body.r.Peek(sniffBytes); !parse.IsPage(kind, start, resp.NoSniff) {
		counts.OtherType++
		return resp.SkipBody()
	}
	var doc *maintext.Doc
	failed := bug.Contained(func() (err error) {
		doc, err = maintext.Watched(body, kind, x.URL, watch)
		return err
	})
	if err := resp.End(body.err); err != nil {
		return err
	}
	if failed != nil {
		counts.Failed++
		return nil
	}
	doc.Truncated = doc.Truncated || rec.Get("WARC-Truncated") != "" || body.err != nil
	return use(rec, resp, doc)
}

// untilError is a body that ends at the first error of its coding, as in browsers.
type untilError struct {
	r   *bufio.Reader
	err error
}

// Read implements io.Reader.
func (u *untilError) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, io.EOF
	}
	n, err := u.r.Read(p)
	if err != nil && err != io.EOF {
		u.err, err = err, io.EOF
	}
	return n, err
}

// sink is a part that is being made: wet or rows is set.
type sink struct {
	fields []Field
	full   bool
	wet    *warc.Conversions
	rows   *tabular.Writer
	row    []tabular.Value
	text   []byte
	meter  textquality.Meter
	sketch minhash.Sketch
}

// groupBytes is the size of a row group.
const groupBytes = 8 << 20

// newSink begins a part, whose name WET contains.
func (j *job) newSink(out io.Writer, name string) (s *sink, err error) {
	s = &sink{fields: j.opt.Fields, full: j.opt.FullText}
	if j.opt.Format == WET {
		s.wet, err = warc.NewConversions(out, name, []warc.Field{{Name: "software", Value: j.opt.Software},
			{Name: "description", Value: "text of the HTML pages of crawl " + j.report.Crawl}}, time.Now(), nil)
		return s, err
	}
	s.rows, err = tabular.NewStream(out, tabular.Options{Format: j.opt.Format, Columns: Columns(j.opt.Fields),
		Compression: j.opt.Compression, GroupBytes: groupBytes})
	return s, err
}

// close ends the part.
func (s *sink) close() error {
	if s.wet != nil {
		return nil
	}
	return s.rows.Close()
}

func (s *sink) has(f Field) bool { return slices.Contains(s.fields, f) }

// add adds a page. It tells whether the page or its text was cut.
func (s *sink) add(file string, x *warc.Indexed, rec *warc.StoredRecord, d *maintext.Doc) (truncated bool, err error) {
	if s.wet != nil {
		return d.Truncated, s.addWET(x, rec, d, s.textOf(d))
	}
	row, truncated := s.makeRow(file, x, d)
	return truncated, s.rows.Write(row)
}

// textOf returns the text that is asked for.
func (s *sink) textOf(d *maintext.Doc) []byte {
	if s.full {
		return d.Text
	}
	return d.Main
}

// makeRow returns the row of a page, valid until the next call. It tells whether the page or its text was cut.
func (s *sink) makeRow(file string, x *warc.Indexed, d *maintext.Doc) (row []tabular.Value, truncated bool) {
	text := s.textOf(d)
	truncated = d.Truncated
	longest := maxRowText
	var markdown []byte
	if s.has(Markdown) {
		longest /= 2
		var short bool
		markdown, short = d.Markdown(longest)
		truncated = truncated || short
	}
	if len(text) > longest {
		text, truncated = cut(text, longest), true
	}
	v := append(s.row[:0], tabular.Str(x.URL), tabular.At(x.Time), tabular.Int(int64(x.Status)),
		tabular.Str(strings.TrimPrefix(x.Digest, "sha1:")), tabular.StrOrNull(d.Charset),
		tabular.Truth(d.CharsetGuessed), tabular.Truth(truncated), tabular.Str(file), tabular.Int(x.Offset),
		tabular.Int(x.Length))
	var code string
	var sure float64
	if s.has(Lang) || s.has(Quality) {
		code, sure = langid.Language(d.Main)
	}
	if s.has(Lang) {
		v = append(v, tabular.Str(code), tabular.Float(math.Round(sure*100)/100), tabular.StrOrNull(d.Declared))
	}
	if s.has(Meta) {
		v = append(v, tabular.StrOrNull(d.Title), tabular.StrOrNull(d.Description), tabular.StrOrNull(d.Canonical),
			tabular.StrOrNull(d.Author), tabular.StrOrNull(d.Published), tabular.Truth(d.NoIndex))
	}
	if s.has(JSONLD) {
		ld := tabular.Null
		if len(d.JSONLD) > 0 {
			list := []byte{'['}
			for i, item := range d.JSONLD {
				if i > 0 {
					list = append(list, ',')
				}
				list = append(list, item...)
			}
			ld = tabular.Text(append(list, ']'))
		}
		v = append(v, ld, tabular.Int(int64(d.DroppedJSONLD)))
	}
	if s.has(Text) {
		v = append(v, tabular.Text(text), tabular.Truth(d.Whole))
	}
	if s.has(Markdown) {
		v = append(v, tabular.Text(markdown))
	}
	if s.has(Quality) {
		v = appendQuality(v, s.meter.Measure(d.Main, code))
	}
	if s.has(MinHash) {
		signature := tabular.Null
		if sig, ok := s.sketch.Sum(d.Main); ok {
			signature = tabular.Text(sig.AppendText(nil))
		}
		v = append(v, signature)
	}
	s.row = v
	return v, truncated
}

// addWET adds a record: the title as a line, then the text. The visible text has the title already.
func (s *sink) addWET(x *warc.Indexed, rec *warc.StoredRecord, d *maintext.Doc, text []byte) error {
	if !s.full && d.Title != "" {
		s.text = append(append(append(s.text[:0], d.Title...), '\n'), text...)
		text = s.text
	}
	c := &warc.Conversion{URL: x.URL, Date: x.Time, RefersTo: rec.Get("WARC-Record-ID"), Text: text}
	if s.has(Lang) {
		if code, _ := langid.Language(d.Main); code != langid.Undetermined {
			c.Languages = code
		}
	}
	return s.wet.Write(c)
}

// maxRowText bounds the text of a row, so that a row with everything else at its bound fits into tabular.MaxRowBytes.
// With Markdown, each of the two has half of it.
const maxRowText = 640 << 10

// cut returns the first characters of a text.
func cut(text []byte, size int) []byte {
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return bytes.Clone(text[:size])
}

// Columns returns the columns of a table with these fields. Columns that Common Crawl's columnar index has too, and
// those of the table of pages, have the same names and meanings.
func Columns(fields []Field) []tabular.Column {
	columns := []tabular.Column{
		{Name: "url", Type: tabular.String},
		{Name: "fetch_time", Type: tabular.Time},
		{Name: "fetch_status", Type: tabular.Int64},
		{Name: "content_digest", Type: tabular.String},
		{Name: "content_charset", Type: tabular.String, Nullable: true, Few: true},
		{Name: "charset_guessed", Type: tabular.Bool},
		{Name: "truncated", Type: tabular.Bool},
		{Name: "warc_filename", Type: tabular.String, Few: true},
		{Name: "warc_record_offset", Type: tabular.Int64},
		{Name: "warc_record_length", Type: tabular.Int64},
	}
	if slices.Contains(fields, Lang) {
		columns = append(columns, tabular.Column{Name: "content_languages", Type: tabular.String, Few: true},
			tabular.Column{Name: "language_confidence", Type: tabular.Float64},
			tabular.Column{Name: "declared_language", Type: tabular.String, Nullable: true, Few: true})
	}
	if slices.Contains(fields, Meta) {
		for _, name := range []string{"title", "description", "canonical", "author", "published"} {
			columns = append(columns, tabular.Column{Name: name, Type: tabular.String, Nullable: true})
		}
		columns = append(columns, tabular.Column{Name: "noindex", Type: tabular.Bool})
	}
	if slices.Contains(fields, JSONLD) {
		columns = append(columns, tabular.Column{Name: "json_ld", Type: tabular.String, Nullable: true},
			tabular.Column{Name: "json_ld_dropped", Type: tabular.Int64})
	}
	if slices.Contains(fields, Text) {
		columns = append(columns, tabular.Column{Name: "text", Type: tabular.String},
			tabular.Column{Name: "text_whole", Type: tabular.Bool})
	}
	if slices.Contains(fields, Markdown) {
		columns = append(columns, tabular.Column{Name: "markdown", Type: tabular.String})
	}
	if slices.Contains(fields, Quality) {
		columns = append(columns, qualityColumns...)
	}
	if slices.Contains(fields, MinHash) {
		columns = append(columns, tabular.Column{Name: "minhash", Type: tabular.String, Nullable: true})
	}
	return columns
}
