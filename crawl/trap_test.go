package crawl

import (
	"strings"
	"testing"
	"time"

	"drumbeat/internal/simweb"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/explain"
)

// TestTrapScore: of three endless hosts below one PLD, the trap score holds the calendar and the shop, and leaves
// the wiki alone. Other hosts are fetched as without it.
func TestTrapScore(t *testing.T) {
	notShort(t)
	crawl := func(on bool, scope state.Scope) (pages map[string]int64, traps map[string]*explain.TrapReport,
		ordinary int) {
		var opt Options
		run := crawlTraps(t, func(web *simweb.Options, o *Options) {
			if web == nil {
				o.Limits.MaxTime, o.Budgets.TrapScore, o.Admission.Scope, o.Budgets.QueuePages = 10*time.Minute, on,
					scope, star.Unscaled
				opt = *o
			}
		}, "alike")
		pages, traps = map[string]int64{}, map[string]*explain.TrapReport{}
		var asked []string
		for host, n := range run.pages {
			name, _, _ := strings.Cut(host, ".")
			pages[name] = n
			asked = append(asked, host)
		}
		x := explainer(t, opt.Disk.FS, opt.Disk.Dirs)
		reports, err := x.Hosts(asked)
		must(t, err)
		for _, r := range reports {
			name, _, _ := strings.Cut(r.Host, ".")
			traps[name] = r.Trap
			t.Logf("trap score %t, scope %s: %s: %d pages, %+v, damage %q", on, scope, r.Host, pages[name],
				r.Trap, r.Damage)
		}
		s := &run.res.Snapshot
		if n := s.Count(state.CountTrapURLs); s.TrapHosts != map[bool]int64{true: 2}[on] || n > 0 != on {
			t.Errorf("trap score %t: %d hosts, %d URLs", on, s.TrapHosts, n)
		}
		return pages, traps, len(run.ends)
	}
	for _, scope := range []state.Scope{state.ScopeAll, state.ScopeHost} {
		off, none, before := crawl(false, scope)
		on, scores, ordinary := crawl(true, scope)
		if none["calendar"] != nil || none["shop"] != nil || none["wiki"] != nil {
			t.Errorf("scores without trap score: %v", none)
		}
		if on["wiki"] < off["wiki"]*19/20 || scores["wiki"] != nil {
			t.Errorf("wiki: %d pages, %d without trap score; %+v", on["wiki"], off["wiki"], scores["wiki"])
		}
		if n, all := on["calendar"]+on["shop"], off["calendar"]+off["shop"]; n > all/2 {
			t.Errorf("%d pages of the traps, %d without trap score", n, all)
		}
		for _, host := range []string{"calendar", "shop"} {
			if s := scores[host]; s == nil || s.Score < .9 || s.Part != 1 {
				t.Errorf("%s: %+v, want a score of 0.9 or more and 1/16 of the budget", host, s)
			}
		}
		if ordinary != before {
			t.Errorf("%d other pages, %d without trap score", ordinary, before)
		}
	}
}
