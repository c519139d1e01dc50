package polite_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"drumbeat/polite"
)

// gateChecker implements the rules for PLDs and networks from their description. It sees what a server
// would: starts and ends.
type gateChecker struct {
	t       *testing.T
	opt     polite.Options
	budget  map[uint64]uint32    // PLD: from its last item
	allowed map[uint64]time.Time // PLD: no start before
	setup   map[uint64]bool      // PLD: granted, not started
	starts  map[netip.Prefix][]time.Time
	after   time.Time            // no start in any network before
	flights map[netip.Prefix]int // granted and not ended
	server  map[netip.Addr]int   // the same
	most    int                  // most flights of a network
}

func newGateChecker(t *testing.T, opt polite.Options) *gateChecker {
	c := &gateChecker{t: t, opt: opt, allowed: map[uint64]time.Time{}, starts: map[netip.Prefix][]time.Time{}}
	c.begin()
	return c
}

// begin forgets what a restart forgets.
func (c *gateChecker) begin() {
	c.budget, c.setup = map[uint64]uint32{}, map[uint64]bool{}
	c.flights, c.server = map[netip.Prefix]int{}, map[netip.Addr]int{}
}

// netOf returns the network of an address.
func netOf(a netip.Addr) netip.Prefix {
	bits := 24
	if a.Is6() {
		bits = 48
	}
	p, _ := a.Prefix(bits)
	return p
}

// window returns a time in which a network gets at most burst requests.
func (c *gateChecker) window() (burst int, window time.Duration) {
	burst = int(math.Ceil(c.opt.NetworkRate))
	return burst, time.Duration(float64(burst) / c.opt.NetworkRate * 1e9)
}

func (c *gateChecker) admitted(it *polite.Item) {
	if it.Budget > 0 {
		c.budget[it.PLD] = it.Budget
	}
}

func (c *gateChecker) granted(now time.Time, it *polite.Item, a netip.Addr) {
	if c.opt.PLDDelay > 0 {
		if c.setup[it.PLD] {
			c.t.Fatalf("PLD %d: granted while another request is about to start", it.PLD)
		}
		if now.Before(c.allowed[it.PLD]) {
			c.t.Fatalf("PLD %d: granted %v early", it.PLD, c.allowed[it.PLD].Sub(now))
		}
	}
	c.setup[it.PLD] = true
	n, most := netOf(a), c.opt.NetworkConnections
	if s := c.server[a]; most > 0 && s > 0 && s >= most-c.flights[n] {
		c.t.Fatalf("server %v: one more exchange than %d, and %d of %d in its network", a, s, c.flights[n], most)
	}
	c.flights[n]++
	c.server[a]++
	c.most = max(c.most, c.flights[n])
	if most > 0 && c.flights[n] > most {
		c.t.Fatalf("network %v: %d exchanges at once, want %d at most", n, c.flights[n], most)
	}
}

func (c *gateChecker) started(now time.Time, it *polite.Item, a netip.Addr) {
	if now.Before(c.allowed[it.PLD]) {
		c.t.Fatalf("PLD %d: request started %v early", it.PLD, c.allowed[it.PLD].Sub(now))
	}
	d := c.opt.PLDDelay
	if b := c.budget[it.PLD]; b > c.opt.DefaultBudget {
		d = max(d*time.Duration(c.opt.DefaultBudget)/time.Duration(b), c.opt.PLDDelayMin)
	}
	c.setup[it.PLD], c.allowed[it.PLD] = false, now.Add(d-time.Microsecond)
	if c.opt.NetworkRate == 0 {
		return
	}
	n := netOf(a)
	burst, window := c.window()
	if l := append(c.starts[n], now); len(l) > burst {
		if got := now.Sub(l[0]); got < window-time.Microsecond {
			c.t.Fatalf("network %v: %d requests within %v, want %d in %v", n, burst+1, got, burst, window)
		}
		c.starts[n] = l[1:]
	} else {
		c.starts[n] = l
	}
	if now.Before(c.after) {
		c.t.Fatalf("network %v: request %v too early after a restart", n, c.after.Sub(now))
	}
}

func (c *gateChecker) ended(a netip.Addr) { c.flights[netOf(a)]--; c.server[a]-- }

func (c *gateChecker) dropped(it *polite.Item) { c.setup[it.PLD] = false }

// restart makes PLDs and networks count as just visited.
func (c *gateChecker) restart(now time.Time) {
	c.begin()
	for p := range c.allowed {
		c.allowed[p] = now.Add(c.opt.PLDDelay)
	}
	if c.opt.NetworkRate > 0 {
		_, window := c.window()
		c.after = now.Add(window)
	}
}

// randomGates sets each of the options or leaves it.
func randomGates(rng *rand.Rand, opt *polite.Options) {
	if rng.IntN(3) > 0 {
		opt.PLDDelay = ms(1 + rng.IntN(3000))
		opt.PLDDelayMin = time.Duration(rng.Int64N(int64(opt.PLDDelay)))
	}
	if rng.IntN(2) > 0 {
		opt.NetworkRate = []float64{0.2, 1, 2.5, 10, 1000}[rng.IntN(5)]
	}
	if rng.IntN(2) > 0 {
		opt.NetworkConnections = 1 + rng.IntN(8)
	}
}

// randomAddrs numbers servers: 256, 4 or 1 in a network, of one family or both.
func randomAddrs(rng *rand.Rand) func(int) netip.Addr {
	apart, six := []int{1, 64, 256}[rng.IntN(3)], rng.IntN(3)
	return func(n int) netip.Addr {
		if six == 0 || six == 1 && n%2 == 0 {
			return v4(n * apart)
		}
		b := netip.MustParseAddr("2001:db8::1").As16()
		// The /48 ends after the second byte, the /64 after the fourth.
		binary.BigEndian.PutUint32(b[4:], uint32(n*apart)<<8)
		return netip.AddrFrom16(b)
	}
}
