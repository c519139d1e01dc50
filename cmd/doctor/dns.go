package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/dnscache"
	"drumbeat/internal/bug"
	"drumbeat/internal/human"
)

const (
	maxServers     = 4 // servers that are asked; a crawl may have more
	latencyNames   = 20
	latencyAtOnce  = 4
	latencyTime    = 3 * time.Second
	falseTime      = 2 * time.Second
	burstAtOnce    = 64
	burstTime      = 2 * time.Second
	replyTime      = 2 * time.Second // for a single question, which is not repeated
	slowReply      = time.Second     // the crawler then asks again
	leastAnswered  = 0.8             // share of names; some of the web's hosts are always dead
	publicLookups  = 20              // per second; more than that is much for somebody else's server
	falseLabelSize = 20
)

// checkNameServers asks all servers at the same time.
func checkNameServers(ctx context.Context, e *env) []finding {
	const name = "name server"
	switch {
	case e.skipNetwork:
		return []finding{{Check: name, Now: "not asked: --no-network", Status: unknown}}
	case e.noServers != nil:
		return []finding{{Check: name, Now: e.noServers.Error(), Need: "a resolver", Status: fail,
			Fix: []string{"--resolver ADDRESS, or a line \"nameserver ADDRESS\" in /etc/resolv.conf"}}}
	}
	servers := e.servers[:min(len(e.servers), maxServers)]
	e.say(fmt.Sprintf("drumbeat doctor: asking %s, at most %d queries", plural(int64(len(servers)), name), e.queries))
	lists := make([][]finding, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			defer bug.Fatal()
			lists[i] = askServer(ctx, e, s, int64(e.queries/len(servers)))
		})
	}
	wg.Wait()
	return slices.Concat(lists...)
}

// server is one name server and the queries that may still be sent to it.
type server struct {
	*env
	dns  *dnscache.Resolver
	addr netip.AddrPort
	left atomic.Int64
}

// askServer measures one server with at most queries questions.
func askServer(ctx context.Context, e *env, addr netip.AddrPort, queries int64) []finding {
	s := &server{env: e, addr: addr}
	s.left.Store(queries)
	family := dnscache.Family4 // one question for each name
	if e.family == "6" {
		family = dnscache.Family6
	}
	var err error
	s.dns, err = dnscache.New(dnscache.Options{Servers: []netip.AddrPort{addr},
		Timeouts: []time.Duration{replyTime}, Family: family, MixCase: true, FailureTTL: dnscache.NoFailureCache,
		Dial: s.dial, Panicked: e.panicked})
	if err != nil {
		return cannot(s.label(""), err)
	}
	defer s.dns.Close()
	first := s.latency(ctx)
	if first.Status == fail {
		return []finding{first}
	}
	list := append([]finding{first}, s.overTCP(ctx)...)
	return append(list, s.falseNames(ctx), s.burst(ctx))
}

// label names the server in results.
func (s *server) label(what string) string {
	text := s.addr.String()
	if s.addr.Port() == 53 {
		text = s.addr.Addr().String()
	}
	return "name server " + text + what
}

// dial opens a connection on which only the queries left are sent.
func (s *server) dial(ctx context.Context, network string, addr netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr.String())
	if err != nil {
		return nil, err
	}
	return &counted{conn, &s.left}, nil
}

// counted is a connection that drops what is written when no query is left.
type counted struct {
	net.Conn
	left *atomic.Int64
}

// Write sends a query.
func (c *counted) Write(p []byte) (int, error) {
	if c.left.Add(-1) < 0 {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// answered reports whether an error of a lookup is an answer, and not a failure of the server.
func answered(err error) bool {
	var de *dnscache.Error
	return err == nil || errors.As(err, &de) && de.Kind.Permanent()
}

// latency asks for some names, a few at a time.
func (s *server) latency(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, latencyTime)
	defer cancel()
	names := s.names[:min(len(s.names), latencyNames, int(s.left.Load())/2)]
	var mu sync.Mutex // guards the variables below
	var times []time.Duration
	var asked int
	var last error
	s.each(names, latencyAtOnce, func(name string) bool {
		begun := time.Now()
		_, err := s.dns.LookupFresh(ctx, name, name)
		took := time.Since(begun)
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil && !answered(err) {
			return false
		}
		asked++
		if answered(err) {
			times = append(times, took)
		} else {
			last = err
		}
		return len(times) > 0 || asked < latencyAtOnce
	})
	r := finding{Check: s.label(""), Need: fmt.Sprintf("answers, 90 %% within %s", human.Duration(slowReply))}
	if len(times) == 0 {
		r.Now = "no answer"
		if last != nil {
			r.Now += ": " + strings.TrimPrefix(last.Error(), "dnscache: ")
		}
		r.at(fail, true, "start the server, open its port (53, UDP and TCP), or choose another: --resolver ADDRESS")
		return r
	}
	slices.Sort(times)
	p90 := times[(len(times)*9+9)/10-1]
	r.Now = fmt.Sprintf("median %s, p90 %s, %d of %s", human.Duration(times[len(times)/2]),
		human.Duration(p90),
		len(times), human.Counted(asked, "name", "names"))
	r.at(warn, p90 > slowReply, "use a resolver near by (unbound, knot-resolver): --resolver ADDRESS")
	r.at(warn, float64(len(times)) < leastAnswered*float64(asked),
		"read the log of the server; names that exist must resolve")
	r.at(warn, public(s.addr.Addr()) && s.need.Lookups > publicLookups,
		"a public resolver may block "+number(s.need.Lookups)+" lookups/s: use your own, or bound them by --dns-rate")
	return r
}

// each calls f for names, atOnce at a time, until it returns false.
func (s *server) each(names []string, atOnce int, f func(name string) bool) {
	var next atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			defer bug.Fatal()
			for !stop.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(names) || !f(names[i]) {
					stop.Store(true)
				}
			}
		})
	}
	wg.Wait()
}

// overTCP returns a warning if the server takes no TCP connection: long answers need one.
func (s *server) overTCP(ctx context.Context) []finding {
	ctx, cancel := context.WithTimeout(ctx, falseTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.addr.String())
	if err == nil {
		conn.Close()
		return nil
	}
	return []finding{{Check: s.label(", TCP"), Now: err.Error(), Need: "a connection, for long answers", Status: warn,
		Fix: []string{"open the TCP port of the server, too"}}}
}

// falseNames asks for a random top-level domain and a random name in .com.
func (s *server) falseNames(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, falseTime)
	defer cancel()
	random := func() string { return "x" + strings.ToLower(rand.Text()[:falseLabelSize]) }
	r := finding{Check: s.label(", false names"), Now: "NXDOMAIN", Need: "NXDOMAIN"}
	for _, name := range []string{"www." + random(), "www." + random() + ".com"} {
		a, err := s.dns.LookupFresh(ctx, name, name)
		var de *dnscache.Error
		switch {
		case err == nil:
			r.Now = fmt.Sprintf("%v for %s", a.Addrs[0], shorten(name))
			r.at(fail, true, "the server invents addresses: use a resolver of your own (unbound): --resolver ADDRESS")
			return r
		case errors.As(err, &de) && de.Kind == dnscache.KindNXDomain:
		case errors.As(err, &de) && de.Kind == dnscache.KindNoData:
			r.Now = "no address, but no NXDOMAIN, for " + shorten(name)
			r.at(warn, true, "use a resolver that passes on NXDOMAIN (unbound): --resolver ADDRESS")
		default:
			r.at(unknown, true)
			if r.Status == unknown {
				r.Now = strings.TrimPrefix(err.Error(), "dnscache: ")
			}
		}
	}
	return r
}

// shorten cuts the random part of a name.
func shorten(name string) string { return strings.Replace(name, name[8:4+1+falseLabelSize], "…", 1) }

// burst asks as fast as the server answers, with the queries that are left. If there are few names, it
// repeats them, and the answers come from the server's cache.
func (s *server) burst(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, burstTime)
	defer cancel()
	n := max(0, int(s.left.Load()))
	fresh := s.names
	if len(fresh) > latencyNames {
		fresh = fresh[latencyNames:]
	}
	var names []string
	for len(names) < n {
		names = append(names, fresh[:min(len(fresh), n-len(names))]...)
	}
	atOnce := min(burstAtOnce, len(fresh), n)
	var good, spent atomic.Int64
	s.each(names, atOnce, func(name string) bool {
		begun := time.Now()
		_, err := s.dns.LookupFresh(ctx, name, name)
		if s.left.Load() < 0 {
			cancel() // this query, or another one of this lookup, was not sent
			return false
		}
		spent.Add(int64(time.Since(begun)))
		if answered(err) {
			good.Add(1)
		}
		return ctx.Err() == nil
	})
	// Little's law. Lookups by time would be far less if the last lookup of so short a burst is slow.
	perSecond := float64(good.Load()) * float64(atOnce) / max(time.Duration(spent.Load()), 1).Seconds()
	from := ""
	if len(fresh) < n/2 {
		from = fmt.Sprintf(" for %s, cached there", plural(int64(len(fresh)), "name"))
	}
	r := finding{Check: s.label(", lookups/s"),
		Now:  fmt.Sprintf("about %s (%s%s)", number(twoDigits(perSecond)), plural(good.Load(), "answer"), from),
		Need: fmt.Sprintf("%s for %s pages/s", number(s.need.Lookups), number(s.need.Rate))}
	r.at(warn, perSecond < s.need.Lookups, "a faster resolver, or several: --resolver A --resolver B")
	return r
}

// twoDigits rounds v: the rate of so short a burst has no more digits.
func twoDigits(v float64) float64 {
	if v < 100 {
		return v
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(v/unit) * unit
}

// public reports whether an address is one of the large public resolvers: Google, Cloudflare, Quad9, OpenDNS.
func public(a netip.Addr) bool {
	return slices.Contains([]string{"8.8.8.8", "8.8.4.4", "2001:4860:4860::8888", "2001:4860:4860::8844",
		"1.1.1.1", "1.0.0.1", "2606:4700:4700::1111", "2606:4700:4700::1001", "9.9.9.9",
		"149.112.112.112", "2620:fe::fe", "208.67.222.222", "208.67.220.220"}, a.String())
}
