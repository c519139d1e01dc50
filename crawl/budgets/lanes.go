package budgets

import (
	"time"

	"drumbeat/beast"
	"drumbeat/crawl/account"
	"drumbeat/crawl/strategy"
	"drumbeat/internal/sites"
	"drumbeat/star"
	"drumbeat/weburl"
)

// laneOf returns the lane of a URL in BEAST: that of the settings of its site, or else of the strategy. A
// strategy that treats all URLs alike then leaves room above and below them.
func (b *Stage) laneOf(rec *weburl.Record) uint8 {
	s, set := b.opt.Strategy.Load(), b.opt.Sites.Load()
	if s.Lanes == 1 || len(set.Priorities()) == 0 {
		return s.Lane(rec)
	}
	if site := set.LookupURL(rec.URL); site != nil && site.Has&sites.HasPriority != 0 {
		return uint8(min(site.Priority, s.Lanes-1))
	}
	return s.LaneAmong(rec)
}

// partOf returns the part of its PLD's budget that a host may use, in sixteenths; 0 for all of it.
func (b *Stage) partOf(host []byte) uint8 {
	traps := b.opt.Traps()
	if traps == nil {
		return 0
	}
	return traps.Get(b.saved.HostKey(host)).Part()
}

// CheckOf returns the tuple that asks STAR for the queue of a URL.
func (b *Stage) CheckOf(rec *weburl.Record, aux []byte) star.CheckTuple {
	url := weburl.Split(rec.URL)
	host := url.Host
	check := star.CheckTuple{PLD: b.saved.PLDKey(host), Part: b.partOf(host), Lane: b.laneOf(rec), Aux: aux}
	if b.levels != nil {
		check.Host, check.Level = b.levelOf(&url)
	}
	return check
}

// BudgetRange returns the default and the largest budget of the function in force, in pages.
func (b *Stage) BudgetRange() (normal, largest uint32) { return b.Star.BudgetRange() }

// siteLane chooses the lane of a URL that depends on its PLD. STAR calls it before place.
func (b *Stage) siteLane(lane uint8, p *star.PLD, largest uint32) uint8 {
	s := b.opt.Strategy.Load()
	if !s.BySite() {
		return lane
	}
	site := strategy.Site{Indegree: p.Indegree, Largest: largest}
	if s.SitesAtOnce > 0 {
		l := beast.DecodeLedger(p.LedgerOf(s.Lanes - 1))
		site.Begun = b.Beast.Reached(s.Lanes-1, &l)
	}
	return s.SiteLane(lane, &site)
}

// The longest wait for the URLs of sites that are begun, in host delays and at least, before the next sites
// begin. Hosts in back-off are not waited for.
const (
	sitePause      = 8
	leastSitePause = 10 * time.Second
)

// finishSites is mergeFirst for a strategy that finishes sites before it begins others. since is the time
// since nothing was left to read. It waits while links or pages of these sites are on their way.
func (b *Stage) finishSites(since time.Duration) (wait time.Duration) {
	if !b.Beast.BestDry() || b.run.Accounts.Stock() == 0 && b.UpstreamEmpty() {
		return 0
	}
	return max(0, max(leastSitePause, sitePause*b.opt.HostDelay)-since)
}

// TurnsOf returns how the lanes of a strategy take turns. Without budgets no lane waits for the others.
func TurnsOf(s *strategy.Strategy) beast.Turns {
	return beast.Turns{Weights: s.Weights, Free: s.Free || !s.Budgets}
}

// NewTurns makes the lanes of BEAST take turns as the strategy in force says, and the goroutine "scan"
// place again the URLs of its queues.
func (b *Stage) NewTurns() error {
	if err := b.Beast.SetTurns(TurnsOf(b.opt.Strategy.Load())); err != nil {
		return err
	}
	b.wakeScan.Raise()
	return nil
}

// Arrive takes the counts of a PLD whose slot moves here from another node, by its record. It is part of a transaction.
func (b *Stage) Arrive(tx *account.Tx, pld uint64, record []byte) error {
	tx.Wake(b.wakeStar)
	return b.Star.Arrive(pld, record)
}
