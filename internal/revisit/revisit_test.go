package revisit

import (
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

var seed = flag.Int64("seed", 1, "seed of random tests")

const day = 24 * time.Hour

func policy() Policy {
	return Policy{Least: time.Hour, Longest: 30 * day, Default: 7 * day, Gone: 2}
}

// visits simulates a page that changes at random, on average once in mean, for the given time. It returns the visits,
// those that found a change, and the share of the time during which the last visit's body was the current one.
func visits(p Policy, mean, total time.Duration, rng *rand.Rand) (n, found int, fresh float64, last time.Duration) {
	var h History
	start := time.Unix(1e9, 0)
	version, next := uint64(1), time.Duration(rng.ExpFloat64()*float64(mean))
	freshFor, at, stale := time.Duration(0), time.Duration(0), time.Duration(-1)
	for at < total {
		if h.Note(&Outcome{At: start.Add(at), Body: version}) {
			found++
		}
		wait, _ := p.Next(&h, 0)
		n, last, stale = n+1, wait, -1
		end := min(at+wait, total)
		for next < end {
			if stale < 0 {
				stale = next
			}
			version++
			next += time.Duration(rng.ExpFloat64() * float64(mean))
		}
		if stale < 0 {
			stale = end
		}
		freshFor += stale - at
		at += wait
	}
	return n, found, float64(freshFor) / float64(total), last
}

// TestProportional: the interval follows the mean time between changes, over two orders of magnitude, and stays within
// its bounds.
func TestProportional(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(*seed), 0))
	for _, mean := range []time.Duration{6 * time.Hour, 2 * day, 10 * day} {
		sum, runs := time.Duration(0), 40
		for range runs {
			_, _, _, last := visits(policy(), mean, 3000*day, rng)
			sum += last
		}
		if got := sum / time.Duration(runs); got < mean/2 || got > mean*5/2 {
			t.Errorf("changes each %v: visits each %v on average", mean, got)
		}
	}
	_, _, fresh, last := visits(policy(), 10000*day, 3000*day, rng)
	if last != 30*day || fresh < 0.95 {
		t.Errorf("a page that hardly changes: visited each %v, fresh for %.2f of the time", last, fresh)
	}
	if _, _, _, last := visits(policy(), time.Minute, 200*day, rng); last != time.Hour {
		t.Errorf("a page that changes each minute: visited each %v", last)
	}
}

// TestUniform: for the same number of visits to pages of unequal rates, the uniform policy has the higher freshness, as
// Cho and Garcia-Molina prove, and the proportional one finds more of what changes slowly in fewer visits.
func TestUniform(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(*seed), 1))
	means := []time.Duration{3 * time.Hour, day, 5 * day, 20 * day, 60 * day}
	run := func(p Policy) (n int, fresh float64) {
		for range 20 {
			for _, mean := range means {
				m, _, f, _ := visits(p, mean, 1000*day, rng)
				n, fresh = n+m, fresh+f/float64(20*len(means))
			}
		}
		return n, fresh
	}
	p := policy()
	n, proportional := run(p)
	same := Policy{Uniform: true, Least: p.Least, Longest: p.Longest, Gone: 2}
	same.Default = time.Duration(float64(1000*day) * float64(20*len(means)) / float64(n)) // as many visits
	m, uniform := run(same)
	t.Logf("proportional: %d visits, freshness %.3f; uniform: %d visits, %.3f", n, proportional, m, uniform)
	if uniform <= proportional {
		t.Errorf("freshness %.3f with the uniform policy, %.3f with the proportional one", uniform, proportional)
	}
}

// TestFresh: a page that says how long it stays as it is is not visited before that, until its rate is known.
func TestFresh(t *testing.T) {
	p := policy()
	var h History
	h.Note(&Outcome{At: time.Unix(1e9, 0), Body: 1})
	for fresh, want := range map[time.Duration]time.Duration{0: 7 * day, day: 7 * day, 10 * day: 10 * day, 500 * day: 30 * day} {
		if wait, _ := p.Next(&h, fresh); wait != want {
			t.Errorf("fresh for %v: visited after %v, want %v", fresh, wait, want)
		}
	}
}

// TestRate compares the estimator with the true rate, also where most intervals have several changes.
func TestRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(*seed), 2))
	for _, perVisit := range []float64{0.1, 0.5, 1, 2} { // changes expected in an interval
		sum := 0.0
		for range 2000 {
			h := History{Visits: 20, Watched: 20 * 1000}
			for range 20 {
				if rng.Float64() < 1-math.Exp(-perVisit) {
					h.Changes++
				}
			}
			rate, ok := h.Rate()
			if !ok {
				t.Fatal("no rate after 20 visits")
			}
			sum += rate * 1000
		}
		if got := sum / 2000; math.Abs(got-perVisit) > 0.1*perVisit {
			t.Errorf("%.1f changes an interval: estimated %.3f", perVisit, got)
		}
	}
	h := History{Visits: 1, Watched: 1000}
	if _, ok := h.Rate(); ok {
		t.Error("a rate after one visit")
	}
}

// TestGone: a page that is missing is looked for again, and given up after as many visits as the policy says. One that
// is back is a change.
func TestGone(t *testing.T) {
	p := policy()
	var h History
	at := time.Unix(1e9, 0)
	step := func(o Outcome) (changed, gone bool) {
		o.At = at
		at = at.Add(day)
		changed = h.Note(&o)
		_, gone = p.Next(&h, 0)
		return changed, gone
	}
	for i, want := range []struct {
		o             Outcome
		changed, gone bool
	}{
		{Outcome{Body: 1, ETag: "x"}, false, false},
		{Outcome{Same: true}, false, false},
		{Outcome{Body: 1}, false, false},
		{Outcome{Missing: true}, true, false},
		{Outcome{Body: 2}, true, false},
		{Outcome{Missing: true}, true, false},
		{Outcome{Missing: true}, false, true},
	} {
		if changed, gone := step(want.o); changed != want.changed || gone != want.gone {
			t.Errorf("visit %d: changed %v, gone %v, want %v, %v", i, changed, gone, want.changed, want.gone)
		}
	}
	h = History{}
	h.Note(&Outcome{At: at, Body: 1, ETag: string(make([]byte, maxETag+1)), Modified: "Tue"})
	if h.ETag != "" || h.Modified != "Tue" {
		t.Errorf("validators %q, %q", h.ETag, h.Modified)
	}
	back := h
	back.Note(&Outcome{At: at.Add(-time.Hour), Body: 1}) // the clock was set back
	if back.Last != h.Last || back.Watched != 0 {
		t.Errorf("after a clock that was set back: %+v", back)
	}
}

// TestHistoryGolden: the coding is the documented one.
func TestHistoryGolden(t *testing.T) {
	h := History{Last: 300, Interval: 60, Visits: 2, Changes: 1, Watched: 130, Body: 0x0102030405060708, Captured: 129, Missing: 1, ETag: `"a"`, Modified: "b"}
	want := "\x01\xac\x02\x3c\x02\x01\x82\x01\x08\x07\x06\x05\x04\x03\x02\x01\x81\x01\x01\x03\"a\"\x01b"
	if got := string(h.Append(nil)); got != want {
		t.Errorf("got % x, want % x", got, want)
	}
	for _, bad := range []string{"\x02", want[:len(want)-1], want + "x", "\x01\x00" + want[3:], "\x01\xac\x02\x3c\x01\x02" + want[6:]} {
		var h History
		if err := h.Decode([]byte(bad)); !errors.Is(err, ErrHistory) {
			t.Errorf("% x: %v", bad, err)
		}
	}
}

// TestValidate: each bound is checked.
func TestValidate(t *testing.T) {
	ok := policy()
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Policy){
		func(p *Policy) { p.Least = time.Millisecond }, func(p *Policy) { p.Longest = p.Least - 1 },
		func(p *Policy) { p.Longest = MaxInterval + 1 }, func(p *Policy) { p.Default = p.Longest + 1 },
		func(p *Policy) { p.Default = p.Least - 1 }, func(p *Policy) { p.Gone = 0 }, func(p *Policy) { p.Gone = 101 },
	} {
		p := policy()
		change(&p)
		if p.Validate() == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
}

// FuzzHistory: any bytes are a History with exactly that coding, or are refused.
func FuzzHistory(f *testing.F) {
	h := History{Last: 1e9, Interval: 3600, Visits: 5, Changes: 2, Watched: 1e6, Body: 7, ETag: `W/"x"`, Modified: "Tue, 15 Nov 1994 12:45:26 GMT"}
	f.Add(h.Append(nil))
	f.Add([]byte{1, 0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again History
		if err := h.Decode(b); err != nil {
			if h != (History{}) {
				t.Errorf("an error and %+v", h)
			}
			return
		}
		if len(b) == 0 {
			return
		}
		coded := h.Append(nil)
		if string(coded) != string(b) || len(coded) > MaxBytes {
			t.Errorf("% x is coded as % x", b, coded)
		}
		if err := again.Decode(coded); err != nil || !reflect.DeepEqual(h, again) {
			t.Errorf("%+v, %+v, %v", h, again, err)
		}
	})
}
