package export

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"drumbeat/internal/extsort"
	"drumbeat/state"
)

// target collects what the records of a key say.
type target struct {
	known                 bool
	found                 byte // as in siteScan.info
	status                int
	url, reason, location string
	links                 int64
	from                  []Source
	canonical             []Source
	canonicals            int64
}

// joinURLs finds the status of each target of a link or of a canonical URL.
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
		var a, b, to []byte
		switch rec := c.value[1:]; c.value[0] {
		case siteInfo:
			if t.known && t.reason == "" {
				continue // a capture; this is another
			}
			readTexts(rec[3:], &a, &b, &to)
			t.known, t.status, t.found = true, int(binary.BigEndian.Uint16(rec)), rec[2]
			t.url, t.reason, t.location = string(a), string(b), string(to)
			if h, ok := s.redirects[key]; ok {
				h.status = t.status
				s.redirects[key] = h
			}
		case siteLink:
			readTexts(rec, &a, &b, &to)
			if t.url == "" {
				t.url = string(to)
			}
			if string(a) != t.url {
				if t.links++; len(t.from) < maxFrom {
					t.from = append(t.from, Source{string(a), string(b)})
				}
			}
		case siteCanonical:
			readTexts(rec, &a, &b)
			if t.canonicals++; len(t.canonical) < maxFrom {
				t.canonical = append(t.canonical, Source{URL: string(a)})
			}
			if t.url == "" {
				t.url = string(b)
			}
		}
		if err := s.j.live(); err != nil {
			return err
		}
	}
	if any {
		s.judge(&t)
	}
	return err
}

// judge adds the findings about one URL.
func (s *siteScan) judge(t *target) {
	row := SiteRow{URL: t.url, Count: t.links, From: t.from, weight: t.links}
	why := t.reason
	if why == "" && t.status > 0 {
		why = fmt.Sprintf("status %d", t.status)
	}
	row.Detail = why
	switch {
	case !t.known: // not fetched yet, or out of scope
		return
	case t.links > 0 && t.reason == reasonRobots:
		s.blocked.add(row)
	case t.links > 0 && (t.status >= 400 || brokenReason(t.reason)):
		s.broken.add(row)
	case t.links > 0 && t.location != "":
		row.Detail += ", to " + t.location
		s.redirected.add(row)
	case t.links == 0 && t.found == isFound:
		s.orphans.add(SiteRow{URL: t.url})
	case t.links == 0 && t.found == perhapsFound:
		s.unjudged++
	}
	if t.canonicals > 0 && (t.status != 200 || t.reason != "") {
		s.badCanonical.add(SiteRow{URL: t.url, Detail: why, Count: t.canonicals, From: t.canonical,
			weight: t.canonicals})
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

// sources returns the URLs of a group after the first. They follow a 0, if there is one.
func sources(first [][]byte) (url string, rest []Source) {
	for i, rec := range first {
		_, u, ok := bytes.Cut(rec, []byte{0})
		if !ok {
			u = rec
		}
		if i == 0 {
			url = string(u)
		} else {
			rest = append(rest, Source{URL: string(u)})
		}
	}
	return url, rest
}

func (s *siteScan) joinTitles() error {
	return s.groups(s.titles, "titles", func(first [][]byte, n int64) {
		if n > 1 {
			url, rest := sources(first)
			title, _, _ := bytes.Cut(first[0], []byte{0})
			s.retitled.add(SiteRow{URL: url, Detail: string(title), Count: n, From: rest, weight: n})
		}
	})
}

func (s *siteScan) joinDigests() error {
	return s.groups(s.digests, "digests", func(first [][]byte, n int64) {
		if n > 1 {
			url, rest := sources(first)
			s.same.add(SiteRow{URL: url, Count: n, From: rest, weight: n})
		}
	})
}

// joinTexts finds the near-duplicates that "export near-duplicates" finds, without the pairs with equal bodies. A row
// has a page and all that are paired with it.
func (s *siteScan) joinTexts() error {
	pairs := s.j.sorterOf(16) // hash, URL, 0, URL of a page that is like it
	s.texts.take = func(url, near []byte, nearHash uint64, sameBody bool) error {
		if sameBody {
			return nil
		}
		s.rec = append(binary.BigEndian.AppendUint64(s.rec[:0], nearHash), near...)
		return pairs.Add(append(append(s.rec, 0), url...))
	}
	if err := s.texts.find(); err != nil {
		return err
	}
	return s.groups(pairs, "texts", func(first [][]byte, n int64) {
		url, _, _ := bytes.Cut(first[0], []byte{0})
		row := SiteRow{URL: string(url), Count: n + 1, weight: n + 1}
		for _, rec := range first[:min(len(first), maxFrom)] {
			_, like, _ := bytes.Cut(rec, []byte{0})
			row.From = append(row.From, Source{URL: string(like)})
		}
		s.similar.add(row)
	})
}

// findChains finds redirects that lead to redirects.
func (s *siteScan) findChains() {
	if s.cut {
		s.j.note("the site has more than %d redirects: chains of the others were not looked for", maxRedirects)
	}
	inner := map[uint64]bool{} // a redirect leads there
	for _, h := range s.redirects {
		if to := s.key([]byte(h.to)); to != s.key([]byte(h.url)) {
			inner[to] = true
		}
	}
	seen := map[uint64]bool{}
	follow := func(key uint64) {
		first := s.redirects[key]
		path, at := []string{first.url}, key
		loop := false
		for len(path) <= maxHops {
			h, ok := s.redirects[at]
			if !ok {
				break
			}
			seen[at] = true
			path = append(path, h.to)
			at = s.key([]byte(h.to))
			if loop = slices.Contains(path[:len(path)-1], h.to); loop {
				break
			}
		}
		if hops := len(path) - 1; hops > 1 || loop {
			row := SiteRow{URL: first.url, Detail: strings.Join(path[1:], " → "), Count: int64(hops),
				weight: int64(hops)}
			if loop {
				row.Detail += " (a loop)"
			}
			s.chains.add(row)
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
