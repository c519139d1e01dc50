package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/admit"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/extsort"
	"drumbeat/internal/human"
	"drumbeat/state/sitereport"
	"drumbeat/weburl"
)

// site is the kind of job that Site runs.
const site Kind = "site"

// Bounds of a report of a site.
const (
	maxFrom      = 5       // pages named in a row
	maxRedirects = 100_000 // redirects of a site that are followed
	maxHops      = 20
	leastRows    = 10 // pages with the fewest links that are named
)

// siteScan makes a report of a site.
type siteScan struct {
	j       *job
	rep     *sitereport.Report
	most    int               // rows of a finding
	checked map[string]string // SiteOptions.Checked
	outside *sitereport.Finding
	least   *sitereport.Finding
	found   map[string]*sitereport.Finding // by kind
	lacking map[string]*sitereport.Row     // by header for the security of browsers

	urls    *extsort.Sorter // what is known of URLs, and references to them, by key; see the kinds
	texts   *extsort.Sorter // hash of kind and text, kind, 0, text, 0, URL
	digests *extsort.Sorter // hash of the digest, URL, of responses with status 200
	faulty  *extsort.Sorter // keys of pages, and of those with an error
	similar *nearJoin       // the pages with a simhash
	rec     []byte

	names     siteNames       // of all sites, for the error that there is no page of this one
	redirects map[uint64]hop  // by key of their URL: maxRedirects of them
	ends      map[uint64]fate // of these, by key
	cut       bool            // there were more redirects
	unjudged  int64           // pages without links to them, of which the log does not say whether they are seeds
	listed    bool            // a sitemap was read
	logged    bool            // the log has a line of a page
	unfetched int64           // images of the site that the crawl did not ask for
}

// hop is a redirect.
type hop struct {
	url, to string
	end     uint64 // key of siteScan.ends; 0: none
}

// Kinds of records of siteScan.urls, in the order in which they are read for a key.
const (
	siteInfo        = iota // status (2), found (1), then texts: URL, reason, target of the redirect
	siteListed             // it is in a sitemap; texts: URL, URL of the sitemap
	siteElsewhere          // texts: the canonical URL that this page names, which is another
	siteTranslated         // key of a translation that this page names (8)
	siteLink               // texts: URL of the page, text of the link, URL of the target
	siteRedirect           // as siteLink
	siteImage              // as siteLink
	siteCanonical          // texts: URL of the page, canonical URL
	siteTranslation        // texts: URL of the page, code, URL of the translation
)

// SiteOptions are those of Site alone.
type SiteOptions struct {
	// Rows bounds the rows of each finding.
	Rows int
	// Outside bounds the targets of links to other sites that Site returns beside the report, those with the most
	// links. At most four times as many are in RAM. 0: none.
	Outside int
	// Checked has what is wrong with such targets, by URL, and "" for those that work.
	Checked map[string]string
}

// Site reports on a host or PLD of a crawl. Of opt it takes FS, Dirs, Out, RAMBytes, TempDir and Progress. It ends
// early if ctx is done.
func Site(ctx context.Context, opt Options, name string, more SiteOptions) (*sitereport.Report, []sitereport.Row,
	error) {
	url, _, err := admit.ParseSeed(name)
	if err != nil {
		return nil, nil, fmt.Errorf("export: %q is not a host: %w", name, err)
	}
	host := string(weburl.Split([]byte(url)).Host)
	var s *siteScan
	opt.Kind = site
	opt.site = func(j *job) error {
		s = newSiteScan(j, host, &more)
		return s.run()
	}
	r, err := Run(ctx, opt)
	if err != nil {
		return nil, nil, err
	}
	rep := s.rep
	rep.Crawl, rep.Checkpoint, rep.Time, rep.Notes, rep.Damaged = r.Crawl, r.Checkpoint, r.Time, r.Notes, r.Damaged
	rep.Sum()
	return rep, s.outside.Rows, nil
}

// ErrNoSite means that the crawl has no page of a site.
var ErrNoSite = errors.New("the crawl has stored no page of this site")

func newSiteScan(j *job, host string, opt *SiteOptions) *siteScan {
	s := &siteScan{j: j, most: opt.Rows, checked: opt.Checked, redirects: map[uint64]hop{}, ends: map[uint64]fate{},
		found:   map[string]*sitereport.Finding{},
		lacking: map[string]*sitereport.Row{}, least: sitereport.NewFinding("", leastRows),
		outside: sitereport.NewFinding("broken-outside", opt.Outside),
		rep: &sitereport.Report{Version: sitereport.Version, Site: host, Statuses: map[int]int64{},
			Refused: map[string]int64{}, Indexed: map[string]int64{}, Depths: map[int]int64{},
			InLinks: map[int64]int64{}}}
	for _, kind := range sitereport.Kinds {
		f := sitereport.NewFinding(kind, opt.Rows)
		s.found[kind] = f
		s.rep.Findings = append(s.rep.Findings, f)
	}
	s.urls, s.texts, s.digests, s.faulty = j.sorterOf(8), j.sorterOf(16), j.sorterOf(16), j.sorterOf(32)
	s.similar = &nearJoin{j: j, pages: j.sorterOf(16), window: make([]uint64, 0, 2*nearWindow)}
	return s
}

func (s *siteScan) run() error {
	for _, step := range []func() error{s.links, s.pages, s.refusals, s.joinURLs, s.joinTexts, s.joinDigests,
		s.joinSimilar, s.countClean} {
		if err := step(); err != nil {
			return err
		}
	}
	if s.rep.Pages == 0 {
		return fmt.Errorf("export: %s: %w; %s", s.rep.Site, ErrNoSite, s.names.text())
	}
	if err := s.noteDivided(); err != nil {
		return err
	}
	if s.unjudged > 0 {
		s.j.note("%s: the log of the crawl leaves out how pages were found",
			human.Counted(s.unjudged, "page without links to it may be a start page",
				"pages without links to them may be start pages"))
	}
	s.findChains()
	s.findUnchecked()
	for _, header := range slices.Sorted(maps.Keys(s.lacking)) {
		s.found["security-headers"].Add(*s.lacking[header])
	}
	for _, f := range s.rep.Findings {
		f.Cut()
	}
	s.outside.Cut()
	s.least.Cut()
	s.rep.Least, s.rep.Outside = s.least.Rows, s.outside.Total
	return nil
}

// noteDivided says that other nodes have pages of the site too.
func (s *siteScan) noteDivided() error {
	tables, err := s.j.Manifest.DividedTables()
	if err != nil {
		return err
	}
	for _, t := range tables {
		pld := s.j.Suffixes.PLD(s.rep.Site)
		if parts := t.PartsOf([]byte(pld)); parts != nil {
			s.j.note("the hosts of %s are divided among nodes %v: this report has the pages of node %d alone",
				pld, parts.Nodes(), s.j.Manifest.Frozen.Node)
			break
		}
	}
	return nil
}

// findUnchecked names the findings for which the crawl did not record what they take, unless they have rows.
func (s *siteScan) findUnchecked() {
	for _, c := range []struct {
		unchecked bool
		kinds     []string
	}{
		{s.unfetched > 0, []string{"broken-image"}},
		{!s.listed, []string{"sitemap-broken", "sitemap-missing"}},
		{s.unjudged > 0, []string{"orphan"}},
		{!s.logged, []string{"slow", "large"}},
		{s.similar.pages.N() == 0, []string{"near-duplicate"}},
	} {
		for _, kind := range c.kinds {
			if c.unchecked && s.found[kind].Total == 0 {
				s.rep.Unchecked = append(s.rep.Unchecked, kind)
			}
		}
	}
}

// countClean counts the pages without an error.
func (s *siteScan) countClean() error {
	return s.groups(s.faulty, "pages with errors", func(first [][]byte, n int64) {
		if n == 1 && first[0][0] == isAPage {
			s.rep.Score.CleanPages++
		}
	})
}

// fault adds a row about a page of the site.
func (s *siteScan) fault(kind string, page, detail []byte) error {
	f := s.found[kind]
	f.Add(sitereport.Row{URL: string(page), Detail: string(detail)})
	if f.Severity != sitereport.Error {
		return nil
	}
	return s.markFaulty(page)
}

// markFaulty notes a page with an error.
func (s *siteScan) markFaulty(page []byte) error {
	if !s.has(page) {
		return nil
	}
	return s.addPage(page, hasError)
}

// Kinds of records of siteScan.faulty. An error may be that of a URL in the sitemap that is no page.
const (
	isAPage = iota
	hasError
)

func (s *siteScan) addPage(page []byte, kind byte) error {
	return s.faulty.Add(append(binary.BigEndian.AppendUint64(nil, s.key(page)), kind))
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
		// A page of the site that was found by a link, or could have been.
		mime := both.texts[textMIME]
		if e != nil {
			mime = e.texts[textMIME] // that of a revisit, too
		}
		if status == 200 && isHTML(string(mime)) {
			s.names.add(weburl.Split(url).Host)
		}
		found := byte(notFound)
		switch {
		case !ours || status != 200 || !isHTML(string(mime)):
		case e == nil:
			found = perhapsFound
		case len(e.texts[textVia]) > 0:
			found = isFound
		default:
			found = isSeed
		}
		if err := s.info(url, nil, both.texts[textRedirect], status, found); err != nil || !ours {
			return err
		}
		s.rep.Statuses[status]++
		if e != nil {
			s.logged = true
			if n := e.numbers[numMillis]; n >= sitereport.SlowMillis {
				s.found["slow"].Add(sitereport.Row{URL: string(url), Weight: n,
					Detail: human.Duration(time.Duration(n) * time.Millisecond)})
			}
			if n := e.numbers[numBytes]; n >= sitereport.LargeBytes {
				s.found["large"].Add(sitereport.Row{URL: string(url), Detail: human.Bytes(n), Weight: n})
			}
			if found != notFound {
				s.rep.Depths[int(min(e.numbers[numDepth], sitereport.MaxDepth))]++
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
				if err := s.similar.add(hash, string(c.texts[textDigest]), string(url)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Whether a URL is a page of the site, and how it was found.
const (
	notFound     = iota // it is none
	isSeed              // the crawl began there
	isFound             // by a link or a sitemap
	perhapsFound        // no line of the log says how
)

// info adds what is known of a URL.
func (s *siteScan) info(url, reason, location []byte, status int, found byte) error {
	key := s.key(url)
	s.noteEnd(key, reason, status)
	s.begin(key, siteInfo)
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
		if e.Reason == "" || e.File != "" || e.Order {
			return s.j.live()
		}
		url := []byte(e.URL)
		if s.has(url) {
			s.rep.Refused[e.Reason]++
		}
		return s.info(url, []byte(e.Reason), nil, e.Status, notFound)
	})
}

// links reads the links from and to the site, and the facts of its pages. It comes before info: that notes the ends of
// redirects.
func (s *siteScan) links() error {
	err := s.j.eachLink(true, func(r *linkRow) error {
		if err := s.j.live(); err != nil {
			return err
		}
		from := s.has(r.from)
		if len(r.to) == 0 {
			if !from {
				return nil
			}
			return s.fact(r)
		}
		kind := byte(siteLink)
		switch string(r.element) {
		case elementSitemap:
			if !from || !s.has(r.to) {
				return nil
			}
			s.listed = true
			return s.refer(siteListed, r.to, r.to, r.from)
		case elementCanonical:
			if !from {
				return nil
			}
			return s.canonical(r)
		case elementTranslation:
			if !from || len(r.text) > 0 && !s.has(r.text) {
				return nil
			}
			s.begin(s.key(r.from), siteTranslated)
			s.rec = binary.BigEndian.AppendUint64(s.rec, s.key(r.to))
			if err := s.urls.Add(s.rec); err != nil {
				return err
			}
			code := r.rel
			if len(r.text) > 0 {
				code = append(bytes.Clone(code), inSitemap...)
			}
			return s.refer(siteTranslation, r.to, r.from, code, r.to)
		case elementFault: // in a sitemap
			if !from || !s.has(r.to) {
				return nil
			}
			return s.fault(string(r.rel), r.from, append(bytes.Clone(r.text), inSitemap...))
		case elementImage:
			kind = siteImage
		case elementRedirect:
			if kind = siteRedirect; from {
				if len(s.redirects) < maxRedirects {
					s.redirects[s.key(r.from)] = hop{url: string(r.from), to: string(r.to)}
				} else {
					s.cut = true
				}
			}
		case "link", "link-header":
			if isReference(r.rel) {
				return nil // of search engines, not of people
			}
		}
		if !from && !s.has(r.to) {
			return nil
		}
		if from && kind == siteLink {
			s.rep.Links++
		}
		return s.refer(kind, r.to, r.from, r.text, r.to)
	})
	s.findEnds()
	return err
}

// inSitemap follows the code of a translation that a sitemap has, for those who look for it on the page.
const inSitemap = " (in the sitemap)"

// isReference reports whether a rel attribute says that a page is the same as another, or its translation.
func isReference(rel []byte) bool {
	for word := range bytes.FieldsSeq(rel) {
		if bytes.EqualFold(word, []byte("canonical")) || bytes.EqualFold(word, []byte("alternate")) {
			return true
		}
	}
	return false
}

// refer adds a reference to a URL.
func (s *siteScan) refer(kind byte, to []byte, texts ...[]byte) error {
	s.begin(s.key(to), kind)
	for _, t := range texts {
		s.text(t)
	}
	return s.urls.Add(s.rec)
}

// canonical takes the canonical URL of a page.
func (s *siteScan) canonical(r *linkRow) error {
	if !bytes.Equal(r.from, r.to) {
		s.found["canonical-elsewhere"].Add(sitereport.Row{URL: string(r.from),
			Detail: "the page says: " + string(r.to)})
		if err := s.refer(siteElsewhere, r.from, r.to); err != nil {
			return err
		}
	}
	return s.refer(siteCanonical, r.to, r.from, r.to)
}

// fact takes a row about a page of the site.
func (s *siteScan) fact(r *linkRow) error {
	kind := ""
	switch string(r.element) {
	case elementFault:
		return s.fault(string(r.rel), r.from, r.text)
	case elementIndex:
		s.rep.Indexed[string(r.rel)]++
		return nil
	case elementHeader:
		header := string(r.rel)
		row := s.lacking[header]
		if row == nil {
			row = &sitereport.Row{URL: string(r.from), Detail: header + ": " + securityHeaders[header]}
			s.lacking[header] = row
		}
		if row.Count++; len(row.From) < maxFrom {
			row.From = append(row.From, sitereport.Source{URL: string(r.from)})
		}
		row.Weight = row.Count
		return nil
	case elementTitle:
		s.rep.Pages++
		if err := s.addPage(r.from, isAPage); err != nil {
			return err
		}
		if len(r.text) == 0 {
			return s.fault("title-missing", r.from, nil)
		}
		kind = "title-repeated"
	case elementDescription:
		kind = "description-repeated"
	case elementHeading:
		kind = "h1-repeated"
	default:
		return nil
	}
	d := xxhash.New()
	_, _ = d.WriteString(kind) // never fails
	_, _ = d.Write(r.text)
	s.rec = append(binary.BigEndian.AppendUint64(s.rec[:0], d.Sum64()), kind...)
	s.rec = append(append(append(s.rec, 0), r.text...), 0)
	return s.texts.Add(append(s.rec, r.from...))
}
