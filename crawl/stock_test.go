package crawl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/state"
)

// treeWeb is a web of hosts h0.test, h1.test …, each a PLD with its own address. The pages of a host form
// an infinite tree: page 0 links to pages 1 to 12, page k to pages 2k+11 and 2k+12. It is a Fetcher and a
// Resolver, and answers after latency.
type treeWeb struct {
	pages atomic.Int64
	// turns counts the fetched pages of all hosts in a window of each host. The window starts at from and
	// lasts periods times the host's period, delay plus latency. A host that is never idle has periods
	// turns in it.
	turns   atomic.Int64
	from    time.Time
	periods int
}

// treeDelay is the delay of each host.
const treeDelay = 40 * time.Second

// latency is between 100 ms and 2 s, so that hosts that start together drift apart.
func (*treeWeb) latency(host string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	return 100*time.Millisecond + time.Duration(h.Sum32()%1900)*time.Millisecond
}

func (w *treeWeb) LookupHost(_ context.Context, host, _ string) (Lookup, error) {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(host, "h"), ".test"))
	if err != nil {
		return Lookup{}, &LookupError{Host: host, NotFound: true}
	}
	var b [4]byte // a network per host, as far as the numbers reach
	binary.BigEndian.PutUint32(b[:], 0x0b000000+uint32(n)<<8+1)
	return Lookup{Addrs: []netip.Addr{netip.AddrFrom4(b)}, Expires: time.Now().Add(24 * time.Hour)}, nil
}

func (w *treeWeb) Do(ctx context.Context, req *fetch.Request, resp *fetch.Response) error {
	if req.BeforeWrite != nil {
		req.BeforeWrite()
	}
	resp.Start = time.Now()
	latency := w.latency(req.Host)
	account.Sleep(ctx, latency)
	resp.Proto, resp.Total, resp.FirstByte = "HTTP/1.1", latency, latency
	if req.PathQuery == "/robots.txt" {
		resp.Status = 404
		return nil
	}
	w.pages.Add(1)
	if at := time.Since(w.from); at >= 0 && at < time.Duration(w.periods)*(treeDelay+latency) {
		w.turns.Add(1)
	}
	resp.Status = 200
	k, _ := strconv.Atoi(req.PathQuery[1:])
	first, last := 2*k+11, 2*k+12
	if k == 0 {
		first, last = 1, 12
	}
	resp.Body = append(resp.Body, "<html>"...)
	for i := first; i <= last; i++ {
		resp.Body = fmt.Appendf(resp.Body, "<a href=/%d>x</a>", i)
	}
	return nil
}

// stockTurns crawls hosts with a delay of 40 s and the command's defaults. It returns the number of visits
// in the last minutes as a share of the possible ones. RAM must not exceed the plan.
func stockTurns(t *testing.T, hosts, connections int) (share float64) {
	inBubble(t, func(t *testing.T) {
		w := &treeWeb{}
		opt := Options{
			Disk:     DiskOptions{FS: memfs.New(*seedFlag), Dirs: []string{"d0"}, CheckpointEvery: time.Minute},
			Identity: IdentityOptions{Agent: "drumbeat", Contact: "test@example.org"},
			Network:  NetworkOptions{Resolver: w, Fetcher: w, Connections: connections},
			Limits:   LimitsOptions{RAMBytes: 4 << 30, DiskBytes: 1 << 40, MaxDepth: Unlimited, Linger: time.Minute},
			Health:   HealthOptions{Retries: 3},
			Politeness: PolitenessOptions{HostDelay: treeDelay, HostDelayMin: time.Second, ServerDelay: time.Second,
				ServerDelayMin: 200 * time.Millisecond, PLDDelay: 500 * time.Millisecond,
				PLDDelayMin: 20 * time.Millisecond, NetworkRate: 10, NetworkConnections: 20, HostDelayFactor: 10},
			Output: OutputOptions{CrawlLog: state.LogErrors},
		}
		for i := range hosts {
			opt.Admission.SeedLines = append(opt.Admission.SeedLines, fmt.Sprintf("http://h%d.test/0", i))
		}
		begin, end := 4*time.Minute, 8*time.Minute
		if *longRuns {
			begin, end = 5*time.Minute, 15*time.Minute
		}
		opt.Limits.MaxTime = end
		w.from, w.periods = time.Now().Add(begin), int((end-begin)/(treeDelay+2*time.Second))
		var c *crawler
		opt.Observe.SnapshotEvery = time.Second
		opt.Observe.Snapshot = func(s *Snapshot) {
			if n := c.polite.Bytes() + c.polite.TableBytes(); n > c.plan.PoliteBytes {
				t.Errorf("%v: URLs in RAM take %d bytes, the plan allows %d", s.Elapsed, n, c.plan.PoliteBytes)
			}
			if *verbose && s.Elapsed%(20*time.Second) < time.Second {
				t.Logf("%v: fetched %d places %v deferrals %d %+v %+v", s.Elapsed.Round(time.Second),
					s.Count(state.CountResponses), s.Places, s.Count(state.CountDeferrals),
					c.polite.Use(), c.stock.Aim())
			}
		}
		c = openCrawler(t, opt)
		res, err := c.crawl(t.Context(), 0)
		if err := errors.Join(err, c.close()); err != nil || res.Stop != StopTime {
			t.Fatal(res, err)
		}
		share = float64(w.turns.Load()) / float64(hosts*w.periods)
		t.Logf("%d hosts, %d connections: %.3f of the possible visits; %d deferrals for %d pages", hosts,
			connections, share, res.Snapshot.Count(state.CountDeferrals), w.pages.Load())
	})
	return share
}

// TestStockFollowsDelays: nearly every host must be visited when its delay has passed, with the number of
// hosts that keep 34 or the default 2000 connections busy at 40 s. A stock sized by connections would hold
// only half as many URLs as there are hosts.
func TestStockFollowsDelays(t *testing.T) {
	notShort(t)
	t.Parallel()
	hosts, connections := 1000, 34
	if *longRuns {
		hosts, connections = 59_000, 2000
	}
	if share := stockTurns(t, hosts, connections); share < 0.95 {
		t.Errorf("the hosts had %.3f of their possible visits", share)
	}
}
