package figures

import (
	"fmt"

	"drumbeat/crawl/space"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/state/snapshot"
	"drumbeat/weburl"
)

// waitsFor returns what keeps connections idle. It adds the details of a delay to s.
func (f *Figures) waitsFor(a *state.Accounts, s *snapshot.Snapshot) (snapshot.WaitKind, string) {
	if f.others.Paused() {
		return snapshot.WaitOperator, space.PausedByOperator
	}
	if why := f.others.Space.Why(); why != "" {
		return snapshot.WaitSpace, "disk space: " + why
	}
	if why := f.others.Outages.Text(); why != "" {
		return snapshot.WaitOutage, why
	}
	if why := f.others.Leases.Why(); why != "" {
		return snapshot.WaitLeases, why
	}
	if f.others.Node.Disowned() {
		return snapshot.WaitDisowned, "another node, which has abandoned this one (--give-up-node)"
	}
	if f.others.Node.PagesWait() {
		return snapshot.WaitPages, "pages of other nodes (--max-pages)"
	}
	if why := f.others.Limits.HeldBy(s.Time); why != "" && f.others.Slots.SomethingDue(s.Time) {
		return snapshot.WaitLimit, why
	}
	switch {
	case s.InFlight >= s.Connections*9/10:
		return snapshot.WaitNothing, ""
	case a.Places[state.PlaceRAM].N > 0:
		return f.delay(s)
	case a.Places[state.PlaceReady].N > 0:
		return snapshot.WaitAdmission, "room in RAM"
	case s.RobotsInFlight > 0 || a.Places[state.PlaceAwaitRobots].N > 0:
		return snapshot.WaitRobots, "robots.txt and DNS"
	case a.Places[state.PlaceRobotsCheck].N > 0, a.Places[state.PlaceStar].N > 0:
		return snapshot.WaitDisk, "disk merges"
	case a.Places[state.PlaceBeast].N > 0:
		return snapshot.WaitDisk, "BEAST"
	case a.Places[state.PlaceDeferred].N > 0:
		return snapshot.WaitDue, "URLs due later"
	case !f.others.Seeds.Read():
		return snapshot.WaitSeeds, "seeds"
	case f.others.Node.Rejoining() > 0:
		return snapshot.WaitNodes, "the other nodes, which may have more work"
	}
	return snapshot.WaitLinks, "new links"
}

// delay returns the delay for which most hosts wait. It adds its details to s.
func (f *Figures) delay(s *snapshot.Snapshot) (kind snapshot.WaitKind, text string) {
	b := f.others.Heaps().Binding(s.Time)
	s.LongestHost = b.Longest
	if b.All == 0 {
		return snapshot.WaitAnswers, "answers from hosts"
	}
	w := &s.Wait
	w.Held, w.Hosts = b.Held, b.All
	var rec weburl.Record
	if b.Rec != nil && rec.Decode(b.Rec) == nil {
		w.Host = string(weburl.Split(rec.URL).Host)
	}
	if at, ok := f.others.Heaps().NextReady(s.Time); ok && at.After(s.Time) {
		w.Until = at
	}
	kind, text = snapshot.WaitDelay, "politeness: "+DelayText(b.By)
	switch b.By {
	case polite.BindsBackoff:
		kind, text = snapshot.WaitBackoff, DelayText(b.By)
	case polite.BindsLease:
		kind, text = snapshot.WaitNetwork, DelayText(b.By)
	}
	if b.Held < b.All {
		text += fmt.Sprintf(" (%d %% of the hosts)", 100*b.Held/b.All)
	}
	return kind, text
}

// DelayText names a kind of delay and the flag that sets it.
func DelayText(b polite.Binding) string { return delayTexts[b] }

var delayTexts = map[polite.Binding]string{
	polite.BindsHost: "--host-delay", polite.BindsCrawlDelay: "Crawl-delay of robots.txt (--max-crawl-delay)",
	polite.BindsAnswer:  "slow answers (--host-delay-factor)",
	polite.BindsBackoff: "back-off after failures (--backoff)",
	polite.BindsServer:  "--server-delay", polite.BindsPLD: "--pld-delay",
	polite.BindsNetwork: "--network-rate, --network-connections", polite.BindsLease: "networks that other nodes visit",
}
