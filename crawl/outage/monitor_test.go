package outage

import (
	"testing"
	"time"
)

// watch is a clock of a monitor.
type watch struct{ now time.Time }

func (w *watch) note(m *monitor, source uint64, got outcome) bool {
	w.now = w.now.Add(10 * time.Millisecond)
	return m.end(m.begin(), w.now, source, got, true, false)
}

// begin returns a monitor of an outage.
func (w *watch) begin(t *testing.T) *monitor {
	m := &monitor{patience: monitorPatience}
	for i := range uint64(100) {
		w.note(m, i, outcomeGood)
	}
	for i := range uint64(monitorLast) {
		if w.note(m, i, outcomeBad) {
			return m
		}
	}
	t.Fatal("no outage although everything failed")
	return nil
}

// TestMonitor checks the rules by which an outage begins and ends.
func TestMonitor(t *testing.T) {
	w := &watch{time.Now()}
	for _, c := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"some dead servers are no outage", w.testSomeDead},
		{"one server that fails repeatedly is no outage", w.testOneServer},
		{"unknown servers do not count", w.testUnknown},
		{"ends with good probes", w.testProbes},
		{"probes in flight count first", w.testProbesInFlight},
		{"half of the servers stay dead", w.testHalfDead},
		{"canaries answer: the failures are the servers'", w.testCanaries},
		{"failed servers come back", w.testServersBack},
		{"nothing answers: the outage does not end", w.testNothingAnswers},
	} {
		t.Run(c.name, c.test)
	}
}

func (w *watch) testSomeDead(t *testing.T) {
	m := &monitor{patience: monitorPatience}
	for i := range uint64(10_000) {
		got := outcomeGood
		if i%10 == 0 {
			got = outcomeBad
		}
		if w.note(m, i, got) {
			t.Fatalf("outage after %d outcomes, one tenth of them failures", i)
		}
	}
	if m.mean < 0.05 || m.mean > 0.15 {
		t.Errorf("mean %.3f, want about 0.1", m.mean)
	}
}

func (w *watch) testOneServer(t *testing.T) {
	m := &monitor{patience: monitorPatience}
	for range 1000 {
		if w.note(m, 1, outcomeBad) {
			t.Fatal("outage because of one server")
		}
	}
}

func (w *watch) testUnknown(t *testing.T) {
	m := &monitor{patience: monitorPatience}
	for i := range uint64(1000) {
		if m.end(nil, w.now, i, outcomeBad, false, false) {
			t.Fatal("outage because of servers that never answered")
		}
	}
}

func (w *watch) testProbes(t *testing.T) {
	m := w.begin(t)
	if m.mayTry(w.now); !m.mayTry(w.now) {
		t.Error("no probe allowed at once")
	}
	m.take(w.now)
	if m.mayTry(w.now.Add(Trickle/2)) || !m.mayTry(w.now.Add(Trickle)) {
		t.Error("probes must be one second apart")
	}
	for i := range uint64(50) {
		if w.note(m, i, outcomeBad) {
			t.Fatal("failures ended the outage")
		}
	}
	n := 0
	for !w.note(m, 1, outcomeGood) {
		if n++; n > probesLast {
			t.Fatalf("%d good probes did not end the outage", n)
		}
	}
}

func (w *watch) testProbesInFlight(t *testing.T) {
	m := w.begin(t)
	slow := m.begin()
	for i := range uint64(20) {
		if w.note(m, i, outcomeGood) {
			t.Fatal("the outage ended although the first probe is still in flight")
		}
	}
	if !m.end(slow, w.now, 99, outcomeNone, true, false) {
		t.Error("the outage did not end when the first probe did")
	}
}

func (w *watch) testHalfDead(t *testing.T) {
	m := w.begin(t)
	since := w.now
	for i := uint64(0); ; i++ {
		w.now = w.now.Add(time.Second)
		if w.note(m, i, []outcome{outcomeGood, outcomeBad}[i%2]) {
			break
		}
		if w.now.Sub(since) > 2*monitorPatience {
			t.Fatal("the outage did not end")
		}
	}
	if w.now.Sub(since) < monitorPatience {
		t.Errorf("ended after %v, want at least %v", w.now.Sub(since), monitorPatience)
	}
	for i := range uint64(1000) {
		if w.note(m, 1000+i, []outcome{outcomeGood, outcomeBad}[i%2]) {
			t.Fatal("another outage, although the share of failures did not change")
		}
	}
}

func (w *watch) testCanaries(t *testing.T) {
	m := w.begin(t)
	if !m.answered(w.now) || m.isDown() {
		t.Fatal("fetching pauses although a canary answered")
	}
	since := w.now
	for i := uint64(0); ; i++ {
		doubts, over := m.doubts(w.now)
		if over {
			break
		}
		if !doubts || w.now.Sub(since) > monitorPatience {
			t.Fatalf("doubts %v after %v", doubts, w.now.Sub(since))
		}
		w.now = w.now.Add(time.Second)
		if w.note(m, i, outcomeBad) {
			if w.now.Sub(m.answeredAt) < CanaryGoodFor {
				t.Fatalf("outage %v after a canary answered", w.now.Sub(m.answeredAt))
			}
			m.answered(w.now)
		}
	}
	for i := uint64(0); i < 1000; i++ {
		w.now = w.now.Add(time.Second)
		if w.note(m, i, outcomeBad) && (!m.answered(w.now) || m.isDown()) {
			t.Fatal("fetching pauses although a canary answered")
		}
		if doubts, _ := m.doubts(w.now); doubts {
			t.Fatal("failures don't count, although nothing changed")
		}
	}
}

func (w *watch) testServersBack(t *testing.T) {
	m := w.begin(t)
	m.answered(w.now)
	for i := range uint64(2 * probesLast) {
		w.note(m, i, outcomeGood)
	}
	if doubts, _ := m.doubts(w.now); doubts {
		t.Error("failures don't count although all servers answer")
	}
}

func (w *watch) testNothingAnswers(t *testing.T) {
	m := w.begin(t)
	for i := range uint64(100_000) {
		w.now = w.now.Add(time.Second)
		if w.note(m, i, outcomeBad) {
			t.Fatal("the outage ended although nothing answers")
		}
	}
}
