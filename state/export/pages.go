package export

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"time"

	"drumbeat/internal/crawllog"
	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/state/extract"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// pageTable has a row for each stored response. Columns that Common Crawl's columnar index has too have its
// names and meaning.
func pageTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "url_surtkey", Type: tabular.String, Nullable: true},
			{Name: "url", Type: tabular.String},
			{Name: "url_host_name", Type: tabular.String, Few: true},
			{Name: "url_host_registered_domain", Type: tabular.String, Few: true}, // the PLD
			{Name: "fetch_time", Type: tabular.Time},
			{Name: "fetch_status", Type: tabular.Int64},
			{Name: "fetch_redirect", Type: tabular.String, Nullable: true},
			{Name: "content_digest", Type: tabular.String, Nullable: true}, // SHA-1 in Base32
			{Name: "content_mime_type", Type: tabular.String, Nullable: true, Few: true},
			{Name: "content_charset", Type: tabular.String, Nullable: true, Few: true}, // of the log
			// With Options.Languages; ISO 639-3.
			{Name: "content_languages", Type: tabular.String, Nullable: true, Few: true},
			{Name: "content_truncated", Type: tabular.String, Nullable: true, Few: true},
			{Name: "warc_filename", Type: tabular.String, Few: true},
			{Name: "warc_record_offset", Type: tabular.Int64},
			{Name: "warc_record_length", Type: tabular.Int64, Nullable: true},
			// The crawl log has these. They are null if it omits fetched URLs or was moved away.
			{Name: "depth", Type: tabular.Int64, Nullable: true},
			{Name: "via", Type: tabular.String, Nullable: true},
			{Name: "ip", Type: tabular.String, Nullable: true, Few: true},
			{Name: "duration_ms", Type: tabular.Int64, Nullable: true},
			{Name: "bytes", Type: tabular.Int64, Nullable: true}, // as transferred
			{Name: "attempts", Type: tabular.Int64, Nullable: true},
			{Name: "robots", Type: tabular.String, Nullable: true, Few: true},
			{Name: "canonical", Type: tabular.String, Nullable: true},
			{Name: "duplicate_of", Type: tabular.String, Nullable: true},
			// What the hook said (--hook).
			{Name: "hook_score", Type: tabular.Float64, Nullable: true},
			{Name: "hook_fields", Type: tabular.String, Nullable: true}, // a JSON object
			{Name: "simhash", Type: tabular.String, Nullable: true},     // of the index, in hexadecimal
			// What the site said about the use of the page (crawllog.Rights).
			{Name: "robots_digest", Type: tabular.String, Nullable: true, Few: true},
			{Name: "robots_fetched", Type: tabular.Time, Nullable: true},
			{Name: "robots_group", Type: tabular.String, Nullable: true, Few: true},
			{Name: "robots_rule", Type: tabular.String, Nullable: true, Few: true},
			{Name: "robots_crawl_delay", Type: tabular.Float64, Nullable: true}, // seconds
			{Name: "content_signal", Type: tabular.String, Nullable: true, Few: true},
			{Name: "content_usage", Type: tabular.String, Nullable: true, Few: true},
			{Name: "license", Type: tabular.String, Nullable: true, Few: true},
			{Name: "ai_disallowed", Type: tabular.String, Nullable: true, Few: true},
			{Name: "rights_cut", Type: tabular.String, Nullable: true, Few: true},
			{Name: "robots_values", Type: tabular.String, Nullable: true, Few: true},
			{Name: "tdm_reservation", Type: tabular.String, Nullable: true, Few: true},
			{Name: "tdm_policy", Type: tabular.String, Nullable: true, Few: true},
			{Name: "usage", Type: tabular.String, Nullable: true, Few: true},    // refused and marked (--usage)
			{Name: "tdm_file", Type: tabular.String, Nullable: true, Few: true}, // of tdmrep.json
		},
		files: func(j *job) ([]string, error) {
			files, err := logFiles(j, crawlLog())
			if err != nil || j.Out.Len() == 0 {
				return files, err
			}
			more, err := indexFiles(j)
			return append(files, more...), err
		},
		fill:  fillPages,
		logs:  []string{logDir, "warc"},
		parts: []string{logDir},
	}
}

// pageJoin joins the log, sorted by file and offset, with the indexes.
type pageJoin struct {
	j      *job
	log    *extsort.Sorter
	more   bool   // there is a current record of log
	volume []byte // of that record
	offset int64
	logged packed // the line of the log
	lines  packed // of an index
	// rows with a line of one file only
	withoutIndex, withoutLog int64
	language                 string                   // of the row
	withoutPage              int64                    // pages whose WARC file is not there
	damage                   error                    // the first of Report.Damaged
	emit                     func(c, e *packed) error // takes a row: the line of the index, that of the log, or both
}

func fillPages(j *job) error {
	p := &pageJoin{j: j, log: j.sorter()}
	p.emit = p.row
	return p.run()
}

// run joins the log and the indexes.
func (p *pageJoin) run() error {
	j := p.j
	if err := p.sortLog(); err != nil {
		return err
	}
	if err := p.next(); err != nil {
		return err
	}
	if j.Out.Len() > 0 {
		st, err := part[warc.State](j, state.NameWARC)
		if err != nil {
			return err
		}
		if err := j.noteAbsent(); err != nil {
			return err
		}
		j.meter.Set("indexes")
		if err := warc.WalkIndexes(j.WARCFiles(), st, p.volumeRows); err != nil {
			return err
		}
	} else {
		j.note("the output directories were not given (--out): digests and lengths are missing")
	}
	for p.more {
		if err := p.logRow(); err != nil {
			return err
		}
	}
	if p.withoutIndex > 0 && j.Out.Len() > 0 {
		j.note("%s no line in an index: its file is not there",
			human.Counted(p.withoutIndex, "row has", "rows have"))
	}
	if p.withoutLog > 0 {
		j.note("%s no line in the crawl log (--crawl-log all writes one for each)",
			human.Counted(p.withoutLog, "row has", "rows have"))
	}
	p.noteLanguages()
	return nil
}

// packed is what a line of the log or of an index says about a response. In the sorter it is a sequence of
// varints: the numbers, then each text with its length.
type packed struct {
	numbers [numNumbers]int64
	texts   [numTexts][]byte
}

// Numbers of packed.
const (
	numTime = iota // Unix ms
	numStatus
	numOffset
	numLength // of the record; index only, like digest, key and simhash; the rest but the type: log only
	numDepth
	numMillis
	numBytes
	numAttempts
	numScored // 1: there is a score
	numScore  // its bits
	numNumbers
)

// Texts of packed.
const (
	textURL = iota
	textFile
	textRedirect
	textMIME
	textTruncated
	textSURT
	textDigest
	textSimhash
	textVia
	textIP
	textRobots
	textCanonical
	textCharset
	textDuplicate
	textFields
	textRights // the first of crawllog.NumRights
	numTexts   = textRights + crawllog.NumRights
)

func (p *packed) append(dst []byte) []byte { return appendFields(dst, p.numbers[:], p.texts[:]) }

// appendFields appends numbers and texts.
func appendFields(dst []byte, numbers []int64, texts [][]byte) []byte {
	for _, n := range numbers {
		dst = binary.AppendVarint(dst, n)
	}
	for _, t := range texts {
		dst = append(binary.AppendUvarint(dst, uint64(len(t))), t...)
	}
	return dst
}

// readFields reads what appendFields wrote. The texts are parts of b.
func readFields(b []byte, numbers []int64, texts [][]byte) {
	for i := range numbers {
		n, w := binary.Varint(b)
		numbers[i], b = n, b[w:]
	}
	for i := range texts {
		n, w := binary.Uvarint(b)
		texts[i], b = b[w:w+int(n)], b[w+int(n):]
	}
}

// read reads what append wrote. The texts are parts of b.
func (p *packed) read(b []byte) { readFields(b, p.numbers[:], p.texts[:]) }

// sortLog gives the sorter a record for each stored response: volume, 0, offset, line of the log.
func (p *pageJoin) sortLog() error {
	var rec []byte
	var l packed
	err := p.j.scanLog(crawlLog(), func(e *crawllog.Entry) error {
		if err := p.j.live(); err != nil || e.File == "" {
			return err
		}
		l.numbers = [...]int64{numTime: e.Time.UnixMilli(), numStatus: int64(e.Status), numOffset: e.Offset,
			numDepth: int64(e.Depth), numMillis: e.Elapsed.Milliseconds(), numBytes: e.Bytes,
			numAttempts: int64(e.Attempts), numNumbers - 1: 0}
		if e.Scored {
			l.numbers[numScored], l.numbers[numScore] = 1, int64(math.Float64bits(e.Score))
		}
		for i, text := range [...]string{textURL: e.URL, textFile: e.File, textRedirect: e.Redirect, textMIME: e.MIME,
			textTruncated: e.Truncated, textVia: e.Via, textRobots: e.Robots, textCanonical: e.Canonical,
			textCharset:   e.Charset,
			textDuplicate: e.DuplicateOf, textFields: e.Fields} {
			l.texts[i] = append(l.texts[i][:0], text...)
		}
		for i, text := range e.Rights {
			l.texts[textRights+i] = append(l.texts[textRights+i][:0], text...)
		}
		if l.texts[textIP] = l.texts[textIP][:0]; e.IP.IsValid() {
			l.texts[textIP] = e.IP.AppendTo(l.texts[textIP])
		}
		rec = append(append(rec[:0], volumeOf(e.File)...), 0)
		rec = binary.BigEndian.AppendUint64(rec, uint64(e.Offset))
		return p.log.Add(l.append(rec))
	})
	if err != nil {
		return err
	}
	p.j.meter.Set("sorting the log")
	return p.log.Sort()
}

// volumeOf returns the name of a WARC file without suffix.
func volumeOf(file string) string {
	if i := strings.LastIndex(file, ".warc"); i >= 0 {
		return file[:i]
	}
	return file
}

// next goes to the next record of the log.
func (p *pageJoin) next() error {
	rec, err := p.log.Next()
	if p.more = rec != nil; err != nil || !p.more {
		return err
	}
	end := bytes.IndexByte(rec, 0)
	p.volume, p.offset = rec[:end], int64(binary.BigEndian.Uint64(rec[end+1:]))
	p.logged.read(rec[end+9:])
	return nil
}

// logRow writes a row of the log alone, and continues.
func (p *pageJoin) logRow() error {
	p.withoutIndex++
	if err := p.emit(nil, &p.logged); err != nil {
		return err
	}
	return p.next()
}

// volumeRows writes the rows of one WARC file, and those of files before it that have no index.
func (p *pageJoin) volumeRows(x *warc.Index) error {
	lines := p.j.sorter()
	var rec []byte
	var pages []storedPage
	err := x.Lines(func(line []byte) error {
		c, err := x.Parse(line)
		if err != nil || c.Kind != warc.KindPage {
			return err
		}
		if p.j.opt.Languages && extract.HasPage(c) {
			pages = append(pages, storedPage{at: *c})
		}
		l := packed{numbers: [...]int64{numTime: c.Time.UnixMilli(), numStatus: int64(c.Status), numOffset: c.Offset,
			numLength: c.Length, numNumbers - 1: 0}}
		for i, text := range [...]string{textURL: c.URL, textFile: c.File, textRedirect: c.Redirect, textMIME: c.MIME,
			textTruncated: c.Truncated, textDigest: strings.TrimPrefix(c.Digest, "sha1:"),
			textSimhash: hexText(c.Simhash)} {
			l.texts[i] = []byte(text)
		}
		l.texts[textSURT] = warc.AppendKey(nil, []byte(c.URL), warc.KeyPywb)
		rec = l.append(binary.BigEndian.AppendUint64(rec[:0], uint64(c.Offset)))
		return lines.Add(rec)
	})
	if err == nil {
		err = p.languages(x, pages)
	}
	if err != nil {
		return err
	}
	index, err := sorted(lines)
	for ; err == nil && index.ok; err = index.next() {
		offset := int64(index.key)
		for p.before(x.Name, offset) {
			if err := p.logRow(); err != nil {
				return err
			}
		}
		c := &p.lines
		c.read(index.value)
		p.language = languageOf(pages, offset)
		if !p.more || string(p.volume) != x.Name || p.offset != offset {
			p.withoutLog++
			if err := p.emit(c, nil); err != nil {
				return err
			}
			continue
		}
		if err := p.emit(c, &p.logged); err != nil {
			return err
		}
		if err := p.next(); err != nil {
			return err
		}
	}
	return err
}

// before tells whether the current record of the log comes before a place.
func (p *pageJoin) before(volume string, offset int64) bool {
	return p.more && (string(p.volume) < volume || string(p.volume) == volume && p.offset < offset)
}

// row writes a row from a line of an index, a line of the log, or both. Of values that both have, it takes
// those of the index, but the log has milliseconds, and a type that is not made up.
func (p *pageJoin) row(c, e *packed) error {
	v := p.j.row
	clear(v) // all null
	text := func(t []byte) tabular.Value {
		if len(t) == 0 {
			return tabular.Null
		}
		return tabular.Text(t)
	}
	both, timed := c, e
	if c == nil {
		both = e
	}
	if e == nil {
		timed = c
	}
	host := weburl.Split(both.texts[textURL]).Host
	v[1], v[2], v[3] = tabular.Text(both.texts[textURL]), tabular.Text(host), tabular.Text(p.j.Suffixes.PLDBytes(host))
	v[4], v[5] = tabular.At(time.UnixMilli(timed.numbers[numTime])), tabular.Int(both.numbers[numStatus])
	v[6], v[11] = text(both.texts[textRedirect]), text(both.texts[textTruncated])
	v[12], v[13] = tabular.Text(both.texts[textFile]), tabular.Int(both.numbers[numOffset])
	if string(timed.texts[textMIME]) != unknownMIME {
		v[8] = text(timed.texts[textMIME])
	}
	if c != nil {
		v[0], v[7], v[14] = text(c.texts[textSURT]), text(c.texts[textDigest]), tabular.Int(c.numbers[numLength])
		v[26] = text(c.texts[textSimhash])
		v[10] = tabular.StrOrNull(p.language)
	}
	if e != nil {
		v[9] = text(e.texts[textCharset])
		v[15], v[16], v[17] = tabular.Int(e.numbers[numDepth]), text(e.texts[textVia]), text(e.texts[textIP])
		v[18], v[19] = tabular.Int(e.numbers[numMillis]), tabular.Int(e.numbers[numBytes])
		v[20], v[21] = tabular.Int(e.numbers[numAttempts]), text(e.texts[textRobots])
		v[22], v[23] = text(e.texts[textCanonical]), text(e.texts[textDuplicate])
		if e.numbers[numScored] != 0 {
			v[24] = tabular.Float(math.Float64frombits(uint64(e.numbers[numScore])))
		}
		v[25] = text(e.texts[textFields])
		for i, t := range e.texts[textRights:] {
			v[firstRight+i] = text(t)
		}
		// The log comes from a file: a value of another form is no value.
		fetched, err := time.Parse(time.RFC3339, string(e.texts[textRights+crawllog.RightsFetched]))
		v[firstRight+crawllog.RightsFetched] = timeOrNull(fetched)
		if err != nil {
			v[firstRight+crawllog.RightsFetched] = tabular.Null
		}
		v[firstRight+crawllog.RightsCrawlDelay] = tabular.Null
		if d, err := strconv.ParseFloat(string(e.texts[textRights+crawllog.RightsCrawlDelay]), 64); err == nil {
			v[firstRight+crawllog.RightsCrawlDelay] = tabular.Float(d)
		}
	}
	return p.j.write(v...)
}

// firstRight is the column of the first of crawllog.Rights.
const firstRight = 27

// unknownMIME is the media type in an index of a response without one.
const unknownMIME = "unk"
