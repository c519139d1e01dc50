package explain

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"drumbeat/admit"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/human"
	"drumbeat/internal/sites"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// origin reports on an origin. It calls check with each URL record that waits for the origin in
// RobotsCache; a nil check skips all waiting tuples.
func (v *view) origin(
	origin string, budget uint32, check func(data []byte) error, damaged func(error) error,
) (*OriginReport, *robots.HostData) {
	rep := &OriginReport{Origin: origin}
	key := drum.Key(v.r.Hasher.OriginKey([]byte(origin)))
	var h robots.HostData
	value, found, err := drum.Lookup(v.r.Set, state.NameRobotsCache, v.cache, key)
	if err == nil && found {
		err = h.Decode(value)
	}
	_ = damaged(err)
	if err = nil; check != nil {
		err = drum.WalkKey(v.r.Set, state.NameRobotsCache, v.cache, key, func(t drum.Tuple) error {
			if t.Op == drum.Check {
				rep.WaitingURLs++
				return check(t.Value)
			}
			rep.WaitingAnswers++
			u, err := robots.DecodeUpdate(append([]byte(nil), t.Value...)) // u keeps slices of its input
			if err != nil {
				return err
			}
			h = u.Apply(uint64(t.Key), &h, &v.policy, v.run.Agent, v.now)
			return nil
		})
	}
	_ = damaged(err)
	_ = damaged(v.health(rep, &h))
	v.originFields(rep, &h, budget)
	_ = damaged(v.requests(rep, key, check != nil))
	return rep, &h
}

func (v *view) originFields(rep *OriginReport, h *robots.HostData, budget uint32) {
	rep.State, rep.Stale, rep.Failures, rep.TLS = h.State.String(), h.Stale, h.Failures, h.TLS
	rep.Fetched, rep.Expires, rep.RetryAt, rep.AddrExpires = h.Fetched, h.Expires, h.RetryAt, h.AddrExpires
	for _, a := range h.Addrs() {
		rep.Addresses = append(rep.Addresses, a.String())
	}
	rep.FailingSince, rep.Pages = h.FailingSince, h.Pages
	rep.CrawlDelay = h.CrawlDelay().Seconds()
	if len(h.Rules) > 0 {
		if rules, err := robots.DecodeRules(h.Rules); err == nil {
			rep.Rules, rep.OwnGroup, rep.Cut = len(rules.List()), rules.Own, rules.Cut.Rules
		}
	}
	run := v.m.Run
	if run == nil {
		rep.DelayWhy = "not known: the checkpoint has no options"
		return
	}
	v.delay(rep, h.CrawlDelay(), budget)
}

// health sets h.Health as the crawl does: the newer of RobotsCache's entry for this origin and the
// checkpoint's entry for the host.
func (v *view) health(rep *OriginReport, h *robots.HostData) error {
	if !v.hostsRead {
		v.hostsRead = true
		data, err := disk.ReadTail(v.r.Set, v.m.Hosts)
		if err == nil {
			err = v.hosts.Restore(data, v.now)
		}
		if err != nil {
			return err
		}
	}
	s := v.hosts.Get(v.r.HostKey(weburl.Split([]byte(rep.Origin)).Host), &h.Health, v.now)
	h.Health = s
	if s.Clean() {
		return nil
	}
	rep.Health = &HealthReport{Text: s.String(), Failures: s.Failures, Rests: s.Rests, Refusals: s.Refusals,
		Stage: s.Stage, End: s.End.String(), Until: s.Until, Last: s.Last.String(), Status: s.Status, At: s.At}
	if !s.Until.IsZero() {
		rep.Health.Why = s.Cause()
	}
	return nil
}

// decodeRequested decodes a value of RobotsRequested: the time of the last request.
func decodeRequested(value []byte) (last time.Time, err error) {
	if len(value) != 16 {
		return last, fmt.Errorf("crawl: a value of RobotsRequested has %d bytes, want 16", len(value))
	}
	return time.Unix(int64(binary.LittleEndian.Uint64(value)), 0).UTC(), nil
}

// requests sets the time of the origin's last request and, if waiting is set, whether a request waits in
// RobotsRequested.
func (v *view) requests(rep *OriginReport, key drum.Key, waiting bool) error {
	value, found, err := drum.Lookup(v.r.Set, state.NameRobotsRequested, v.requested, key)
	if err != nil {
		return err
	}
	if found {
		if rep.Asked, err = decodeRequested(value); err != nil {
			return err
		}
	}
	if !waiting {
		return nil
	}
	return drum.WalkKey(v.r.Set, state.NameRobotsRequested, v.requested, key, func(drum.Tuple) error {
		rep.Asking = "requested"
		return nil
	})
}

// asking reports the origins' requests that are queued, under way or deferred.
func (v *view) asking(reports map[string]*OriginReport, damaged func(error) error) error {
	if len(reports) == 0 {
		return nil
	}
	note := func(asking string) func(rec []byte) error {
		return func(rec []byte) error {
			var job robots.Job
			if err := job.Decode(rec); err != nil {
				return damaged(err)
			}
			if rep := reports[string(job.Origin)]; rep != nil {
				rep.Asking = asking
			}
			return nil
		}
	}
	if _, err := queue.Scan(v.r.Set, state.NameRobotsFetch, v.fetching, note("queued"), damaged); err != nil {
		return err
	}
	deferred := func(due int64, rec []byte) error {
		var job robots.Job
		if err := job.Decode(rec); err != nil {
			return damaged(err)
		}
		if rep := reports[string(job.Origin)]; rep != nil {
			rep.Asking, rep.AskAt, rep.AskTries = "put off", time.UnixMilli(due).UTC(), int(job.Tries)
		}
		return nil
	}
	_, err := queue.ScanCalendar(v.r.Set, state.NameRobotsDeferred, v.robotsDeferred, deferred, damaged)
	if err != nil {
		return err
	}
	jobs, err := disk.ReadTail(v.r.Set, v.m.Jobs)
	if err != nil {
		return damaged(err)
	}
	return damaged(state.EachRecord("robots requests in RAM", jobs, note("under way")))
}

// verdict reports what the known robots.txt says about a URL.
func (v *view) verdict(h *robots.HostData, url []byte) *VerdictReport {
	path := weburl.Split(url).Path
	site := v.sites.LookupURL(url)
	ignored := site != nil && site.IgnoreRobots
	decision, until := h.DecideFor(path, v.now, ignored)
	rep := &VerdictReport{Decision: decision.String(), Until: until}
	switch h.State {
	case robots.StateRules:
		if rep.Allowed, rep.Rule = robots.Explain(h.Rules, path); ignored && !rep.Allowed {
			rep.Allowed, rep.Rule = true, site.Decides(sites.HasRobots)+" (without it: "+rep.Rule+")"
		}
		rep.Use = useOf(h, path)
	case robots.StateNoFile:
		rep.Allowed, rep.Use = true, useOf(h, path)
	}
	return rep
}

// useOf reports what robots.txt and tdmrep.json say about the use of a path; nil if that is unknown or damaged, which
// audit reports.
func useOf(h *robots.HostData, path []byte) *UseReport {
	l, err := h.Statement(path)
	if err != nil || l == (robots.Statement{}) {
		return nil
	}
	u := &UseReport{ContentSignal: string(l.ContentSignal), ContentUsage: string(l.ContentUsage), License: l.Licenses,
		AIDisallowed: l.Disallowed.Names(), TDMFile: l.TDMReservation, TDMPolicy: l.TDMPolicy, Cut: l.Cut}
	if l.Group == robots.GroupUnknown {
		u.Text = reserved(&l)
		return u
	}
	u.Digest, u.Group = l.DigestText(), l.Group.String()
	var says []string
	for _, s := range []struct{ before, text string }{{"Content-Signal ", u.ContentSignal},
		{"Content-Usage ", u.ContentUsage}, {"the licence ", u.License}} {
		if s.text != "" {
			says = append(says, s.before+s.text)
		}
	}
	u.Text = "robots.txt says nothing about the use of this URL"
	if len(says) > 0 {
		u.Text = "robots.txt states " + strings.Join(says, "; ")
	}
	if n := len(u.AIDisallowed); n > 0 {
		u.Text += "; it forbids this URL to " + strings.Join(u.AIDisallowed, ", ")
	}
	if u.Cut {
		u.Text += "; it says more than drumbeat keeps"
	}
	if text := reserved(&l); text != "" {
		u.Text += "; " + text
	}
	return u
}

// reserved says what tdmrep.json states; "" for nothing.
func reserved(l *robots.Statement) string {
	switch {
	case l.TDMReservation == "":
		return ""
	case l.TDMReservation == "0":
		return "tdmrep.json does not reserve the right to mine this URL"
	case l.TDMPolicy == "":
		return "tdmrep.json reserves the right to mine this URL"
	}
	return "tdmrep.json reserves the right to mine this URL; the terms are at " + l.TDMPolicy
}

// canonicalAsked returns the canonical URL of an argument. A host without scheme means its https URL, as in
// a seed file.
func (v *view) canonicalAsked(asked string) (string, error) {
	if asked == "" {
		return "", errors.New("an empty URL")
	}
	if !admit.HasScheme(asked) {
		asked = "https://" + asked
	}
	resolver := weburl.NewResolver(weburl.Options{MaxBytes: weburl.Unlimited, Fold: !v.links.KeepEscapes})
	url, err := resolver.AppendResolve(nil, nil, []byte(asked))
	return string(url), err
}

// failed describes the failures of requests for robots.txt.
func (o *OriginReport) failed() string {
	text := human.Counted(o.Failures, "failure", "failures")
	if o.TLS != "" {
		text += "; TLS: " + o.TLS
	}
	return text
}
