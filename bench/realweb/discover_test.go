package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/bench/docweb"
	"drumbeat/bench/result"
)

// reader walks a web of docweb by HTTP with other parsers than drumbeat's.
type reader struct {
	t      *testing.T
	client *http.Client
	server *docweb.Server
	rules  map[string]*regexp.Regexp // by host: the paths that are forbidden; nil: none
	links  int
}

func newReader(t *testing.T, s *docweb.Server) *reader {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		name, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		ip, ok := s.Web().Lookup(name)
		if !ok {
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(ip.String(), port))
	}
	transport := &http.Transport{DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &reader{t: t, server: s, rules: map[string]*regexp.Regexp{}, client: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// get returns an answer; nil if the host does not exist.
func (r *reader) get(u string) (*http.Response, string) {
	answer, err := r.client.Get(u)
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return nil, ""
	}
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer, string(body)
}

var (
	hostOf   = regexp.MustCompile(`^(http://[^/]+)(/.*)$`)
	disallow = regexp.MustCompile(`(?m)^User-agent: \*\n(?:.+\n)*?Disallow: (/.*)$`)
)

// allowed asks a host's robots.txt once: 5xx forbids everything, 4xx nothing; a redirect is followed.
func (r *reader) allowed(u string) bool {
	m := hostOf.FindStringSubmatch(u)
	rule, known := r.rules[m[1]]
	if !known {
		answer, body := r.get(m[1] + "/robots.txt")
		switch {
		case answer == nil:
			rule = regexp.MustCompile("")
		case answer.StatusCode == http.StatusMovedPermanently:
			to, err := answer.Location()
			if err != nil {
				r.t.Fatal(err)
			}
			_, body = r.get(to.String())
		case answer.StatusCode >= 500:
			rule = regexp.MustCompile("")
		case answer.StatusCode >= 400:
			body = ""
		}
		if d := disallow.FindStringSubmatch(body); d != nil {
			rule = regexp.MustCompile("^" + regexp.QuoteMeta(d[1]))
		}
		r.rules[m[1]] = rule
	}
	return rule == nil || !rule.MatchString(m[2])
}

// walk fetches all that can be found from the seeds.
func (r *reader) walk(seeds []string) {
	parser := newURLParser()
	seen := map[string]bool{}
	list := slices.Clone(seeds)
	for i := 0; i < len(list); i++ {
		u := list[i]
		if seen[u] || !r.allowed(u) {
			continue
		}
		seen[u] = true
		answer, body := r.get(u)
		if to := answer.Header.Get("Location"); to != "" {
			list = append(list, to)
			continue
		}
		if answer.StatusCode != http.StatusOK {
			continue
		}
		d, err := readDocument([]byte(body), answer.Header.Get("Content-Type"))
		if err != nil {
			r.t.Fatal(err)
		}
		base, err := parser.Parse(u)
		if err != nil {
			r.t.Fatal(err)
		}
		for ref, times := range d.refs {
			to, bad := resolve(base, ref)
			if bad != "" {
				r.t.Fatalf("%s links to %q: %s", u, ref, bad)
			}
			if ref != "" {
				r.links += times
				list = append(list, to)
			}
		}
	}
}

// TestDiscoverWalk: a walk with other parsers fetches the expected pages of the web, each once, and no
// others.
func TestDiscoverWalk(t *testing.T) {
	s, err := docweb.Serve(docweb.Options{Hosts: 14, Addrs: 3, Largest: 1100, Skew: 2.5, MeanBytes: 4000, Seed: 11})
	must(t, err)
	defer s.Close()
	for _, seeds := range []int{1, 3} {
		if testing.Short() && seeds == 1 {
			continue
		}
		e := s.Web().Expected(seeds)
		s.Log().Restart(e)
		r := newReader(t, s)
		r.walk(s.Web().Seeds(seeds))
		c := s.Log().Counts()
		if c.Pages != e.Pages || c.Missing+c.Extra+c.Twice > 0 || c.Gone == 0 || c.Moved == 0 || r.links != e.Links {
			t.Errorf("%d seeds: got %d pages, %d missing (%s), %d extra, %d twice, %d links; want %d pages, %d links",
				seeds, c.Pages, c.Missing, c.MissedOf, c.Extra, c.Twice, r.links, e.Pages, e.Links)
		}
		requests := 0
		e.Requests(func(*docweb.Host, string) { requests++ })
		if got := c.Pages + c.Gone + c.Moved; got != requests {
			t.Errorf("%d seeds: got %d requests, want the %d of the list for the bare loop", seeds, got, requests)
		}
	}
}

// trialOf makes a trial from the number of pages in each quarter of a second.
func trialOf(quarters ...int) *discoverTrial {
	l := new(discoverTrial)
	for i, n := range quarters {
		for k := range n {
			l.Ends = append(l.Ends, time.Duration(i)*time.Second/4+time.Duration(k))
		}
	}
	l.Pages, l.First = len(l.Ends), 10
	l.last = time.Duration(len(quarters)) * time.Second / 4
	return l
}

// TestStalls: only whole seconds after the second one are judged.
func TestStalls(t *testing.T) {
	for _, c := range []struct {
		quarters    []int
		seconds     string
		worst, slow float64
	}{
		{[]int{100, 100, 0}, "[]", 1, 0},
		{[]int{1, 0, 0, 0, 1, 0, 0, 0}, "[1 1]", 1, 0},
		{[]int{0, 0, 0, 0, 0, 0, 0, 0, 40, 40, 40, 40, 10, 0, 0, 0, 30, 30, 30, 20, 1}, "[0 0 160 10 110]",
			10 / (281 / 5.25), 1. / 3},
		{[]int{50, 0, 0, 0, 50, 0, 0, 0, 50, 0, 0, 0}, "[50 50 50]", 1, 0},
	} {
		l := trialOf(c.quarters...)
		if got := fmt.Sprint(l.seconds()); got != c.seconds || fmt.Sprintf("%.3f %.3f", l.worst(),
			l.slowShare()) != fmt.Sprintf("%.3f %.3f", c.worst, c.slow) {
			t.Errorf("%v: got %s, worst %.3f, slow %.3f, want %+v", c.quarters, got, l.worst(), l.slowShare(), c)
		}
	}
	if got := trialOf(50, 60).hundredth(); got != time.Second/4+49-10 {
		t.Errorf("100 pages: got %v, want the 50th of the second quarter less the first answer", got)
	}
	if got := trialOf(3).hundredth(); got != 2-10 {
		t.Errorf("3 pages: got %v, want the last less the first answer", got)
	}
}

// TestContenders: wget2 is left out where it is missing, and the report says so; others must be known.
func TestContenders(t *testing.T) {
	for _, c := range []struct {
		cmd  discoverCmd
		want string // "": an error
	}{
		{discoverCmd{raceFlags: raceFlags{Wget2: "/missing"}}, "bare drumbeat"},
		{discoverCmd{raceFlags: raceFlags{Wget2: "/bin/sh"}}, "bare drumbeat"},
		{discoverCmd{raceFlags: raceFlags{Wget2: "/bin/sh"}, Names: "x.so"}, "wget2 bare drumbeat"},
		{discoverCmd{raceFlags: raceFlags{Wget2: "/missing"}, discoverFlags: discoverFlags{BadHosts: true}},
			"drumbeat drumbeat-lists drumbeat-bad"},
		{discoverCmd{raceFlags: raceFlags{Wget2: "/missing"}, Contenders: []string{"wget2"}}, ""},
		{discoverCmd{Contenders: []string{"drumbeat-bad"}}, ""},
		{discoverCmd{Contenders: []string{"curl"}}, ""},
	} {
		d := &discovery{discoverCmd: &c.cmd}
		err := d.choose()
		if got := strings.Join(d.Contenders, " "); (err == nil) != (c.want != "") || err == nil && got != c.want {
			t.Errorf("%+v: got %s, %v, want %q", c.cmd, got, err, c.want)
		}
	}
}

// TestDiscoverReport: figures are medians, a trial with a missing page fails the check whichever it is, and
// only stated targets are checked.
func TestDiscoverReport(t *testing.T) {
	s, err := docweb.Serve(docweb.Options{Hosts: 8, Addrs: 2, Largest: 20, Skew: 1, MeanBytes: 4000, Seed: 1})
	must(t, err)
	defer s.Close()
	bad := trialOf(40, 40, 40, 40)
	bad.Missing, bad.MissedOf = 1, []string{"http://a.test/x"}
	half := trialOf(20, 20, 20, 20)
	d := &discovery{discoverCmd: &discoverCmd{discoverFlags: discoverFlags{Web: webSmall, Seeds: 1},
		Contenders: []string{bareName, drumbeatName}, raceFlags: raceFlags{Pairs: 3, LeastBare: 0.75}},
		discoverServers: &discoverServers{web: s.Web(), server: s, dns: noNames(t)}, expect: s.Web().Expected(1),
		runs: runs[*discoverTrial]{bareName: {trialOf(40, 40, 40, 40)}, drumbeatName: {half, bad, half}}}
	half.slots = map[string]float64{"politeness": 0.75, "disk": 0.25}
	rep := result.New("discover", "test")
	d.report(rep, s.Web().Figures())
	failed := 0
	for _, c := range rep.Checks {
		if !c.OK() {
			failed++
		}
	}
	if len(rep.Checks) != 4 || failed != 2 {
		t.Errorf("got %v, want 4 checks; the missing page and half of the speed fail", rep.Checks)
	}
	var b strings.Builder
	must(t, rep.Write(&b))
	for _, text := range []string{"politeness 75 %, disk 25 %", "drumbeat/bare     0.50",
		"drumbeat missed http://a.test/x", "BenchmarkDiscover/client=drumbeat"} {
		if !strings.Contains(b.String(), text) {
			t.Errorf("the report lacks %q:\n%s", text, b.String())
		}
	}
}
