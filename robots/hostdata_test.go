package robots

import (
	"bytes"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"drumbeat/internal/health"
)

var day = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func addrs(list ...string) (as []netip.Addr) {
	for _, s := range list {
		as = append(as, netip.MustParseAddr(s))
	}
	return as
}

var (
	goodRules = HostData{State: StateRules, Fetched: day.Add(-25 * time.Hour), Expires: day.Add(-time.Hour),
		Rules: Parse([]byte("User-agent: *\nDisallow: /x\n"), "me").Append(nil)}
	noFile = HostData{State: StateNoFile, Fetched: goodRules.Fetched, Expires: goodRules.Expires}
	down   = HostData{State: StateUnreachable, Failures: 3, RetryAt: day.Add(-time.Second)}
)

func answer(status int) Fetched { return Fetched{Status: status} }

// outcomeCases are the cases of TestOutcome.
var outcomeCases = []struct {
	name     string
	prev     HostData
	f        Fetched
	state    State
	stale    bool
	failures int
	expires  time.Time
	retry    time.Duration // from day
}{
	{"200", HostData{}, Fetched{Status: 200, Body: []byte("User-agent: *\nDisallow: /x\n")}, StateRules,
		false, 0, day.Add(Lifetime), 0},
	{"200 after failures", down, answer(200), StateRules, false, 0, day.Add(Lifetime), 0},
	{"204", HostData{}, answer(204), StateRules, false, 0, day.Add(Lifetime), 0},
	{"short max-age", HostData{}, Fetched{Status: 200, HasMaxAge: true}, StateRules, false, 0,
		day.Add(time.Hour), 0},
	{"max-age", HostData{}, Fetched{Status: 200, HasMaxAge: true, MaxAge: 5 * time.Hour}, StateRules, false,
		0, day.Add(5 * time.Hour), 0},
	{"long max-age", HostData{}, Fetched{Status: 404, HasMaxAge: true, MaxAge: 500 * time.Hour},
		StateNoFile, false, 0, day.Add(Lifetime), 0},
	{"404", goodRules, answer(404), StateNoFile, false, 0, day.Add(Lifetime), 0},
	{"401", HostData{}, answer(401), StateNoFile, false, 0, day.Add(Lifetime), 0},
	{"403", HostData{}, answer(403), StateNoFile, false, 0, day.Add(Lifetime), 0},
	{"410", HostData{}, answer(410), StateNoFile, false, 0, day.Add(Lifetime), 0},
	{"300", HostData{}, answer(300), StateNoFile, false, 0, day.Add(Lifetime), 0},
	{"304 with a copy", goodRules, answer(304), StateRules, false, 0, day.Add(Lifetime), 0},
	{"304 without", HostData{}, answer(304), StateUnreachable, false, 1, time.Time{}, time.Minute},
	{"429", HostData{}, answer(429), StateUnreachable, false, 1, time.Time{}, time.Minute},
	{"429 with Retry-After", HostData{}, Fetched{Status: 429, RetryAfter: time.Hour}, StateUnreachable,
		false, 1, time.Time{}, time.Hour},
	{"Retry-After of ten days", HostData{}, Fetched{Status: 503, RetryAfter: 240 * time.Hour}, StateUnreachable,
		false, 1, time.Time{}, 240 * time.Hour},
	{"endless Retry-After", HostData{}, Fetched{Status: 503, RetryAfter: 1 << 60}, StateUnreachable, false,
		1, time.Time{}, health.MaxRetryAfter},
	{"500", HostData{}, answer(500), StateUnreachable, false, 1, time.Time{}, time.Minute},
	{"503 again", down, answer(503), StateUnreachable, false, 4, time.Time{}, 8 * time.Minute},
	{"999", HostData{}, answer(999), StateUnreachable, false, 1, time.Time{}, time.Minute},
	{"0", HostData{}, answer(0), StateUnreachable, false, 1, time.Time{}, time.Minute},
	{"network", HostData{}, Fetched{Kind: NetworkFailure}, StateUnreachable, false, 1, time.Time{}, time.Minute},
	{"dns", HostData{}, Fetched{Kind: DNSFailure}, StateUnreachable, false, 1, time.Time{}, time.Minute},
	{"500 with a copy", goodRules, answer(500), StateRules, true, 1, goodRules.Fetched.Add(MaxStale), time.Minute},
	{"network with a copy", goodRules, Fetched{Kind: NetworkFailure}, StateRules, true, 1,
		goodRules.Fetched.Add(MaxStale), time.Minute},
	{"network where no file was", noFile, Fetched{Kind: NetworkFailure}, StateNoFile, true, 1,
		goodRules.Fetched.Add(MaxStale), time.Minute},
	{"copy too old", HostData{State: StateRules, Fetched: day.Add(-MaxStale), Expires: goodRules.Expires,
		Rules: goodRules.Rules}, answer(500), StateUnreachable, false, 1, time.Time{}, time.Minute},
	{"no such host", HostData{}, Fetched{Kind: NoSuchHost, Vouched: true}, StateNoHost, false, 1,
		day.Add(NoHostTime), 0},
	{"forbidden address", HostData{}, Fetched{Kind: ForbiddenAddress, Vouched: true}, StateForbidden, false,
		1, day.Add(NoHostTime), 0},
	{"no such host any more", goodRules, Fetched{Kind: NoSuchHost, Vouched: true}, StateRules, true, 1,
		goodRules.Fetched.Add(MaxStale), MissingLeast},
	{"no such host, not vouched for", HostData{}, Fetched{Kind: NoSuchHost}, StateUnreachable, false, 1,
		time.Time{}, MissingLeast},
	{"too many redirects", HostData{}, Fetched{Kind: TooManyRedirects}, StateNoFile, false, 0,
		day.Add(Lifetime), 0},
	{"bad redirect", HostData{}, Fetched{Kind: BadRedirect}, StateNoFile, false, 0, day.Add(Lifetime), 0},
}

func TestOutcome(t *testing.T) {
	for _, c := range outcomeCases {
		h := Outcome(&c.prev, &c.f, "me", day.Add(300*time.Millisecond))
		retry := time.Duration(0)
		if !h.RetryAt.IsZero() {
			retry = h.RetryAt.Sub(day)
		}
		if h.State != c.state || h.Stale != c.stale || h.Failures != c.failures ||
			!h.Expires.Equal(c.expires) || retry != c.retry {
			t.Errorf("%s: got %v stale %v, %d failures, expires %v, retry in %v; want %v %v %d %v %v", c.name,
				h.State, h.Stale, h.Failures, h.Expires, retry, c.state, c.stale, c.failures, c.expires, c.retry)
		}
		var back HostData
		if err := back.Decode(h.Append(nil)); err != nil || !reflect.DeepEqual(back, h) {
			t.Errorf("%s: coding: got %+v, %v, want %+v", c.name, back, err, h)
		}
	}
}

func TestRetryDelays(t *testing.T) {
	want := []time.Duration{1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 720, 720}
	for n, minutes := range want {
		if got := RetryDelay(n); got != minutes*time.Minute {
			t.Errorf("failure %d: got %v, want %v", n, got, minutes*time.Minute)
		}
	}
	if got := RetryDelay(1 << 40); got != MaxRetry {
		t.Errorf("got %v, want %v", got, MaxRetry)
	}
}

func TestDecide(t *testing.T) {
	f := Fetched{Status: 200, Body: []byte("User-agent: *\nDisallow: /x\n"), Addrs: addrs("192.0.2.1"),
		AddrExpires: day.Add(time.Hour)}
	fresh := Outcome(&HostData{}, &f, "me", day)
	bare := Outcome(&HostData{}, &Fetched{Status: 404}, "me", day)
	stale := Outcome(&fresh, &Fetched{Status: 500, RetryAfter: 2 * time.Minute}, "me", day)
	down := Outcome(&HostData{}, &Fetched{Kind: NetworkFailure}, "me", day)
	gone := Outcome(&HostData{}, &Fetched{Kind: NoSuchHost, Vouched: true}, "me", day)
	for _, c := range []struct {
		name  string
		h     HostData
		path  string
		after time.Duration
		want  Decision
	}{
		{"nothing known", HostData{}, "/", 0, Request},
		{"fresh", fresh, "/", time.Minute, Allow},
		{"forbidden", fresh, "/x", time.Minute, Disallow},
		{"addresses too old", fresh, "/", time.Hour, Resolve},
		{"forbidden, addresses too old", fresh, "/x", time.Hour, Disallow},
		{"rules too old", fresh, "/x", Lifetime, Request},
		{"no addresses", bare, "/", 0, Resolve},
		{"stale", stale, "/", time.Minute, Allow},
		{"stale, forbidden", stale, "/x", time.Minute, Disallow},
		{"stale, retry due", stale, "/", 2 * time.Minute, Request},
		{"down", down, "/", 59 * time.Second, Wait},
		{"down, retry due", down, "/", time.Minute, Request},
		{"gone", gone, "/", time.Hour, NoHost},
		{"noted by a clock that was a year ahead", fresh, "/", -365 * 24 * time.Hour, Request},
		{"down, noted by such a clock", down, "/", -365 * 24 * time.Hour, Request},
		{"noted by a clock that was a minute ahead", fresh, "/", -time.Minute, Allow},
		{"gone long ago", gone, "/", NoHostTime, Request},
	} {
		got, until := c.h.Decide([]byte(c.path), day.Add(c.after))
		if got != c.want || (got == Wait) != until.Equal(c.h.RetryAt) && got == Wait {
			t.Errorf("%s: got %v until %v, want %v", c.name, got, until, c.want)
		}
	}
}

func sample() HostData {
	h := HostData{State: StateRules, Stale: true, Failures: 2, Fetched: day, Expires: day.Add(MaxStale),
		RetryAt: day.Add(time.Hour), FailingSince: day, MissingSince: day, Pages: 300, Health: sampleHealth(),
		Rules: Parse([]byte("User-agent: *\nCrawl-delay: 3\nDisallow: /x\n"), "me").Append(nil)}
	h.SetAddrs(addrs("192.0.2.1", "2001:db8::1", "::ffff:192.0.2.2"), day.Add(time.Minute))
	return h
}

func sampleHealth() health.State {
	return health.State{Failures: 3, Level: 4, Rests: 1, Refusals: 2, Stage: 1, Place: 7, Wide: true,
		Why: health.Failing, Last: health.TooFast, Status: 503, At: day, Until: day.Add(time.Hour)}
}

const goldenHealth = "\x15\x01\x52\x02\x04\x07\x03\x01\x02\x00\xf7\x03\xc0\x8f\x86\xd8\x06\xd0\xab\x86\xd8\x06"

// TestOldVersions: host data of another version is rejected; a summary of version 1 is read.
func TestOldVersions(t *testing.T) {
	want := sample()
	for _, version := range []byte{1, 2, 5} {
		b := want.Append(nil)
		b[0] = version
		var h HostData
		if err := h.Decode(b); err == nil || !strings.Contains(err.Error(), "version") {
			t.Errorf("version %d: got %v", version, err)
		}
	}
	want = sample()
	want.Health = health.State{}
	want.SetAddrs(addrs("192.0.2.1"), day.Add(time.Minute))
	oldSum := "\x01\x01\x00\xb8\x17\x02\xfc\x8f\x86\xd8\x06\xd0\xab\x86\xd8\x06\xc0\x00\x02\x01"
	var s Summary
	wantSum := want.Summary()
	if err := s.Decode([]byte(oldSum)); err != nil || !bytes.Equal(s.Append(nil), wantSum.Append(nil)) {
		t.Errorf("summary: %v: %+v", err, s)
	}
}

// TestHealthDecides: a host in back-off or given up gets no requests, known decisions stay, and the outcome
// of a request leaves health and count unchanged.
func TestHealthDecides(t *testing.T) {
	fresh := Outcome(&HostData{}, &Fetched{Status: 200, Body: []byte("User-agent: *\nDisallow: /x\n"),
		Addrs: addrs("192.0.2.1"), AddrExpires: day.Add(time.Hour)}, "me", day)
	down := Outcome(&HostData{}, &Fetched{Status: 503, RetryAfter: 2 * time.Hour}, "me", day)
	rest := health.State{Failures: 10, Why: health.Failing, Until: day.Add(time.Hour)}
	for _, c := range []struct {
		name  string
		h     HostData
		s     health.State
		path  string
		after time.Duration
		want  Decision
		until time.Duration
	}{
		{"rests", fresh, rest, "/", 0, Backoff, time.Hour},
		{"rests, forbidden", fresh, rest, "/x", 0, Disallow, 0},
		{"rests, nothing known", HostData{}, rest, "/", 0, Backoff, time.Hour},
		{"rests, robots.txt later", down, rest, "/", 0, Wait, 2 * time.Hour},
		{"has rested", fresh, rest, "/", time.Hour, Resolve, 0},
		{"short back-off", fresh, health.State{Failures: 1, Until: day.Add(30 * time.Second)}, "/", 0, Allow, 0},
		{"not welcome", HostData{}, health.State{End: health.NotWelcome}, "/", 1000 * time.Hour, NotWelcome, 0},
		{"given up", down, health.State{End: health.GivenUp}, "/", 0, GivenUp, 0},
	} {
		c.h.Health, c.h.Pages = c.s, 7
		got, until := c.h.Decide([]byte(c.path), day.Add(c.after))
		if got != c.want || !until.IsZero() != (c.until > 0) || c.until > 0 && !until.Equal(day.Add(c.until)) {
			t.Errorf("%s: %v until %v, want %v %v", c.name, got, until, c.want, c.until)
		}
		for _, f := range []Fetched{{Status: 200}, {Status: 404}, {Status: 500}, {Kind: NoSuchHost}} {
			if next := Outcome(&c.h, &f, "me", day); next.Health != c.s || next.Pages != 7 {
				t.Errorf("%s: a request changed the health: %+v", c.name, next)
			}
		}
	}
}

// TestFailingSince: it is the time of the first failure, and is cleared by an answer.
func TestFailingSince(t *testing.T) {
	h := HostData{}
	for i := range 5 {
		h = Outcome(&h, &Fetched{Kind: NetworkFailure}, "me", day.Add(time.Duration(i)*time.Hour))
		if !h.FailingSince.Equal(day) {
			t.Fatalf("failure %d: since %v", i+1, h.FailingSince)
		}
	}
	if h = Outcome(&h, &Fetched{Status: 404}, "me", day); !h.FailingSince.IsZero() {
		t.Errorf("after an answer: since %v", h.FailingSince)
	}
}

// TestMissing: if a host that had an address loses it, this is confirmed after hours, and its rules apply
// until then.
func TestMissing(t *testing.T) {
	gone := Fetched{Kind: NoSuchHost, Vouched: true}
	h := Outcome(&HostData{}, &Fetched{Status: 404, Addrs: addrs("192.0.2.1"), AddrExpires: day}, "me", day)
	for i, at := range []time.Duration{time.Hour, 2 * time.Hour, time.Hour + MissingLeast - time.Second} {
		h = Outcome(&h, &gone, "me", day.Add(at))
		if h.State != StateNoFile || !h.Stale || !h.MissingSince.Equal(day.Add(time.Hour)) ||
			!h.RetryAt.Equal(h.MissingSince.Add(MissingLeast)) {
			t.Errorf("answer %d: %+v", i, h)
		}
	}
	back := Outcome(&h, &Fetched{Status: 404, Addrs: addrs("192.0.2.1"), AddrExpires: day.Add(3 * time.Hour)},
		"me", day.Add(2*time.Hour))
	if !back.MissingSince.IsZero() {
		t.Errorf("back: %+v", back)
	}
	failed := Outcome(&h, &Fetched{Kind: DNSFailure}, "me", day.Add(2*time.Hour))
	if !failed.MissingSince.Equal(h.MissingSince) {
		t.Errorf("no answer: %+v", failed)
	}
	h = Outcome(&failed, &Fetched{Kind: ForbiddenAddress, Vouched: true}, "me", day.Add(time.Hour+MissingLeast))
	if h.State != StateForbidden {
		t.Errorf("after hours: %+v", h)
	}
}

func TestGoldenHostData(t *testing.T) {
	h := sample()
	// Version, rules, all flags; 3 addresses, the second of 16 bytes; 2 failures.
	want := "\x03\x01\x1f" + "\x03\x02" + "\x02" +
		"\xc0\x8f\x86\xd8\x06" + "\xc0\xa9\xa4\xd9\x06" + // fetched 1795262400, expires
		"\xd0\xab\x86\xd8\x06" + "\xfc\x8f\x86\xd8\x06" + // retry, addresses expire
		// Failing and missing since, 300 pages.
		"\xc0\x8f\x86\xd8\x06" + "\xc0\x8f\x86\xd8\x06" + "\xac\x02" + goldenHealth +
		"\xc0\x00\x02\x01" + "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + "\xc0\x00\x02\x02" +
		"\x02\x00\xb8\x17\x00\x01\x00\x02\x00\x00\x00/x"
	if got := h.Append(nil); string(got) != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	s := h.Summary()
	// A stale copy's verdict ends at its retry.
	want = "\x02\x03\x02" + "\xb8\x17" + "\x02" + "\xfc\x8f\x86\xd8\x06" + "\xd0\xab\x86\xd8\x06" + goldenHealth +
		"\xc0\x00\x02\x01" + "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + "\xc0\x00\x02\x02"
	if got := s.Append(nil); string(got) != want {
		t.Errorf("summary: got %q\nwant %q", got, want)
	}
	var back Summary
	if err := back.Decode([]byte(want)); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("summary: got %+v, %v", back, err)
	}
	for i := range len(want) {
		if back.Decode([]byte(want[:i])) == nil {
			t.Errorf("summary: the first %d bytes decode", i)
		}
	}
}

func TestSummaryBound(t *testing.T) {
	h := sample()
	h.Rules = Parse([]byte("User-agent: *\nCrawl-delay: 99999999\n"), "me").Append(nil)
	h.Failures, h.FailingSince = MaxFailures, day
	h.Health = health.State{Failures: 1<<16 - 1, Rests: 1<<16 - 1, Refusals: 1<<16 - 1, Pages: 1<<16 - 1, Status: 999,
		At: time.Unix(1<<35-1, 0), Until: time.Unix(1<<35-1, 0)}
	h.SetAddrs(addrs("::1", "::2", "::3", "::4", "::5", "::6", "::7", "::8", "::9"), time.Unix(1<<62, 0))
	if len(h.Addrs()) != MaxAddrs {
		t.Fatalf("got %d addresses", len(h.Addrs()))
	}
	s := h.Summary()
	everything := Preferences("ai=n, ai-input=n, ai-train=n, bots=n, search=n, train-ai=n, train-genai=n, use=full")
	for _, l := range []Statement{{}, {Digest: [20]byte{1}, Fetched: time.Unix(1<<35-1, 0).UTC(), Group: GroupOwn,
		Rule: "Allow: /" + strings.Repeat("x", 500), ContentSignal: everything, ContentUsage: everything,
		Licenses: "https://l/" + strings.Repeat("l", 500), Disallowed: allBots,
		TDMReservation: "1", TDMPolicy: strings.Repeat("p", maxPolicyBytes)}} {
		s.SetStatement(&l, nil)
		enc := s.Append(nil)
		var back Summary
		var got Statement
		if err := back.Decode(enc); err != nil || len(enc) > MaxSummary || len(back.Addrs()) != 5 ||
			got.Decode(back.Statement) != nil || got.Disallowed != l.Disallowed ||
			got.TDMReservation != l.TDMReservation || got.Cut != (l.Licenses != "") {
			t.Errorf("got %d bytes, %d addresses, %v, %+v", len(enc), len(back.Addrs()), err, got)
		}
		if !bytes.Equal(back.Append(nil), enc) {
			t.Error("summary isn't stable")
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	s := sample()
	enc := s.Append(nil)
	var h HostData
	var sum Summary
	buf := make([]byte, 0, MaxSummary)
	if n := testing.AllocsPerRun(100, func() {
		if h.Decode(enc) != nil {
			t.Fatal("decode")
		}
		h.Decide([]byte("/y"), day)
		sum = h.Summary()
		buf = sum.Append(buf[:0])
		if sum.Decode(buf) != nil {
			t.Fatal("decode summary")
		}
	}); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}

func FuzzHostData(f *testing.F) {
	h := sample()
	f.Add(h.Append(nil))
	h.Reservations = []byte{reservationsVersion, 0}
	f.Add(h.Append(nil))
	s := h.Summary()
	f.Add(s.Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h HostData
		if h.Decode(b) == nil {
			if got := h.Append(nil); !bytes.Equal(got, b) {
				t.Fatalf("decoding isn't strict: %q becomes %q", b, got)
			}
			h.Decide([]byte("/x"), day)
		}
		var s Summary
		if s.Decode(b) == nil && b[0] == summaryVersion {
			if got := s.Append(nil); !bytes.Equal(got, b) {
				t.Fatalf("decoding of summary isn't strict: %q becomes %q", b, got)
			}
		}
	})
}
