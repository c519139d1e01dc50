package explain

import (
	"fmt"

	"drumbeat/drum"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// URLs explains each URL. The Error of a report says why its argument is no URL; the error of the call is
// that of a directory that can't be read.
func (e *Explainer) URLs(asked []string) (reports []*URLReport, err error) {
	err = e.with(
		func(v *view) []string {
			reports = v.askURLs(asked)
			return v.urlFiles(reports, !e.Opt.Fast)
		},
		func(v *view) error { return v.explainURLs(reports) })
	return reports, err
}

// askURLs starts the answers.
func (v *view) askURLs(asked []string) []*URLReport {
	reports := make([]*URLReport, 0, len(asked))
	for _, a := range asked {
		rep := &URLReport{Asked: a, Place: "unseen"}
		reports = append(reports, rep)
		url, err := v.canonicalAsked(a)
		if err != nil {
			rep.Error = err.Error()
			continue
		}
		host := weburl.Split([]byte(url)).Host
		rep.URL, rep.Host, rep.PLD = url, string(host), v.r.Suffixes.PLD(string(host))
		rep.key = v.r.Hasher.URLKey([]byte(url))
		rep.Key, rep.AsOf = fmt.Sprintf("%016x", rep.key), &v.asOf
	}
	return reports
}

// urlFiles returns the names of the files that answers about URLs need; with all, also those without an
// index.
func (v *view) urlFiles(reports []*URLReport, all bool) []string {
	var urls, origins, plds []drum.Key
	for _, rep := range reports {
		if rep.Error == "" {
			urls = append(urls, drum.Key(rep.key))
			origins = append(origins, drum.Key(v.r.Hasher.OriginKey(weburl.Origin([]byte(rep.URL)))))
			plds = append(plds, drum.Key(v.r.Hasher.PLDKey([]byte(rep.PLD))))
		}
	}
	names := v.keyFiles(urls, origins, plds)
	if all {
		names = append(names, v.scannedFiles()...)
	}
	return names
}

// explainURLs fills in the answers.
func (v *view) explainURLs(all []*URLReport) error {
	var reports, seen []*URLReport
	for _, rep := range all {
		if rep.Error != "" {
			continue
		}
		reports = append(reports, rep)
		if err := v.lookUpSeen(rep); err != nil {
			return err
		}
		if rep.Seen {
			rep.Place = "" // to be found
		}
	}
	v.findOwners(reports)
	for _, rep := range reports {
		if rep.Place == "" {
			seen = append(seen, rep)
		}
	}
	f := v.newFinder(seen)
	if v.opt.Fast {
		f = nil
	}
	sites, hosts := map[string]*PLDReport{}, map[string]*robots.HostData{}
	origins := map[string]*OriginReport{}
	for _, rep := range reports {
		damaged := v.damaged(&rep.Damage)
		if sites[rep.PLD] == nil {
			sites[rep.PLD] = v.site(rep.PLD, f.checks(state.PlaceStar), damaged)
		}
		rep.Site = sites[rep.PLD]
		origin := string(weburl.Origin([]byte(rep.URL)))
		if origins[origin] == nil {
			check := f.checks(state.PlaceRobotsCheck)
			origins[origin], hosts[origin] = v.origin(origin, rep.Site.Budget, check, damaged)
		}
		rep.Robots = origins[origin]
		rep.Verdict = v.verdict(hosts[origin], []byte(rep.URL))
		rep.Link = v.link([]byte(rep.URL))
		rep.Settings = v.settingsOf([]byte(rep.Host), []byte(rep.URL))
		var err error
		rep.Delays, err = v.delaysOf(rep.Host, rep.Robots.Addresses)
		_ = damaged(err)
		rep.Trap, err = v.trap(rep.Host)
		_ = damaged(err)
	}
	if f != nil {
		if err := v.findAll(f, reports, origins); err != nil {
			return err
		}
	}
	for _, rep := range reports {
		v.conclude(rep)
	}
	return nil
}

// findAll finds the places of seen URLs, the requests of their origins, and their parents.
func (v *view) findAll(f *finder, reports []*URLReport, origins map[string]*OriginReport) error {
	p := v.r.StartProgress(v.opt.Progress, v.opt.ProgressEvery, "state")
	defer p.End()
	damaged := v.damaged(new([]string))
	asked := map[string]*OriginReport{} // origins that may have a request
	for _, rep := range reports {
		switch rep.Verdict.Decision {
		case robots.Request.String(), robots.Resolve.String(), robots.Wait.String():
			asked[rep.Robots.Origin] = origins[rep.Robots.Origin]
		}
	}
	if err := v.asking(asked, damaged); err != nil {
		return err
	}
	if f.left > 0 {
		if err := v.find(f, damaged); err != nil {
			return err
		}
	}
	if err := v.findErased(f, damaged); err != nil {
		return err
	}
	var others []*URLReport
	for _, list := range f.want { // not found
		for _, rep := range list {
			switch rep.Place = PlaceEnded; {
			case len(v.hurt) > 0:
				rep.Place, rep.Damage = PlaceUnknown, v.hurt
			case rep.elsewhere != nil && !rep.Erased:
				rep.Place, rep.Node = PlaceOtherNode, rep.elsewhere
				others = append(others, rep)
			}
		}
	}
	v.searchOutboxes(others)
	if err := v.findDropped(reports, damaged); err != nil {
		return err
	}
	v.parents(reports, damaged)
	return nil
}

// findErased marks the URLs without a place that an erasure has ended: neither output nor log names them.
func (v *view) findErased(f *finder, damaged func(error) error) error {
	byKey := map[uint64][]*URLReport{}
	for _, list := range f.want {
		for _, rep := range list {
			byKey[rep.key] = append(byKey[rep.key], rep)
		}
	}
	if len(byKey) == 0 {
		return nil
	}
	return damaged(v.r.EachErasedKey(func(key uint64) error {
		for _, rep := range byKey[key] {
			rep.Erased = true
		}
		return nil
	}))
}

// The values of URLReport.Place besides the crawl's places.
const (
	placeUnseen     = "unseen"
	PlaceLink       = "link"
	PlaceEnded      = "ended"
	PlaceNotScanned = "not-scanned"
	PlaceUnknown    = "unknown"
	PlaceOtherNode  = "other-node"
)

// checks returns the matcher for a place; nil if f is nil.
func (f *finder) checks(p state.Place) func([]byte) error {
	if f == nil {
		return nil
	}
	return f.matcher(p)
}

// lookUpSeen looks the URL up in URLseen's cache, then in the tuples that wait in its bucket.
func (v *view) lookUpSeen(rep *URLReport) error {
	damaged := v.damaged(&rep.Damage)
	_, found, err := drum.Lookup(v.r.Set, state.NameURLSeen, v.seen, drum.Key(rep.key))
	if err != nil {
		rep.Place = PlaceUnknown
		return damaged(err)
	}
	if found {
		rep.Seen = true
		return nil
	}
	err = drum.WalkKey(v.r.Set, state.NameURLSeen, v.seen, drum.Key(rep.key), func(t drum.Tuple) error {
		var rec weburl.Record
		if err := rec.Decode(t.Aux); err != nil {
			return err
		}
		if rep.Record == nil && string(rec.URL) == rep.URL {
			rep.Place = PlaceLink
			rep.record(&rec)
		}
		return nil
	})
	if err != nil && rep.Place == placeUnseen {
		rep.Place = PlaceUnknown
	}
	return damaged(err)
}

// Limits of the search for parents: parents of a call, and bytes of index lines of a host for each.
const (
	maxParents     = 16
	maxParentBytes = 64 << 10
)

// parents fills in the keys of the pages on which URLs were found first. A record keeps only the key of a
// long parent URL; parents then searches for the URL among the call's own URLs and the indexed responses of
// the same host.
func (v *view) parents(reports []*URLReport, damaged func(error) error) {
	byKey := map[uint64]string{}
	for _, rep := range reports {
		byKey[rep.key] = rep.URL
	}
	searched := 0
	for _, rep := range reports {
		switch {
		case rep.Record == nil:
			continue
		case rep.Record.ParentURL != "":
			rep.parent = v.r.Hasher.URLKey([]byte(rep.Record.ParentURL))
		case rep.parent != 0 && byKey[rep.parent] == "" && v.r.Out.Len() > 0 && searched < maxParents:
			searched++
			_ = damaged(warc.FindHost(v.r.WARCFiles(), v.warc, rep.URL, maxParentBytes, func(url string) bool {
				key := v.r.Hasher.URLKey([]byte(url))
				if key == rep.parent {
					byKey[key] = url
				}
				return key == rep.parent
			}, damaged))
		}
		if rep.parent == 0 {
			continue
		}
		rep.Record.Parent = fmt.Sprintf("%016x", rep.parent)
		if rep.Record.ParentURL == "" {
			rep.Record.ParentURL = byKey[rep.parent]
		}
	}
}

// Robots explains what the stored robots.txt rules say about each URL.
func (e *Explainer) Robots(asked []string) (reports []*RobotsReport, err error) {
	var urls []*URLReport
	err = e.with(
		func(v *view) []string {
			urls = v.askURLs(asked)
			return v.urlFiles(urls, false)
		},
		func(v *view) error {
			reports = reports[:0]
			for _, u := range urls {
				rep := &RobotsReport{Asked: u.Asked, Error: u.Error, URL: u.URL, AsOf: u.AsOf}
				reports = append(reports, rep)
				if u.Error != "" {
					continue
				}
				damaged := v.damaged(&rep.Damage)
				site := v.site(u.PLD, nil, damaged)
				var check func([]byte) error
				if !e.Opt.Fast {
					check = func([]byte) error { return nil }
				}
				origin, h := v.origin(string(weburl.Origin([]byte(u.URL))), site.Budget, check, damaged)
				rep.Robots, rep.Verdict = origin, v.verdict(h, []byte(u.URL))
				if rules, err := robots.DecodeRules(h.Rules); len(h.Rules) > 0 && err == nil {
					rep.Text = rules.Text()
				}
			}
			return nil
		})
	return reports, err
}
