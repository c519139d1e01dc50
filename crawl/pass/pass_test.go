package pass

import (
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/state"
)

// idle has idle connections and nothing else.
type idle struct{}

func (idle) Exchanges() int64 { return 0 }
func (idle) Hungry() bool     { return false }
func (idle) Starved() bool    { return false }

// idleRunner returns a Runner of a crawl with idle connections.
func idleRunner(connections int) *Runner {
	p := New(account.New(nil, nil, nil), Options{Connections: connections}, nil)
	p.Wire(Others{Fetchers: idle{}, Requests: func() int { return 0 }})
	return p
}

// TestRobotsCacheIsNotPatient: URLs that wait in RobotsCache must not count as work for idle fetchers. When
// they did, a merge for 4,096 URLs among 10^6 origins waited 300 ms for more each time, and so did the
// fetchers.
func TestRobotsCacheIsNotPatient(t *testing.T) {
	p := idleRunner(256)
	const took = 2 * time.Millisecond
	last := time.Now()
	m := Merger{Passes: p, Keys: func() int64 { return 1_000_000 }, Cost: func() time.Duration { return took },
		Starving: p.StarvingForVerdicts}
	for _, test := range []struct {
		ready int64
		want  time.Duration
	}{{0, earlyDuty * took}, {127, earlyDuty * took}, {128, earlyPatience}} {
		p.run.Accounts.Do(func(a *state.Accounts) {
			a.Places[state.PlaceRobotsCheck].N, a.Places[state.PlaceReady].N = 4096, test.ready
		})
		if got := p.earlyDue(&m, 4096, last, took).Sub(last); got != test.want {
			t.Errorf("%d URLs ready: the merge waits %v, want %v", test.ready, got, test.want)
		}
	}
}

// TestLargePassesFollow: idle fetchers do not rest 3 times as long as a pass took if its tuples are many beside the
// store. A million links of a few pages made a pass of 400 ms, and the next one began 1.2 s later.
func TestLargePassesFollow(t *testing.T) {
	p := idleRunner(256)
	const took = 400 * time.Millisecond
	last := time.Now()
	starving := true
	m := Merger{Passes: p, Keys: func() int64 { return 400_000 }, Cost: func() time.Duration { return took },
		Starving: func() bool { return starving }}
	p.run.Accounts.Do(func(a *state.Accounts) { a.Places[state.PlaceRobotsCheck].N = 1 }) // something is left
	for _, test := range []struct {
		pending  int64
		starving bool
		want     time.Duration
	}{{50_000, true, mostRest}, {50_000, false, earlyDuty * took}, {49_999, true, earlyDuty * took}} {
		starving = test.starving
		if got := p.earlyDue(&m, test.pending, last, took).Sub(last); got != test.want {
			t.Errorf("%d tuples, starving %t: the next pass waits %v, want %v",
				test.pending, test.starving, got, test.want)
		}
	}
}

// TestFewTuplesFollowMany: after a pass that took long because of its tuples, idle fetchers rest by the time that the
// next one will take. While a host with 10^6 URLs was found, other hosts waited 0.9 s for passes of 25 ms.
func TestFewTuplesFollowMany(t *testing.T) {
	p := idleRunner(256)
	last := time.Now()
	var cost time.Duration
	var keys int64
	var starving bool
	m := Merger{Passes: p, Keys: func() int64 { return keys }, Cost: func() time.Duration { return cost },
		Starving: func() bool { return starving }}
	p.run.Accounts.Do(func(a *state.Accounts) { a.Places[state.PlaceRobotsCheck].N = 1 }) // something is left
	for _, test := range []struct {
		keys     int64
		cost     time.Duration
		starving bool
		want     time.Duration
	}{{1_000_000, 30 * time.Millisecond, true, 90 * time.Millisecond},
		{1_000_000, 30 * time.Millisecond, false, 900 * time.Millisecond},
		{1_000_000, time.Second, true, 900 * time.Millisecond},
		{400_000, 0, true, 30 * time.Millisecond}, {10_000, 0, true, earlyDuty * leastMerge}} {
		keys, cost, starving = test.keys, test.cost, test.starving
		if got := p.earlyDue(&m, 1000, last, 300*time.Millisecond).Sub(last); got != test.want {
			t.Errorf("a pass of %v over %d keys, starving %t: it waits %v, want %v", test.cost, test.keys,
				test.starving, got, test.want)
		}
	}
}

// TestPatienceCountsTime: a pass that brings hosts is worth 4 ms for each; patience grows if it took longer, or if it
// brought few of those that are visited.
func TestPatienceCountsTime(t *testing.T) {
	for _, test := range []struct {
		gain, exchanges int64
		took            time.Duration
		grows           bool
	}{{10, 100, 40 * time.Millisecond, false}, {10, 100, 41 * time.Millisecond, true}, {6, 100, time.Millisecond, true},
		{0, 0, leastMerge, true}, {1, 0, leastMerge, false}} {
		m := Merger{patience: 40 * time.Millisecond, filled: 1000}
		m.learn(1000+test.gain, test.exchanges, test.took)
		if m.patience > 40*time.Millisecond != test.grows {
			t.Errorf("%+v: patience is %v after 40 ms", test, m.patience)
		}
	}
}

// TestPassForAnOrder: a long pass waits up to 10 minutes for a few tuples, and at most a minute if an
// enqueued URL needs it.
func TestPassForAnOrder(t *testing.T) {
	p := idleRunner(256)
	var cost time.Duration
	var urgent bool
	last := time.Now()
	m := Merger{Passes: p, Keys: func() int64 { return 1_000_000 }, Cost: func() time.Duration { return cost },
		Starving: func() bool { return true }, Urgent: func() bool { return urgent }}
	for _, test := range []struct {
		cost   time.Duration
		urgent bool
		want   time.Duration
	}{{time.Second, false, 100 * time.Second}, {time.Minute, false, idlePatience},
		{time.Second, true, 10 * time.Second}, {time.Minute, true, UrgentPatience}} {
		cost, urgent = test.cost, test.urgent
		if got := p.earlyDue(&m, 1, last, leastMerge).Sub(last); got != test.want {
			t.Errorf("a pass of %v, urgent %t, waits %v, want %v", test.cost, test.urgent, got, test.want)
		}
	}
}

// TestMergerIsWokenIfItMatters: a transaction wakes a stage only if its pass would begin now, or earlier than
// planned.
func TestMergerIsWokenIfItMatters(t *testing.T) {
	p := idleRunner(256)
	var pending int64
	var full, early, starving, idle bool
	m := &Merger{Passes: p, Wake: account.NewSignal(), Pending: func() int64 { return pending },
		Full: func() bool { return full }, Early: func() bool { return early },
		Starving: func() bool { return starving }, Idle: func() bool { return idle }}
	for _, test := range []struct {
		pending                     int64
		full, early, starving, idle bool
		inRAM                       int64
		planned                     int32
		want                        bool
	}{
		{0, false, true, true, true, 0, noPass, false},        // nothing to merge
		{1, false, false, false, false, 0, patientPass, true}, // nothing in flight
		{1, false, true, true, true, 1, urgentPass, true},     // fetchers are idle for it
		{1, true, false, false, false, 1, noPass, true},
		{1, true, false, false, false, 1, urgentPass, true},
		{1, false, false, false, false, 1, noPass, false},
		{1, false, true, false, false, 1, noPass, true},
		{1, false, true, false, false, 1, patientPass, false},
		{1, false, true, true, false, 1, patientPass, true},
		{1, false, true, true, false, 1, urgentPass, false},
	} {
		pending, full, early, starving, idle = test.pending, test.full, test.early, test.starving, test.idle
		p.run.Accounts.Do(func(a *state.Accounts) { a.Places[state.PlaceRAM].N = test.inRAM })
		m.planned.Store(test.planned)
		m.Raise()
		woken := false
		select {
		case <-m.Wake:
			woken = true
		default:
		}
		if woken != test.want {
			t.Errorf("%+v: woken is %v", test, woken)
		}
	}
}
