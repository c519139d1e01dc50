package explain

import (
	"errors"
	"fmt"
	"io"

	"drumbeat/admit"
	"drumbeat/internal/health"
	"drumbeat/internal/human"
	"drumbeat/internal/scope"
	"drumbeat/internal/urlrule"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// useLastRun builds the link policy from the options of the last run.
func (v *view) useLastRun() error {
	r := v.r
	v.changed = &changes.Settings{}
	v.run = &state.LastRun{Scope: state.ScopeAll, MaxDepth: -1} // any depth
	v.links = &admit.Policy{Hasher: r.Hasher, Suffixes: r.Suffixes, Lists: &admit.Lists{Suffixes: r.Suffixes},
		MaxDepth: -1, KeepEscapes: v.m.Frozen.KeepEscapes, Sites: admit.NewSites(state.ScopeAll, r.HostKey, nil)}
	if v.m.Run == nil {
		v.scopeFault = "an older version made the checkpoint and kept no options"
		return nil
	}
	run := v.m.Run
	v.run = run
	var err error
	if v.changed, err = changes.Read(v.r.Set.FS, v.r.Set.Path(0, state.ChangesName)); err != nil {
		return err
	}
	rules, err := urlrule.New(run.URLRules)
	if err != nil {
		return fmt.Errorf("crawl: manifest: %w", err)
	}
	v.links.URLRules, v.links.Ports = *rules, run.Ports
	v.links.MaxDepth, v.links.MaxURLBytes, v.links.MaxRedirects = run.MaxDepth, run.MaxURLBytes, run.MaxRedirects
	v.policy = health.Defaults()
	v.policy.Backoff, v.policy.BackoffMax = millis(run.Backoff), millis(run.BackoffMax)
	if run.RetryAfterMax > 0 { // an older program kept none
		v.policy.RetryAfterMax = millis(run.RetryAfterMax)
	}
	v.policy.Failures, v.policy.Rests, v.policy.Refusals = run.HostFailures, run.HostRests, run.HostRefusals
	extended, err := admit.ReadSites(r.Set, v.m.Scope)
	if err != nil {
		v.scopeFault = fmt.Sprintf("--scope %s: %v", run.Scope, err)
	}
	v.links.Sites = admit.NewSites(run.Scope, r.HostKey, extended)
	v.readRules(run)
	v.readSettings(run)
	return v.readOwners(run)
}

// readRules reads the rule files and the seed file in their present state. On an error the scope is
// unknown, and scopeFault says why.
func (v *view) readRules(run *state.LastRun) {
	r := v.r
	fault := func(what string, err error) {
		if v.scopeFault == "" {
			v.scopeFault = fmt.Sprintf("%s: %v", what, err)
		}
	}
	rules, err := admit.ReadRules(r.Meter, scope.Rules, r.Suffixes, run.Rules, v.m.Frozen.KeepEscapes)
	if err != nil {
		fault("its rules cannot be read", err)
	}
	blacklist, err := admit.ReadRules(r.Meter, scope.Blacklist, r.Suffixes, run.Blacklist, v.m.Frozen.KeepEscapes,
		admit.Blocked(v.r.Set.Path(0, state.ChangesName), v.changed.Blocked)...)
	if err != nil {
		fault("its blacklist cannot be read", err)
	}
	v.links.Lists.Rules.Store(rules)
	v.links.Lists.Blacklist.Store(blacklist)
	if run.Scope == state.ScopeAll {
		return
	}
	if run.Seeds == "" {
		v.scopeFault = fmt.Sprintf("--scope %s: the seeds weren't in a file", run.Scope)
		return
	}
	if err := v.readSeeds(run.Seeds); err != nil {
		fault(fmt.Sprintf("--scope %s: the seeds can't be read", run.Scope), err)
	}
}

// readSeeds puts the sites of the seed file in scope.
func (v *view) readSeeds(name string) (err error) {
	f, err := v.r.Meter.OpenRead(name)
	if err != nil {
		return fmt.Errorf("crawl: open seeds: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("crawl: seeds: %w", err)
	}
	_, err = admit.ScanSeeds(io.NewSectionReader(f, 0, size), v.links)
	return err
}

// link reports what the crawler would do with a URL on a page now. It uses the crawler's own admission code.
func (v *view) link(url []byte) *LinkReport {
	p := v.links
	if p.MaxURLBytes > 0 && len(url) > p.MaxURLBytes {
		return &LinkReport{Why: fmt.Sprintf("dropped: %d bytes, more than %d", len(url), p.MaxURLBytes)}
	}
	b := admit.NewBatch(p)
	b.Start(nil, nil, 1, 0, v.now)
	as, rewritten := p.URLRules.AppendRewritten(nil, url)
	f, _ := b.Admit(as)
	rep := &LinkReport{Taken: f >= 0, Why: "accepted"}
	if rewritten {
		rep.Rewritten = string(as)
	}
	if f < 0 {
		count := state.Counter(^f)
		if v.scopeFault != "" && count == state.CountLinksScope {
			why := "whether it is in scope is unknown: " + v.scopeFault
			return &LinkReport{Taken: true, Why: why, Rewritten: rep.Rewritten}
		}
		rep.Blocked = count == state.CountLinksBlocked
		rep.Why = "dropped: " + admit.DropText(count)
		if rule := linkRule(b, as, count); rule != "" {
			rep.Why += ": " + rule
		}
		return rep
	}
	if v.run.Drain {
		return &LinkReport{Why: "dropped: the crawl is draining (--drain)", Rewritten: rep.Rewritten}
	}
	if most := b.MaxDepth(as); most > 0 {
		rep.Why += fmt.Sprintf(", if the page is less than %s from a seed (--max-depth)",
			human.Counted(most, "link", "links"))
	}
	if v.scopeFault != "" {
		rep.Why += "; whether it is in scope is unknown: " + v.scopeFault
	}
	return rep
}

// linkRule returns the rule or the port that drops a link; "" if the counter says all.
func linkRule(b *admit.Batch, url []byte, count state.Counter) string {
	switch site := b.SiteOf(url); count {
	case state.CountLinksBlocked:
		return b.Blacklist.Rule(site.Blocked).String()
	case state.CountLinksRules:
		if n := b.Rules.Find(&site.Rules, url); n != scope.None {
			return b.Rules.Rule(n).String()
		}
	case state.CountLinksDepth:
		return b.DepthRule(url)
	case state.CountLinksPort:
		return fmt.Sprintf("port %d", weburl.Split(url).Port)
	}
	return ""
}
