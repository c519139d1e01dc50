package health

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// host feeds events to a State in virtual time. After each event it waits as long as the verdict says.
type host struct {
	s        State
	p        Policy
	now      time.Time
	backoffs []time.Duration
}

func newHost() *host { return &host{p: Defaults(), now: start} }

func (h *host) note(e Event) Verdict {
	v := h.s.Note(&h.p, e, h.now)
	h.backoffs = append(h.backoffs, v.Rest)
	h.now = h.now.Add(v.Rest)
	return v
}

func (h *host) times(n int, e Event) (v Verdict) {
	for range n {
		v = h.note(e)
	}
	return v
}

func seconds(list ...int) (ds []time.Duration) {
	for _, n := range list {
		ds = append(ds, time.Duration(n)*time.Second)
	}
	return ds
}

func wantBackoffs(t *testing.T, got, want []time.Duration) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("back-off %d: got %v, want %v (%v)", i, got[i], want[i], got)
		}
	}
}

// TestFailingHost: ten failures double the back-off from 10 s to an hour. Five long back-offs follow, then
// the end; 16 requests in total.
func TestFailingHost(t *testing.T) {
	for _, kind := range []Kind{TooFast, ServerError, Timeout, Reset, Unreachable} {
		h := newHost()
		v := h.times(14, Event{Kind: kind})
		if v.End != Open || !v.Began || v.Why != Failing {
			t.Fatalf("%v: after 14: %+v", kind, v)
		}
		wantBackoffs(t, h.backoffs, seconds(10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 7200, 14400, 28800, 57600))
		if v = h.note(Event{Kind: kind}); v.End != GivenUp || !v.Ended {
			t.Errorf("%v: after the last long back-off: %+v, want given up", kind, v)
		}
		if v = h.note(Event{Kind: Page}); v.End != GivenUp || v.Ended {
			t.Errorf("%v: a page after the end: %+v", kind, v)
		}
	}
}

// TestRecovery: a success halves the back-off; after a few successes the state is clean.
func TestRecovery(t *testing.T) {
	h := newHost()
	h.times(6, Event{Kind: TooFast})
	if v := h.note(Event{Kind: Page}); v.Rest != 0 || h.s.Failures != 0 || h.s.Level != 3 {
		t.Fatalf("got %+v, %+v", v, h.s)
	}
	if v := h.note(Event{Kind: Timeout}); v.Rest != 80*time.Second {
		t.Errorf("a failure after the success: back-off %v, want 80s", v.Rest)
	}
	h.times(3, Event{Kind: Answer})
	if !h.s.Clean() {
		t.Errorf("after three more: %v", h.s)
	}
}

// TestEveryOtherPageFails: if every other page fails with 500, the back-off stays at its first value.
func TestEveryOtherPageFails(t *testing.T) {
	h := newHost()
	for range 1000 {
		if v := h.note(Event{Kind: ServerError, Status: 500}); v.Rest != 10*time.Second {
			t.Fatalf("got back-off %v", v.Rest)
		}
		h.note(Event{Kind: Page})
	}
	if !h.s.Clean() {
		t.Errorf("got %v", h.s)
	}
}

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		asked, rest time.Duration
		why         Why
	}{{time.Second, 10 * time.Second, BackOff}, {time.Minute, time.Minute, BackOff},
		{2 * time.Hour, 2 * time.Hour, Asked},
		{100 * time.Hour, 100 * time.Hour, Asked},
		{1000 * time.Hour, Defaults().RetryAfterMax, Asked}, {-time.Hour, 10 * time.Second, BackOff}} {
		h := newHost()
		e := Event{Kind: TooFast, Status: 429, RetryAfter: c.asked}
		if c.rest == c.asked {
			e.Seed = 7 // it lengthens no Retry-After
		}
		if v := h.note(e); v.Rest != c.rest || v.Why != c.why {
			t.Errorf("Retry-After %v: %+v, want %v %v", c.asked, v, c.rest, c.why)
		}
	}
}

// TestSpread: each host has back-offs of its own, up to a tenth longer, and the same ones each time.
func TestSpread(t *testing.T) {
	kinds := map[time.Duration]bool{}
	for seed := range 256 {
		h, again, plain := newHost(), newHost(), newHost()
		for range 14 {
			h.note(Event{Kind: TooFast, Seed: uint8(seed)})
			again.note(Event{Kind: TooFast, Seed: uint8(seed)})
			plain.note(Event{Kind: TooFast})
		}
		wantBackoffs(t, again.backoffs, h.backoffs)
		for i, least := range plain.backoffs {
			if got := h.backoffs[i]; got < least || got > least+least/10 || seed == 0 && got != least {
				t.Fatalf("seed %d: back-off %d is %v, want %v and up to a tenth more", seed, i, got, least)
			}
		}
		kinds[h.backoffs[9]] = true
	}
	if len(kinds) < 200 {
		t.Errorf("256 hosts have %d different back-offs of an hour", len(kinds))
	}
	for _, d := range []time.Duration{0, 1, 1<<63 - 1} { // no overflow at the ends
		if got := Spread(d/2, 1, 1); got < d/2 {
			t.Errorf("%v becomes %v", d/2, got)
		}
	}
}

// TestUnwelcome: ten refusals without a page in between, three times: a day, a week, for good.
func TestUnwelcome(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		name string
		e    Event
		n    int
	}{
		{"403", Event{Kind: Refusal, Place: RootPlace}, 10},
		{"challenges", Event{Kind: Challenge, Place: 7}, 4},
		{"403 of one directory", Event{Kind: Refusal, Place: 7}, 40},
	} {
		h := newHost()
		for run, rest := range []time.Duration{day, 7 * day} {
			if v := h.times(c.n-1, c.e); v.Rest != 0 {
				t.Fatalf("%s: run %d: backs off too early: %+v", c.name, run, v)
			}
			if v := h.note(c.e); v.Rest != rest || v.Why != Unwelcome || !v.Began {
				t.Fatalf("%s: run %d: %+v, want %v", c.name, run, v, rest)
			}
		}
		h.times(c.n-1, c.e)
		if v := h.note(c.e); v.End != NotWelcome || !v.Ended {
			t.Errorf("%s: %+v, want the end", c.name, v)
		}
	}
}

// TestHangups: a connection cut after each request is a failure and a refusal. The host backs off; after
// the fourth time, for a day.
func TestHangups(t *testing.T) {
	h := newHost()
	v := h.times(4, Event{Kind: Hangup})
	wantBackoffs(t, h.backoffs, append(seconds(10, 20, 40), 24*time.Hour))
	if v.Why != Unwelcome {
		t.Errorf("got %+v", v)
	}
}

// TestRefusalsAmongPages: single refusals, other answers and 429 do not make a host unwelcome.
func TestRefusalsAmongPages(t *testing.T) {
	h := newHost()
	for range 100 {
		h.times(9, Event{Kind: Refusal, Place: RootPlace})
		h.note(Event{Kind: Page})
	}
	for range 100 {
		h.note(Event{Kind: TooFast, Status: 429})
		h.note(Event{Kind: Answer})
	}
	if h.s.Stage != 0 || h.s.End != Open {
		t.Errorf("got %v", h.s)
	}
	h.times(9, Event{Kind: Refusal, Place: RootPlace})
	h.times(5, Event{Kind: Answer}) // a redirect or 404 does not count as a page
	if v := h.note(Event{Kind: Refusal, Place: RootPlace}); v.Why != Unwelcome {
		t.Errorf("refusals with redirects between: %+v", v)
	}
}

// TestForgiven: pages take the host back one stage.
func TestForgiven(t *testing.T) {
	h := newHost()
	h.times(20, Event{Kind: Refusal, Place: RootPlace})
	if h.s.Stage != 2 {
		t.Fatalf("got %v", h.s)
	}
	h.times(19, Event{Kind: Page})
	if h.s.Stage != 1 {
		t.Fatalf("got %v", h.s)
	}
	if h.note(Event{Kind: Page}); !h.s.Clean() {
		t.Errorf("got %v", h.s)
	}
}

// TestOff: with a zero Policy a host never enters a long back-off.
func TestOff(t *testing.T) {
	h := newHost()
	h.p = Policy{Backoff: time.Second, BackoffMax: time.Minute}
	for range 100_000 {
		v := h.note(Event{Kind: TooFast})
		w := h.note(Event{Kind: Hangup})
		if v.Rest > time.Minute || w.Rest > time.Minute || v.Began || w.End != Open {
			t.Fatalf("got %+v %+v", v, w)
		}
	}
	var back State
	if err := back.Decode(h.s.Append(nil)); err != nil || back != h.s {
		t.Errorf("saturated: %v: %+v, want %+v", err, back, h.s)
	}
}

func TestResting(t *testing.T) {
	h := newHost()
	h.s.Note(&h.p, Event{Kind: TooFast}, start)
	if _, _, ok := h.s.InBackoff(start); ok {
		t.Error("InBackoff is true for 10 s, want false: URLs wait in RAM")
	}
	h.s.Note(&h.p, Event{Kind: TooFast, RetryAfter: 2 * time.Minute}, start)
	if until, why, ok := h.s.InBackoff(start); !ok || why != BackOff || !until.Equal(start.Add(2*time.Minute)) {
		t.Errorf("got %v %v %v", until, why, ok)
	}
	if _, _, ok := h.s.InBackoff(start.Add(2 * time.Minute)); ok {
		t.Error("InBackoff is true after the end of the back-off")
	}
	// A shorter back-off does not end a longer one.
	h.s.Note(&h.p, Event{Kind: TooFast, RetryAfter: 5 * time.Hour}, start)
	h.s.Note(&h.p, Event{Kind: TooFast}, start)
	if until, why, _ := h.s.InBackoff(start); why != Asked || !until.Equal(start.Add(5*time.Hour)) {
		t.Errorf("got %v %v", until, why)
	}
}

func TestPlaceOf(t *testing.T) {
	for _, same := range [][2]string{{"/a/b", "/a/c/d?x=/"}, {"/", "/x?y=/z/"}, {"/x", ""}} {
		if PlaceOf(same[0]) != PlaceOf(same[1]) {
			t.Errorf("%q and %q differ", same[0], same[1])
		}
	}
	if PlaceOf("/a/") == PlaceOf("/b/") || PlaceOf("/a/") == RootPlace || PlaceOf("/x") != RootPlace {
		t.Error("two directories have the same place")
	}
}

// TestGolden holds the example bytes of docs/reference/files/robots.md.
func TestGolden(t *testing.T) {
	s := State{
		Failures: 3, Level: 4, Rests: 1, Refusals: 2, Stage: 1, Pages: 0, Place: 7, Wide: true, Why: Failing,
		Last: TooFast, Status: 503, At: time.Unix(1795262400, 0).UTC(), Until: time.Unix(1795266000, 0).UTC(),
	}
	want := []byte("\x01\x52\x02\x04\x07\x03\x01\x02\x00\xf7\x03\xc0\x8f\x86\xd8\x06\xd0\xab\x86\xd8\x06")
	if got := s.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("got % x\nwant % x", got, want)
	}
	var back State
	if err := back.Decode(want); err != nil || back != s {
		t.Errorf("%v: %+v", err, back)
	}
	if got := s.String(); !strings.Contains(got, "3 failures in a row") || !strings.Contains(got, "status 503") {
		t.Errorf("%s", got)
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add([]byte("\x01\x52\x02\x04\x07\x03\x01\x02\x00\xf7\x03\xc0\x8f\x86\xd8\x06\xd0\xab\x86\xd8\x06"))
	f.Add((&State{}).Append(nil))
	f.Add([]byte("\x01\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s State
		if s.Decode(b) != nil {
			if s != (State{}) {
				t.Fatalf("a rejected encoding left %+v", s)
			}
			return
		}
		if again := s.Append(nil); !bytes.Equal(again, b) || len(again) > MaxState {
			t.Fatalf("% x becomes % x", b, again)
		}
		_ = s.String()
		p := Defaults()
		for k := range numKinds {
			s.Note(&p, Event{Kind: k, RetryAfter: time.Duration(len(b)) * time.Hour}, start)
			var back State
			if err := back.Decode(s.Append(nil)); err != nil || back != s {
				t.Fatalf("%v: %+v, want %+v", err, back, s)
			}
		}
	})
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add((&Event{Kind: TooFast, Status: 429, RetryAfter: MaxRetryAfter, Seed: 3}).Append(nil))
	f.Add((&Event{Kind: Refusal, Status: 403, Place: 3}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e Event
		if e.Decode(b) != nil {
			return
		}
		if again := e.Append(nil); !bytes.Equal(again, b) || len(again) > MaxEvent {
			t.Fatalf("% x becomes % x", b, again)
		}
	})
}

// TestClockThatWasAhead: a state stored by a clock that was a year ahead counts as stored now. Its back-off
// keeps its length, and the next event starts a back-off of its own.
func TestClockThatWasAhead(t *testing.T) {
	ahead := start.Add(365 * 24 * time.Hour)
	p := Defaults()
	var s State
	s.Note(&p, Event{Kind: TooFast, RetryAfter: 10 * time.Hour}, ahead)
	noted := s
	if s.Correct(ahead.Add(-ClockSlack)) || s != noted {
		t.Error("Correct changed a time one hour ahead")
	}
	if !s.Correct(start) || s.Correct(start) {
		t.Error("Correct did not correct a time one year ahead exactly once")
	}
	if until, why, ok := s.InBackoff(start); !ok || why != Asked || !until.Equal(start.Add(10*time.Hour)) ||
		s.Failures != 1 {
		t.Errorf("back-off %v until %v: %v", ok, until, why)
	}
	if noted.Note(&p, Event{Kind: Unreachable}, start.Add(time.Hour)); noted.Until.After(start.Add(11*time.Hour)) ||
		noted.Failures != 2 {
		t.Errorf("after another failure: %v", noted)
	}
	over := State{Failures: 1, Last: TooFast, At: ahead, Until: ahead.Add(-time.Minute)}
	if _, _, ok := over.InBackoff(start); !ok {
		t.Error("the test is void: the host does not back off")
	}
	if over.Correct(start); over.Until.After(start) {
		t.Errorf("a back-off that was over: until %v", over.Until)
	}
}
