package polite_test

import (
	"container/heap"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"drumbeat/polite"
)

// event is the start or end of a request in the checker's simulation.
type event struct {
	at     time.Time
	g      *polite.Grant
	done   bool
	failed bool // no request was sent
	drop   bool // none was to be sent
	stored bool // it landed earlier, and its item leaves RAM now
	res    polite.Result
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

// checker implements the rules from their description, not from the scheduler: for each host a list, whether
// it is busy and when it may be visited; for each server the start of its last request.
type checker struct {
	t       *testing.T
	rng     *rand.Rand
	opt     polite.Options
	s       *polite.Scheduler
	now     time.Time
	events  events
	robots  map[uint64][]*polite.Item
	pages   map[uint64][]*polite.Item
	busy    map[uint64]bool
	allowed map[uint64]time.Time         // host: not before
	lastReq map[netip.Addr]time.Time     // server: last start
	setup   map[netip.Addr]bool          // server: granted, not started
	gap     map[netip.Addr]time.Duration // server: delay after the last start
	rest    map[netip.Addr]time.Time     // server: not before, after a back-off
	owned   map[*polite.Item]bool        // queued and in flight
	queued  int
	flying  int
	granted int
	told    time.Time // until when Next said that nothing is ready; zero: it has not said so
	admits  map[*polite.Item]time.Time
	longest time.Duration
	gates   *gateChecker
}

func newChecker(t *testing.T, opt polite.Options, rng *rand.Rand) *checker {
	return &checker{t: t, rng: rng, opt: opt, s: polite.New(opt, t0), now: t0,
		robots: map[uint64][]*polite.Item{}, pages: map[uint64][]*polite.Item{}, busy: map[uint64]bool{},
		allowed: map[uint64]time.Time{}, lastReq: map[netip.Addr]time.Time{}, setup: map[netip.Addr]bool{},
		admits: map[*polite.Item]time.Time{}, gap: map[netip.Addr]time.Duration{}, rest: map[netip.Addr]time.Time{},
		owned: map[*polite.Item]bool{}, gates: newGateChecker(t, opt)}
}

func (c *checker) admit(it *polite.Item) {
	v := c.s.Admit(c.now, it)
	switch v.Kind {
	case polite.Deferred:
		if !v.Due.After(c.now) {
			c.t.Fatalf("deferred to %v, which is not after %v", v.Due, c.now)
		}
	case polite.Full:
		if c.queued+c.flying < c.opt.MaxItems && c.opt.MaxHosts == 0 {
			c.t.Fatalf("full with %d of %d items", c.queued+c.flying, c.opt.MaxItems)
		}
	case polite.Admitted:
		c.queued++
		c.admits[it] = c.now
		c.owned[it] = true
		c.gates.admitted(it)
		if it.Robots {
			c.robots[it.Host] = append(c.robots[it.Host], it)
		} else {
			c.pages[it.Host] = append(c.pages[it.Host], it)
		}
	}
	if c.queued+c.flying > c.opt.MaxItems {
		c.t.Fatalf("%d items, more than %d", c.queued+c.flying, c.opt.MaxItems)
	}
}

// admitNow offers an item that takes precedence. Without a grant nothing changes.
func (c *checker) admitNow(it *polite.Item) {
	it.Robots = true
	queued, bytes := len(c.s.Snapshot()), c.s.Bytes()
	g := c.s.AdmitNow(c.now, it)
	if g == nil {
		if len(c.s.Snapshot()) != queued || c.s.Bytes() != bytes {
			c.t.Fatalf("an item that wasn't granted at once stays")
		}
		return
	}
	if g.Item != it {
		c.t.Fatalf("another item was granted")
	}
	c.queued++
	c.admits[it] = c.now
	c.owned[it] = true
	c.gates.admitted(it)
	c.robots[it.Host] = append(c.robots[it.Host], it)
	c.grant(g)
}

// grant checks a grant against the rules and schedules its start and end.
func (c *checker) grant(g *polite.Grant) {
	it := g.Item
	list := c.pages
	if len(c.robots[it.Host]) > 0 {
		list = c.robots
	}
	if len(list[it.Host]) == 0 || list[it.Host][0] != it {
		c.t.Fatalf("host %d: granted an item that is not at the front", it.Host)
	}
	list[it.Host] = list[it.Host][1:]
	if c.busy[it.Host] {
		c.t.Fatalf("host %d: second connection", it.Host)
	}
	if c.now.Before(c.allowed[it.Host]) {
		c.t.Fatalf("host %d: granted %v early", it.Host, c.allowed[it.Host].Sub(c.now))
	}
	if !slices.Contains(it.Addrs, g.Addr) {
		c.t.Fatalf("host %d: granted %v, not an address of it", it.Host, g.Addr)
	}
	if c.setup[g.Addr] {
		c.t.Fatalf("server %v: granted while another request is about to start", g.Addr)
	}
	if c.now.Before(c.rest[g.Addr]) {
		c.t.Fatalf("server %v: granted %v early", g.Addr, c.rest[g.Addr].Sub(c.now))
	}
	c.busy[it.Host], c.setup[g.Addr] = true, true
	c.gates.granted(c.now, it, g.Addr)
	c.queued--
	c.flying++
	c.granted++
	c.longest = max(c.longest, c.now.Sub(c.admits[it]))
	delete(c.admits, it)
	start := c.now.Add(time.Duration(c.rng.IntN(300)) * time.Millisecond)
	res := polite.Result{Elapsed: time.Duration(c.rng.IntN(2000)) * time.Millisecond}
	if c.opt.Adaptive {
		res.Sign = []polite.Sign{polite.Clean, polite.Clean, polite.Clean, polite.Unclear,
			polite.Strain}[c.rng.IntN(50)/11]
	}
	if c.rng.IntN(20) == 0 {
		res.Backoff = time.Duration(c.rng.IntN(100)) * time.Second
	}
	if c.rng.IntN(50) == 0 {
		res.ServerBackoff = time.Duration(c.rng.IntN(100)) * time.Second
	}
	if it.Robots {
		res.CrawlDelay = time.Duration(max(0, c.rng.IntN(20)-10)) * 10 * time.Second
	}
	failed, drop := c.rng.IntN(10) == 0, c.rng.IntN(20) == 0
	if !failed && !drop {
		heap.Push(&c.events, event{at: start, g: g})
	}
	heap.Push(&c.events, event{at: start.Add(res.Elapsed + 1), g: g, done: true, failed: failed, drop: drop, res: res})
}

// serverDelay is the delay by its description: τs scaled by the mean budget of the items in RAM at the
// server.
func (c *checker) serverDelay(a netip.Addr) time.Duration {
	sum, n := 0, 0
	for it := range c.owned {
		if slices.Contains(it.Addrs, a) {
			n++
			sum += int(it.Budget)
			if it.Budget == 0 {
				sum += int(c.opt.DefaultBudget)
			}
		}
	}
	mean := float64(sum) / float64(n)
	d := time.Duration(float64(c.opt.ServerDelay) * min(1, float64(c.opt.DefaultBudget)/mean))
	return max(d, c.opt.ServerDelayMin) - time.Microsecond
}

func (c *checker) start(g *polite.Grant) {
	a := g.Addr
	c.gates.started(c.now, g.Item, a)
	if last, ok := c.lastReq[a]; ok && c.now.Sub(last) < c.gap[a] {
		c.t.Fatalf("server %v: requests %v apart, want %v", a, c.now.Sub(last), c.gap[a])
	}
	c.lastReq[a], c.gap[a], c.setup[a] = c.now, c.serverDelay(a), false
}

func (c *checker) happen(e event) {
	it := e.g.Item
	if e.stored {
		c.leave(e)
		return
	}
	if !e.done {
		c.start(e.g)
		c.s.Started(c.now, e.g)
		return
	}
	c.gates.ended(e.g.Addr)
	if e.drop {
		c.setup[e.g.Addr], c.busy[it.Host] = false, false
		c.gates.dropped(it)
		delete(c.owned, it)
		c.flying--
		c.s.Drop(c.now, e.g)
		return
	}
	if e.failed { // the dial failed: its end counts
		c.start(e.g)
	}
	plain := c.plain(it)
	if c.opt.Adaptive && e.res.Sign != polite.Strain && e.res.Backoff == 0 && e.res.ServerBackoff == 0 {
		plain = min(plain, c.opt.HostDelayMin)
	}
	d := max(plain, min(max(it.CrawlDelay, e.res.CrawlDelay), c.opt.MaxCrawlDelay), e.res.Backoff)
	d = max(d, min(time.Duration(c.opt.ResponseFactor)*e.res.Elapsed, c.opt.MaxCrawlDelay))
	// Tolerance for the scheduler's floating-point division.
	c.allowed[it.Host] = c.now.Add(d - time.Microsecond)
	c.busy[it.Host] = false
	if b := e.res.ServerBackoff; b > 0 && c.now.Add(b).After(c.rest[e.g.Addr]) {
		c.rest[e.g.Addr] = c.now.Add(b)
	}
	if c.rng.IntN(3) == 0 {
		if next := c.s.Landed(c.now, e.g, e.res, c.rng.IntN(2) == 0); next != nil {
			c.grant(next)
		}
		heap.Push(&c.events,
			event{at: c.now.Add(time.Duration(c.rng.Int64N(int64(3 * time.Second)))), g: e.g, stored: true})
		return
	}
	c.leave(e)
	if c.rng.IntN(3) == 0 {
		c.s.Landed(c.now, e.g, polite.Result{Backoff: time.Hour}, false) // too late: it has no effect
	}
}

// leave takes the item of a grant out of RAM. After Landed the result has no effect.
func (c *checker) leave(e event) {
	if e.stored {
		e.res = polite.Result{Backoff: time.Hour, ServerBackoff: time.Hour}
	}
	delete(c.owned, e.g.Item)
	c.flying--
	c.s.Done(c.now, e.g, e.res)
}

// restart stops uncleanly and starts again with the items in RAM. Earlier bounds still hold, and hosts and
// servers count as visited now.
func (c *checker) restart() {
	items := c.s.Snapshot()
	if len(items) != len(c.owned) {
		c.t.Fatalf("Snapshot: got %d items, want %d", len(items), len(c.owned))
	}
	c.s = restart(c.t, c.s, c.now, c.opt)
	c.events, c.queued, c.flying, c.told = nil, 0, 0, time.Time{}
	clear(c.robots)
	clear(c.pages)
	clear(c.busy)
	clear(c.setup)
	clear(c.owned)
	clear(c.admits)
	for a := range c.lastReq {
		c.lastReq[a], c.gap[a] = c.now, c.opt.ServerDelay
	}
	c.gates.restart(c.now)
	for _, it := range items {
		d := max(c.plain(it), min(it.CrawlDelay, c.opt.MaxCrawlDelay)) - time.Microsecond
		if c.now.Add(d).After(c.allowed[it.Host]) {
			c.allowed[it.Host] = c.now.Add(d)
		}
	}
	for _, it := range items {
		c.admit(it)
	}
}

// plain returns τh scaled by the budget.
func (c *checker) plain(it *polite.Item) time.Duration {
	d := c.opt.HostDelay
	if it.Budget > c.opt.DefaultBudget {
		d = d * time.Duration(c.opt.DefaultBudget) / time.Duration(it.Budget)
		d = max(d, c.opt.HostDelayMin)
	}
	return d
}

func (c *checker) evict(n int) {
	over := time.Duration(c.rng.IntN(200)) * time.Second
	var out []*polite.Item
	switch c.rng.IntN(3) {
	case 0:
		out, over = c.s.EvictLater(c.now, time.Second, n), time.Second
	case 1:
		out = c.s.EvictLater(c.now, over, n)
	default:
		out = c.s.EvictHost(c.now, uint64(n), over)
	}
	for _, it := range out {
		l := c.pages[it.Host]
		if len(l) == 0 || l[len(l)-1] != it {
			c.t.Fatalf("host %d: evicted an item that is not the last", it.Host)
		}
		if it.Robots || !it.Due.After(c.now.Add(over)) {
			c.t.Fatalf("evicted item due at %v, now is %v, wanted %v later", it.Due, c.now, over)
		}
		c.pages[it.Host] = l[:len(l)-1]
		delete(c.admits, it)
		delete(c.owned, it)
		c.queued--
	}
}

// signalled reports whether Ready has been signalled since the last call.
func (c *checker) signalled() bool {
	select {
	case <-c.s.Ready():
		return true
	default:
		return false
	}
}

// step takes what Next returns, then advances the clock to the next event.
func (c *checker) step() (more bool) {
	var wait time.Duration
	due, scheduled := c.s.NextReady(c.now)
	for signalled := c.signalled(); ; signalled = true { // the caller of Next calls it again after a grant
		var g *polite.Grant
		g, wait = c.s.Next(c.now)
		if !signalled && (g != nil && c.now.Before(c.told) || scheduled && due.Before(c.told)) {
			c.t.Fatalf("Ready was not signalled, although Next has something to do in %v instead of %v",
				due.Sub(c.now), c.told.Sub(c.now))
		}
		if g == nil {
			break
		}
		c.grant(g)
	}
	c.told = c.now.Add(min(wait, 1000*time.Hour))
	if q, f := c.s.Len(); q != c.queued || f != c.flying {
		c.t.Fatalf("Len: got %d, %d, want %d, %d", q, f, c.queued, c.flying)
	}
	if wait == polite.Forever && len(c.events) == 0 {
		return false
	}
	next := c.now.Add(min(wait, time.Hour))
	if len(c.events) > 0 && !c.events[0].at.After(next) {
		e := heap.Pop(&c.events).(event)
		if e.at.After(c.now) {
			c.now = e.at
		}
		c.happen(e)
		return true
	}
	c.now = next
	return true
}

func TestModel(t *testing.T) {
	sd := seed(t)
	var adapted polite.Adapted
	for round := range modelRounds() {
		rng := newRand(sd + uint64(round))
		opt := polite.Options{
			HostDelay: time.Duration(rng.IntN(40)) * time.Second, HostDelayMin: ms(rng.IntN(2000)),
			ServerDelay: ms(rng.IntN(2000)), ServerDelayMin: ms(rng.IntN(300)), DefaultBudget: 10,
			MaxCrawlDelay: time.Minute, ResponseFactor: float64(rng.IntN(4)), MaxItems: 1 + rng.IntN(400),
			MaxPerHost: 1 + rng.IntN(50), Ahead: time.Nanosecond,
		}
		opt.Adaptive = opt.ResponseFactor > 0 && rng.IntN(2) == 0
		randomGates(rng, &opt)
		opt.HostDelayMin = min(opt.HostDelayMin, opt.HostDelay)
		opt.ServerDelayMin = min(opt.ServerDelayMin, opt.ServerDelay)
		if rng.IntN(3) == 0 {
			opt.MaxHosts = 1 + rng.IntN(40)
		}
		c := newChecker(t, opt, rng)
		hosts, servers := 1+rng.IntN(60), 1+rng.IntN(20)
		addr := randomAddrs(rng)
		for range 6000 {
			for range rng.IntN(4) {
				c.admit(randomItem(rng, hosts, servers, addr))
			}
			if rng.IntN(20) == 0 {
				c.admitNow(randomItem(rng, hosts, servers, addr))
			}
			if rng.IntN(200) == 0 {
				c.evict(rng.IntN(20))
			}
			if rng.IntN(1000) == 0 {
				c.restart()
			}
			c.step()
		}
		limit := c.now.Add(time.Duration(c.queued+1) * 5 * time.Minute)
		for c.step() { // no starvation: everything in RAM is eventually granted
			if c.now.After(limit) && c.queued > 0 {
				t.Fatalf("round %d: %d items still queued after %v", round, c.queued, limit)
			}
		}
		if c.queued+c.flying != 0 || len(c.s.Snapshot()) != 0 || c.s.Bytes() != 0 {
			t.Fatalf("round %d: %d queued, %d in flight at the end", round, c.queued, c.flying)
		}
		if h, v := c.s.Tables(); h+v != 0 {
			t.Fatalf("round %d: %d hosts and %d servers remembered at the end", round, h, v)
		}
		if a := c.s.Adapted(); a.Hosts != 0 || !opt.Adaptive && a != (polite.Adapted{}) {
			t.Fatalf("round %d: %+v at the end", round, a)
		} else {
			adapted.Steps, adapted.Resets = adapted.Steps+a.Steps, adapted.Resets+a.Resets
		}
		if p, n := c.s.Gates(); p+n != 0 {
			t.Fatalf("round %d: %d PLDs and %d networks remembered at the end", round, p, n)
		}
	}
	if adapted.Steps == 0 || adapted.Resets == 0 {
		t.Errorf("%+v: want hosts that adapt", adapted)
	}
	t.Logf("%+v", adapted)
}

func randomItem(rng *rand.Rand, hosts, servers int, addr func(int) netip.Addr) *polite.Item {
	h := rng.IntN(hosts)
	it := item(h, h/4)
	for i := range 1 + h%3 {
		it.Addrs = append(it.Addrs, addr((h+i*7)%servers))
	}
	it.Budget = uint32([]int{0, 1, 10, 20, 1000}[h/4%5])
	it.CrawlDelay = time.Duration(max(0, h%20-17)) * 40 * time.Second
	it.Robots = rng.IntN(10) == 0
	it.Rec = make([]byte, rng.IntN(100))
	return it
}

// TestFairness: hosts on one server alternate equally, and a server with many hosts does not slow others.
func TestFairness(t *testing.T) {
	opt := polite.Options{HostDelay: ms(100), HostDelayMin: ms(100), ServerDelay: ms(100), ServerDelayMin: ms(100),
		MaxPerHost: 1000, MaxPerServer: polite.Unlimited, MaxPerPLD: polite.Unlimited}
	s := polite.New(opt, t0)
	for i := range 100 {
		for range 100 {
			admit(t, s, t0, item(i, 1, v4(1)))
		}
	}
	for range 100 {
		admit(t, s, t0, item(1000, 2, v4(2)))
	}
	turns := map[uint64]int{}
	for now := t0; now.Before(t0.Add(100 * time.Second)); {
		g, w := s.Next(now)
		if g == nil {
			now = now.Add(w)
			continue
		}
		turns[g.Item.Host]++
		s.Started(now, g)
		s.Done(now, g, polite.Result{})
	}
	for i := range uint64(100) {
		if turns[i] != 10 {
			t.Errorf("host %d: got %d turns, want 10", i, turns[i])
		}
	}
	if turns[1000] != 100 {
		t.Errorf("lone host: got %d turns, want all 100", turns[1000])
	}
}

// TestDeferralCost: with far more URLs of one host than its share, each is deferred a few times, not once
// for each visit, and the host stays busy. Distant times are kept coarsely, as by the calendar on disk.
func TestDeferralCost(t *testing.T) {
	const urls = 20_000
	opt := polite.Options{HostDelay: time.Second, HostDelayMin: time.Second, Ahead: time.Nanosecond}
	s := polite.New(opt, t0)
	later := map[int64][]*polite.Item{} // by second
	deferrals := 0
	now := t0
	offer := func(it *polite.Item) {
		v := s.Admit(now, it)
		if v.Kind != polite.Deferred {
			return
		}
		deferrals++
		it.Waits++
		wait := int64(v.Due.Sub(now) / time.Second)
		grain := int64(1) << max(bits.Len64(uint64(wait))-3, 0)
		at := (int64(v.Due.Sub(t0)/time.Second) + grain) / grain * grain
		later[at] = append(later[at], it)
	}
	for range urls {
		offer(item(1, 1, v4(1)))
	}
	fetched := 0
	for fetched < urls && now.Before(t0.Add(3*urls*time.Second)) {
		at := int64(now.Sub(t0) / time.Second)
		for _, it := range later[at] {
			offer(it)
		}
		delete(later, at)
		if g, _ := s.Next(now); g != nil {
			fetched++
			s.Done(now, g, polite.Result{})
		}
		now = now.Add(time.Second)
	}
	t.Logf("%d URLs: %.2f deferrals each, %v", fetched, float64(deferrals)/urls, now.Sub(t0))
	if deferrals > 8*urls {
		t.Errorf("%d deferrals of %d URLs, want at most 8 each", deferrals, urls)
	}
	if fetched < urls || now.Sub(t0) > urls*3/2*time.Second {
		t.Errorf("%d fetched in %v, want %d in at most 1.5 times %ds", fetched, now.Sub(t0), urls, urls)
	}
}

// BenchmarkScheduler measures the whole life of an item, with and without limits for PLDs and networks.
func BenchmarkScheduler(b *testing.B) {
	for _, c := range []struct {
		name  string
		hosts int
		gates bool
	}{{"hosts=1e3", 1000, false}, {"hosts=1e3/gates", 1000, true}, {"items=1e4", 10_000, false},
		{"items=1e5", 100_000, false}, {"items=1e5/gates", 100_000, true}} {
		b.Run(c.name, func(b *testing.B) {
			n := c.hosts
			opt := paper()
			opt.MaxItems = n + 1
			if c.gates {
				opt.PLDDelay, opt.PLDDelayMin, opt.NetworkRate, opt.NetworkConnections = ms(500), ms(20), 10, 20
			}
			s := polite.New(opt, t0)
			rng := newRand(1)
			now := t0
			fill := func() {
				h := rng.IntN(n)
				s.Admit(now, item(h, h/4, v4(h/8*37%(1<<24))))
			}
			for range n {
				fill()
			}
			b.ReportAllocs()
			for b.Loop() {
				g, w := s.Next(now)
				for g == nil {
					now = now.Add(max(w, 1))
					g, w = s.Next(now)
				}
				s.Started(now, g)
				s.Done(now, g, polite.Result{})
				fill()
			}
		})
	}
}

func BenchmarkEvict(b *testing.B) {
	const n = 100_000
	s := polite.New(paper(), t0)
	for i := range n {
		s.Admit(t0, item(i%20_000, i%5000, v4(i%10_000)))
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, it := range s.EvictLater(t0, time.Second, 1000) {
			s.Admit(t0, it)
		}
	}
}

func BenchmarkDelays(b *testing.B) {
	const n = 100_000
	s := polite.New(polite.Options{MaxHosts: 10 * n}, t0)
	for i := range n {
		s.Admit(t0, item(i, i/4, v4(i/8)))
		g, _ := s.Next(t0)
		s.Done(t0, g, polite.Result{Backoff: time.Hour})
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Delays(t0)
	}
}
