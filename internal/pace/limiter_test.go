package pace

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// use is a use of units at a time since the start.
type use struct {
	at    time.Duration
	units float64
}

// uses is a log of uses that starts at begin.
type uses struct {
	mu    sync.Mutex // guards list
	begin time.Time
	list  []use
}

func (u *uses) add(units float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, use{time.Since(u.begin), units})
}

// checkWindows checks the use in every window of 10 s. The upper bound is 1.05 times the allowed units, or
// the allowed units plus slack. Between full and end the lower bound is least times the allowed units,
// minus unit.
func (u *uses) checkWindows(t *testing.T, allowed func(from, to time.Duration) float64,
	slack, unit, least float64, full, end time.Duration) {
	t.Helper()
	const window = 10 * time.Second
	sum, j := 0.0, 0
	for i, first := range u.list {
		for ; j < len(u.list) && u.list[j].at < first.at+window; j++ {
			sum += u.list[j].units
		}
		want := allowed(first.at, first.at+window)
		if sum > max(1.05*want, want+slack) {
			t.Fatalf("%v used in the 10 s from %v on, %v allowed", sum, first.at, want)
		}
		if first.at >= full && first.at+window <= end && sum < least*want-unit {
			t.Fatalf("%v used in the 10 s from %v on, too little: %v allowed", sum, first.at, want)
		}
		if sum -= first.units; i == len(u.list)-1 && sum > 1e-6 {
			t.Fatalf("BUG in the test: %v left", sum)
		}
	}
}

// take waits until the limiter is ready, and takes.
func take(l interface{ Ready(time.Time) time.Duration }) {
	for {
		d := l.Ready(time.Now())
		if d == 0 {
			break
		}
		time.Sleep(d)
	}
	switch l := l.(type) {
	case *Rate:
		l.Take(time.Now())
	case *Bandwidth:
		l.Take(time.Now(), Page)
	}
}

// startAt advances a bubble's clock to a Monday.
func startAt(hour, minute int) {
	time.Sleep(time.Until(time.Date(2026, 1, 5, hour, minute, 0, 0, time.UTC)))
}

// TestRateIsHeld takes pages at small and large rates: from the start, after a pause, across changes, and
// with pages that are given back.
func TestRateIsHeld(t *testing.T) {
	for _, text := range []string{"0.3", "1", "7", "19", "20", "200", "5000"} {
		synctest.Test(t, func(t *testing.T) {
			s := mustParse(t, text, Pages)
			rate := s.At(time.Now())
			startAt(8, 0)
			l, log := NewRate(s, time.Now()), &uses{begin: time.Now()}
			rnd := rand.New(rand.NewPCG(1, 1))
			for time.Since(log.begin) < 30*time.Second {
				take(l)
				if rnd.IntN(10) == 0 {
					l.Give(time.Now())
					continue
				}
				log.add(1)
			}
			allowed := func(from, to time.Duration) float64 { return rate * (to - from).Seconds() }
			log.checkWindows(t, allowed, 1.01, 1.01, 0.95, 0, 30*time.Second)
			time.Sleep(time.Minute) // units allowed in a pause expire
			log = &uses{begin: time.Now()}
			for time.Since(log.begin) < 20*time.Second {
				take(l)
				log.add(1)
			}
			log.checkWindows(t, allowed, 1.01, 1.01, 0.95, 0, 20*time.Second)
		})
	}
}

// TestRateChanges: a change applies within a second, whatever the wait before it was.
func TestRateChanges(t *testing.T) {
	for _, text := range []string{"08:00-09:00 100; else 5", "08:00-09:00 5; else 100",
		"08:00-09:00 100; else 0.01", "08:00-09:00 50; else pause",
		"08:00-09:00 5; else none"} {
		synctest.Test(t, func(t *testing.T) {
			s := mustParse(t, text, Pages).In(time.UTC)
			startAt(7, 59)
			l, log := NewRate(s, time.Now()), &uses{begin: time.Now()}
			for len(log.list) < 100_000 && time.Since(log.begin) < 2*time.Minute {
				take(l)
				log.add(1)
				time.Sleep(time.Millisecond) // "none" must not loop for ever
			}
			before, after := s.At(log.begin), s.At(log.begin.Add(time.Minute))
			allowed := func(from, to time.Duration) float64 {
				early := min(to, time.Minute) - min(from, time.Minute)
				sum := after * (to - from - early).Seconds()
				if early > 0 {
					sum += before * early.Seconds()
				}
				return sum
			}
			log.checkWindows(t, allowed, 1.01, 1.01, 0.95, time.Hour, 0)
			n := 0
			for _, u := range log.list {
				if u.at > time.Minute && u.at < 70*time.Second {
					n++
				}
			}
			if want := min(9*after, 8000); float64(n) < want {
				t.Errorf("%s: %d pages in the 10 s after the change, want at least %v", text, n, want)
			}
		})
	}
}

// TestBandwidthIsHeld starts exchanges of mixed sizes as the gate allows, and reads each by a Meter. The
// use never exceeds the limit. It may be an eighth lower where about 50 pages take 10 s and sites are slow:
// the gate can't know how much is about to come.
func TestBandwidthIsHeld(t *testing.T) {
	for _, c := range []struct {
		text string
		mean float64 // of an exchange
	}{{"64kbit", 1500}, {"4Mbit", 20e3}, {"20Mbit", 20e3}, {"1Gbit", 1e6}} {
		if testing.Short() && c.text == "20Mbit" {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			s := mustParse(t, c.text, Bits)
			rate := s.At(time.Now()) / 8
			l, log := NewBandwidth(s, time.Now()), &uses{begin: time.Now()}
			rnd := rand.New(rand.NewPCG(3, 3))
			var readers sync.WaitGroup
			most, n := 0, 0
			var mu sync.Mutex // guards most and n
			for time.Since(log.begin) < 40*time.Second {
				take(l)
				size := int(c.mean * rnd.ExpFloat64())
				latency := time.Duration(rnd.IntN(500)) * time.Millisecond
				readers.Add(1)
				go func() {
					defer readers.Done()
					mu.Lock()
					n++
					most = max(most, n)
					mu.Unlock()
					time.Sleep(latency)
					read(l, size, log)
					mu.Lock()
					n--
					mu.Unlock()
				}()
			}
			readers.Wait()
			allowed := func(from, to time.Duration) float64 { return rate * (to - from).Seconds() }
			log.checkWindows(t, allowed, 2*pieceLeast, c.mean, 0.88, 15*time.Second, 40*time.Second)
			t.Logf("%s: at most %d concurrent exchanges, %d reads", c.text, most, len(log.list))
		})
	}
}

// read reads size bytes by a Meter.
func read(l *Bandwidth, size int, log *uses) {
	var m Meter
	m.Begin(l)
	for size > 0 {
		n, d := m.Allow(time.Now(), size)
		if d > 0 {
			m.sleep(d)
			continue
		}
		log.add(float64(n))
		m.Used(time.Now(), n)
		size -= n
	}
	m.End(time.Now())
	l.Brought(Page, m.Received())
}

// sleep waits for Turn, at most d.
func (m *Meter) sleep(d time.Duration) {
	select {
	case <-m.Turn():
	case <-time.After(d):
	}
}

// TestMetersShare: readers of endless bodies get equal shares, and a later reader does not wait long.
func TestMetersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewBandwidth(mustParse(t, "8Mbit", Bits), time.Now())
		begin := time.Now()
		got := make([]int64, 8)
		var readers sync.WaitGroup
		for i := range got {
			readers.Add(1)
			go func() {
				defer readers.Done()
				var m Meter
				m.Begin(l)
				for time.Since(begin) < 20*time.Second {
					n, d := m.Allow(time.Now(), 1<<20)
					if d > 0 {
						m.sleep(d)
						continue
					}
					m.Used(time.Now(), n)
				}
				got[i] = m.Received()
				m.End(time.Now())
			}()
		}
		time.Sleep(10 * time.Second)
		late := time.Now()
		var m Meter
		m.Begin(l)
		for {
			n, d := m.Allow(time.Now(), 1000)
			if n > 0 {
				break
			}
			m.sleep(d)
		}
		if d := time.Since(late); d > 200*time.Millisecond {
			t.Errorf("a later reader waited for %v", d)
		}
		m.End(time.Now())
		readers.Wait()
		sum := int64(0)
		for _, n := range got {
			sum += n
			if n < 2_300_000 || n > 2_700_000 {
				t.Errorf("a reader got %d bytes in 20 s, want an eighth of 20,000,000", n)
			}
		}
		if sum < 19_500_000 || sum > 20_500_000 {
			t.Errorf("all got %d bytes, want 20,000,000", sum)
		}
	})
}

// TestNoLimiter: nil limiters have no limit.
func TestNoLimiter(t *testing.T) {
	var r *Rate
	var b *Bandwidth
	r.Take(time.Now())
	r.Give(time.Now())
	b.Take(time.Now(), Page)
	b.Give(time.Now(), Page)
	if r.Ready(time.Now()) != 0 || b.Ready(time.Now()) != 0 || r.Schedule().Limits() || b.Schedule().Limits() {
		t.Error("a nil limiter has a limit")
	}
	var m Meter
	m.Begin(b)
	if n, d := m.Allow(time.Now(), 77); n != 77 || d != 0 || m.Metered() {
		t.Errorf("got %d after %v", n, d)
	}
	m.Used(time.Now(), 77)
	m.End(time.Now())
}

func BenchmarkPage(b *testing.B) {
	pages, _ := Parse("mon-fri 08:00-20:00 1e6; sat,sun 1e6; else 1e6", Pages)
	bits, _ := Parse("mon-fri 08:00-20:00 1e13; else 1e13", Bits)
	for _, c := range []struct {
		name      string
		rate      *Rate
		bandwidth *Bandwidth
	}{{"limits=off", nil, nil}, {"limits=on", NewRate(pages, time.Now()), NewBandwidth(bits, time.Now())}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			now := time.Now()
			for b.Loop() {
				now = now.Add(time.Microsecond)
				c.rate.Ready(now)
				c.bandwidth.Ready(now)
				c.rate.Take(now)
				c.bandwidth.Take(now, Page)
				var m Meter
				m.Begin(c.bandwidth)
				for range 2 {
					n, _ := m.Allow(now, 10e3)
					m.Used(now, n)
				}
				m.End(now)
				c.bandwidth.Brought(Page, m.Received())
			}
		})
	}
}

// TestFull: the limit is used up while readers want more than it, not while they want a tenth, and never without a
// limit in force.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		startAt(8, 0)
		l := NewBandwidth(mustParse(t, "08:00-08:10 8Mbit", Bits), time.Now())
		log := &uses{begin: time.Now()}
		full := func(until, readEvery time.Duration) (n int) {
			t.Helper()
			var readers sync.WaitGroup
			for range 3 {
				readers.Go(func() {
					for time.Since(log.begin) < until {
						read(l, 50<<10, log)
						time.Sleep(readEvery)
					}
				})
			}
			for time.Since(log.begin) < until {
				time.Sleep(97 * time.Millisecond)
				if l.Full(time.Now()) {
					n++
				}
			}
			readers.Wait()
			return n
		}
		if n := full(20*time.Second, 0); n < 200 {
			t.Errorf("full at %d of 207 instants while readers want more", n)
		}
		if n := full(40*time.Second, 1500*time.Millisecond); n > 60 {
			t.Errorf("full at %d of 207 instants while readers want a tenth", n)
		}
		time.Sleep(10 * time.Minute)
		if n := full(650*time.Second, time.Second); n > 0 {
			t.Errorf("full at %d instants without a limit in force", n)
		}
		var none *Bandwidth
		if none.Full(time.Now()) {
			t.Error("full without a limiter")
		}
	})
}
