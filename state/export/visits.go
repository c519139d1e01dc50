package export

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/http"
	"strings"

	"drumbeat/internal/crawllog"
	"drumbeat/internal/extsort"
	"drumbeat/internal/health"
	"drumbeat/state"
	"drumbeat/warc"
)

// visitScan sorts what the crawl knows of each URL by URL and time: its stored responses, from the indexes of the
// WARC files, and its refusals, from the crawl log.
type visitScan struct {
	j     *job
	files []string // names of WARC files by their numbers in visits, some 100 bytes each
	lines int64    // of the crawl log
	// batch, if set, returns visit.batch of a response.
	batch func(file string, offset int64) int64
	// skip, if set, says which WARC files are left out, by their names.
	skip func(name string) bool
	// group appends what the records are sorted by before the key of the URL; nil: nothing.
	group func(dst, url []byte) []byte
	// orders says that refusals of orders count, too.
	orders bool
	// plans says that waiting adds what is known for the next visit of each URL.
	plans  bool
	sorter *extsort.Sorter
	rec    []byte
}

// visit is a stored response, a refusal, or, for a table that adds such records, a place in which the URL waits. The
// texts are parts of a record.
type visit struct {
	at      int64 // Unix ms
	numbers [numVisit]int64
	texts   [numVisitTexts][]byte
}

// Numbers of visit.
const (
	visitKind = iota
	visitStatus
	visitFlags
	visitFile // number of the WARC file; with offset and length only for a response
	visitOffset
	visitLength
	visitBatch // of a response: as visitScan.batch says; of a refusal: the number of its line in the log, from 0
	numVisit
)

// Kinds of visits, in the order in which those of the same time are read.
const (
	isResponse = iota
	isRefusal
	isWaiting
	isListed // a line of a list (Coverage)
	isLinked // links to the URL (Options.CountLinks), as visitStatus
)

// Flags of responses and refusals.
const (
	flagTruncated = 1 << iota
	flagRevisit   // the body is in another record
	flagOrder     // of a refusal: that of an order, which did not end the URL
)

// Texts of visit.
const (
	visitURL = iota
	visitRedirect
	visitDigest
	visitMIME
	visitReason
	numVisitTexts
)

// add adds a visit.
func (s *visitScan) add(v *visit) error {
	r := s.rec[:0]
	if s.group != nil {
		r = s.group(r, v.texts[visitURL])
	}
	s.rec = v.append(captureKey(r, s.j.Hasher.URLKey(v.texts[visitURL]), v.at))
	return s.sorter.Add(s.rec)
}

// append appends the numbers and texts.
func (v *visit) append(dst []byte) []byte { return appendFields(dst, v.numbers[:], v.texts[:]) }

// read reads what add wrote, without what group appended.
func (v *visit) read(rec []byte) {
	v.at = int64(binary.BigEndian.Uint64(rec[8:]))
	v.decode(rec[captureKeyBytes:])
}

// decode reads what append wrote.
func (v *visit) decode(b []byte) { readFields(b, v.numbers[:], v.texts[:]) }

// scan adds all responses and refusals.
func (s *visitScan) scan() error {
	j := s.j
	st, err := part[warc.State](j, state.NameWARC)
	if err != nil {
		return err
	}
	if err := j.noteAbsent(); err != nil {
		return err
	}
	if st.Counts.Captures == 0 && j.Manifest.Accounts.Counters[state.CountResponses] > 0 {
		j.note("the crawl stores no pages (--store none), so visits are missing")
	}
	j.meter.Set("indexes")
	if err := warc.WalkIndexes(j.WARCFiles(), st, s.index); err != nil {
		return err
	}
	var v visit
	return j.scanLog(crawlLog(), func(e *crawllog.Entry) error {
		s.lines++
		if e.Reason == "" || e.File != "" || e.Order && !s.orders {
			return j.live()
		}
		v = visit{at: e.Time.UnixMilli(), numbers: [...]int64{visitKind: isRefusal, visitStatus: int64(e.Status),
			visitBatch: s.lines - 1}}
		if e.Order {
			v.numbers[visitFlags] = flagOrder
		}
		v.texts[visitURL], v.texts[visitReason] = []byte(e.URL), []byte(e.Reason)
		return s.add(&v)
	})
}

// index adds the responses of one WARC file.
func (s *visitScan) index(x *warc.Index) error {
	if s.skip != nil && s.skip(x.Name) {
		return nil
	}
	var v visit
	number := int64(len(s.files))
	s.files = append(s.files, "")
	return x.Lines(func(line []byte) error {
		c, err := x.Parse(line)
		if err != nil || c.Kind != warc.KindPage {
			return err
		}
		if err := s.j.live(); err != nil {
			return err
		}
		s.files[number] = c.File
		v = visit{at: c.Time.UnixMilli(), numbers: [...]int64{visitKind: isResponse, visitStatus: int64(c.Status),
			visitFile: number, visitOffset: c.Offset, visitLength: c.Length, numVisit - 1: 0}}
		if c.Truncated != "" {
			v.numbers[visitFlags] |= flagTruncated
		}
		if c.IsRevisit() {
			v.numbers[visitFlags] |= flagRevisit
		}
		if s.batch != nil {
			v.numbers[visitBatch] = s.batch(c.File, c.Offset)
		}
		v.texts = [...][]byte{visitURL: []byte(c.URL), visitRedirect: []byte(c.Redirect),
			visitDigest: []byte(strings.TrimPrefix(c.Digest, "sha1:")), numVisitTexts - 1: nil}
		if !c.IsRevisit() {
			v.texts[visitMIME] = []byte(c.MIME)
		}
		return s.add(&v)
	})
}

// each calls fn with each visit by URL and time, valid during the call. first says that it is the first one of its
// URL; rec is its record.
func (s *visitScan) each(prefix int, fn func(v *visit, rec []byte, first bool) error) error {
	if err := s.sorter.Sort(); err != nil {
		return err
	}
	var v visit
	var last []byte
	for {
		rec, err := s.sorter.Next()
		if err != nil {
			return err
		}
		if rec == nil {
			return s.sorter.Close()
		}
		n := prefix + 8
		first := len(last) == 0 || !bytes.Equal(rec[:n], last[:n])
		last = append(last[:0], rec...)
		v.read(last[prefix:])
		if err := fn(&v, last, first); err != nil {
			return err
		}
		if err := s.j.live(); err != nil {
			return err
		}
	}
}

// change is what a visit found.
type change string

// Changes. A visit that failed, or found no page where there was none, is none.
const (
	changeNone      change = ""
	changeNew       change = "new"       // a page; there was none, or a redirect
	changeChanged   change = "changed"   // a page with another body
	changeUnchanged change = "unchanged" // the same page or redirect
	changeMoved     change = "moved"     // a redirect; there was none, or another one
	changeGone      change = "gone"      // no page where there was one, or a redirect
)

// pageNow is what its visits so far say of a URL. The zero value is that of a URL without visits.
type pageNow struct {
	has      int    // hasNothing, hasPage or hasRedirect
	digest   []byte // of the last page
	redirect []byte // target of the last redirect
}

const (
	hasNothing = iota
	hasPage
	hasRedirect
)

// take notes a response or a refusal, and says what it changed. It judges as the crawl does when it schedules the next
// visit (visit.Pages.noteVisit).
func (p *pageNow) take(v *visit) change {
	status := int(v.numbers[visitStatus])
	switch {
	case v.numbers[visitKind] == isRefusal:
		return p.leave()
	case status == http.StatusNotModified:
		switch {
		case len(p.digest) == 0:
			return changeNone
		case p.has == hasPage:
			return changeUnchanged
		}
		p.has = hasPage
		return changeNew
	case len(v.texts[visitRedirect]) > 0:
		if p.has == hasRedirect && bytes.Equal(p.redirect, v.texts[visitRedirect]) {
			return changeUnchanged
		}
		p.has, p.redirect = hasRedirect, append(p.redirect[:0], v.texts[visitRedirect]...)
		return changeMoved
	case status >= 200 && status <= 299:
		was, cut := p.has, v.numbers[visitFlags]&flagTruncated != 0
		if was == hasPage && (cut || bytes.Equal(p.digest, v.texts[visitDigest])) {
			return changeUnchanged
		}
		p.has, p.digest = hasPage, append(p.digest[:0], v.texts[visitDigest]...)
		if was == hasPage {
			return changeChanged
		}
		return changeNew
	case health.KindOf(status).Failed():
		return changeNone
	}
	return p.leave()
}

// leave notes that there is no page.
func (p *pageNow) leave() change {
	if p.has == hasNothing {
		return changeNone
	}
	p.has = hasNothing
	return changeGone
}

// reset makes p that of a URL without visits.
func (p *pageNow) reset() { *p = pageNow{digest: p.digest[:0], redirect: p.redirect[:0]} }

// atEnd is the time of a record that follows all visits of its URL.
const atEnd = math.MaxInt64
