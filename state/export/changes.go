package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"drumbeat/internal/extsort"
	"drumbeat/internal/tabular"
	"drumbeat/state/erase"
)

// changeTable has a row for each visit that changed what an index has of a URL, and for each target of an erasure.
//
// Rows are in the order of time. A row that is written to the crawl's files later than others of later times, since its
// fetch took longer, or its body waited for the verdict of the store of contents, must not be lost to a reader who
// resumes by time. So a token names a checkpoint, too: a resumed feed has the rest of the rows that this checkpoint
// added, then, again in the order of time, the rows that were added since.
func changeTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "change", Type: tabular.String, Few: true},
			{Name: "time", Type: tabular.Time},
			{Name: "url", Type: tabular.String, Nullable: true}, // null: of an erasure that keeps it secret
			{Name: "fetch_status", Type: tabular.Int64, Nullable: true},
			{Name: "fetch_redirect", Type: tabular.String, Nullable: true},
			{Name: "content_digest", Type: tabular.String, Nullable: true},
			{Name: "content_mime_type", Type: tabular.String, Nullable: true, Few: true},
			{Name: "reason", Type: tabular.String, Nullable: true, Few: true},
			{Name: "last_change", Type: tabular.Time, Nullable: true}, // of the row before of the same URL
			{Name: "warc_filename", Type: tabular.String, Nullable: true, Few: true},
			{Name: "warc_record_offset", Type: tabular.Int64, Nullable: true},
			{Name: "warc_record_length", Type: tabular.Int64, Nullable: true},
			{Name: "title", Type: tabular.String, Nullable: true}, // with Options.Texts, as the text
			{Name: "text", Type: tabular.String, Nullable: true},
			{Name: "token", Type: tabular.String},
		},
		files: func(j *job) ([]string, error) {
			files, err := indexFiles(j)
			if err != nil {
				return nil, err
			}
			more, err := logFiles(j, crawlLog())
			return append(files, more...), err
		},
		fill:  fillChanges,
		logs:  []string{logDir, "warc"},
		parts: []string{logDir},

		indexed: true,
	}
}

// feed is a run of fillChanges.
type feed struct {
	visitScan
	at     position // where it begins
	now    mark
	since  int64           // Unix ms; rows before it are left out
	rows   *extsort.Sorter // batch, key (rowKeyBytes), change, visit, time of the last change
	texts  *textScan       // nil: none
	key    []byte          // scratch, as says
	says   []byte
	tokens [2]position // of rows of the batches
}

// Batches of rows. What the checkpoint of position.from covers is none.
const (
	batchNone  = iota
	batchBegun // added to the checkpoint of position.from by that of position.to
	batchNew   // added since
)

// changeErased is the change of a target of an erasure: it is no visit's.
const changeErased change = "erased"

// endOfFeed sets the mark of the checkpoint, and the token of its end.
func (j *job) endOfFeed() (err error) {
	if j.now, err = j.markNow(); err != nil {
		return err
	}
	end := position{from: j.now, to: j.now}
	j.report.Token = end.token(j.Manifest.Crawl)
	return nil
}

func fillChanges(j *job) (err error) {
	f := &feed{visitScan: visitScan{j: j, sorter: j.sorter()}, rows: j.sorter(), now: j.now}
	f.at.to = f.now
	switch {
	case j.opt.Token != "":
		if f.at, err = j.position(j.opt.Token); err != nil {
			return err
		}
		if to := &f.at.to; to.serial > f.now.serial || to.lines > f.now.lines || to.erasures > f.now.erasures {
			return fmt.Errorf("export: the crawl is at an earlier checkpoint than that of the token: it was restored "+
				"from a copy, so begin without a token: %w", ErrToken)
		}
	case !j.opt.Since.IsZero():
		f.since = j.opt.Since.UnixMilli()
	}
	f.tokens = [2]position{{from: f.at.from, to: f.at.to}, {from: f.at.to, to: f.now}}
	if f.at.to.equal(&f.now) && f.at.from.equal(&f.now) { // nothing was added
		return nil
	}
	f.batch = func(name string, offset int64) int64 {
		switch {
		case f.at.from.covers(name, offset):
			return batchNone
		case f.at.to.covers(name, offset):
			return batchBegun
		}
		return batchNew
	}
	if j.opt.Texts {
		f.texts = newTextScan(j)
	}
	if c := j.opt.carry; c != nil {
		ready, err := c.begin(j)
		if err != nil {
			return err
		}
		if ready {
			f.skip = c.at.whole
		}
	}
	if err := f.scan(); err != nil {
		return err
	}
	if err := errors.Join(f.visits(), f.erasures()); err != nil {
		return err
	}
	if f.texts != nil {
		if err := f.texts.read(f.files); err != nil {
			return err
		}
	}
	return f.write()
}

// batchOf returns the batch of a visit, when all lines of the log are counted. Log files that were moved away are the
// first ones, so lines are counted from the end.
func (f *feed) batchOf(v *visit) int {
	n := v.numbers[visitBatch]
	if v.numbers[visitKind] == isResponse {
		return int(n)
	}
	line := uint64(max(0, n+int64(f.now.lines)-f.lines))
	switch {
	case line < f.at.from.lines:
		return batchNone
	case line < f.at.to.lines:
		return batchBegun
	}
	return batchNew
}

// visits finds the changes.
func (f *feed) visits() error {
	f.j.meter.Set("sorting visits")
	c := f.j.opt.carry
	var page pageNow
	var url uint64
	last := int64(0) // time of the last change
	begun := false
	put := func() error {
		if c == nil || !begun {
			return nil
		}
		return c.put(url, &page, last)
	}
	err := f.each(0, func(v *visit, rec []byte, first bool) error {
		if first {
			err := put()
			begun, url, last = true, binary.BigEndian.Uint64(rec), 0
			if page.reset(); err == nil && c != nil {
				err = c.seek(url, &page, &last)
			}
			if err != nil {
				return err
			}
		}
		return f.visit(v, url, &page, &last)
	})
	if err == nil {
		err = put()
	}
	if err == nil && c != nil {
		err = c.end(&f.now)
	}
	return err
}

// visit takes a visit to a URL.
func (f *feed) visit(v *visit, url uint64, page *pageNow, last *int64) error {
	batch := f.batchOf(v)
	if batch == batchNone && f.skip != nil {
		return nil // carry has it
	}
	what := page.take(v)
	if v.numbers[visitStatus] == http.StatusNotModified {
		v.texts[visitDigest] = page.digest
	}
	if f.texts != nil {
		if err := f.texts.body(v); err != nil {
			return err
		}
	}
	if what == changeNone || what == changeUnchanged && !f.j.opt.Unchanged {
		return nil
	}
	before := *last
	if what != changeUnchanged {
		*last = v.at
	}
	if batch == batchNone || v.at < f.since {
		return nil
	}
	return f.add(batch, url, what, v, before)
}

// add adds a row, unless it comes before the position.
func (f *feed) add(batch int, url uint64, what change, v *visit, before int64) error {
	f.says = binary.AppendVarint(f.says[:0], v.numbers[visitStatus])
	for _, text := range [...]int{visitURL, visitRedirect, visitDigest, visitReason} {
		f.says = append(append(f.says, v.texts[text]...), 0)
	}
	r := binary.BigEndian.AppendUint64(append(f.key[:0], byte(batch)), uint64(v.at))
	r = appendHash(binary.BigEndian.AppendUint64(r, url), f.says)
	f.key = r
	if batch == batchBegun && bytes.Compare(r[1:], f.at.last) <= 0 {
		return nil
	}
	if f.texts != nil && (what == changeNew || what == changeChanged) {
		if err := f.texts.want(v, r); err != nil {
			return err
		}
	}
	r = append(append(r, byte(len(what))), what...)
	r = v.append(binary.AppendVarint(r, before))
	f.key = r
	return f.rows.Add(r)
}

// erasures adds a row for each target of each erasure that names its targets, and one for others.
func (f *feed) erasures() error {
	all, err := erase.Records(f.j.Set)
	if err != nil {
		return err
	}
	for i := range all {
		r := &all[i]
		batch := batchNew
		switch {
		case uint64(i) < f.at.from.erasures:
			continue
		case uint64(i) < f.at.to.erasures:
			batch = batchBegun
		}
		targets := r.Targets
		if int64(len(targets)) < r.Hosts+r.PLDs+r.URLs { // they are secret, or too many
			targets = append(targets, "")
		}
		for n, target := range targets {
			v := visit{at: r.Ended.UnixMilli()} // a request may have waited, and --since may lie between
			v.texts[visitURL], v.texts[visitReason] = []byte(strings.TrimPrefix(target, "url:")), []byte(r.Reason)
			if v.at < f.since {
				continue
			}
			if err := f.add(batch, uint64(i)<<32|uint64(n), changeErased, &v, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes the rows.
func (f *feed) write() error {
	j := f.j
	j.meter.Set("sorting changes")
	if err := f.rows.Sort(); err != nil {
		return err
	}
	var last []byte
	var v visit
	for {
		r, err := f.rows.Next()
		if err != nil {
			return err
		}
		if r == nil {
			return f.rows.Close()
		}
		if n := 1 + rowKeyBytes; len(last) == 0 || !bytes.Equal(r[:n], last) { // two of a second are one
			last = append(last[:0], r[:n]...)
			if err := f.row(&v, r); err != nil {
				return err
			}
		}
	}
}

// row writes the row of a record.
func (f *feed) row(v *visit, r []byte) error {
	key, rest := r[:1+rowKeyBytes], r[1+rowKeyBytes:]
	what, rest := rest[1:1+rest[0]], rest[1+rest[0]:]
	before, w := binary.Varint(rest)
	v.at = int64(binary.BigEndian.Uint64(key[1:]))
	v.decode(rest[w:])
	row := f.j.row
	clear(row) // all null
	row[0], row[1], row[2] = tabular.Text(what), tabular.At(time.UnixMilli(v.at)), textOrNull(v.texts[visitURL])
	row[3], row[4] = positive(v.numbers[visitStatus]), textOrNull(v.texts[visitRedirect])
	row[5], row[7], row[8] = textOrNull(v.texts[visitDigest]), textOrNull(v.texts[visitReason]), millisOrNull(before)
	if mime := v.texts[visitMIME]; string(mime) != unknownMIME {
		row[6] = textOrNull(mime)
	}
	if length := v.numbers[visitLength]; length > 0 {
		row[9] = tabular.Str(f.files[v.numbers[visitFile]])
		row[10], row[11] = tabular.Int(v.numbers[visitOffset]), tabular.Int(length)
	}
	if f.texts != nil {
		title, text, err := f.texts.of(key)
		if err != nil {
			return err
		}
		row[12], row[13] = textOrNull(title), textOrNull(text)
	}
	p := &f.tokens[key[0]-batchBegun]
	p.last = key[1:]
	row[14] = tabular.Str(p.token(f.j.Manifest.Crawl))
	return f.j.write(row...)
}

// changesSource says what the rows of a feed are made of, beside the checkpoint.
func (o *Options) changesSource() string {
	var s strings.Builder
	switch {
	case o.Token != "":
		s.WriteString(", since " + o.Token)
	case !o.Since.IsZero():
		s.WriteString(", since " + o.Since.UTC().Format(time.RFC3339Nano))
	}
	if o.Texts {
		s.WriteString(", with texts")
	}
	if o.Unchanged {
		s.WriteString(", with unchanged pages")
	}
	return s.String()
}
