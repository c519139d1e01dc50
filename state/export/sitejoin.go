package export

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"drumbeat/internal/extsort"
	"drumbeat/state"
	"drumbeat/state/sitereport"
)

// fate is what became of a URL.
type fate struct {
	known       bool // it was asked for
	status      int
	url, reason string
}

// target collects what the records of a key say.
type target struct {
	fate
	end                   fate // of its redirects; not known if they have none that was asked for
	found                 byte // as in siteScan.info
	location              string
	sitemap               string // that lists it
	elsewhere             string // the canonical URL that the page names
	translated            map[uint64]bool
	links, images         referrers
	redirected            bool      // a redirect of siteScan.redirects leads to it
	via                   referrers // other redirects
	canonical, translates referrers
	noReturn              []sitereport.Source // pages that name it as a translation and that it does not name
}

// referrers are the pages that refer to a URL: their number and the first ones.
type referrers struct {
	n     int64
	first []sitereport.Source
}

func (r *referrers) add(page, text []byte) {
	if r.n++; len(r.first) < maxFrom {
		r.first = append(r.first, sitereport.Source{URL: string(page), Text: string(text)})
	}
}

// row returns a row about the URL.
func (r *referrers) row(url, detail string) sitereport.Row {
	return sitereport.Row{URL: url, Detail: detail, Count: r.n, From: r.first, Weight: r.n}
}

// isBroken reports whether people find no page at the URL, which was asked for.
func (f *fate) isBroken() bool { return f.known && (f.status >= 400 || brokenReason(f.reason)) }

// isWrong reports whether it is no address that search engines should be told of.
func (f *fate) isWrong() bool {
	return f.known && (brokenReason(f.reason) || f.reason == "" && f.status != 200)
}

// why says what became of it.
func (f *fate) why() string {
	if f.reason == "" && f.status > 0 {
		return fmt.Sprintf("status %d", f.status)
	}
	return f.reason
}

// reached returns what people get who follow a link to it.
func (t *target) reached() *fate {
	if t.end.known {
		return &t.end
	}
	return &t.fate
}

// joinURLs finds the status of each target of a reference.
func (s *siteScan) joinURLs() error {
	s.j.meter.Set("links by target")
	c, err := sorted(s.urls)
	var t target
	key, any := uint64(0), false
	for ; err == nil && c.ok; err = c.next() {
		if any && c.key != key {
			s.judge(&t)
			t = target{}
		}
		key, any = c.key, true
		if err := errors.Join(s.take(&t, key, c.value[0], c.value[1:]), s.j.live()); err != nil {
			return err
		}
	}
	if any {
		s.judge(&t)
	}
	return err
}

// take takes a record about a URL.
func (s *siteScan) take(t *target, key uint64, kind byte, rec []byte) error {
	var a, b, to []byte
	switch kind {
	case siteInfo:
		if t.known && t.reason == "" {
			return nil // a capture; this is another
		}
		readTexts(rec[3:], &a, &b, &to)
		t.known, t.status, t.found = true, int(binary.BigEndian.Uint16(rec)), rec[2]
		t.url, t.reason, t.location = string(a), string(b), string(to)
		if h, ok := s.redirects[key]; ok && t.location != "" {
			t.end = s.ends[h.end]
		}
		return nil
	case siteListed:
		readTexts(rec, &to, &a)
		t.sitemap = string(a)
	case siteElsewhere:
		readTexts(rec, &a)
		t.elsewhere = string(a)
		return nil
	case siteTranslated:
		if t.translated == nil {
			t.translated = map[uint64]bool{}
		}
		if len(t.translated) < maxPageTranslations {
			t.translated[binary.BigEndian.Uint64(rec)] = true
		}
		return nil
	case siteCanonical:
		readTexts(rec, &a, &to)
		t.canonical.add(a, nil)
		if t.isWrong() && (t.location == "" || t.end.isBroken()) {
			return s.markFaulty(a)
		}
	default:
		readTexts(rec, &a, &b, &to)
		if t.url == "" {
			t.url = string(to)
		}
		return s.takeLink(t, kind, a, b)
	}
	if t.url == "" {
		t.url = string(to)
	}
	return nil
}

// takeLink takes a reference of a page.
func (s *siteScan) takeLink(t *target, kind byte, page, text []byte) error {
	if string(page) == t.url {
		return nil
	}
	wrong := t.reached().isBroken() || !t.known && s.checked[t.url] != ""
	switch kind {
	case siteLink:
		t.links.add(page, text)
	case siteRedirect: // those who follow links to it count
		if _, ours := s.redirects[s.key(page)]; ours {
			t.redirected = true
		} else {
			t.via.add(page, nil)
		}
		return nil
	case siteImage:
		t.images.add(page, text)
	case siteTranslation:
		t.translates.add(page, text)
		if wrong = t.isWrong(); !wrong && t.found != notFound && !t.translated[s.key(page)] &&
			len(t.noReturn) < maxPageTranslations {
			t.noReturn = append(t.noReturn, sitereport.Source{URL: string(page), Text: string(text)})
		}
	}
	if !wrong {
		return nil
	}
	return s.markFaulty(page)
}

// judge adds the findings about one URL.
func (s *siteScan) judge(t *target) {
	ours := s.has([]byte(t.url))
	if ours && t.found != notFound {
		s.judgeLinks(t)
	}
	if !t.known { // not fetched yet, or out of scope
		s.judgeUnknown(t, ours)
		return
	}
	add := func(kind string, row sitereport.Row) { s.found[kind].Add(row) }
	end, why := t.reached(), t.why()
	redirects := why
	if t.end.isBroken() || t.end.reason == reasonRobots {
		why = t.end.why() + ", after a redirect to " + t.end.url
		redirects = why
	} else if t.location != "" {
		redirects += ", to " + t.location
	}
	all := t.links
	all.n += t.via.n
	all.first = append(slices.Clone(all.first), t.via.first...)
	all.first = all.first[:min(len(all.first), maxFrom)]
	switch {
	case all.n == 0:
	case end.reason == reasonRobots:
		add("robots-blocked", all.row(t.url, why))
	case end.isBroken():
		add("broken-link", all.row(t.url, why))
	case t.location != "" && t.links.n > 0:
		add("redirected-link", t.links.row(t.url, redirects))
	}
	if t.images.n > 0 && end.isBroken() {
		add("broken-image", t.images.row(t.url, why))
	}
	switch {
	case t.canonical.n == 0:
	case t.location != "" && !t.end.isBroken():
		add("canonical-redirect", t.canonical.row(t.url, redirects))
	case t.isWrong():
		add("canonical-broken", t.canonical.row(t.url, why))
	case t.elsewhere != "":
		add("canonical-chain", t.canonical.row(t.url, "the page there says: "+t.elsewhere))
	}
	if t.translates.n > 0 && t.isWrong() {
		add("hreflang-broken", t.translates.row(t.url, redirects))
	}
	for _, from := range t.noReturn {
		add("hreflang-no-return", sitereport.Row{URL: t.url, Detail: "does not name " + from.URL,
			From: []sitereport.Source{from}, Count: 1})
	}
	if t.sitemap != "" && t.isWrong() {
		add("sitemap-broken", sitereport.Row{URL: t.url, Detail: redirects})
	}
}

// judgeUnknown judges a URL that the crawl has not asked for.
func (s *siteScan) judgeUnknown(t *target, ours bool) {
	from := t.links
	if from.n == 0 {
		from = t.images
	}
	switch {
	case ours && t.images.n > 0:
		s.unfetched++
	case !ours && from.n > 0:
		fault, checked := s.checked[t.url]
		s.outside.Add(from.row(t.url, ""))
		if checked {
			s.rep.OutsideChecked++
		}
		if fault != "" {
			s.found["broken-outside"].Add(from.row(t.url, fault))
		}
	}
}

// judgeLinks judges how a page of the site is found.
func (s *siteScan) judgeLinks(t *target) {
	bucket := int64(0)
	for _, least := range sitereport.Buckets {
		if t.links.n >= least {
			bucket = least
		}
	}
	s.rep.InLinks[bucket]++
	switch {
	case t.links.n > 0:
		row := t.links.row(t.url, "")
		row.Weight = -row.Weight
		s.least.Add(row)
	case t.via.n > 0, t.redirected:
	case t.found == isFound:
		s.found["orphan"].Add(sitereport.Row{URL: t.url})
	case t.found == perhapsFound:
		s.unjudged++
	}
	if s.listed && t.sitemap == "" && t.elsewhere == "" {
		s.found["sitemap-missing"].Add(sitereport.Row{URL: t.url})
	}
}

const reasonRobots = "robots"

// brokenReason reports whether a URL that was refused for this reason is broken for people too.
func brokenReason(reason string) bool {
	for _, r := range []state.Reason{state.ReasonNoHost, state.ReasonDNS, state.ReasonConnect, state.ReasonTimeout,
		state.ReasonReset, state.ReasonTLS, state.ReasonCertificate, state.ReasonBadResponse, state.ReasonHeadTooLarge,
		state.ReasonServerError} {
		if reason == r.String() {
			return true
		}
	}
	return false
}

// groups calls fn for each group of records of a sorter with equal keys: the first ones, and their number.
// Equal records count once: a page that was visited again has one for each capture.
func (s *siteScan) groups(from *extsort.Sorter, name string, fn func(first [][]byte, n int64)) error {
	s.j.meter.Set(name)
	c, err := sorted(from)
	var first [][]byte
	key, n := uint64(0), int64(0)
	var last []byte
	for ; err == nil && c.ok; err = c.next() {
		if n > 0 && c.key != key {
			fn(first, n)
			first, n = first[:0], 0
		}
		if n > 0 && bytes.Equal(c.value, last) {
			continue
		}
		key, last = c.key, append(last[:0], c.value...)
		if n++; len(first) <= maxFrom {
			first = append(first, bytes.Clone(c.value))
		}
		if err := s.j.live(); err != nil {
			return err
		}
	}
	if n > 0 {
		fn(first, n)
	}
	return err
}

// others returns the pages of a group after the first, whose URLs follow the last 0 of a record, if it has one.
func others(first [][]byte) (url string, rest []sitereport.Source) {
	for i, rec := range first {
		u := string(rec[bytes.LastIndexByte(rec, 0)+1:])
		if i == 0 {
			url = u
		} else {
			rest = append(rest, sitereport.Source{URL: u})
		}
	}
	return url, rest
}

// joinTexts finds pages with the same title, description or heading.
func (s *siteScan) joinTexts() error {
	return s.groups(s.texts, "titles", func(first [][]byte, n int64) {
		if n > 1 {
			url, rest := others(first)
			kind, text, _ := bytes.Cut(first[0], []byte{0})
			text = text[:bytes.LastIndexByte(text, 0)]
			s.found[string(kind)].Add(sitereport.Row{URL: url, Detail: string(text), Count: n, From: rest, Weight: n})
		}
	})
}

func (s *siteScan) joinDigests() error {
	return s.groups(s.digests, "digests", func(first [][]byte, n int64) {
		if n > 1 {
			url, rest := others(first)
			s.found["duplicate"].Add(sitereport.Row{URL: url, Count: n, From: rest, Weight: n})
		}
	})
}

// joinSimilar finds the near-duplicates that "export near-duplicates" finds, without the pairs with equal bodies. A row
// has a page and all that are paired with it.
func (s *siteScan) joinSimilar() error {
	pairs := s.j.sorterOf(16) // hash, URL, 0, URL of a page that is like it
	s.similar.take = func(url, near []byte, nearHash uint64, sameBody bool) error {
		if sameBody {
			return nil
		}
		s.rec = append(binary.BigEndian.AppendUint64(s.rec[:0], nearHash), near...)
		return pairs.Add(append(append(s.rec, 0), url...))
	}
	if err := s.similar.find(); err != nil {
		return err
	}
	return s.groups(pairs, "texts", func(first [][]byte, n int64) {
		url, _, _ := bytes.Cut(first[0], []byte{0})
		row := sitereport.Row{URL: string(url), Count: n + 1, Weight: n + 1}
		for _, rec := range first[:min(len(first), maxFrom)] {
			_, like, _ := bytes.Cut(rec, []byte{0})
			row.From = append(row.From, sitereport.Source{URL: string(like)})
		}
		s.found["near-duplicate"].Add(row)
	})
}

// follow returns the URLs on the way of a redirect of the site, the redirect first, and the key of the last one. loop
// says that it was there before. The way ends after maxHops.
func (s *siteScan) follow(key uint64, each func(key uint64)) (path []string, end uint64, loop bool) {
	path, end = []string{s.redirects[key].url}, key
	for len(path) <= maxHops {
		h, ok := s.redirects[end]
		if !ok {
			break
		}
		each(end)
		path = append(path, h.to)
		end = s.key([]byte(h.to))
		if loop = slices.Contains(path[:len(path)-1], h.to); loop {
			break
		}
	}
	return path, end, loop
}

// findEnds finds where the redirects of the site end. info then notes what became of the ends.
func (s *siteScan) findEnds() {
	for key, h := range s.redirects {
		path, end, _ := s.follow(key, func(uint64) {})
		if _, more := s.redirects[end]; more { // a circle, or too many
			continue // findChains tells of it
		}
		h.end = end
		s.redirects[key] = h
		s.ends[end] = fate{url: path[len(path)-1]}
	}
}

// noteEnd notes what became of the end of redirects. A capture counts more than a refusal.
func (s *siteScan) noteEnd(key uint64, reason []byte, status int) {
	if f, ok := s.ends[key]; ok && (!f.known || f.reason != "") {
		f.known, f.reason, f.status = true, string(reason), status
		s.ends[key] = f
	}
}

// findChains finds redirects that lead to redirects.
func (s *siteScan) findChains() {
	if s.cut {
		s.j.note("the site has more than %d redirects: the others were not followed", maxRedirects)
	}
	inner := map[uint64]bool{} // a redirect leads there
	for _, h := range s.redirects {
		if to := s.key([]byte(h.to)); to != s.key([]byte(h.url)) {
			inner[to] = true
		}
	}
	seen := map[uint64]bool{}
	follow := func(key uint64) {
		path, _, loop := s.follow(key, func(at uint64) { seen[at] = true })
		if hops := len(path) - 1; hops > 1 || loop {
			kind := "redirect-chain"
			if loop {
				kind = "redirect-loop"
			}
			s.found[kind].Add(sitereport.Row{URL: path[0], Detail: strings.Join(path[1:], " → "),
				Count: int64(hops), Weight: int64(hops)})
		}
	}
	keys := make([]uint64, 0, len(s.redirects))
	for key := range s.redirects {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b uint64) int { return cmp.Compare(s.redirects[a].url, s.redirects[b].url) })
	for _, key := range keys {
		if !inner[key] {
			follow(key)
		}
	}
	for _, key := range keys { // those in loops
		if !seen[key] {
			follow(key)
		}
	}
}

func siteTable() table {
	files := func(j *job) ([]string, error) {
		index, err := indexFiles(j)
		if err != nil {
			return nil, err
		}
		log, err := logFiles(j, crawlLog())
		return append(index, log...), err
	}
	return table{files: files, logs: []string{logDir, "warc"}, parts: []string{logDir, "warc"}, indexed: true}
}
