package polite_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"drumbeat/polite"
)

// adaptive are options with adaptive delays, 40 s down to 1 s.
func adaptive() polite.Options {
	opt := paper()
	opt.ServerDelay, opt.ServerDelayMin = 0, 0
	opt.DefaultBudget, opt.MaxCrawlDelay, opt.ResponseFactor, opt.Adaptive = 10, 5*time.Minute, 10, true
	return opt
}

// visitor visits one host again and again.
type visitor struct {
	t   *testing.T
	s   *polite.Scheduler
	now time.Time
	it  polite.Item // template
}

func newVisitor(t *testing.T, opt polite.Options) *visitor {
	return &visitor{t: t, s: polite.New(opt, t0), now: t0, it: *item(1, 1, v4(1))}
}

// visit returns the time from the end of the last exchange to the grant.
func (v *visitor) visit(r polite.Result) (gap time.Duration) {
	v.t.Helper()
	it, end := v.it, v.now
	admit(v.t, v.s, v.now, &it)
	for {
		g, wait := v.s.Next(v.now)
		if g != nil {
			gap = v.now.Sub(end)
			v.s.Started(v.now, g)
			v.now = v.now.Add(r.Elapsed)
			v.s.Done(v.now, g, r)
			return gap
		}
		if wait == polite.Forever {
			v.t.Fatal("nothing is scheduled")
		}
		v.now = v.now.Add(wait)
	}
}

// quick is an answer of a healthy host.
func quick() polite.Result { return polite.Result{Elapsed: ms(20), Sign: polite.Clean} }

// warm visits the host until its delay is the minimum.
func (v *visitor) warm() {
	v.t.Helper()
	for range polite.AllSteps + 1 {
		v.visit(quick())
	}
	if p, ok := v.s.PaceOf(1); !ok || p.Steps != polite.AllSteps || p.Delay != time.Second || p.Answer != ms(20) {
		v.t.Fatalf("got %+v, want all steps, a delay of 1 s and answers in 20 ms", p)
	}
}

func TestAdaptiveDelayFallsBySteps(t *testing.T) {
	for _, c := range []struct {
		budget uint32
		own    time.Duration // SetHostDelay
		base   time.Duration
		least  time.Duration
	}{{0, 0, 40 * time.Second, time.Second}, {40, 0, 10 * time.Second, time.Second},
		{4000, 0, time.Second, time.Second}, {0, 12 * time.Second, 12 * time.Second, 12 * time.Second}} {
		v := newVisitor(t, adaptive())
		v.it.Budget = c.budget
		if c.own > 0 {
			v.s.SetHostDelay(1, c.own)
		}
		v.visit(quick())
		want := c.base // after the first answer, which no other can be compared with
		step := (c.base - c.least) / polite.AllSteps
		for i := range 2 * polite.AllSteps {
			if gap := v.visit(quick()); gap < c.least || (gap-want).Abs() > time.Millisecond {
				t.Fatalf("base %v: gap %d is %v, want %v", c.base, i, gap, want)
			}
			want = max(c.least, want-step)
		}
		took := int64(0)
		if step > 0 {
			took = polite.AllSteps
		}
		if a := v.s.Adapted(); a.Steps != took || a.Resets != 0 || a.Hosts != int(min(took, 1)) {
			t.Errorf("base %v: %+v, want %d steps of one host", c.base, a, took)
		}
	}
}

// TestAdaptiveDelayEndsAtStrain: each sign of strain brings the base delay back at once, and the way down
// starts over.
func TestAdaptiveDelayEndsAtStrain(t *testing.T) {
	for name, r := range map[string]polite.Result{
		"strain":             {Elapsed: ms(20), Sign: polite.Strain},
		"no answer":          {Sign: polite.Strain},
		"back-off":           {Elapsed: ms(20), Sign: polite.Clean, Backoff: time.Second},
		"back-off of server": {ServerBackoff: time.Second},
		"slow":               {Elapsed: 3*ms(20) + ms(51), Sign: polite.Clean},
	} {
		v := newVisitor(t, adaptive())
		v.warm()
		v.visit(r)
		if gap := v.visit(quick()); gap < 40*time.Second {
			t.Errorf("%s: the next gap is %v, want the base delay", name, gap)
		}
		if gap := v.visit(quick()); gap < 38*time.Second {
			t.Errorf("%s: the gap after that is %v, want at most one step less than the base delay", name, gap)
		}
		if a := v.s.Adapted(); a.Resets != 1 {
			t.Errorf("%s: %+v, want one reset", name, a)
		}
	}
	for name, r := range map[string]polite.Result{"our fault": {},
		"not quick, not slow": {Elapsed: ms(90), Sign: polite.Clean}} {
		v := newVisitor(t, adaptive())
		v.warm()
		v.visit(r)
		if gap := v.visit(quick()); gap < time.Second || gap > 1100*time.Millisecond {
			t.Errorf("%s: the next gap is %v, want the minimum", name, gap)
		}
		if a := v.s.Adapted(); a.Resets != 0 {
			t.Errorf("%s: %+v, want no reset", name, a)
		}
	}
}

// TestAdaptiveDelayOfSlowHost: a slow host keeps ten times its mean answer time, even after an answer that is
// quick by chance.
func TestAdaptiveDelayOfSlowHost(t *testing.T) {
	v := newVisitor(t, adaptive())
	for i := range 300 {
		r := polite.Result{Elapsed: 3 * time.Second, Sign: polite.Clean}
		if i%10 == 9 {
			r.Elapsed = ms(5)
		}
		mean := time.Duration(0)
		if p, ok := v.s.PaceOf(1); ok {
			mean = p.Answer
		}
		if gap := v.visit(r); i > 0 && gap < min(10*mean, 40*time.Second)-time.Millisecond {
			t.Fatalf("gap %d is %v with answers of %v in the mean", i, gap, mean)
		}
	}
	if p, _ := v.s.PaceOf(1); p.Steps == 0 || p.Steps > 12 || p.Delay < 20*time.Second {
		t.Errorf("got %+v, want some steps, but none below ten times the mean, and at least 20 s", p)
	}
}

func TestAdaptiveDelayKeepsCrawlDelay(t *testing.T) {
	v := newVisitor(t, adaptive())
	v.it.CrawlDelay = 7 * time.Second
	last := time.Duration(0)
	for i := range 50 {
		if last = v.visit(quick()); i > 0 && last < 7*time.Second {
			t.Fatalf("gap %d is %v, want at least the Crawl-delay", i, last)
		}
	}
	if last != 7*time.Second {
		t.Errorf("the last gap is %v, want the Crawl-delay", last)
	}
}

// TestAdaptiveDelayIsForgotten: a host without items is remembered for two delays, but does not count as resting.
func TestAdaptiveDelayIsForgotten(t *testing.T) {
	v := newVisitor(t, adaptive())
	v.warm()
	v.now = v.now.Add(79 * time.Second)
	v.s.Next(v.now)
	if u := v.s.Use(); u.Resting != 0 || u.Bare != 0 {
		t.Errorf("%+v: want no host that rests", u)
	}
	if gap := v.visit(quick()); gap != 0 {
		t.Errorf("a visit after 79 s waits %v, want none", gap)
	}
	if gap := v.visit(quick()); gap != time.Second {
		t.Errorf("the next gap is %v, want the minimum", gap)
	}
	v.now = v.now.Add(80 * time.Second)
	v.s.Next(v.now)
	if hosts, _ := v.s.Tables(); hosts != 0 || v.s.Adapted().Hosts != 0 {
		t.Errorf("%d hosts are in the table, %d adapted, want none", hosts, v.s.Adapted().Hosts)
	}
	v.visit(quick())
	if gap := v.visit(quick()); gap != 40*time.Second {
		t.Errorf("the gap after that is %v, want the base delay", gap)
	}
}

// TestAdaptiveDelayIsBounded: with random answers, budgets and Crawl-delays no gap is below the minimum, the
// Crawl-delay, the factor, the back-off, or, after strain, the base delay; and none is above what a scheduler
// without adaptive delays demands. A restart begins at the base delay.
func TestAdaptiveDelayIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 3))
	opt := adaptive()
	for range 200 {
		v := newVisitor(t, opt)
		v.it.Budget = uint32(rng.IntN(60))
		v.it.CrawlDelay = time.Duration(rng.IntN(2)*rng.IntN(20)) * time.Second
		usual := time.Duration(rng.IntN(2000)) * time.Millisecond
		base := opt.DelayAfter(v.it.Budget, 0, polite.Result{})
		var last polite.Result
		for i := range 100 {
			if i > 0 && rng.IntN(50) == 0 {
				opt := opt
				opt.Visited = v.now
				v.s, last = polite.New(opt, v.now), polite.Result{Sign: polite.Strain}
			}
			r := polite.Result{Elapsed: time.Duration(float64(usual) * (0.5 + rng.Float64())), Sign: polite.Clean}
			switch rng.IntN(40) {
			case 0:
				r.Sign = polite.Strain
			case 1:
				r.Sign, r.Backoff = polite.Strain, time.Duration(rng.IntN(100))*time.Second
			case 2:
				r.Elapsed *= 20
			case 3:
				r = polite.Result{}
			}
			gap := v.visit(r)
			if i > 0 {
				least, most := opt.HostDelayMin, opt.DelayAfter(v.it.Budget, v.it.CrawlDelay, last)
				least = max(least, v.it.CrawlDelay, min(10*last.Elapsed, opt.MaxCrawlDelay), last.Backoff)
				if last.Sign == polite.Strain {
					least = max(least, base)
				}
				if gap < least || gap > most {
					t.Fatalf("gap %d after %+v is %v, want between %v and %v", i, last, gap, least, most)
				}
			}
			last = r
		}
	}
}

// TestAdaptiveDelayIsOffByDefault: without Options.Adaptive the signs change nothing.
func TestAdaptiveDelayIsOffByDefault(t *testing.T) {
	opt := adaptive()
	opt.Adaptive = false
	v := newVisitor(t, opt)
	v.visit(quick())
	for range 50 {
		if gap := v.visit(quick()); gap != 40*time.Second {
			t.Fatalf("gap %v, want the base delay", gap)
		}
	}
	if p, _ := v.s.PaceOf(1); v.s.Adapted() != (polite.Adapted{}) || p.Steps != 0 || p.Answer != 0 {
		t.Errorf("%+v, %+v: want no figures", v.s.Adapted(), p)
	}
	opt.Adaptive, opt.ResponseFactor = true, 0
	if opt.Validate() == nil {
		t.Error("adaptive delays without a factor are valid")
	}
}

// TestAdaptiveDelayBringsURLsBack: the deferred URLs of a host return at the pace that it will have, also if
// it shows strain on the way, and each at most a few times.
func TestAdaptiveDelayBringsURLsBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	const urls = 1000
	for name, strain := range map[string]int{"clean": 0, "strain every 100": 100, "strain every 5": 5} {
		opt := adaptive()
		opt.MaxPerHost, opt.Ahead = 4, time.Minute
		s := polite.New(opt, t0)
		var disk []*polite.Item
		deferrals, done, starved := 0, 0, time.Duration(0)
		for range urls {
			it := item(1, 1, v4(1))
			it.Due = t0
			disk = append(disk, it)
		}
		var end time.Time
		now := t0
		for done < urls {
			var rest []*polite.Item
			for _, it := range disk {
				if !it.Due.After(now) {
					if s.Admit(now, it).Kind == polite.Admitted {
						continue
					}
					it.Waits++
					deferrals++
				}
				rest = append(rest, it)
			}
			disk = rest
			if g, _ := s.Next(now); g != nil {
				p, _ := s.PaceOf(1)
				if done > 0 {
					starved += max(0, now.Sub(end)-p.Delay-time.Second)
				}
				r := quick()
				if done++; strain > 0 && done%strain == 0 {
					r.Sign = polite.Strain
				}
				s.Started(now, g)
				s.Done(now, g, r)
				end = now
			}
			now = now.Add(ms(500))
		}
		took := now.Sub(t0)
		t.Logf("%s: %d URLs in %v, %.1f deferrals a URL, without URLs for %v", name, urls, took,
			float64(deferrals)/urls, starved)
		if starved > took/5 || deferrals > 8*urls {
			t.Errorf("%s: without URLs for %v of %v, %d deferrals of %d URLs", name, starved, took, deferrals, urls)
		}
	}
}

// TestDelaysOfAdaptedHosts: a host that is kept only for its adapted delay must not be listed among the long delays,
// which a restart would apply to it.
func TestDelaysOfAdaptedHosts(t *testing.T) {
	opt := paper()
	opt.Adaptive, opt.ResponseFactor = true, 1
	s := polite.New(opt, t0)
	at := t0
	for range 6 {
		admit(t, s, at, item(1, 1, v4(1)))
		g, wait := s.Next(at)
		for g == nil {
			at = at.Add(wait)
			g, wait = s.Next(at)
		}
		s.Started(at, g)
		at = at.Add(ms(10))
		s.Done(at, g, polite.Result{Elapsed: ms(10), Sign: polite.Clean})
	}
	pace, ok := s.PaceOf(item(1, 1, v4(1)).Host)
	if !ok || pace.Steps == 0 {
		t.Fatalf("the host has not adapted: %+v", pace)
	}
	at = at.Add(pace.Delay + time.Second)
	s.Next(at)
	if delays := s.Delays(at); len(delays) > 0 {
		t.Errorf("%d long delays, the first until %v later", len(delays), delays[0].Until.Sub(at))
	}
}
