package explain

import (
	"fmt"
	"sync/atomic"
	"time"

	"drumbeat/admit"
	"drumbeat/internal/human"
	"drumbeat/internal/sites"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/weburl"
)

// SettingsReport has the rules of --sites that apply, the most specific first. Those of a URL list what they decide
// for it; those of a host may be for a part of its URLs.
type SettingsReport struct {
	Rules []sites.Rule `json:"rules,omitempty"`
	// Connections is the number of connections to the host at once, and ConnectionsWhy the rule that says so; 0 if none
	// does: one.
	Connections    int    `json:"connections,omitempty"`
	ConnectionsWhy string `json:"connections_why,omitempty"`
	// Priority is the lane that a rule, PriorityWhy, gives the URL, of Lanes; absent if none does.
	Priority    *int   `json:"priority,omitempty"`
	PriorityWhy string `json:"priority_why,omitempty"`
	Lanes       int    `json:"lanes,omitempty"`
	Fault       string `json:"fault,omitempty"` // why they are unknown
}

// readSettings reads the file of the settings of sites in its present state, without the secrets.
func (v *view) readSettings(run *state.LastRun) {
	set, err := admit.ReadSettings(v.r.Meter, run.Sites, sites.Options{Suffixes: v.r.Suffixes,
		KeepEscapes: v.m.Frozen.KeepEscapes, Agent: run.Agent})
	if err != nil {
		v.siteFault = err.Error()
	}
	v.sites = set
	v.links.Settings = new(atomic.Pointer[sites.Set])
	v.links.Settings.Store(set)
}

// settingsOf returns the rules for a URL, or for a host without one; nil if there are none.
func (v *view) settingsOf(host, url []byte) *SettingsReport {
	if v.siteFault != "" {
		return &SettingsReport{Fault: v.siteFault}
	}
	var rules []sites.Rule
	if url == nil {
		rules = v.sites.HostRules(host)
	} else if site := v.sites.LookupURL(url); site != nil {
		rules = site.Rules()
	}
	if len(rules) == 0 {
		return nil
	}
	rep := &SettingsReport{Rules: rules}
	if url != nil {
		host = weburl.Split(url).Host
	}
	if site := v.sites.Host(host); site != nil && site.Has&sites.HasConnections != 0 {
		rep.Connections, rep.ConnectionsWhy = site.Connections, site.Decides(sites.HasConnections)
	}
	if url == nil {
		return rep
	}
	if site := v.sites.LookupURL(url); site != nil && site.Has&sites.HasPriority != 0 {
		rep.Lanes = max(1, v.m.Frozen.Lanes)
		lane := min(site.Priority, rep.Lanes-1)
		rep.Priority, rep.PriorityWhy = &lane, site.Decides(sites.HasPriority)
	}
	return rep
}

// delays are those of a host's flags and settings, and what they are called.
type delays struct {
	opt               polite.Options
	hostWhy           string
	pldFull, pldLeast time.Duration
	pldWhy            string
	least             time.Duration // of the host; 0: none
	fixed             bool          // the delay follows from no budget, so it does not adapt
	ignoreSite        bool          // the Crawl-delay and slow responses do not count
}

// delaysFor returns the delays of a host: those of the run's flags, unless its site has others, or the operator
// gave it one.
func (v *view) delaysFor(host []byte) *delays {
	run := v.m.Run
	d := &delays{hostWhy: "--host-delay", pldWhy: "--pld-delay",
		pldFull: millis(run.PLDDelay), pldLeast: millis(run.PLDDelayMin),
		opt: polite.Options{HostDelay: millis(run.HostDelay), MaxCrawlDelay: millis(run.MaxCrawlDelay),
			HostDelayMin: min(millis(run.HostDelayMin), millis(run.HostDelay)), DefaultBudget: run.BudgetDefault}}
	if site := v.sites.Host(host); site != nil {
		d.ignoreSite = site.Owner
		if site.Has&sites.HasDelay != 0 {
			d.opt.HostDelay, d.opt.HostDelayMin, d.hostWhy = site.Delay, site.Delay, "the delay of its site (--sites)"
			d.fixed = true
		}
		if site.HostRate > 0 {
			d.least = sites.Gap(site.HostRate)
		}
		if site.PLDRate > 0 {
			d.pldFull, d.pldLeast, d.pldWhy = sites.Gap(site.PLDRate), sites.Gap(site.PLDRate),
				"the rate of its PLD (--sites)"
		}
	}
	if own, changed := v.changed.HostDelays[string(host)]; changed {
		d.fixed = true
		d.opt.HostDelay = time.Duration(own * float64(time.Second))
		d.opt.HostDelayMin, d.hostWhy, d.least = d.opt.HostDelay,
			"the delay that the operator gave this host (ctl delay)", 0
	}
	return d
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// delay sets the delay between two requests to an origin's host, and why.
func (v *view) delay(rep *OriginReport, crawlDelay time.Duration, budget uint32) {
	run := v.m.Run
	d := v.delaysFor(weburl.Split([]byte(rep.Origin + "/")).Host)
	defer func() {
		if d.pldFull > 0 {
			rep.DelayWhy += fmt.Sprintf("; up to %s between requests to its PLD", human.Duration(d.pldFull))
		}
		if run.HostDelayFactor > 0 && !d.ignoreSite {
			rep.DelayWhy += fmt.Sprintf("; at least %g times the last response time", run.HostDelayFactor)
		}
		if run.AdaptiveDelay && !d.fixed {
			rep.DelayWhy += fmt.Sprintf("; less, down to %s, while answers stay quick and free of "+
				"errors (--adaptive-delay)", human.Duration(millis(run.HostDelayMin)))
		}
	}()
	if d.ignoreSite {
		crawlDelay = 0
	}
	plain, asked := d.opt.DelayAfter(budget, 0, polite.Result{}), d.opt.DelayAfter(budget, crawlDelay, polite.Result{})
	rep.Delay, rep.DelayWhy = asked.Seconds(), d.hostWhy
	switch {
	case asked > plain && crawlDelay > asked:
		rep.DelayWhy = "Crawl-delay, up to --max-crawl-delay"
	case asked > plain:
		rep.DelayWhy = "Crawl-delay"
	case plain < d.opt.HostDelay:
		rep.DelayWhy = fmt.Sprintf("--host-delay %s, shorter for a budget of %s",
			human.Exact(d.opt.HostDelay),
			human.Counted(budget, "page", "pages"))
	}
	if d.least > asked {
		asked = d.least
		rep.Delay, rep.DelayWhy = asked.Seconds(), "the rate of its site (--sites)"
	}
	// A host that is alone on its server and in its PLD waits for the longest of the delays.
	for _, other := range []struct {
		why         string
		full, least time.Duration
	}{{"--server-delay", millis(run.ServerDelay), millis(run.ServerDelayMin)}, {d.pldWhy, d.pldFull, d.pldLeast}} {
		o := polite.Options{HostDelay: other.full, HostDelayMin: min(other.least, other.full),
			DefaultBudget: run.BudgetDefault}
		if most := o.DelayAfter(budget, 0, polite.Result{}); most.Seconds() > rep.Delay {
			rep.Delay = most.Seconds()
			rep.DelayWhy = fmt.Sprintf("%s, which is longer than the host's own %s", other.why, human.Duration(asked))
		}
	}
	if run.NetworkRate > 0 && 1/run.NetworkRate > rep.Delay {
		rep.Delay, rep.DelayWhy = 1/run.NetworkRate, "--network-rate"
	}
}
