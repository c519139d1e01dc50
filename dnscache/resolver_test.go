package dnscache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

var testZone = map[string][]string{
	"a.test. A":        {"a.test. 300 IN A 192.0.2.1", "a.test. 200 IN A 192.0.2.2"},
	"a.test. AAAA":     {"a.test. 300 IN AAAA 2001:db8::1"},
	"six.test. AAAA":   {"six.test. 300 IN AAAA 2001:db8::6"},
	"nx.test. A":       {"NX"},
	"nx.test. AAAA":    {"NX"},
	"sf.test. A":       {"SERVFAIL"},
	"ref.test. A":      {"REFUSED"},
	"c.test. A":        {"c.test. 100 IN CNAME d.test.", "d.test. 50 IN CNAME a.test.", "a.test. 300 IN A 192.0.2.1"},
	"half.test. A":     {"half.test. 100 IN CNAME a.test."},
	"loop.test. A":     {"loop.test. 100 IN CNAME loop2.test."},
	"loop2.test. A":    {"loop2.test. 100 IN CNAME loop.test."},
	"self.test. A":     {"self.test. 100 IN CNAME self.test."},
	"cnx.test. A":      {"cnx.test. 100 IN CNAME gone.test.", "NX"},
	"lie.test. A":      {"other.test. 300 IN A 192.0.2.66"},
	"lie2.test. A":     {"lie2.test. 300 IN A 192.0.2.9", "www.bank.test. 300 IN A 192.0.2.66"},
	"short.test. A":    {"short.test. 0 IN A 192.0.2.3"},
	"long.test. A":     {"long.test. 9999999 IN A 192.0.2.4"},
	"_dmarc.a.test. A": {"_dmarc.a.test. 300 IN A 192.0.2.5"},
	"odd.test. A":      {`odd.test. 100 IN CNAME a\.b\000.test.`},
}

func TestLookup(t *testing.T) {
	f := startFake(t, zone(t, testZone))
	for family, table := range map[Family]map[string]string{
		Family4: {"a.test": "192.0.2.1 192.0.2.2", "A.Test.": "192.0.2.1 192.0.2.2", "six.test": "no-data",
			"nx.test": "nxdomain", "sf.test": "servfail", "ref.test": "refused", "c.test": "192.0.2.1",
			"half.test": "192.0.2.1 192.0.2.2", "loop.test": "chain", "self.test": "chain", "cnx.test": "nxdomain",
			"lie.test": "no-data", "lie2.test": "192.0.2.9", "www.bank.test": "no-data", "_dmarc.a.test": "192.0.2.5",
			"none.test": "no-data", "odd.test": "chain",
			"": "bad-name", ".": "bad-name", "a..b": "bad-name", "a b": "bad-name", "-.test.\\": "bad-name",
			strings.Repeat("a", 64) + ".test":  "bad-name",
			strings.Repeat("aa.", 90) + "test": "bad-name", "ä.test": "bad-name",
			"192.0.2.7": "192.0.2.7", "[2001:db8::7]": "2001:db8::7", "::1": "::1"},
		Family6: {"a.test": "2001:db8::1", "six.test": "2001:db8::6", "nx.test": "nxdomain"},
		FamilyAuto: {"a.test": "192.0.2.1 192.0.2.2", "six.test": "2001:db8::6", "nx.test": "nxdomain",
			"none.test": "no-data"},
		FamilyBoth: {"a.test": "192.0.2.1 192.0.2.2 2001:db8::1", "six.test": "2001:db8::6", "nx.test": "nxdomain"},
	} {
		r := newResolver(t, Options{Family: family}, f)
		r.ipv6 = true
		for range 2 { // from the server, then from the cache
			for host, want := range table {
				if got := lookup(t, r, host); got != want {
					t.Errorf("family %d, %q: got %s, want %s", family, host, got, want)
				}
			}
		}
		if s := r.Stats(); s.Hits == 0 || s.InFlight != 0 || s.Waiting != 0 || len(r.plds) != 0 || len(r.flights) != 0 {
			t.Errorf("family %d: %+v, %d PLDs, %d flights", family, s, len(r.plds), len(r.flights))
		}
	}
	if n := f.asked("a.test. A"); n > 6 {
		t.Errorf("a.test was asked for %d times", n)
	}
}

func TestTTLs(t *testing.T) {
	f := startFake(t, zone(t, testZone))
	r := newResolver(t, Options{Family: Family4}, f)
	for host, want := range map[string]time.Duration{"a.test": 200 * time.Second, "c.test": time.Minute,
		"short.test": time.Minute, "long.test": 24 * time.Hour, "nx.test": 10 * time.Minute,
		"none.test": 10 * time.Minute, "sf.test": 30 * time.Second} {
		a, err := r.Lookup(t.Context(), host, "")
		expires := a.Expires
		var e *Error
		if errors.As(err, &e) {
			expires = e.Expires
		}
		if d := time.Until(expires); d > want || d < want-5*time.Second {
			t.Errorf("%s: for %v, want %v", host, d, want)
		}
	}
}

// TestLoss: all names are found although questions are lost and servers are dead or late.
func TestLoss(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	lossy := func(req *dns.Msg, tcp bool) *dns.Msg {
		mu.Lock()
		lost := rnd.IntN(4) == 0
		mu.Unlock()
		if lost {
			return nil
		}
		return replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", req.Question[0].Name))
	}
	dead := func(*dns.Msg, bool) *dns.Msg { return nil }
	r := newResolver(t, Options{Family: Family4, MaxPerPLD: 1000, Timeouts: []time.Duration{100 * time.Millisecond,
		200 * time.Millisecond, 200 * time.Millisecond, 200 * time.Millisecond, 200 * time.Millisecond}},
		startFake(t, lossy), startFake(t, dead), startFake(t, lossy))
	var wg sync.WaitGroup
	var lost atomic.Int64
	for i := range 500 {
		wg.Go(func() {
			if got := lookup(t, r, fmt.Sprintf("h%d.test", i)); got != "192.0.2.1" {
				lost.Add(1)
			}
		})
	}
	wg.Wait()
	if n := lost.Load(); n > 25 {
		t.Errorf("%d of 500 not found", n)
	}
	if s := r.Stats(); s.Timeouts == 0 || s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
}

// TestLateAnswer: an answer to the first try counts even after the second was sent.
func TestLateAnswer(t *testing.T) {
	var tries atomic.Int64
	second := make(chan struct{})
	r := newResolver(t, Options{Timeouts: []time.Duration{50 * time.Millisecond, 20 * time.Second}}, startFake(t,
		func(req *dns.Msg, _ bool) *dns.Msg {
			if tries.Add(1) == 2 {
				close(second)
				return nil
			}
			<-second
			return replyTo(req, 0, rr(t, "late.test. 300 IN A 192.0.2.1"))
		}))
	if got := lookup(t, r, "late.test"); got != "192.0.2.1" {
		t.Errorf("got %s", got)
	}
}

// TestSilence: lookups time out while the servers are silent, and succeed afterwards.
func TestSilence(t *testing.T) {
	var dead atomic.Bool
	dead.Store(true)
	f := startFake(t, func(req *dns.Msg, _ bool) *dns.Msg {
		if dead.Load() {
			return nil
		}
		return replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", req.Question[0].Name))
	})
	r := newResolver(t, Options{Family: Family4, FailureTTL: NoFailureCache,
		Timeouts: []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}}, f)
	for i := range 2 * downAfter {
		if got := lookup(t, r, fmt.Sprintf("h%d.test", i)); got != "timeout" {
			t.Fatalf("got %s", got)
		}
	}
	dead.Store(false)
	if got := lookup(t, r, "h0.test"); got != "192.0.2.1" {
		t.Errorf("after recovery: got %s", got)
	}
}

// TestLies: replies with another id, another question, no question or garbage are ignored.
func TestLies(t *testing.T) {
	r := newResolver(t, Options{Family: Family4, Timeouts: []time.Duration{30 * time.Millisecond}}, startFake(t,
		func(req *dns.Msg, _ bool) *dns.Msg {
			m := replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.66", req.Question[0].Name))
			switch req.Question[0].Name {
			case "id.test.":
				m.Id++
			case "name.test.":
				m.Question[0].Name = "nome.test."
				m.Answer[0].Header().Name = "nome.test."
			case "type.test.":
				m.Question[0].Qtype = dns.TypeAAAA
			case "none.test.":
				m.Question = nil
			case "query.test.":
				m.Response = false
			}
			return m
		}))
	for _, name := range []string{"id", "name", "type", "none", "query"} {
		if got := lookup(t, r, name+".test"); got != "timeout" {
			t.Errorf("%s: got %s", name, got)
		}
	}
	if s := r.Stats(); s.Lies < 5 {
		t.Errorf("%d lies, want 5", s.Lies)
	}
}

func TestMixCase(t *testing.T) {
	mixed := atomic.Bool{}
	r := newResolver(t, Options{Family: Family4, MixCase: true, Timeouts: []time.Duration{50 * time.Millisecond}},
		startFake(t, func(req *dns.Msg, _ bool) *dns.Msg {
			name := req.Question[0].Name
			if name != strings.ToLower(name) {
				mixed.Store(true)
			}
			m := replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", name))
			if strings.HasPrefix(strings.ToLower(name), "flat") {
				m.Question[0].Name = strings.ToLower(name)
			}
			return m
		}))
	if got := lookup(t, r, "a-long-enough-name.test"); got != "192.0.2.1" || !mixed.Load() {
		t.Errorf("got %s, mixed %v", got, mixed.Load())
	}
	if got, s := lookup(t, r, "flat-but-long-enough.test"), r.Stats(); got != "192.0.2.1" || s.WrongCase != 1 ||
		s.TCP != 1 {
		t.Errorf("another case: got %s, %d by UDP, %d questions by TCP; want the address by TCP", got,
			s.WrongCase, s.TCP)
	}
}

func TestTruncated(t *testing.T) {
	f := startFake(t, func(req *dns.Msg, tcp bool) *dns.Msg {
		name := req.Question[0].Name
		m := replyTo(req, 0)
		if tcp && name == "partial.test." {
			return nil
		}
		if !tcp {
			m.Truncated = true
			if name == "partial.test." {
				m.Answer = append(m.Answer, rr(t, "%s 300 IN A 192.0.2.1", name))
			}
			return m
		}
		for i := range 100 {
			m.Answer = append(m.Answer, rr(t, "%s 300 IN A 192.0.2.%d", name, i+1))
		}
		return m
	})
	r := newResolver(t, Options{Family: Family4, MaxAddrs: 10}, f)
	if got := lookup(t, r, "big.test"); strings.Count(got, " ") != 9 || !strings.HasPrefix(got, "192.0.2.1 ") {
		t.Errorf("got %s", got)
	}
	if f.tcp.Load() != 1 || r.Stats().TCP != 1 {
		t.Errorf("%d questions by TCP, %d counted", f.tcp.Load(), r.Stats().TCP)
	}
}

// TestOtherServer: after SERVFAIL or REFUSED another server is asked; EDNS0 is omitted if refused.
func TestOtherServer(t *testing.T) {
	bad := startFake(t, func(req *dns.Msg, _ bool) *dns.Msg { return replyTo(req, dns.RcodeServerFailure) })
	old := startFake(t, func(req *dns.Msg, _ bool) *dns.Msg {
		if req.IsEdns0() != nil {
			return replyTo(req, dns.RcodeFormatError)
		}
		return replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", req.Question[0].Name))
	})
	r := newResolver(t, Options{Family: Family4}, bad, old)
	for i := range 20 {
		if got := lookup(t, r, fmt.Sprintf("h%d.test", i)); got != "192.0.2.1" {
			t.Errorf("got %s", got)
		}
	}
	if bad.udp.Load() == 0 || r.Stats().Timeouts != 0 {
		t.Errorf("bad server asked %d times, %d timeouts", bad.udp.Load(), r.Stats().Timeouts)
	}
}

// TestSingleFlightAndPLDBound: a thousand lookups of one name send one question. Names of one PLD stay
// within its bound and do not delay other PLDs.
func TestSingleFlightAndPLDBound(t *testing.T) {
	release := make(chan struct{})
	var now, most atomic.Int64
	f := startFake(t, func(req *dns.Msg, _ bool) *dns.Msg {
		name := req.Question[0].Name
		if strings.HasSuffix(name, "spam.test.") {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-release
			now.Add(-1)
		}
		return replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", name))
	})
	r := newResolver(t, Options{Family: Family4, MaxPerPLD: 3, MaxWaitingPerPLD: 100,
		Timeouts: []time.Duration{20 * time.Second}}, f)
	ctx, cancel := context.WithCancel(t.Context())
	var wg, first sync.WaitGroup
	var busy, canceled, found atomic.Int64
	for i := range 200 {
		first.Add(1)
		wg.Go(func() {
			first.Done()
			_, err := r.Lookup(ctx, fmt.Sprintf("h%d.spam.test", i%150), "spam.test")
			var e *Error
			switch {
			case err == nil:
				found.Add(1)
			case errors.As(err, &e) && e.Kind == KindBusy:
				busy.Add(1)
			case errors.Is(err, context.Canceled):
				canceled.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	first.Wait()
	for r.Stats().Waiting < 100 || now.Load() < 3 || r.Stats().Busy == 0 {
		if got := lookup(t, r, fmt.Sprintf("good%d.test", r.Stats().Lookups)); got != "192.0.2.1" {
			t.Fatalf("held up: %s", got)
		}
	}
	cancel()
	wg.Wait()
	if s := r.Stats(); most.Load() != 3 || s.InFlight != 3 || busy.Load() == 0 || found.Load() != 0 {
		t.Errorf("at most %d at once, %d busy, %d canceled, %+v", most.Load(), busy.Load(), canceled.Load(), s)
	}
	close(release)
	var same sync.WaitGroup
	for range 1000 {
		same.Go(func() { lookup(t, r, "same.test") })
	}
	same.Wait()
	if n := f.asked("same.test. A"); n != 1 {
		t.Errorf("same.test was asked for %d times", n)
	}
	if got := lookup(t, r, "h0.spam.test"); got != "192.0.2.1" {
		t.Errorf("got %s", got)
	}
}

func TestMany(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 3000
	}
	f := startFake(t, func(req *dns.Msg, _ bool) *dns.Msg {
		var i int
		fmt.Sscanf(req.Question[0].Name, "h%d.", &i)
		return replyTo(req, 0, rr(t, "%s 300 IN A 10.0.%d.%d", req.Question[0].Name, i>>8, i&255))
	})
	r := newResolver(t, Options{Family: Family4, MaxInFlight: 100}, f)
	var wg sync.WaitGroup
	var wrong atomic.Int64
	for w := range 200 {
		wg.Go(func() {
			for i := w; i < n; i += 200 {
				if got, want := lookup(t, r, fmt.Sprintf("h%d.test", i)),
					fmt.Sprintf("10.0.%d.%d", i>>8, i&255); got != want {
					wrong.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if wrong.Load() > 0 {
		t.Errorf("%d wrong", wrong.Load())
	}
	if s := r.Stats(); s.Entries != n || s.InFlight != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

func TestRate(t *testing.T) {
	f := startFake(t, func(req *dns.Msg, _ bool) *dns.Msg {
		return replyTo(req, 0, rr(t, "%s 300 IN A 192.0.2.1", req.Question[0].Name))
	})
	r := newResolver(t, Options{Family: Family4, Rate: 200}, f)
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() { lookup(t, r, fmt.Sprintf("h%d.test", i)) })
	}
	wg.Wait()
	if d := time.Since(begin); d < 200*time.Millisecond || d > 5*time.Second {
		t.Errorf("60 questions at 200/s took %v", d)
	}
}

func TestClose(t *testing.T) {
	r := newResolver(t, Options{}, startFake(t, func(*dns.Msg, bool) *dns.Msg { return nil }))
	got := make(chan error)
	go func() {
		_, err := r.Lookup(context.Background(), "a.test", "")
		got <- err
	}()
	for r.Stats().InFlight == 0 {
		runtime.Gosched()
	}
	r.Close()
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Lookup(t.Context(), "a.test", ""); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: got %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	bad := Options{Sockets: -1, Timeouts: []time.Duration{0}}
	err := bad.Validate()
	for _, want := range []string{"no servers", "Sockets is negative: -1", "timeout 0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no servers are enough")
	}
	if f, err := ParseFamily("both"); f != FamilyBoth || err != nil {
		t.Errorf("got %v, %v", f, err)
	}
	if _, err := ParseFamily("5"); err == nil {
		t.Error("family 5")
	}
}

func TestReadResolvConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	os.WriteFile(path, []byte("# a comment\nsearch x.test\nnameserver 192.0.2.1\nnameserver nonsense\n"+
		" nameserver\t2001:db8::1 # two\nnameserver\noptions rotate\n"), 0o644)
	got, err := ReadResolvConf(path)
	want := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("[2001:db8::1]:53")}
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, %v", got, err)
	}
	os.WriteFile(path, []byte("search x.test\n"), 0o644)
	if _, err := ReadResolvConf(path); err == nil {
		t.Error("a file without servers is enough")
	}
	if _, err := ReadResolvConf(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
