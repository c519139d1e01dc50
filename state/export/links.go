package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"sync"

	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/internal/mimetype"
	"drumbeat/internal/tabular"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

const (
	// maxLinkPage bounds the decoded body that is searched for links, in bytes. A worker holds one.
	maxLinkPage = 16 << 20
	// maxAnchor bounds the text and the rel attribute of a link, in bytes.
	maxAnchor = 1 << 10
	// maxSharers bounds the pages with equal bodies whose links are found by one reading of the body.
	maxSharers = 1000
	// batchBytes is about the size of a batch of rows.
	batchBytes = 64 << 10
)

// linkTable has a row for each link of a stored page to another URL, as often as the page has it, and for
// each redirect and Refresh or Link header. The bodies are read again, by the crawl's own scanner. Parts of
// pages, such as images, are no links.
func linkTable() table {
	return table{
		columns: []tabular.Column{
			{Name: "from_url", Type: tabular.String},
			{Name: "to_url", Type: tabular.String},
			{Name: "element", Type: tabular.String, Few: true}, // parse.Tag, or redirect, refresh-header, link-header
			{Name: "rel", Type: tabular.String, Nullable: true, Few: true},
			{Name: "nofollow", Type: tabular.Bool}, // rel has it; directives for the whole page are not considered
			{Name: "anchor_text", Type: tabular.String, Nullable: true},
		},
		files: indexFiles,
		fill:  fillLinks,
		logs:  []string{"warc"},
		parts: []string{"warc"},

		indexed: true,
	}
}

// linkRow is a link. Its texts are parts of a batch.
type linkRow struct{ from, to, element, rel, text []byte }

func fillLinks(j *job) error {
	return j.eachLink(false, func(r *linkRow) error {
		rel, text := tabular.Null, tabular.Null
		if len(r.rel) > 0 {
			rel = tabular.Text(r.rel)
		}
		if len(r.text) > 0 {
			text = tabular.Text(r.text)
		}
		return j.write(tabular.Text(r.from), tabular.Text(r.to), tabular.Text(r.element), rel,
			tabular.Truth(hasNoFollow(r.rel)), text)
	})
}

// hasNoFollow reports whether a rel attribute has the word nofollow.
func hasNoFollow(rel []byte) bool {
	for word := range bytes.FieldsSeq(rel) {
		if bytes.EqualFold(word, []byte("nofollow")) {
			return true
		}
	}
	return false
}

// linkScan reads the links of all stored pages, in the order of the WARC files and of the offsets in them.
type linkScan struct {
	j       *job
	each    func(*linkRow) error
	ofSites bool
	opt     weburl.Options
	// pages has what is to be read: number of the file, offset, kind, and what the kind needs.
	pages *extsort.Sorter
	next  []byte // the current record of pages; nil at the end
	own   string // URL of the last page whose own body was listed: that of the pages that share it, which follow
	rec   []byte

	damage  error // the first of Report.Damaged
	moved   int   // of pages whose WARC file is not there
	orphans int64 // revisits whose body is in no index
	cut     int64 // pages longer than maxLinkPage
}

// Kinds of records of linkScan.pages, in the order in which they are read.
const (
	pageFormer   = iota // length (8), URL: the body at the offset is that of a former capture, and later ones share it
	pageOwn             // length (8), URL: a page whose body is at the offset
	pageRevisit         // length (8), URL: a page whose body equals the one at the offset
	pageRedirect        // length of URL (4), URL, Location
)

// Elements of linkRow beside those of package parse.
const (
	elementRedirect = "redirect"
	elementTitle    = "title"
)

// eachLink calls each for each link. What it gets is valid during the call. With ofSites, it also gets the rows that
// the report of a site needs: for each page one with its title as text, and those of sitefacts.go.
func (j *job) eachLink(ofSites bool, each func(*linkRow) error) error {
	l := &linkScan{j: j, each: each, ofSites: ofSites, pages: j.sorter(),
		opt: weburl.Options{Fold: !j.Manifest.Frozen.KeepEscapes}}
	if run := j.Manifest.Run; run != nil {
		l.opt.MaxBytes = run.MaxURLBytes
	}
	if err := errors.Join(j.noteAbsent(), l.list()); err != nil {
		return err
	}
	if err := l.pages.Sort(); err != nil {
		return err
	}
	if err := l.advance(); err != nil {
		return err
	}
	st, err := part[warc.State](j, state.NameWARC)
	if err != nil {
		return err
	}
	j.meter.Set("pages")
	file := uint32(0)
	if err := warc.WalkIndexes(j.WARCFiles(), st, func(x *warc.Index) error {
		err := l.file(x, file)
		file++
		return err
	}); err != nil {
		return err
	}
	for _, n := range []struct {
		n               int64
		one, many, lost string
	}{
		{int64(l.moved), "page is in a WARC file that was", "pages are in WARC files that were",
			"moved away: links are missing"},
		{l.orphans, "page is a revisit", "pages are revisits", "of a body that is in no index: links are missing"},
		{l.cut, "page has", "pages have", "more than 16 MiB: links after that are missing"},
	} {
		if n.n > 0 {
			j.note("%s %s", human.Counted(n.n, n.one, n.many), n.lost)
		}
	}
	if j.report.Damaged > 0 {
		j.note("%s damaged: links are missing; the first: %v",
			human.Counted(int64(j.report.Damaged), "record is", "records are"), l.damage)
	}
	return nil
}

// list reads the indexes and finds, by the digests of bodies, the body of each revisit.
func (l *linkScan) list() error {
	j := l.j
	st, err := part[warc.State](j, state.NameWARC)
	if err != nil {
		return err
	}
	byDigest := j.sorter()
	add := func(rec []byte, last bool) error { return l.add(byDigest, rec, last) }
	var captures *extsort.Sorter // of a crawl in which URLs may have several
	if j.Manifest.Accounts.Recrawled() {
		captures = j.sorterOf(8)
	}
	file := uint32(0)
	var rec []byte
	j.meter.Set("indexes")
	if err := warc.WalkIndexes(j.WARCFiles(), st, func(x *warc.Index) error {
		defer func() { file++ }()
		return x.Lines(func(line []byte) error {
			if err := j.live(); err != nil {
				return err
			}
			c, err := x.Parse(line)
			if err != nil || c.Kind != warc.KindPage {
				return err
			}
			if captures == nil {
				return add(captureRecord(rec[:0], file, c), true)
			}
			if !isCapture(c.Status) {
				return nil
			}
			rec = captureKey(rec[:0], j.Hasher.URLKey([]byte(c.URL)), c.Time.UnixMilli())
			rec = captureRecord(rec, file, c)
			return captures.Add(rec)
		})
	}); err != nil {
		return err
	}
	if captures != nil {
		j.meter.Set("sorting captures")
		if err := eachCapture(captures, add); err != nil {
			return err
		}
	}
	j.meter.Set("sorting pages")
	if err := byDigest.Sort(); err != nil {
		return err
	}
	return l.join(byDigest)
}

// Kinds of captures in captureRecord.
const (
	captureOther = iota // without links
	captureOwn
	captureRevisit
	captureRedirect
)

// captureRecord appends what list keeps of a capture: kind, place, length (8); whether its body may be a page
// (1); lengths of the URL and the digest (4), and these; Location.
func captureRecord(dst []byte, file uint32, c *warc.Indexed) []byte {
	kind := byte(captureOwn)
	switch {
	case c.Redirect != "":
		kind = captureRedirect
	case c.Status < 200 || c.Status > 299 || c.Digest == "":
		kind = captureOther
	case c.IsRevisit():
		kind = captureRevisit
	}
	dst = binary.BigEndian.AppendUint64(place(append(dst, kind), file, c.Offset), uint64(c.Length))
	dst = binary.BigEndian.AppendUint32(append(dst, readable(c.MIME)), uint32(len(c.URL)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.Digest)))
	return append(append(append(dst, c.URL...), c.Digest...), c.Redirect...)
}

// add takes a captureRecord. Of a capture that is not the last one of its URL only the body counts, for later
// ones that share it.
func (l *linkScan) add(byDigest *extsort.Sorter, rec []byte, last bool) error {
	kind, at, texts := rec[0], rec[1:1+placeBytes+8], rec[1+placeBytes+8+9:]
	lengths := rec[1+placeBytes+8:]
	nURL, nDigest := binary.BigEndian.Uint32(lengths[1:]), binary.BigEndian.Uint32(lengths[5:])
	url, digest := texts[:nURL], texts[nURL:nURL+nDigest]
	switch {
	case kind == captureOther, kind != captureOwn && !last:
		return nil
	case kind == captureRedirect:
		l.rec = append(append(l.rec[:0], at[:placeBytes]...), pageRedirect)
		l.rec = append(append(binary.BigEndian.AppendUint32(l.rec, nURL), url...), texts[nURL+nDigest:]...)
		return l.pages.Add(l.rec)
	}
	// Digest, whether it is a revisit, place, length, of an own body whether it may be a page and is the
	// last, URL.
	l.rec = append(append(l.rec[:0], digest...), 0, kind-captureOwn)
	if l.rec = append(l.rec, at...); kind == captureOwn {
		l.rec = append(l.rec, lengths[0]|flag(!last)<<1)
	}
	return byDigest.Add(append(l.rec, url...))
}

// place appends number of the file and offset.
func place(dst []byte, file uint32, offset int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(dst, file), uint64(offset))
}

const placeBytes = 12

// readable returns 1 if a body of this type may be a page.
func readable(mime string) byte {
	kind, _, _ := strings.Cut(mimetype.Parse(mime).Essence, "/")
	switch kind {
	case "image", "video", "audio", "font":
		return 0
	}
	return 1
}

// join lists the pages and closes the sorter of their bodies.
func (l *linkScan) join(byDigest *extsort.Sorter) error {
	var digest, body []byte // of the current group; body is the place and length of its first own body
	wanted := false
	var rec, former []byte // former is the record of that body if it is no page's last, until one shares it
	for {
		r, err := byDigest.Next()
		if err != nil || r == nil {
			return errors.Join(err, byDigest.Close())
		}
		end := bytes.IndexByte(r, 0)
		revisit, at := r[end+1] == 1, r[end+2:]
		if !bytes.Equal(digest, r[:end]) {
			digest, body, former = append(digest[:0], r[:end]...), body[:0], former[:0]
		}
		kind, url := byte(pageOwn), at[placeBytes+8:]
		if !revisit {
			isPage, last := url[0]&1 != 0, url[0]&2 == 0
			url = url[1:]
			if len(body) == 0 {
				if body, wanted = append(body, at[:placeBytes+8]...), isPage; !last {
					former = append(append(append(former, at[:placeBytes]...), pageFormer),
						at[placeBytes:placeBytes+8]...)
					former = append(former, url...)
				}
			}
			if !isPage || !last {
				continue
			}
		} else {
			if len(body) == 0 {
				l.orphans++
				continue
			}
			if !wanted {
				continue
			}
			if kind, at = pageRevisit, body; len(former) > 0 {
				if err := l.pages.Add(former); err != nil {
					return err
				}
				former = former[:0]
			}
		}
		rec = append(append(rec[:0], at[:placeBytes]...), kind)
		rec = append(append(rec, at[placeBytes:placeBytes+8]...), url...)
		if err := errors.Join(l.pages.Add(rec), l.j.live()); err != nil {
			return err
		}
	}
}

// advance goes to the next record of pages.
func (l *linkScan) advance() (err error) {
	if l.next, err = l.pages.Next(); l.next == nil && err == nil {
		err = l.pages.Close()
	}
	return err
}

// linkJob finds the links of the pages that share a body.
type linkJob struct {
	redirect bool // to location: there is nothing to read
	location string
	at       warc.Indexed
	urls     []string
	rows     chan []byte // batches of rows, in order; closed at the end
	damage   error
	cut      bool
}

// file finds the links of the pages of one WARC file. Workers read them; the rows come in order.
func (l *linkScan) file(x *warc.Index, number uint32) error {
	if l.next == nil || binary.BigEndian.Uint32(l.next) != number {
		return nil
	}
	data, err := x.Data(l.j.WARCFiles())
	moved := errors.Is(err, warc.ErrMoved)
	if err != nil && !moved {
		return err
	}
	if !moved {
		defer func() { _ = data.Close() }() // it was read
	}
	ctx, cancel := context.WithCancel(l.j.ctx)
	defer cancel()
	workers := runtime.GOMAXPROCS(0)
	order, work := make(chan *linkJob, 2*workers), make(chan *linkJob, 2*workers)
	var group sync.WaitGroup
	var failed error
	group.Go(func() {
		defer close(order)
		defer close(work)
		failed = l.feed(ctx, number, moved, order, work)
	})
	for range workers {
		group.Go(func() {
			f := &linkFinder{ctx: ctx, data: data, ofSites: l.ofSites, x: newLinkExtractor(l.opt)}
			for job := range work {
				f.run(job)
			}
		})
	}
	var bad error
	for job := range order {
		for batch := range job.rows {
			if bad == nil {
				bad = l.emit(batch)
			}
			if bad != nil {
				cancel()
			}
		}
		if job.cut {
			l.cut++
		}
		if job.damage != nil {
			if l.j.report.Damaged++; l.damage == nil {
				l.damage = job.damage
			}
		}
	}
	group.Wait()
	if bad != nil {
		return bad
	}
	return failed
}

// feed sends the pages of a file to the workers.
func (l *linkScan) feed(ctx context.Context, number uint32, moved bool, order, work chan<- *linkJob) error {
	for l.next != nil && binary.BigEndian.Uint32(l.next) == number {
		job, err := l.job()
		if err != nil {
			return err
		}
		if moved && !job.redirect {
			l.moved += len(job.urls)
			continue
		}
		for _, to := range []chan<- *linkJob{work, order} {
			select {
			case to <- job:
			case <-ctx.Done():
				if to != order { // no worker has it
					return context.Cause(ctx)
				}
				order <- job // a worker ends it at once; the consumer reads on
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// job takes the next page, and those that share its body.
func (l *linkScan) job() (*linkJob, error) {
	r := l.next
	job := &linkJob{rows: make(chan []byte, 4)}
	job.at.Offset = int64(binary.BigEndian.Uint64(r[4:]))
	kind, rest := r[placeBytes], r[placeBytes+1:]
	if kind == pageRedirect {
		n := binary.BigEndian.Uint32(rest)
		job.redirect, job.urls, job.location = true, []string{string(rest[4 : 4+n])}, string(rest[4+n:])
		return job, l.advance()
	}
	job.at.Length = int64(binary.BigEndian.Uint64(rest))
	body := bytes.Clone(r[:placeBytes])
	for {
		url := string(l.next[placeBytes+9:])
		if l.next[placeBytes] <= pageOwn {
			l.own = url
		}
		if job.at.URL = l.own; l.next[placeBytes] != pageFormer {
			job.urls = append(job.urls, url)
		}
		if err := l.advance(); err != nil {
			return nil, err
		}
		if l.next == nil || !bytes.Equal(l.next[:placeBytes], body) || l.next[placeBytes] == pageRedirect ||
			len(job.urls) == maxSharers {
			return job, nil
		}
	}
}

// emit passes the rows of a batch on.
func (l *linkScan) emit(batch []byte) error {
	var r linkRow
	for len(batch) > 0 {
		for _, text := range []*[]byte{&r.from, &r.to, &r.element, &r.rel, &r.text} {
			n, w := binary.Uvarint(batch)
			*text, batch = batch[w:w+int(n)], batch[w+int(n):]
		}
		if err := l.each(&r); err != nil {
			return err
		}
	}
	return nil
}
