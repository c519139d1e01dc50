package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"drumbeat/drum"
	"drumbeat/internal/human"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// MaxLinking limits SiteReport.Linking.
const MaxLinking = 20

// maxSiteHosts limits the hosts of a PLD whose waiting URLs are counted one by one.
const maxSiteHosts = 1000

// SiteReport is the answer about a PLD.
type SiteReport struct {
	Asked string     `json:"asked"` // the PLD, or a host or URL below it
	Error string     `json:"error,omitempty"`
	PLD   string     `json:"pld,omitempty"`
	AsOf  *AsOf      `json:"as_of,omitempty"`
	Site  *PLDReport `json:"site,omitempty"`
	// Linking are PLDs that link to it, by falling in-degree; those below the ranking come last, in no order that
	// means anything. Site.Indegree is the number of all.
	Linking []LinkingPLD `json:"linking,omitempty"`
	// Hosts counts the waiting URLs of its hosts, for the first 1,000 hosts met. OtherHosts has those of the rest.
	Hosts      map[string]int64 `json:"hosts,omitempty"`
	OtherHosts int64            `json:"other_hosts,omitempty"`
	Waiting
	Why    []string `json:"why"`
	Damage []string `json:"damage,omitempty"`

	key uint64
}

// LinkingPLD is a PLD that links to another.
type LinkingPLD struct {
	PLD      string `json:"pld"`                // "" if its name is not known
	Indegree uint32 `json:"indegree,omitempty"` // 0: below the ranking

	key uint64
}

// Sites explains PLDs, given by their names or by hosts or URLs below them. Unless Options.Fast is set, it reads
// all edges between PLDs and all URLs that wait.
func (e *Explainer) Sites(asked []string) (reports []*SiteReport, err error) {
	need := func(v *view) []string {
		reports = reports[:0]
		var plds []drum.Key
		for _, a := range asked {
			rep := v.askSite(a)
			reports = append(reports, rep)
			plds = append(plds, drum.Key(rep.key))
		}
		files := v.keyFiles(nil, nil, plds)
		if v.opt.Fast {
			return files
		}
		edges, _ := star.Stores(state.NameStar)
		if v.star.Edges != nil {
			files = append(files, drum.Files(v.r.Set, edges, v.star.Edges)...)
		}
		files = append(files, drum.Files(v.r.Set, state.NameRobotsCache, v.cache.Waiting())...)
		return append(files, v.scannedFiles()...)
	}
	if err := e.with(need, func(v *view) error { return v.explainSites(reports) }); err != nil {
		return reports, err
	}
	return reports, e.nameLinking(reports)
}

func (v *view) askSite(asked string) *SiteReport {
	rep := &SiteReport{Asked: asked}
	url, err := v.canonicalAsked(asked)
	if err != nil {
		rep.Error = err.Error()
		return rep
	}
	rep.AsOf = &v.asOf
	rep.PLD = v.r.Suffixes.PLD(string(weburl.Split([]byte(url)).Host))
	rep.key = v.r.Hasher.PLDKey([]byte(rep.PLD))
	return rep
}

// explainSites fills in the answers, but for the names of the PLDs that link.
func (v *view) explainSites(reports []*SiteReport) error {
	byKey, byPLD := map[uint64][]*SiteReport{}, map[string][]*SiteReport{}
	for _, rep := range reports {
		if rep.Error != "" {
			continue
		}
		byKey[rep.key], byPLD[rep.PLD] = append(byKey[rep.key], rep), append(byPLD[rep.PLD], rep)
		var check func([]byte) error
		if !v.opt.Fast {
			check = func([]byte) error { return nil }
		}
		rep.Site = v.site(rep.PLD, check, v.damaged(&rep.Damage))
	}
	if !v.opt.Fast && len(byKey) > 0 {
		var damage []string
		if err := v.countSites(byPLD, v.damaged(&damage)); err != nil {
			return err
		}
		if err := v.findLinking(byKey, v.damaged(&damage)); err != nil {
			return err
		}
		for _, list := range byKey {
			for _, rep := range list {
				rep.Damage = append(rep.Damage, damage...)
			}
		}
	}
	for _, rep := range reports {
		if rep.Error == "" {
			rep.Waiting.tidy()
			v.concludeSite(rep)
		}
	}
	return nil
}

// countSites counts the waiting URLs of the PLDs.
func (v *view) countSites(byPLD map[string][]*SiteReport, damaged func(error) error) error {
	for _, list := range byPLD {
		for _, rep := range list {
			rep.Waiting.begin()
			rep.Hosts = map[string]int64{}
		}
	}
	return v.countWaiting(func(at state.Spot, rec *weburl.Record) {
		host := string(weburl.Split(rec.URL).Host)
		for _, rep := range byPLD[v.r.Suffixes.PLD(host)] {
			rep.Waiting.count(at, rec)
			if _, known := rep.Hosts[host]; known || len(rep.Hosts) < maxSiteHosts {
				rep.Hosts[host]++
			} else {
				rep.OtherHosts++
			}
		}
	}, damaged)
}

// findLinking finds the PLDs with the largest in-degrees among those that link to the PLDs.
func (v *view) findLinking(byKey map[uint64][]*SiteReport, damaged func(error) error) error {
	p := v.r.StartProgress(v.opt.Progress, v.opt.ProgressEvery, "edges")
	defer p.End()
	ranked, err := star.TopOf(v.r.Set, v.star, int(^uint(0)>>1))
	if err != nil {
		_ = damaged(err)
	}
	degrees := make(map[uint64]uint32, len(ranked))
	for _, r := range ranked {
		degrees[r.PLD] = uint32(r.Value)
	}
	first := map[uint64]*linking{}
	err = star.WalkEdges(v.r.Set, state.NameStar, v.star, func(e star.Edge) error {
		if len(byKey[e.To]) > 0 {
			if first[e.To] == nil {
				first[e.To] = new(linking)
			}
			first[e.To].add(LinkingPLD{Indegree: degrees[e.From], key: e.From})
		}
		return nil
	})
	if err != nil {
		_ = damaged(err)
	}
	for to, l := range first {
		l.cut()
		for _, rep := range byKey[to] {
			rep.Linking = slices.Clone(l.list)
		}
	}
	return nil
}

// linking collects the PLDs that link to one. It keeps the MaxLinking first ones, and some more until cut.
type linking struct{ list []LinkingPLD }

func (l *linking) add(p LinkingPLD) {
	if l.list = append(l.list, p); len(l.list) >= 4*MaxLinking {
		l.cut()
	}
}

// cut sorts the list, by falling in-degree, and shortens it. An edge that has not been merged may be there twice.
func (l *linking) cut() {
	slices.SortFunc(l.list, func(a, b LinkingPLD) int {
		return cmp.Or(cmp.Compare(b.Indegree, a.Indegree), cmp.Compare(a.key, b.key))
	})
	l.list = slices.CompactFunc(l.list, func(a, b LinkingPLD) bool { return a.key == b.key })
	l.list = l.list[:min(len(l.list), MaxLinking)]
}

// nameLinking looks up the names of the PLDs that link.
func (e *Explainer) nameLinking(reports []*SiteReport) error {
	var keys []uint64
	for _, rep := range reports {
		for _, p := range rep.Linking {
			keys = append(keys, p.key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	names, err := e.Names(keys)
	if err != nil {
		return err
	}
	for _, rep := range reports {
		for i := range rep.Linking {
			rep.Linking[i].PLD = names[rep.Linking[i].key]
		}
	}
	return nil
}

// concludeSite fills Why from the other fields.
func (v *view) concludeSite(rep *SiteReport) {
	say := func(format string, args ...any) { rep.Why = append(rep.Why, fmt.Sprintf(format, args...)) }
	if rep.PLD != rep.Asked {
		say("its PLD is %s", rep.PLD)
	}
	s := rep.Site
	degree := fmt.Sprintf("its in-degree, %d", s.Indegree)
	if s.Prior > s.Indegree {
		degree = fmt.Sprintf("its prior in-degree by --ranks, %d (%d found)", s.Prior, s.Indegree)
	}
	switch {
	case !s.Known:
		say("no parsed page links to it, and none of its URLs was placed")
	case s.Pinned:
		say("its budget, %s, was set by the operator (ctl budget, or --sites)",
			human.Counted(s.Budget, "page", "pages"))
	case s.Newcomer:
		say("supporters have not been computed since it was found, so its budget is a 32nd of the default")
	case s.BySupporters && s.Standing < 1:
		say("its standing is %.3g %% of that for the default budget, so it gets this share of it",
			100*s.Standing)
	case s.BySupporters && s.Rank > 0:
		say("its supporters, %.1f, are the %s of the %d top ranks, so its budget is %s", s.Supporters,
			ordinal(s.Rank), s.Ranks, human.Counted(s.Budget, "page", "pages"))
	case s.BySupporters:
		say("its supporters, %.1f, are below the top ranks, so it has the default budget, %s",
			s.Supporters, human.Counted(s.Budget, "page", "pages"))
	case s.Rank > 0:
		say("%s, is the %s of the %d top ranks, so its budget is %s", degree, ordinal(s.Rank), s.Ranks,
			human.Counted(s.Budget, "page", "pages"))
	case s.Budget > 0 && max(s.Indegree, s.Prior) == 0:
		say("no PLD links to it, so it has the default budget, %s", human.Counted(s.Budget, "page", "pages"))
	case s.Budget > 0:
		say("%s, is below the top ranks, so it has the default budget, %s", degree,
			human.Counted(s.Budget, "page", "pages"))
	default:
		say("budgets are off because --scope is not all")
	}
	if s.PerQueue > s.Budget {
		say("the crawl is small, so each queue of BEAST accepts more of its URLs, %d; the budget sets only its "+
			"delays", s.PerQueue)
	}
	if v.opt.Fast {
		say("its URLs were not counted, nor the PLDs that link to it (--fast)")
		return
	}
	rep.Why = append(rep.Why, rep.Waiting.text())
}

// ordinal returns a rank in words, such as 22nd.
func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

// countWaiting calls visit for each URL that waits, in unspecified order.
func (v *view) countWaiting(visit func(at state.Spot, rec *weburl.Record), damaged func(error) error) error {
	p := v.r.StartProgress(v.opt.Progress, v.opt.ProgressEvery, "state")
	defer p.End()
	decode := func(at state.Spot, data []byte) error {
		var rec weburl.Record
		if err := rec.Decode(data); err != nil {
			return damaged(err)
		}
		visit(at, &rec)
		return nil
	}
	return v.scan(state.WaitingPlaces[:], decode, damaged)
}

// text says in words where the URLs wait.
func (w *Waiting) text() string {
	waiting := int64(0)
	var parts []string
	for p := range state.NumPlaces {
		if n := w.Places[p.String()]; n > 0 {
			waiting += n
			parts = append(parts, fmt.Sprintf("%s %d", p.Text(), n))
		}
	}
	if waiting == 0 {
		return "none of its URLs wait"
	}
	return fmt.Sprintf("%d of its URLs wait: %s", waiting, strings.Join(parts, ", "))
}
