package figures

import (
	"fmt"
	"time"

	"drumbeat/crawl/space"
	"drumbeat/polite"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// waitsFor returns what keeps connections idle.
func (f *Figures) waitsFor(a *state.Accounts, s *snapshot.Snapshot) string {
	if f.others.Paused() {
		return space.PausedByOperator
	}
	if why := f.others.Space.Why(); why != "" {
		return "disk space: " + why
	}
	if why := f.others.Outages.Text(); why != "" {
		return why
	}
	if why := f.others.Leases.Why(); why != "" {
		return why
	}
	if f.others.Node.Disowned() {
		return "another node, which has abandoned this one (--give-up-node)"
	}
	if f.others.Node.PagesWait() {
		return "pages of other nodes (--max-pages)"
	}
	if why := f.others.Limits.HeldBy(s.Time); why != "" && f.others.Slots.SomethingDue(s.Time) {
		return why
	}
	switch {
	case s.InFlight >= s.Connections*9/10:
		return ""
	case a.Places[state.PlaceRAM].N > 0:
		return f.delayText(s.Time)
	case a.Places[state.PlaceReady].N > 0:
		return "room in RAM"
	case s.RobotsInFlight > 0 || a.Places[state.PlaceAwaitRobots].N > 0:
		return "robots.txt and DNS"
	case a.Places[state.PlaceRobotsCheck].N > 0, a.Places[state.PlaceStar].N > 0:
		return "disk merges"
	case a.Places[state.PlaceBeast].N > 0:
		return "BEAST"
	case a.Places[state.PlaceDeferred].N > 0:
		return "URLs due later"
	case !f.others.Seeds.Read():
		return "seeds"
	case f.others.Node.Rejoining() > 0:
		return "the other nodes, which may have more work"
	}
	return "new links"
}

// delayText names the delay for which most hosts wait.
func (f *Figures) delayText(now time.Time) string {
	b, of, all := f.others.Heaps().Binding(now)
	if all == 0 {
		return "politeness"
	}
	if of == all {
		return "politeness: " + DelayText(b)
	}
	return fmt.Sprintf("politeness: %s (%d %% of the hosts)", DelayText(b), 100*of/all)
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
