package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/admit"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/weburl"
)

// site is the kind of job that Site runs.
const site Kind = "site"

// Bounds of a SiteReport.
const (
	maxFrom      = 5       // pages named in a row
	maxRedirects = 100_000 // redirects of a site that are searched for chains
	maxHops      = 20
	// SlowPage and LargePage are from where on a response is listed.
	SlowPage  = time.Second
	LargePage = 1 << 20 // bytes, as transferred
)

// SiteReport says what the owner of a site may want to mend, as far as one checkpoint of a crawl knows.
type SiteReport struct {
	Site       string    `json:"site"` // a host, or a PLD with all its hosts
	Crawl      string    `json:"crawl"`
	Checkpoint uint64    `json:"checkpoint"`
	Time       time.Time `json:"time"` // of the checkpoint
	Pages      int64     `json:"pages"`
	Links      int64     `json:"links"` // on its pages
	// Statuses counts its responses by status, Refused its URLs without a response by reason.
	Statuses map[int]int64    `json:"statuses"`
	Refused  map[string]int64 `json:"refused"`
	Findings []*Finding       `json:"findings"`
	Notes    []string         `json:"notes,omitempty"`   // what is missing
	Damaged  int              `json:"damaged,omitempty"` // records that could not be read
}

// Finding is a list of URLs with the same fault.
type Finding struct {
	Kind  string    `json:"kind"`
	Title string    `json:"title"` // in words
	Total int64     `json:"total"`
	Rows  []SiteRow `json:"rows"` // the first ones

	most int
}

// SiteRow is a URL of a Finding.
type SiteRow struct {
	URL    string   `json:"url"`
	Detail string   `json:"detail,omitempty"`
	Count  int64    `json:"count,omitempty"` // of links, or of pages
	From   []Source `json:"from,omitempty"`  // the first pages

	weight int64 // rows with more come first
}

// Others returns the number of pages that a row of f has besides its own URL, of which From has the first.
func (f *Finding) Others(r *SiteRow) int64 {
	switch f.Kind {
	case "duplicate", "near-duplicate", "title-repeated":
		return r.Count - 1
	}
	return r.Count
}

// Source is a page that has a link, or the same content.
type Source struct {
	URL  string `json:"url"`
	Text string `json:"text,omitempty"` // of the link
}

// add adds a row.
func (f *Finding) add(r SiteRow) {
	f.Total++
	if f.Rows = append(f.Rows, r); len(f.Rows) >= 4*f.most {
		f.cut()
	}
}

// cut keeps the first rows.
func (f *Finding) cut() {
	slices.SortFunc(f.Rows, func(a, b SiteRow) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.URL, b.URL))
	})
	f.Rows = slices.Clip(f.Rows[:min(len(f.Rows), f.most)])
}

// siteScan makes a SiteReport.
type siteScan struct {
	j   *job
	rep *SiteReport

	urls    *extsort.Sorter // what is known of URLs, and references to them, by key; see the kinds
	titles  *extsort.Sorter // hash of the title, title, 0, URL
	digests *extsort.Sorter // hash of the digest, URL, of responses with status 200
	texts   *nearJoin       // the pages with a simhash
	rec     []byte

	names     siteNames // of all sites, for the error that there is no page of this one
	redirects map[uint64]hop
	cut       bool  // there were more redirects
	unjudged  int64 // pages without links to them, of which the log does not say whether they are seeds

	broken, blocked, redirected, chains, elsewhere, badCanonical, same, similar, orphans, slow, large, untitled,
	retitled *Finding
}

// hop is a redirect.
type hop struct {
	url, to string
	status  int
}

// Kinds of records of siteScan.urls, in the order in which they are read for a key.
const (
	siteInfo      = iota // status (2), found (1), then texts: URL, reason, target of the redirect
	siteLink             // texts: URL of the page, text of the link, URL of the target
	siteCanonical        // texts: URL of the page, canonical URL
)

// Site reports on a host or PLD of a crawl. most bounds the rows of each finding. Of opt it takes FS, Dirs, Out,
// RAMBytes, TempDir and Progress. It ends early if ctx is done.
func Site(ctx context.Context, opt Options, name string, most int) (rep *SiteReport, err error) {
	url, _, err := admit.ParseSeed(name)
	if err != nil {
		return nil, fmt.Errorf("export: %q is no host: %w", name, err)
	}
	rep = &SiteReport{Site: string(weburl.Split([]byte(url)).Host)}
	opt.Kind = site
	opt.site = func(j *job) error {
		*rep = SiteReport{Site: rep.Site, Statuses: map[int]int64{}, Refused: map[string]int64{}}
		return (&siteScan{j: j, rep: rep, redirects: map[uint64]hop{}}).run(most)
	}
	r, err := Run(ctx, opt)
	if err != nil {
		return nil, err
	}
	rep.Crawl, rep.Checkpoint, rep.Time, rep.Notes, rep.Damaged = r.Crawl, r.Checkpoint, r.Time, r.Notes, r.Damaged
	return rep, nil
}

// ErrNoSite means that the crawl has no page of a site.
var ErrNoSite = errors.New("the crawl has stored no page of this site")

func (s *siteScan) run(most int) error {
	for _, f := range []struct {
		at          **Finding
		kind, title string
	}{
		{&s.broken, "broken-link", "Broken links: the target has an error status, or no answer"},
		{&s.blocked, "robots-blocked", "Links to URLs that robots.txt forbids"},
		{&s.redirected, "redirected-link", "Links to redirects"},
		{&s.chains, "redirect-chain", "Redirects over two hops or more, and loops"},
		{&s.elsewhere, "canonical-elsewhere", "Pages that name another URL as canonical"},
		{&s.badCanonical, "canonical-broken", "Pages whose canonical URL has no page"},
		{&s.same, "duplicate", "Pages with equal bodies"},
		{&s.similar, "near-duplicate", "Pages with nearly the same text and different bodies"},
		{&s.orphans, "orphan", "Pages that no stored page links to"},
		{&s.slow, "slow", "Responses that took a second or more"},
		{&s.large, "large", "Responses of 1 MiB or more"},
		{&s.untitled, "title-missing", "Pages without a title"},
		{&s.retitled, "title-repeated", "Titles shared by several pages"},
	} {
		*f.at = &Finding{Kind: f.kind, Title: f.title, most: most, Rows: []SiteRow{}}
		s.rep.Findings = append(s.rep.Findings, *f.at)
	}
	s.urls, s.titles, s.digests = s.j.sorterOf(8), s.j.sorterOf(16), s.j.sorterOf(16)
	s.texts = &nearJoin{j: s.j, pages: s.j.sorterOf(16), window: make([]uint64, 0, 2*nearWindow)}
	for _, step := range []func() error{s.pages, s.refusals, s.links, s.joinURLs, s.joinTitles,
		s.joinDigests, s.joinTexts} {
		if err := step(); err != nil {
			return err
		}
	}
	if s.rep.Pages == 0 {
		return fmt.Errorf("export: %s: %w; %s", s.rep.Site, ErrNoSite, s.names.text())
	}
	if s.unjudged > 0 {
		s.j.note("%s: crawl with --crawl-log all to tell them apart",
			human.Counted(s.unjudged, "page without links to it may be a seed",
				"pages without links to them may be seeds"))
	}
	s.findChains()
	for _, f := range s.rep.Findings {
		f.cut()
	}
	return nil
}

// has reports whether a URL is of the site.
func (s *siteScan) has(url []byte) bool {
	host := weburl.Split(url).Host
	return string(host) == s.rep.Site || string(s.j.Suffixes.PLDBytes(host)) == s.rep.Site
}

func (s *siteScan) key(url []byte) uint64 { return s.j.Hasher.URLKey(url) }

// begin begins a record of urls.
func (s *siteScan) begin(key uint64, kind byte) {
	s.rec = append(binary.BigEndian.AppendUint64(s.rec[:0], key), kind)
}

// text appends a text to the record.
func (s *siteScan) text(t []byte) { s.rec = append(binary.AppendUvarint(s.rec, uint64(len(t))), t...) }

// readTexts reads texts from the end of a record.
func readTexts(rec []byte, into ...*[]byte) {
	for _, t := range into {
		n, w := binary.Uvarint(rec)
		*t, rec = rec[w:w+int(n)], rec[w+int(n):]
	}
}

// pages reads the last stored response of each URL.
func (s *siteScan) pages() error {
	return s.j.eachLastPage(func(c, e *packed) error {
		both := c
		if c == nil {
			both = e
		}
		url, status := both.texts[textURL], int(both.numbers[numStatus])
		ours := s.has(url)
		if status == 200 {
			s.names.add(weburl.Split(url).Host)
		}
		// A page of the site that was found by a link, or could have been.
		mime := both.texts[textMIME]
		if e != nil {
			mime = e.texts[textMIME] // that of a revisit, too
		}
		found := byte(notFound)
		switch {
		case !ours || status != 200 || !isHTML(string(mime)):
		case e == nil:
			found = perhapsFound
		case len(e.texts[textVia]) > 0:
			found = isFound
		}
		if err := s.info(url, nil, both.texts[textRedirect], status, found); err != nil || !ours {
			return err
		}
		s.rep.Statuses[status]++
		if e != nil {
			if d := time.Duration(e.numbers[numMillis]) * time.Millisecond; d >= SlowPage {
				s.slow.add(SiteRow{URL: string(url), Detail: human.Duration(d), weight: int64(d)})
			}
			if n := e.numbers[numBytes]; n >= LargePage {
				s.large.add(SiteRow{URL: string(url), Detail: human.Bytes(n), weight: n})
			}
		}
		if status != 200 {
			return nil
		}
		if c != nil && len(c.texts[textDigest]) > 0 {
			s.rec = append(binary.BigEndian.AppendUint64(s.rec[:0], xxhash.Sum64(c.texts[textDigest])), url...)
			if err := s.digests.Add(s.rec); err != nil {
				return err
			}
			if hash, err := strconv.ParseUint(string(c.texts[textSimhash]), 16, 64); err == nil { // "" for none
				if err := s.texts.add(hash, string(c.texts[textDigest]), string(url)); err != nil {
					return err
				}
			}
		}
		if e == nil || len(e.texts[textCanonical]) == 0 {
			return nil
		}
		canonical := e.texts[textCanonical]
		if !bytes.Equal(canonical, url) {
			s.elsewhere.add(SiteRow{URL: string(url), Detail: "canonical: " + string(canonical)})
		}
		s.begin(s.key(canonical), siteCanonical)
		s.text(url)
		s.text(canonical)
		return s.urls.Add(s.rec)
	})
}

// Whether a URL is a page of the site and no seed.
const (
	notFound = iota
	isFound
	perhapsFound // it is a page; no line of the log says whether it is a seed
)

// info adds what is known of a URL.
func (s *siteScan) info(url, reason, location []byte, status int, found byte) error {
	s.begin(s.key(url), siteInfo)
	s.rec = append(binary.BigEndian.AppendUint16(s.rec, uint16(status)), found)
	s.text(url)
	s.text(reason)
	s.text(location)
	return s.urls.Add(s.rec)
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// refusals reads the URLs that ended without a stored response.
func (s *siteScan) refusals() error {
	return s.j.scanLog(crawlLog(), func(e *crawllog.Entry) error {
		if e.Reason == "" || e.File != "" {
			return s.j.live()
		}
		url := []byte(e.URL)
		if s.has(url) {
			s.rep.Refused[e.Reason]++
		}
		return s.info(url, []byte(e.Reason), nil, e.Status, notFound)
	})
}

// links reads the links from and to the site, and the titles of its pages.
func (s *siteScan) links() error {
	return s.j.eachLink(true, func(r *linkRow) error {
		if err := s.j.live(); err != nil {
			return err
		}
		from := s.has(r.from)
		switch string(r.element) {
		case elementTitle:
			if !from {
				return nil
			}
			s.rep.Pages++
			if len(r.text) == 0 {
				s.untitled.add(SiteRow{URL: string(r.from)})
				return nil
			}
			s.rec = append(binary.BigEndian.AppendUint64(s.rec[:0], xxhash.Sum64(r.text)), r.text...)
			return s.titles.Add(append(append(s.rec, 0), r.from...))
		case elementRedirect:
			if from {
				if len(s.redirects) < maxRedirects {
					s.redirects[s.key(r.from)] = hop{url: string(r.from), to: string(r.to)}
				} else {
					s.cut = true
				}
			}
		}
		if !from && !s.has(r.to) {
			return nil
		}
		if from {
			s.rep.Links++
		}
		s.begin(s.key(r.to), siteLink)
		s.text(r.from)
		s.text(r.text)
		s.text(r.to)
		return s.urls.Add(s.rec)
	})
}
