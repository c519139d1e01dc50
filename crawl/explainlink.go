package crawl

import (
	"fmt"
	"time"

	"drumbeat/scope"
	"drumbeat/urlrule"
	"drumbeat/weburl"
)

// useNoted sets the options that links are judged by to those of the last run.
func (v *explainView) useNoted() error {
	r, run := v.r, v.m.Run
	r.opt.Scope, r.opt.MaxDepth = ScopeAll, Unlimited
	if run == nil {
		v.scopeFault = "the checkpoint was made by an older program, which noted no options"
		r.scope = newScope(ScopeAll, r.hostKey, nil)
		return nil
	}
	allowed, err := run.allowedPort()
	if err != nil {
		return err
	}
	rules, err := urlrule.New(run.URLRules)
	if err != nil {
		return fmt.Errorf("crawl: manifest: %w", err)
	}
	r.urlRules = *rules
	r.opt.Agent, r.opt.Scope, r.opt.MaxDepth, r.opt.MaxURLBytes, r.opt.AllowedPort = run.Agent, run.Scope, run.MaxDepth, run.MaxURLBytes, allowed
	r.opt.MaxRedirects = run.MaxRedirects
	millis := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	r.opt.Backoff, r.opt.BackoffMax, r.opt.RobotsWait = millis(run.Backoff), millis(run.BackoffMax), millis(run.RobotsWait)
	r.opt.HostFailures, r.opt.HostRests, r.opt.HostRefusals = run.HostFailures, run.HostRests, run.HostRefusals
	r.opt.MaxPagesPerHost = run.MaxPagesPerHost
	r.policy = r.opt.makePolicy()
	r.opt.Drain, r.opt.CrawlLog, r.opt.Store, r.opt.Retries = run.Drain, run.CrawlLog, run.Store, run.Retries
	extended, err := readScope(r.set, v.m.Scope)
	if err != nil {
		v.scopeFault = fmt.Sprintf("--scope %s: %v", run.Scope, err)
	}
	r.scope = newScope(run.Scope, r.hostKey, extended)
	v.readRules(run)
	return nil
}

// readRules reads the files that say what is in scope, as they are now. Where that fails, what they say isn't known.
func (v *explainView) readRules(run *noted) {
	r := v.r
	fault := func(what string, err error) {
		if v.scopeFault == "" {
			v.scopeFault = fmt.Sprintf("%s: %v", what, err)
		}
	}
	rules, err := ReadRules(r.meter, scope.Rules, r.suffixes, run.Rules, v.m.Frozen.KeepEscapes)
	if err != nil {
		fault("its rules can't be read", err)
	}
	blacklist, err := ReadRules(r.meter, scope.Blacklist, r.suffixes, run.Blacklist, v.m.Frozen.KeepEscapes)
	if err != nil {
		fault("its blacklist can't be read", err)
	}
	r.fence.rules.Store(rules)
	r.fence.blacklist.Store(blacklist)
	if run.Scope == ScopeAll {
		return
	}
	r.opt.Seeds = run.Seeds
	if run.Seeds == "" {
		v.scopeFault = fmt.Sprintf("--scope %s: the seeds weren't in a file", run.Scope)
		return
	}
	f, err := r.openSeeds(v.m.Seeds)
	if err == nil {
		err = f.close()
	}
	if err != nil {
		fault(fmt.Sprintf("--scope %s: the seeds can't be read", run.Scope), err)
	}
}

// dropTexts say why links aren't taken, by what counts them.
var dropTexts = map[Counter]string{
	CountLinksDepth:     "beyond --max-depth",
	CountLinksPort:      "its port may not be connected to (--ports)",
	CountLinksScope:     "outside of --scope",
	CountLinksExtension: "no HTML by its name (--skip-extensions)",
	CountLinksPathDepth: "too many path segments (--max-path-depth)",
	CountLinksRepeated:  "its path repeats a segment too often (--max-repeats)",
	CountLinksParams:    "too many parameters (--max-params)",
	CountLinksRules:     "the scope rules exclude it",
	CountLinksBlocked:   "the blacklist names it",
	CountLinksFiltered:  "filtered",
	CountLinksDropped:   "too long",
	CountLinksRedirects: "too many redirects (--max-redirects)",
}

// link says what would become of a URL as a link on a page now, by the code that judges links.
func (v *explainView) link(url []byte) *LinkReport {
	r := v.r
	if r.opt.MaxURLBytes > 0 && len(url) > r.opt.MaxURLBytes {
		return &LinkReport{Why: fmt.Sprintf("dropped: %d bytes, more than %d", len(url), r.opt.MaxURLBytes)}
	}
	b := newLinkBatch(r)
	b.start(nil, nil, 1, 0, v.now)
	as, rewritten := r.urlRules.AppendRewritten(nil, url)
	f, _ := b.judge(as)
	rep := &LinkReport{Taken: f >= 0, Why: "taken"}
	if rewritten {
		rep.Rewritten = string(as)
	}
	if f < 0 {
		count := Counter(^f)
		if v.scopeFault != "" && count == CountLinksScope {
			return &LinkReport{Taken: true, Why: "whether it is in scope isn't known: " + v.scopeFault, Rewritten: rep.Rewritten}
		}
		rep.Blocked = count == CountLinksBlocked
		rep.Why = "dropped: " + dropTexts[count]
		if rule := linkRule(b, as, count); rule != "" {
			rep.Why += ": " + rule
		}
		return rep
	}
	if r.opt.Drain {
		return &LinkReport{Why: "dropped: the crawl is draining (--drain)", Rewritten: rep.Rewritten}
	}
	if r.opt.MaxDepth > 0 {
		rep.Why += fmt.Sprintf(", if the page is less than %d links from a seed (--max-depth)", r.opt.MaxDepth)
	}
	if v.scopeFault != "" {
		rep.Why += "; whether it is in scope isn't known: " + v.scopeFault
	}
	return rep
}

// linkRule is the rule that drops a link, if it is one of a file's.
func linkRule(b *linkBatch, url []byte, count Counter) string {
	switch site := b.siteOf(url); count {
	case CountLinksBlocked:
		return b.blacklist.Rule(site.blocked).String()
	case CountLinksRules:
		if n := b.rules.Find(&site.rules, url); n != scope.None {
			return b.rules.Rule(n).String()
		}
	case CountLinksPort:
		return fmt.Sprintf("port %d", weburl.Split(url).Port)
	}
	return ""
}
