package simweb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Gap is a minimum time between requests and the host for which it occurred.
type Gap struct {
	Host  string        // or address; "" if nothing was requested twice
	Value time.Duration // meaningless when Host is ""
}

// Tracked holds the counters of one host or one address. Gaps are -1 before the second request.
type Tracked struct {
	Requests, Robots int           // all requests; those for robots rules
	StartToStart     time.Duration // least time between the starts of consecutive requests
	EndToStart       time.Duration // least time from the end of a response to the next start; 0: overlap
	PageToPage       time.Duration // least time between starts of requests not for robots rules
	Early            int           // requests for pages before the first one for robots rules
	MaxBusy          int           // most requests in progress at once
	MaxConns         int           // most concurrent connections with requests for it (address: open ones)
}

// Snapshot is the log at one moment, as plain data that another process can read and check.
type Snapshot struct {
	Epoch     time.Time               // of the first event; all times count from here
	Requests  []Request               // the latest, oldest first
	Total     int                     // requests, robots included
	Conns     int                     // connections accepted
	Hosts     map[string]Tracked      // by name without port
	Servers   map[string]Tracked      // by address
	Fetches   map[string]int          // by canonical URL of graph and spam PLD, without robots rules
	Wrong     map[string]int          // requested URLs without any link to them
	Fallbacks map[string]int          // URLs requested with the wrong scheme or port of the host: 301
	Lookups   map[string]int          // name queries of all types, with unanswered ones
	Queries   int                     // their sum
	Statuses  map[int]int             // responses by status
	Hostile   map[string]HostileCount // requests to hosts of Options.Hostile, by name
	Astray    int                     // requests at an address that isn't one of the host's
	Dropped   int                     // entries beyond the log's bounds; the checks fail if there are any
}

// HostileCount holds the counters of a host of Options.Hostile.
type HostileCount struct {
	Requests  int   // requests answered, robots rules included
	Bytes     int64 // bytes sent before the client closed
	MostBytes int64 // largest number for one response
}

// Snapshot copies the log.
func (l *Log) Snapshot() *Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &Snapshot{Epoch: l.epoch.Round(0).UTC(), // wall clock only: a monotonic clock can't be serialized
		Total: int(l.next), Conns: int(l.conns), Hosts: map[string]Tracked{}, Servers: map[string]Tracked{},
		Fetches: map[string]int{}, Wrong: map[string]int{}, Fallbacks: map[string]int{}, Statuses: map[int]int{},
		Lookups: map[string]int{}, Queries: l.queries,
		Astray: l.astray, Dropped: l.dropped, Requests: l.requests(),
	}
	for i := range l.hosts {
		if l.hosts[i].requests > 0 {
			s.Hosts[l.w.hosts[i].name] = l.hosts[i].value(l.now())
		}
	}
	for name, t := range l.others {
		s.Hosts[name] = t.value(l.now())
	}
	for ip, t := range l.servers {
		s.Servers[ip.String()] = t.value(l.now())
	}
	for i, c := range l.fetches {
		if c > 0 {
			s.Fetches[l.w.url(l.w.nodeAt(uint64(i)))] = int(c)
		}
	}
	maps.Copy(s.Fetches, l.spam)
	s.Hostile = maps.Clone(l.hostile)
	maps.Copy(s.Wrong, l.wrong)
	maps.Copy(s.Fallbacks, l.fallbacks)
	maps.Copy(s.Lookups, l.lookups)
	maps.Copy(s.Statuses, l.statuses)
	return s
}

func (t *track) value(now time.Duration) Tracked {
	t.settle(now)
	gap := func(d time.Duration) time.Duration {
		if d == none {
			return -1
		}
		return d
	}
	return Tracked{
		Requests: t.requests, Robots: t.robots, StartToStart: gap(t.minStart), EndToStart: gap(t.minEnd),
		PageToPage: gap(t.minPage), Early: t.early, MaxBusy: t.maxBusy, MaxConns: t.maxConns,
	}
}

// requests returns the stored requests, oldest first. Held: mu.
func (l *Log) requests() []Request {
	list := make([]Request, 0, len(l.ring))
	for i := range l.ring {
		e := &l.ring[(l.next+uint64(i))%uint64(len(l.ring))]
		if len(l.ring) < l.keep {
			e = &l.ring[i]
		}
		r := Request{
			Host: e.host, IP: e.ip, Status: int(e.status), Start: e.start, End: e.end, Conn: e.conn, Robots: e.robots,
			Known: e.known,
		}
		if e.known {
			r.Host, r.URL = string(l.w.appendHost(nil, e.node)), l.w.url(e.node)
		} else if r.URL = "http://" + e.host + e.target; e.https {
			r.URL = "https://" + e.host + e.target
		}
		list = append(list, r)
	}
	return list
}

// Requests returns the last LogRequests requests, oldest first.
func (l *Log) Requests() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests()
}

// Totals returns the numbers of requests, of accepted and of open connections. It is cheap.
func (l *Log) Totals() (requests, conns, open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.next), int(l.conns), l.open
}

// WriteTo writes the snapshot as JSON. It implements io.WriterTo.
func (s *Snapshot) WriteTo(out io.Writer) (int64, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return 0, fmt.Errorf("simweb: encode log: %w", err)
	}
	n, err := out.Write(append(b, '\n'))
	return int64(n), err
}

// MinHostGap returns the least time between two requests to one host name, robots rules included: between
// starts, and from the end of one to the start of the next.
func (s *Snapshot) MinHostGap() (start, end Gap) {
	for _, name := range sortedNames(s.Hosts) {
		t := s.Hosts[name]
		if t.StartToStart >= 0 && (start.Host == "" || t.StartToStart < start.Value) {
			start = Gap{name, t.StartToStart}
		}
		if t.EndToStart >= 0 && (end.Host == "" || t.EndToStart < end.Value) {
			end = Gap{name, t.EndToStart}
		}
	}
	return start, end
}

// sortedNames returns the keys of a map in their order.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// MaxHostConns returns the largest number of concurrent connections with a request for one host, and the
// host. A connection counts from its first request for the host until it is closed, or until the response
// after which it closes is complete.
func (s *Snapshot) MaxHostConns() (int, string) {
	most, where := 0, ""
	for _, name := range sortedNames(s.Hosts) {
		if c := s.Hosts[name].MaxConns; c > most {
			most, where = c, name
		}
	}
	return most, where
}

// faults collects errors, and the text of the first ten.
type faults struct {
	n    int
	said []string
}

func (f *faults) add(format string, args ...any) {
	f.n++
	if f.n <= 10 {
		f.said = append(f.said, fmt.Sprintf(format, args...))
	}
}

func (f *faults) err(what string) error {
	if f.n == 0 {
		return nil
	}
	return errors.New("simweb: " + what + ": " + strconv.Itoa(f.n) + " faults: " + strings.Join(f.said, "; "))
}

// CheckOnce returns an error for URLs fetched more than once, URLs without a link to them, and requests at
// a wrong address.
func (s *Snapshot) CheckOnce() error {
	f := &faults{}
	s.sound(f)
	for _, url := range sortedNames(s.Fetches) {
		if c := s.Fetches[url]; c > 1 {
			f.add("%s fetched %d times", url, c)
		}
	}
	return f.err("check that URLs are fetched once")
}

// sound adds the faults that are wrong in every run.
func (s *Snapshot) sound(f *faults) {
	for _, url := range sortedNames(s.Wrong) {
		f.add("%s asked %d times, no link leads there", url, s.Wrong[url])
	}
	if s.Astray > 0 {
		f.add("%d requests came to an address that is not the host's", s.Astray)
	}
	if s.Dropped > 0 {
		f.add("the log dropped %d entries", s.Dropped)
	}
}

// CheckGaps returns an error for hosts and addresses with two requests that started less than the delay
// apart (robots rules included), and for hosts with concurrent connections. It subtracts slack from both
// delays, because over sockets a server may read the first of two requests late. In a bubble slack is 0.
func (s *Snapshot) CheckGaps(host, server, slack time.Duration) error {
	return s.checkGaps(host-slack, server-slack, func(t Tracked) time.Duration { return t.StartToStart },
		"check delays")
}

// CheckEndGaps is CheckGaps from the end of a response to the start of the next request, without slack: a
// correct client always passes it, even if the server is late.
func (s *Snapshot) CheckEndGaps(host, server time.Duration) error {
	return s.checkGaps(host, server, func(t Tracked) time.Duration { return t.EndToStart },
		"check delays after responses")
}

func (s *Snapshot) checkGaps(host, server time.Duration, gap func(Tracked) time.Duration, what string) error {
	f := &faults{}
	gaps := func(what string, m map[string]Tracked, least time.Duration) {
		for _, name := range sortedNames(m) {
			if g := gap(m[name]); g >= 0 && g < least {
				f.add("%s %s asked again after %v, must wait %v", what, name, g, least)
			}
		}
	}
	gaps("host", s.Hosts, host)
	gaps("server", s.Servers, server)
	s.checkConns(f)
	return f.err(what)
}

// CheckRobotsFirst returns an error for hosts whose first request was not for robots rules.
func (s *Snapshot) CheckRobotsFirst() error {
	f := &faults{}
	for _, name := range sortedNames(s.Hosts) {
		if n := s.Hosts[name].Early; n > 0 {
			f.add("host %s got %d requests before one for robots.txt", name, n)
		}
	}
	return f.err("check that robots.txt comes first")
}

func (s *Snapshot) checkConns(f *faults) {
	for _, name := range sortedNames(s.Hosts) {
		if c := s.Hosts[name].MaxConns; c > 1 {
			f.add("host %s had %d connections at once", name, c)
		}
	}
}

// CheckFetched returns an error for any difference between the fetched and the expected URLs. A URL may be
// fetched up to times times, because a kill repeats a few. It ignores fetches of the spam PLD.
func (s *Snapshot) CheckFetched(e *Expected, times int) error {
	f := &faults{}
	s.sound(f)
	missing := 0
	for url := range e.FetchedURLs() {
		if s.Fetches[url] == 0 {
			missing++
			f.add("%s not fetched", url)
		}
	}
	for _, url := range sortedNames(s.Fetches) {
		if n, err := e.w.parseURL(url); err == nil && n.host == e.w.spam {
			continue
		}
		fetched, refused, _ := e.Has(url)
		c := s.Fetches[url]
		switch {
		case refused:
			f.add("%s fetched though robots.txt disallows it", url)
		case !fetched:
			f.add("%s fetched though nothing reachable links to it", url)
		case c > times:
			f.add("%s fetched %d times", url, c)
		}
	}
	return f.err(fmt.Sprintf("compare with the expected set (%d URLs, %d missing)", e.Fetched, missing))
}

// CheckCrawlDelay returns an error for hosts whose pages were fetched faster than their Crawl-delay, or
// than limit if that is less. It ignores requests for robots rules, because the first one precedes
// knowledge of the delay.
func (l *Log) CheckCrawlDelay(limit, slack time.Duration) error {
	f := &faults{}
	s := l.Snapshot()
	for _, name := range sortedNames(s.Hosts) {
		least := min(limit, l.w.CrawlDelay(name)) - slack
		if g := s.Hosts[name].PageToPage; g >= 0 && g < least {
			f.add("host %s asked for a page again after %v, its Crawl-delay is %v", name, g, l.w.CrawlDelay(name))
		}
	}
	return f.err("check crawl delays")
}

// spamAddr returns the address of spam host sub.
func (w *Web) spamAddr(sub uint64) netip.Addr {
	return w.spamIP[below(hash(w.opt.Seed, sub, saltAddr), uint64(len(w.spamIP)))]
}
