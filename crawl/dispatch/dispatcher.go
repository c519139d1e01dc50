package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/limits"
	"drumbeat/crawl/node"
	"drumbeat/crawl/outage"
	"drumbeat/crawl/space"
	"drumbeat/crawl/stock"
	"drumbeat/disk"
	"drumbeat/internal/health"
	"drumbeat/polite"
	"drumbeat/queue"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Dispatcher is Q and the heaps of hosts and servers in RAM. It admits URLs from disk and starts an
// exchange when the host, the server, the limits and a connection slot allow it.
//
// Producer: RobotsCache's emission, through Q. Consumers: its goroutines "ready", which admits (ReadReady),
// and "dispatch", which takes grants and passes them to fetchers (Dispatch). Package polite locks the
// heaps.
type Dispatcher struct {
	run    *account.Run
	saved  *state.Saved
	opt    Options
	others Others
	Ready  *queue.Queue // Q; the owner opens it
	heaps  *polite.Scheduler
	// Slots whose hosts count as visited at unknownAt, if this run has not visited them.
	unknown   state.Slots
	unknownAt time.Time
	workers   *workers

	wakeReady, wakeDispatch account.Signal

	granting sync.Mutex // held from mayFetch until the grant is counted; guards ended
	ended    bool       // no more grants are taken

	check   Check
	fetcher *fetcher.Fetcher
	health  Health
	leases  *node.Leases
	limits  *limits.Limits
	outages *outage.Watch
	space   *space.Keeper
	stock   *stock.Keeper
}

// ramAhead is how far ahead the URLs of a host are kept in RAM. A URL that cannot be fetched by then waits
// on disk, so that RAM holds many hosts rather than many URLs of a few hosts.
const ramAhead = time.Minute

// While RAM holds fewer URLs than 1/idleShare of the target stock, the remaining hosts keep their URLs of
// the next idleAhead in RAM. These hosts would otherwise get their URLs from disk in many small batches,
// each with a merge of RobotsCache.
const (
	idleAhead = 30 * time.Minute
	idleShare = 8
)

// itemsPerHost is the least number of URLs of a host that RAM may hold, however long the host's delay.
const itemsPerHost = 4

// robotsPerServer limits the robots.txt requests to one address that wait in RAM.
const robotsPerServer = 16

// Wake makes dispatch look for a grant again: an outage has ended, or the limit of pages has risen.
func (d *Dispatcher) Wake() { d.wakeDispatch.Raise() }

// Enqueue appends a URL that passed RobotsCache to Q. It is part of a transaction.
func (d *Dispatcher) Enqueue(tx *account.Tx, rec *weburl.Record) error {
	tx.Wake(d.wakeReady)
	return d.Ready.Append(rec.Append(nil))
}

// OpenHeaps creates the scheduler; m is the last checkpoint, nil for a new crawl.
func (d *Dispatcher) OpenHeaps(m *state.Manifest) *polite.Scheduler {
	opt := d.opt.Politeness.Scheduler()
	opt.MaxPerHost, opt.Ahead, opt.IdleAhead = itemsPerHost, ramAhead, idleAhead
	least := int(stock.Least(d.opt.Network.Connections, d.opt.StockTarget))
	opt.IdleItems, opt.CrowdedItems, opt.MaxUnheld = least/idleShare, least*stock.FewHosts/4, least/2
	opt.MaxRobotsPerServer = max(1, d.opt.Network.RobotsInFlight/8)
	opt.RobotsPerServer = min(robotsPerServer, opt.MaxRobotsPerServer)
	if d.opt.Admission.Scope != state.ScopeAll { // else the defaults of package polite
		opt.MaxPerServer, opt.MaxPerPLD = polite.Unlimited, polite.Unlimited // one site may use all of RAM
	}
	opt.DefaultBudget, opt.UseTerms, opt.Leased = d.opt.DefaultBudget, d.opt.Admission.Sites != "", d.opt.Leased
	opt.MaxItems, opt.MaxBytes = max(d.opt.Plan.PoliteItems, 2*d.opt.Network.Connections), d.opt.Plan.PoliteBytes
	opt.PLDShare = d.others.PLDShare()
	if m != nil {
		// Every host and server counts as just visited: the time of its last visit is not known exactly, unless the
		// last run was of this process.
		opt.Visited, opt.Recent = time.Now(), d.opt.Recent.Delays
		if d.unknown, d.unknownAt = d.opt.Recent.Others, d.opt.Recent.At; opt.Recent == nil {
			d.unknown, d.unknownAt = state.AllSlots(), opt.Visited
		}
		opt.Others, opt.OthersAt = d.unknown.HasPLD, d.unknownAt
		d.opt.Recent.Delays = nil
	}
	d.heaps = polite.New(opt, time.Now())
	return d.heaps
}

// SlotsCome notes the slots that are on their way to this node: the giver has visited their hosts until now.
func (d *Dispatcher) SlotsCome(slots state.Slots) { d.heaps.SlotsCome(time.Now(), slots.HasPLD) }

// Recent returns what this run knows at its end, for the next one of this process.
func (d *Dispatcher) Recent(now time.Time) Recent {
	return Recent{Delays: d.heaps.InDelay(now), Others: d.unknown, At: d.unknownAt}
}

// Open creates the workers, and puts the limits in force.
func (d *Dispatcher) Open() {
	d.workers = newWorkers(&d.opt)
	d.limits.Open()
	if d.opt.Network.ConnectionSchedule.Limits() || d.opt.Adjustable {
		d.workers.freed = d.wakeDispatch
	}
}

// RestoreDelays restores the long delays of hosts and servers.
func (d *Dispatcher) RestoreDelays(m *state.Manifest) error {
	data, err := disk.ReadTail(d.saved.Set, m.Delays)
	if err != nil {
		return err
	}
	delays := make([]polite.Delay, len(data)/polite.DelayBytes)
	for i := range delays {
		if err := delays[i].Decode(data[i*polite.DelayBytes : (i+1)*polite.DelayBytes]); err != nil {
			return fmt.Errorf("crawl: delays of the last checkpoint: %w", err)
		}
	}
	now := time.Now()
	// If the clock was set back, keep the remaining time.
	if ahead := time.Unix(m.Time, 0).Sub(now); ahead > health.ClockSlack {
		for i := range delays {
			delays[i].Until = delays[i].Until.Add(-ahead)
		}
	}
	d.heaps.Restore(now, delays)
	return nil
}

// AddDelays takes delays of hosts and servers whose slots move here from another node, coded as by polite.Delay.Append.
func (d *Dispatcher) AddDelays(data []byte) error {
	delays := make([]polite.Delay, len(data)/polite.DelayBytes)
	for i := range delays {
		if err := delays[i].Decode(data[i*polite.DelayBytes : (i+1)*polite.DelayBytes]); err != nil {
			return err
		}
	}
	d.heaps.Restore(time.Now(), delays)
	return nil
}

// ReadReady admits URLs into RAM. A URL waits here while RAM is full. If its host has its share of RAM
// already, the URL waits on disk instead.
func (d *Dispatcher) ReadReady(ctx context.Context) error {
	for ctx.Err() == nil {
		data, ok, err := d.Ready.Peek()
		if err != nil {
			return err
		}
		if !ok {
			d.run.Await(ctx, d.wakeReady, account.WakeAfter)
			continue
		}
		item, sum, err := d.itemOf(data)
		if err != nil {
			return err
		}
		full := false
		if err := d.run.Transact(func(tx *account.Tx) error {
			taken, err := d.takeReady(tx, item, &sum)
			if full = !taken; full {
				tx.Nothing = true
				return err
			}
			d.Ready.Advance()
			return err
		}); err != nil {
			return err
		}
		if full {
			if err := d.stock.MakeRoom(); err != nil {
				return err
			}
			d.run.Await(ctx, d.heaps.Room(), stock.RelieveEvery)
		}
	}
	return nil
}

// takeReady moves a URL from Q into RAM, or elsewhere if it may not be fetched now. It is part of a
// transaction. taken is false if RAM is full.
func (d *Dispatcher) takeReady(tx *account.Tx, item *polite.Item, sum *robots.Summary) (taken bool, err error) {
	var rec weburl.Record
	if err := rec.Decode(item.Rec); err != nil {
		return false, err
	}
	if met, err := d.others.Deferrals.MetOrder(tx, &rec, state.PlaceReady); met || err != nil {
		return true, err
	}
	if d.opt.Sites.TooDeep(&rec) {
		return true, d.others.Deferrals.Refuse(tx, &rec, state.PlaceReady, state.ReasonDepth)
	}
	now := time.Now()
	if len(item.Addrs) == 0 {
		return true, d.others.Deferrals.Refuse(tx, &rec, state.PlaceReady, state.ReasonBlocked)
	}
	if d.check.VerdictEnded(rec.URL, sum, now) || d.opt.Rules.BlockedURL(rec.URL) {
		return true, d.check.CheckRobots(tx, item.Rec, &rec, state.PlaceReady)
	}
	moved, err := d.health.DeferInBackoff(tx, item.Host, &rec, state.PlaceReady, &sum.Health)
	if moved || err != nil {
		return true, err
	}
	switch v := d.admit(now, item, rec.URL); v.Kind {
	case polite.Full:
		return false, nil
	case polite.Admitted:
		key := d.saved.Hasher.URLKey(rec.URL)
		tx.Move(key, state.PlaceReady, state.PlaceRAM)
		d.others.Orders.Moved(key, false)
	case polite.Deferred:
		rec.Deferred()
		why := state.ReasonHostBacklog
		if v.Why == polite.LeaseShare {
			why = state.ReasonNetworkLease
		}
		return true, d.others.Deferrals.DeferURL(tx, &rec, state.PlaceReady, v.Due, why)
	}
	return true, nil
}

// itemOf converts a record of Q to an item of polite and returns the summary of RobotsCache that came with
// it. The item has no address if all are blacklisted.
func (d *Dispatcher) itemOf(data []byte) (_ *polite.Item, sum robots.Summary, _ error) {
	var rec weburl.Record
	own := append([]byte(nil), data...)
	if err := rec.Decode(own); err != nil {
		return nil, sum, fmt.Errorf("crawl: record from Q: %w", err)
	}
	if err := sum.Decode(rec.Extra); err != nil {
		return nil, sum, fmt.Errorf("crawl: record from Q: %w", err)
	}
	host := weburl.Split(rec.URL).Host
	addrs := append(sum.Addrs()[:0:0], d.opt.Rules.Open(sum.Addrs())...)
	if n := len(addrs); n > 1 { // another address for each attempt
		k := int(rec.Attempts) % n
		addrs = append(addrs[k:n:n], addrs[:k]...)
	}
	return &polite.Item{Rec: own, Host: d.saved.HostKey(host), PLD: d.saved.PLDKey(host), Addrs: addrs,
		Budget: rec.Budget, CrawlDelay: min(sum.CrawlDelay, d.opt.Politeness.MaxCrawlDelay), Waits: rec.Waits,
		Terms: d.opt.Sites.Terms(host), Connection: d.opt.Sites.Connection(host, rec.URL),
		First: d.others.Orders.Any() && d.others.Orders.Waits(d.saved.Hasher.URLKey(rec.URL))}, sum, nil
}

// admit offers an item to polite, with the terms and the connection that its site has now.
func (d *Dispatcher) admit(now time.Time, item *polite.Item, url []byte) polite.Verdict {
	if d.opt.Admission.Sites == "" {
		return d.heaps.Admit(now, item)
	}
	d.opt.Sites.Admitting.RLock()
	defer d.opt.Sites.Admitting.RUnlock()
	host := weburl.Split(url).Host
	item.Terms, item.Connection = d.opt.Sites.Terms(host), d.opt.Sites.Connection(host, url)
	return d.heaps.Admit(now, item)
}

// roomForFirst is how many URLs, those that are due last, may leave full RAM for one that was enqueued. None
// of them was enqueued itself: if RAM is full of such URLs, the next one waits in Q.
const roomForFirst = 16

// AdmitFirst moves an enqueued URL that passed RobotsCache into RAM, past Q, to the front of its host. taken
// is false if it has to take the way of all others. It is part of a transaction.
func (d *Dispatcher) AdmitFirst(tx *account.Tx, rec *weburl.Record) (taken bool, _ error) {
	item, sum, err := d.itemOf(rec.Append(nil))
	if err != nil {
		return false, err
	}
	now := time.Now()
	if len(item.Addrs) == 0 || d.check.VerdictEnded(rec.URL, &sum, now) || d.opt.Rules.BlockedURL(rec.URL) {
		return false, nil
	}
	moved, err := d.health.DeferInBackoff(tx, item.Host, rec, state.PlaceRobotsCheck, &sum.Health)
	if moved || err != nil {
		return moved, err
	}
	v := d.admit(now, item, rec.URL)
	if v.Kind == polite.Full {
		items := d.heaps.EvictForFirst(now, roomForFirst)
		if err := d.others.Deferrals.Evicted(tx, items, state.ReasonEvicted); err != nil {
			return false, err
		}
		v = d.admit(now, item, rec.URL)
	}
	if v.Kind != polite.Admitted {
		return false, nil
	}
	key := d.saved.Hasher.URLKey(rec.URL)
	tx.Move(key, state.PlaceRobotsCheck, state.PlaceRAM)
	d.others.Orders.Moved(key, false)
	return true, nil
}

// Dispatch starts exchanges for the grants of polite while connection slots are free.
func (d *Dispatcher) Dispatch(ctx context.Context) error {
	defer d.endGrants()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case d.workers.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		d.workers.waits.Store(true)
		g := d.nextGrant(ctx, timer)
		d.workers.waits.Store(false)
		if g == nil {
			d.Free()
			return nil
		}
		if page, err := d.begin(g); err != nil {
			return err
		} else if !page {
			continue
		}
		select {
		case d.workers.grants <- g:
		default:
			d.startFetcher(g)
		}
	}
}

// begin reports whether the caller is to fetch the page of a grant. Otherwise it has passed the grant and its
// slot to a request for robots.txt, or has deferred the URL and freed the slot.
func (d *Dispatcher) begin(g *polite.Grant) (page bool, _ error) {
	if g.Item.Robots {
		g.Item.Data.(chan *polite.Grant) <- g // capacity 1 and one grant: never blocks
		return false, nil
	}
	if d.workers.plds.enter(g.Item.PLD) {
		return true, nil
	}
	d.Free()
	defer d.Ended()
	return false, d.pldBusy(g)
}

// maxIdleFetchers limits the fetchers that wait for another page. They are kept for their stacks: fetching
// and parsing need 32 KiB, and growing a new stack to that size costs 5 µs a page. Fetchers above this
// number end.
const maxIdleFetchers = 256

// startFetcher starts a goroutine that fetches the page of a grant and then the pages of workers.grants. It
// ends if maxIdleFetchers others are idle, or when workers.grants is closed.
func (d *Dispatcher) startFetcher(g *polite.Grant) {
	d.run.Fetchers.Add(1)
	go func() {
		defer d.run.Fetchers.Done()
		defer d.run.Fatal()
		for ok := true; ok; {
			d.fetchGranted(g)
			if d.workers.idle.Add(1) > maxIdleFetchers {
				d.workers.idle.Add(-1)
				return
			}
			g, ok = <-d.workers.grants
			d.workers.idle.Add(-1)
		}
	}()
}

// fetchGranted fetches the page of a grant, and the pages of the grants that follow in the same slot.
func (d *Dispatcher) fetchGranted(g *polite.Grant) {
	for {
		landed, next, err := d.others.Visits.Visit(d.run.Fetching(), g)
		d.workers.plds.leave(g.Item.PLD)
		if !landed {
			d.others.Visits.Ended(err)
		}
		if next == nil {
			d.Free()
			return
		}
		if page, err := d.begin(next); err != nil {
			d.run.Fail(err)
			return
		} else if !page {
			return
		}
		g = next
	}
}

// Ended wakes dispatch if --max-pages may have held back a page, and the check for the end of the
// crawl if no page is in flight.
func (d *Dispatcher) Ended() {
	d.workers.inFlight.Add(-1)
	last := d.workers.inFlight.Load() == 0
	if last {
		d.run.WakeWatch.Raise()
	}
	if last || d.opt.MaxPages > 0 { // the last one makes dispatch see that nothing is under way
		d.wakeDispatch.Raise()
	}
}

// nextGrant waits for the next grant. It returns nil when ctx ends.
func (d *Dispatcher) nextGrant(ctx context.Context, timer *time.Timer) *polite.Grant {
	for ctx.Err() == nil {
		g, wait := d.tryGrant()
		if g != nil {
			return g
		}
		if d.Hungry() {
			d.others.LackURLs()
		}
		if d.outages.Slowed() {
			wait = min(wait, outage.Trickle)
		}
		timer.Reset(max(min(wait, account.WakeAfter), time.Microsecond))
		select {
		case <-d.heaps.Ready():
		case <-d.wakeDispatch:
		case <-timer.C:
		case <-ctx.Done():
		}
		d.run.Wakeups.Add(1)
	}
	return nil
}

// tryGrant returns polite's next grant, if another request may be sent now. Otherwise it returns how long to
// wait.
func (d *Dispatcher) tryGrant() (*polite.Grant, time.Duration) {
	d.granting.Lock()
	defer d.granting.Unlock()
	if !d.mayFetch() {
		d.workers.dry.Store(false)
		return nil, account.WakeAfter
	}
	now := time.Now()
	wait := d.limits.Wait(now, len(d.workers.slots))
	if wait > 0 {
		d.workers.dry.Store(false)
		return nil, wait
	}
	g, wait := d.heaps.Next(now)
	if g == nil && d.run.Accounts.In(state.PlaceRAM) < int64(d.opt.Network.Connections) {
		d.wakeReady.Raise()
	}
	d.workers.dry.Store(g == nil)
	return d.granted(now, g), wait
}

// Landed tells polite that the exchange of g has ended although its page is not stored yet. The next grant,
// if there is one and the limits allow it, belongs to the caller: a switch to the goroutine of dispatch and
// from there to another fetcher takes longer than a near server's answer.
func (d *Dispatcher) Landed(g *polite.Grant, r polite.Result) (next *polite.Grant) {
	d.granting.Lock()
	defer d.granting.Unlock()
	now := time.Now()
	more := d.mayFetch() && d.limits.Wait(now, len(d.workers.slots)) <= 0
	return d.granted(now, d.heaps.Landed(now, g, r, more))
}

// granted counts a new grant, nil for none, against the limits. The caller holds granting and a slot.
func (d *Dispatcher) granted(now time.Time, g *polite.Grant) *polite.Grant {
	if g == nil {
		return nil
	}
	d.limits.Take(now, fetcher.GrantKind(g))
	d.outages.Take(now)
	if !g.Item.Robots {
		d.workers.inFlight.Add(1)
	}
	return g
}

// endGrants makes fetchers end after their pages.
func (d *Dispatcher) endGrants() {
	d.granting.Lock()
	defer d.granting.Unlock()
	d.ended = true
}

// mayFetch reports whether another page may be fetched. It returns false while fetching pauses. For
// --max-pages it allows no more exchanges than pages are missing. The caller holds granting.
func (d *Dispatcher) mayFetch() bool {
	if d.ended || !d.leases.MayFetch() || d.others.Disowned() || d.space.Pausing() != "" ||
		!d.outages.MayTry(time.Now()) {
		return false
	}
	if d.opt.MaxPages <= 0 {
		return true
	}
	return d.pagesUntilLimit() > 0
}

// pagesUntilLimit returns how many exchanges may begin until the limit of pages, if all bring a page. The caller holds
// granting.
func (d *Dispatcher) pagesUntilLimit() int64 {
	inFlight := d.workers.inFlight.Load() // first: a page is counted before it is no longer in flight
	return d.others.PageLimit() - inFlight - d.run.Accounts.Counter(state.CountPages)
}

// PagesLeft calls f with the number of pages left until the limit, while no exchange begins.
func (d *Dispatcher) PagesLeft(f func(left int64)) {
	d.granting.Lock()
	defer d.granting.Unlock()
	f(d.pagesUntilLimit())
}
