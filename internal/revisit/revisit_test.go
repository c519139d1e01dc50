package revisit

import (
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"testing"
	"time"
)

var seed = flag.Int64("seed", 1, "seed of random tests")

const day = 24 * time.Hour

func policy() Policy { return Policy{Least: time.Hour, Longest: 30 * day, Default: 7 * day, Gone: 2} }

// visits simulates a page that changes at random, on average once in mean, for the given time. It returns the
// visits, those that found a change, and the share of the time during which the last visit's body was the
// current one.
func visits(p Policy, mean, total time.Duration, rng *rand.Rand) (n, found int, fresh float64, last time.Duration) {
	var h History
	start := time.Unix(1e9, 0)
	version, next := uint64(1), time.Duration(rng.ExpFloat64()*float64(mean))
	freshFor, at, stale := time.Duration(0), time.Duration(0), time.Duration(-1)
	for at < total {
		if p.Note(&h, &Outcome{At: start.Add(at), Body: version}) {
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

// TestProportional: the interval follows the mean time between changes, over two orders of magnitude, and
// stays within its bounds.
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

// TestUniform: for the same number of visits to pages of unequal rates, the uniform policy has the higher
// freshness, as Cho and Garcia-Molina prove, and the proportional one finds more of what changes slowly in
// fewer visits.
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
	same := Policy{Kind: Uniform, Least: p.Least, Longest: p.Longest, Gone: 2}
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
	p.Note(&h, &Outcome{At: time.Unix(1e9, 0), Body: 1})
	for fresh, want := range map[time.Duration]time.Duration{0: 7 * day, day: 7 * day, 10 * day: 10 * day,
		500 * day: 30 * day} {
		if wait, _ := p.Next(&h, fresh); wait != want {
			t.Errorf("fresh for %v: visited after %v, want %v", fresh, wait, want)
		}
	}
}

// TestBelief compares the mean rate that is believed with the true one after visits at irregular intervals,
// and what of it is left after many visits that are sure to find a change.
func TestBelief(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(*seed), 2))
	for _, perVisit := range []float64{0.1, 0.5, 1, 2} { // changes expected in an interval
		sum, later, shape := 0.0, 0.0, 0.0
		const runs = 1000
		for range runs {
			b := prior(1000 * time.Second)
			for range 60 {
				seconds := 1000 * (0.2 + 1.6*rng.Float64())
				if rng.Float64() < -math.Expm1(-perVisit/1000*seconds) {
					b = b.changed(seconds)
				} else {
					b = b.quiet(seconds)
				}
			}
			sum += 1000 * b.Shape / b.Scale / runs
			shape += b.Shape / runs
			for range 100 {
				b = b.changed(100_000)
			}
			later += 1000 * b.Shape / b.Scale / runs
		}
		if math.Abs(sum-perVisit) > 0.2*perVisit {
			t.Errorf("%.1f changes an interval: %.3f believed", perVisit, sum)
		}
		if shape < 2 && perVisit > 0.2 {
			t.Errorf("%.1f changes an interval: shape %.2f", perVisit, shape)
		}
		if perVisit >= 0.5 && (later < sum/2 || later > 2*sum) {
			t.Errorf("%.1f changes an interval: %.3f believed, then %.3f", perVisit, sum, later)
		}
	}
}

// TestBeliefIsBayes compares the moments of beliefs with those of the exact distribution, by integration.
func TestBeliefIsBayes(t *testing.T) {
	moments := func(b Belief, seconds float64) (mean, square float64) {
		var sum float64
		for l := -16.0; l < 5; l += 0.002 { // x = exp(l)/Scale
			x := math.Exp(l) / b.Scale
			w := math.Exp(b.Shape*l-x*b.Scale) * -math.Expm1(-x*seconds)
			sum, mean, square = sum+w, mean+w*x, square+w*x*x
		}
		return mean / sum, square / sum
	}
	for _, b := range []Belief{{0.5, 1000}, {1, 1}, {3, 1e6}, {10, 50}} {
		b.Shape = max(b.Shape, priorShape)
		for _, seconds := range []float64{0.01, 1, 300, 1e5, 1e7} {
			mean, square := moments(b.fade(), seconds)
			got := b.changed(seconds)
			gotMean, gotSquare := got.Shape/got.Scale, got.Shape*(got.Shape+1)/(got.Scale*got.Scale)
			if math.Abs(gotMean-mean) > 0.01*mean || math.Abs(gotSquare-square) > 0.02*square {
				t.Errorf("%+v, changed within %v: mean %g, want %g, square %g, want %g", b, seconds, gotMean, mean,
					gotSquare, square)
			}
			gain := b.gain(seconds)
			var want, sum float64
			for l := -30.0; l < 5; l += 0.002 {
				x := math.Exp(l) / b.Scale
				w := math.Exp(b.Shape*l - x*b.Scale)
				y := x * seconds
				part := (1 - (1+y)*math.Exp(-y)) / x
				if y < 1e-4 { // where the difference is not exact
					part = y * y / 2 / x
				}
				sum, want = sum+w, want+w*part
			}
			if want /= sum; math.Abs(gain-want) > 0.01*want+1e-9*seconds {
				t.Errorf("%+v, visits each %v s: gain %g, want %g", b, seconds, gain, want)
			}
			if i := b.intervalOf(gain, seconds/1000, seconds*1000); math.Abs(i-seconds) > 0.02*seconds &&
				gain > 1e-6*seconds && b.gain(i) != gain && b.gain(seconds*1.01) > gain*1.0001 {
				t.Errorf("%+v: interval %g for the gain of %g", b, i, seconds)
			}
		}
	}
}

// TestMargin: it comes to rest where the visits are as many as with the uniform policy, from any start, and
// starts from what was saved if that is a margin.
func TestMargin(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	p := policy()
	p.Kind = Optimal
	for _, start := range []float64{0, 1, 1e6, math.NaN(), -1, math.Inf(1)} {
		var m Margin
		m.Set(start, &p)
		if got := m.Seconds(); start == 1 && got != 1 || !(got >= minMargin && got <= maxMargin) {
			t.Errorf("started at %v with %v", start, got)
		}
		// Pages of known rates; the one that is due first is visited.
		rates := []float64{1e-7, 1e-6, 1e-5, 1e-4, 1e-3}
		last, next := make([]float64, len(rates)), make([]float64, len(rates))
		visits, now := 0, 0.0
		for range 200_000 {
			i := 0
			for j := range next {
				if next[j] < next[i] {
					i = j
				}
			}
			now = next[i]
			p.Margin = m.Seconds()
			wait := p.interval(Belief{1e4, 1e4 / rates[i]})
			m.Note(&p, time.Duration((now-last[i])*1e9), time.Duration(wait*1e9), 500)
			last[i], next[i] = now, now+wait
			if now > 1000*float64(day/time.Second) {
				visits++
			}
		}
		budget := (now - 1000*float64(day/time.Second)) / p.Default.Seconds() * float64(len(rates))
		if math.Abs(float64(visits)/budget-1) > 0.02 {
			t.Errorf("from %v: %d visits, want %.0f", start, visits, budget)
		}
	}
	var m Margin
	m.Set(7, nil)
	if m.Seconds() != 7 {
		t.Errorf("kept %v, want 7", m.Seconds())
	}
}

// TestModified: a date of the last change that can be believed tells more than that there was one.
func TestModified(t *testing.T) {
	p := policy()
	at := time.Unix(1e9, 0)
	date := func(ago time.Duration) string { return at.Add(-ago).UTC().Format(http.TimeFormat) }
	mean := func(modified ...string) float64 {
		var h History
		for i, m := range modified {
			p.Note(&h, &Outcome{At: at.Add(time.Duration(i) * day), Body: uint64(i + 1), Modified: m})
		}
		return h.Belief.Scale / h.Belief.Shape
	}
	if never, now := mean(""), mean(date(time.Second)); never != now || mean("yesterday") != never ||
		mean(date(-day)) != never {
		t.Errorf("dates that say nothing: %g, %g, %g, %g", never, now, mean("yesterday"), mean(date(-day)))
	}
	if old, young := mean(date(3000*day)), mean(date(time.Hour)); old < 10*young {
		t.Errorf("mean intervals of %g s for an old page, %g s for a young one", old, young)
	}
	if late, early := mean("", date(-23*time.Hour)), mean("", date(-time.Hour)); late >= early {
		t.Errorf("changed an hour ago: mean interval %g s, 23 hours ago: %g s", late, early)
	}
	if old, none := mean("", date(day)), mean("", ""); old != none {
		t.Errorf("a change that is dated before the last visit: %g s, without a date %g s", old, none)
	}
}

// TestGone: a page that is missing is looked for again, and given up after as many visits as the policy says.
// One that is back is a change.
func TestGone(t *testing.T) {
	p := policy()
	var h History
	at := time.Unix(1e9, 0)
	step := func(o Outcome) (changed, gone bool) {
		o.At = at
		at = at.Add(day)
		changed = p.Note(&h, &o)
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
	p.Note(&h, &Outcome{At: at, Body: 1, ETag: string(make([]byte, maxETag+1)), Modified: "Tue"})
	if h.ETag != "" || h.Modified != "Tue" {
		t.Errorf("validators %q, %q", h.ETag, h.Modified)
	}
	back := h
	p.Note(&back, &Outcome{At: at.Add(-time.Hour), Body: 1}) // the clock was set back
	if back.Last != h.Last || back.Belief != h.Belief {
		t.Errorf("after a clock that was set back: %+v", back)
	}
}

// TestHistoryGolden: the coding is the documented one, and version 1 is still read.
func TestHistoryGolden(t *testing.T) {
	h := History{Last: 300, Interval: 60, Visits: 2, Belief: Belief{0.5, 2}, Body: 0x0102030405060708,
		Captured: 299, Missing: 1, ETag: `"a"`, Modified: "b"}
	want := "\x02\x2f\xac\x02\x3c\x02\x80\x04\x00\x00\x00\x40\x08\x07\x06\x05\x04\x03\x02\x01\x02\x01\x03\"a\"\x01b"
	if got := string(h.Append(nil)); got != want {
		t.Errorf("got % x, want % x", got, want)
	}
	h = History{Last: 300, Interval: 60, Belief: Belief{0.5, 2}, Copy: true}
	if got := string(h.Append(nil)); got != "\x02\x40\xac\x02\x3c\x00\x80\x04\x00\x00\x00\x40" {
		t.Errorf("a copy: got % x", got)
	}
	h = History{Last: 300, Interval: 60, Belief: Belief{0.5, 2}, Modified: "Thu, 01 Jan 1970 00:01:04 GMT"}
	if got := string(h.Append(nil)); got != "\x02\x10\xac\x02\x3c\x00\x80\x04\x00\x00\x00\x40\x80\x01" {
		t.Errorf("got % x", got)
	}
	old := "\x01\xac\x02\x3c\x02\x01\x82\x01\x08\x07\x06\x05\x04\x03\x02\x01\x81\x01\x01\x03\"a\"\x01b"
	if err := h.Decode([]byte(old)); err != nil || h.Last != 300 || h.Interval != 60 || h.Visits != 2 ||
		h.Captured != 129 || h.Missing != 1 || h.ETag != `"a"` || h.Modified != "b" || h.Belief.Shape <= 0 {
		t.Errorf("version 1: %+v, %v", h, err)
	}
	h = History{Listed: 300}
	if got := string(h.Append(nil)); got != "\x03\xac\x02" || Visited([]byte(got)) ||
		!Visited([]byte(want)) || Visited(nil) {
		t.Errorf("of a sitemap: % x", got)
	}
	for _, bad := range []string{"\x03", "\x03\x00", "\x04", want[:len(want)-1], want + "x", "\x02\x2f\x00" + want[4:],
		"\x02\xaf" + want[2:], "\x02\x3f" + want[2:], old[:len(old)-1], "\x01\x00" + old[3:],
		"\x01\xac\x02\x3c\x01\x02" + old[6:]} {
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

// FuzzHistory: any bytes are a History with exactly that coding, or an older one, or are refused.
func FuzzHistory(f *testing.F) {
	h := History{Last: 1e9, Interval: 3600, Visits: 5, Belief: Belief{2, 1e6}, Body: 7,
		Captured: 1e9 - 5, ETag: `W/"x"`, Modified: "Tue, 15 Nov 1994 12:45:26 GMT"}
	f.Add(h.Append(nil))
	h.Modified = "some day"
	f.Add(h.Append(nil))
	f.Add([]byte("\x01\xac\x02\x3c\x02\x01\x82\x01\x08\x07\x06\x05\x04\x03\x02\x01\x81\x01\x01\x03\"a\"\x01b"))
	f.Add([]byte{2, 0x80})
	f.Add([]byte{3, 0xac, 2})
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
		if b[0] != 1 && string(coded) != string(b) || len(coded) > MaxBytes {
			t.Errorf("% x is coded as % x", b, coded)
		}
		if err := again.Decode(coded); err != nil || b[0] != 1 && !reflect.DeepEqual(h, again) {
			t.Errorf("%+v, %+v, %v", h, again, err)
		}
	})
}

// TestWeight: a weight divides the interval of Proportional; with Optimal a visit of a page of weight 4 gains, by its
// weight, as much as that of another page.
func TestWeight(t *testing.T) {
	b := Belief{Shape: 8, Scale: 8 * 48 * time.Hour.Seconds()}
	p := Policy{Least: time.Minute, Longest: MaxInterval, Default: 7 * 24 * time.Hour, Gone: 2, Importance: 0.5}
	p.Weigh(160, 10)
	if p.Weight != 4 {
		t.Errorf("weight %g, want 4", p.Weight)
	}
	if got, want := p.interval(b), b.Scale/b.Shape/4; got != want {
		t.Errorf("proportional: %g s, want %g s", got, want)
	}
	p.Kind, p.Margin = Optimal, 20_000
	heavy := p.interval(b)
	p.Weigh(10, 10)
	light := p.interval(b)
	if a, b := 4*b.gain(heavy), b.gain(light); math.Abs(a-b) > b/100 || heavy > light/1.5 {
		t.Errorf("after %g s a visit gains %g, after %g s %g", heavy, a, light, b)
	}
	for _, wrong := range []float64{-0.1, 1.1, math.NaN()} {
		p.Importance = wrong
		if p.Validate() == nil {
			t.Errorf("an importance of %g is valid", wrong)
		}
	}
}

// TestCopy: a copy is visited less, within the longest interval, until its body is one of its own.
func TestCopy(t *testing.T) {
	p := policy()
	p.Copies = 4
	var h History
	at := time.Unix(1e9, 0)
	visited := func(o Outcome) time.Duration {
		o.At = at
		p.Note(&h, &o)
		p.Next(&h, 0)
		return time.Duration(h.Interval) * time.Second
	}
	plain := visited(Outcome{Body: 1})
	p.Copy(&h)
	if got := time.Duration(h.Interval) * time.Second; !h.Copy || got != 4*plain {
		t.Errorf("a copy after %s, another page after %s", got, plain)
	}
	h.Interval = uint32(20 * day / time.Second)
	if p.Copy(&h); h.Due().Sub(at) != p.Longest {
		t.Errorf("beyond the longest interval: %s", h.Due().Sub(at))
	}
	if visited(Outcome{Same: true}); !h.Copy {
		t.Error("a copy that has not changed is none")
	}
	if visited(Outcome{Body: 2}); h.Copy {
		t.Error("a copy for good")
	}
	h.Interval = uint32(90 * day / time.Second) // of an earlier policy
	if p.Copy(&h); h.Due().Sub(time.Unix(h.Last, 0)) != 90*day {
		t.Error("a copy became due earlier")
	}
}
