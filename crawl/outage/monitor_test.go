package outage

import (
	"testing"
	"time"
)

// TestMonitor checks the rules by which an outage begins and ends.
func TestMonitor(t *testing.T) {
	now := time.Now()
	note := func(m *monitor, source uint64, got outcome) bool {
		now = now.Add(10 * time.Millisecond)
		return m.end(m.begin(), now, source, got, true, false)
	}
	t.Run("some dead servers are no outage", func(t *testing.T) {
		m := &monitor{patience: monitorPatience}
		for i := range uint64(10_000) {
			got := outcomeGood
			if i%10 == 0 {
				got = outcomeBad
			}
			if note(m, i, got) {
				t.Fatalf("outage after %d outcomes, one tenth of them failures", i)
			}
		}
		if m.mean < 0.05 || m.mean > 0.15 {
			t.Errorf("mean %.3f, want about 0.1", m.mean)
		}
	})
	t.Run("one server that fails repeatedly is no outage", func(t *testing.T) {
		m := &monitor{patience: monitorPatience}
		for range 1000 {
			if note(m, 1, outcomeBad) {
				t.Fatal("outage because of one server")
			}
		}
	})
	t.Run("unknown servers do not count", func(t *testing.T) {
		m := &monitor{patience: monitorPatience}
		for i := range uint64(1000) {
			if m.end(nil, now, i, outcomeBad, false, false) {
				t.Fatal("outage because of servers that never answered")
			}
		}
	})
	begin := func(t *testing.T) *monitor {
		m := &monitor{patience: monitorPatience}
		for i := range uint64(100) {
			note(m, i, outcomeGood)
		}
		for i := range uint64(monitorLast) {
			if note(m, i, outcomeBad) {
				return m
			}
		}
		t.Fatal("no outage although everything failed")
		return nil
	}
	t.Run("ends with good probes", func(t *testing.T) {
		m := begin(t)
		if m.mayTry(now); !m.mayTry(now) {
			t.Error("no probe allowed at once")
		}
		m.take(now)
		if m.mayTry(now.Add(Trickle/2)) || !m.mayTry(now.Add(Trickle)) {
			t.Error("probes must be one second apart")
		}
		for i := range uint64(50) {
			if note(m, i, outcomeBad) {
				t.Fatal("failures ended the outage")
			}
		}
		n := 0
		for !note(m, 1, outcomeGood) {
			if n++; n > probesLast {
				t.Fatalf("%d good probes did not end the outage", n)
			}
		}
	})
	t.Run("probes in flight count first", func(t *testing.T) {
		m := begin(t)
		slow := m.begin()
		for i := range uint64(20) {
			if note(m, i, outcomeGood) {
				t.Fatal("the outage ended although the first probe is still in flight")
			}
		}
		if !m.end(slow, now, 99, outcomeNone, true, false) {
			t.Error("the outage did not end when the first probe did")
		}
	})
	t.Run("half of the servers stay dead", func(t *testing.T) {
		m := begin(t)
		since := now
		for i := uint64(0); ; i++ {
			now = now.Add(time.Second)
			if note(m, i, []outcome{outcomeGood, outcomeBad}[i%2]) {
				break
			}
			if now.Sub(since) > 2*monitorPatience {
				t.Fatal("the outage did not end")
			}
		}
		if now.Sub(since) < monitorPatience {
			t.Errorf("ended after %v, want at least %v", now.Sub(since), monitorPatience)
		}
		for i := range uint64(1000) {
			if note(m, 1000+i, []outcome{outcomeGood, outcomeBad}[i%2]) {
				t.Fatal("another outage, although the share of failures did not change")
			}
		}
	})
	t.Run("canaries answer: the failures are the servers'", func(t *testing.T) {
		m := begin(t)
		if !m.answered(now) || m.isDown() {
			t.Fatal("fetching pauses although a canary answered")
		}
		since := now
		for i := uint64(0); ; i++ {
			doubts, over := m.doubts(now)
			if over {
				break
			}
			if !doubts || now.Sub(since) > monitorPatience {
				t.Fatalf("doubts %v after %v", doubts, now.Sub(since))
			}
			now = now.Add(time.Second)
			if note(m, i, outcomeBad) {
				if now.Sub(m.answeredAt) < CanaryGoodFor {
					t.Fatalf("outage %v after a canary answered", now.Sub(m.answeredAt))
				}
				m.answered(now)
			}
		}
		for i := uint64(0); i < 1000; i++ {
			now = now.Add(time.Second)
			if note(m, i, outcomeBad) && (!m.answered(now) || m.isDown()) {
				t.Fatal("fetching pauses although a canary answered")
			}
			if doubts, _ := m.doubts(now); doubts {
				t.Fatal("failures don't count, although nothing changed")
			}
		}
	})
	t.Run("failed servers come back", func(t *testing.T) {
		m := begin(t)
		m.answered(now)
		for i := range uint64(2 * probesLast) {
			note(m, i, outcomeGood)
		}
		if doubts, _ := m.doubts(now); doubts {
			t.Error("failures don't count although all servers answer")
		}
	})
	t.Run("nothing answers: the outage does not end", func(t *testing.T) {
		m := begin(t)
		for i := range uint64(100_000) {
			now = now.Add(time.Second)
			if note(m, i, outcomeBad) {
				t.Fatal("the outage ended although nothing answers")
			}
		}
	})
}
