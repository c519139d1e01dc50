package crawl

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/fetch"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// figureFaults returns the figures of accounts that do not agree with each other. They must agree at each
// checkpoint, because one transaction changes them together.
func figureFaults(a *state.Accounts) (faults []string) {
	check := func(what string, got, want int64) {
		if got != want {
			faults = append(faults, fmt.Sprintf("%s: %d, want %d", what, got, want))
		}
	}
	sum := func(list []int64) (n int64) {
		for _, v := range list {
			n += v
		}
		return n
	}
	count := func(c state.Counter) int64 { return a.Counters[c] }
	responses := count(state.CountResponses)
	check("responses by code", sum(a.Codes[:]), responses)
	for class := 1; class <= 5; class++ {
		check(fmt.Sprintf("responses %dxx", class), sum(a.Codes[100*class:100*class+100]), a.Status[class])
	}
	check("attempts", responses+sum(a.Failed[:]), count(state.CountAttempts))
	robots := count(state.CountRobotsFailed)
	for class := range state.Counter(6) {
		robots += count(state.CountRobotsStatusOther + class)
	}
	check("requests for robots.txt", robots, count(state.CountRobotsAttempts))
	check("URLs that ended", a.Places[state.PlaceFetched].N, responses)
	// Flows balance: what entered a place and has not left it is there.
	check("URLs in QF", count(state.CountURLsOver)-count(state.CountURLsScanned), a.Places[state.PlaceOverBudget].N)
	check("URLs in BEAST", count(state.CountURLsPlaced)-count(state.CountURLsReleased)-count(state.CountURLsReplaced),
		a.Places[state.PlaceBeast].N)
	check("URLs in QR", count(state.CountURLsUnknown)-count(state.CountURLsAnswered),
		a.Places[state.PlaceAwaitRobots].N)
	return faults
}

// TestFigures: the figures of a crawl with failing hosts must agree with each other and with what the web
// saw, over two runs.
func TestFigures(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, fs, opt := smallCrawl(t, func(o *simweb.Options) { o.Page.Gzip, o.HTTPS = 0.5, 0.5 })
		opt.Limits.MaxPages = 200
		first := mustRun(t, t.Context(), opt)
		opt.Limits.MaxPages = 0
		var lines int
		opt.Observe.Snapshot = func(*Snapshot) { lines++ }
		res := mustRun(t, t.Context(), opt)
		_, m, err := lastManifest(fs, opt.Disk.Dirs)
		must(t, err)
		s := &res.Snapshot
		for _, f := range figureFaults(&m.Accounts) {
			t.Error(f)
		}
		if m.Accounts.Codes != s.Codes || s.Codes[200] <= first.Snapshot.Codes[200] || s.Runs != 2 || lines == 0 {
			t.Errorf("the codes of the manifest and the snapshot differ, or runs %d, snapshots %d", s.Runs, lines)
		}
		for _, c := range []state.Counter{state.CountBytesSent, state.CountBytesPages, state.CountCompressed,
			state.CountBytesCompressed, state.CountConnections, state.CountConnectionsReused,
			state.CountRobotsBytesSent, state.CountRobotsStatus2xx} {
			// The first run may have made all requests.
			robots := c == state.CountRobotsBytesSent || c == state.CountRobotsStatus2xx
			if s.Count(c) < first.Snapshot.Count(c) || s.Count(c) == first.Snapshot.Count(c) && !robots ||
				first.Snapshot.Count(c) == 0 {
				t.Errorf("%v: %d after the first run, %d after the second", c, first.Snapshot.Count(c), s.Count(c))
			}
		}
		if s.Count(state.CountBytesUncompressed) <= s.Count(state.CountBytesCompressed) ||
			s.Count(state.CountBytesPages) > s.Count(state.CountBytesBody) {
			t.Errorf("bytes: %v", s.Counters)
		}
		for _, kind := range []snapshot.Time{snapshot.TimeLookup, snapshot.TimeConnect, snapshot.TimeTLS,
			snapshot.TimeFirstByte, snapshot.TimeExchange, snapshot.TimePass, snapshot.TimeCheckpoint,
			snapshot.TimePause} {
			if s.Times[kind].Count()+first.Snapshot.Times[kind].Count() == 0 {
				t.Errorf("no times of kind %d", kind)
			}
		}
		if sized := s.Count(state.CountURLsSized); sized != s.Unique ||
			s.Count(state.CountURLBytes) >= s.Count(state.CountRecordBytes) {
			t.Errorf("the sizes of %d URLs of %d are known", sized, s.Unique)
		}
		if s.Edges == 0 || s.PLDs == 0 || s.Saved.IsZero() || s.CheckpointEvery != opt.Disk.CheckpointEvery ||
			len(s.Dirs) != 2 || s.RAM.Limit != opt.Limits.RAMBytes || len(s.RAM.Parts) == 0 || len(s.Disk.Parts) == 0 {
			t.Errorf("snapshot %+v", s)
		}
		parts := int64(0)
		for _, p := range s.RAM.Parts {
			parts += p.Bytes
		}
		if parts != s.RAM.Limit {
			t.Errorf("the parts of RAM sum up to %d of %d", parts, s.RAM.Limit)
		}
	})
}

// TestCodes: codes must survive the manifest, which lists those that occurred. A manifest without codes must
// be read.
func TestCodes(t *testing.T) {
	var a state.Accounts
	a.Codes[0], a.Codes[100], a.Codes[404], a.Codes[999] = 1, 2, 3, 4
	data, err := json.Marshal(a.Codes)
	if err != nil || string(data) != `{"0":1,"100":2,"404":3,"999":4}` {
		t.Fatalf("%s, %v", data, err)
	}
	var back state.Codes
	if err := json.Unmarshal(data, &back); err != nil || back != a.Codes {
		t.Errorf("got %v, %v", back, err)
	}
	for _, bad := range []string{`{"1000":1}`, `{"-1":1}`, `{"x":1}`, `[1]`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	var old state.Accounts
	if err := json.Unmarshal([]byte(`{"status":[0,0,5,0,0,0]}`), &old); err != nil || old.Status[2] != 5 ||
		old.Codes != (state.Codes{}) {
		t.Errorf("accounts of an older program: %v, %v", old.Status, err)
	}
	for code, want := range map[int]int{-1: 0, 0: 0, 99: 0, 100: 100, 599: 599, 999: 999, 1000: 0} {
		if got := state.CodeAt(code); got != want {
			t.Errorf("code %d is counted at %d, want %d", code, got, want)
		}
	}
}

// BenchmarkFiguresOfAPage measures what the figures of a page cost: its histograms, and the counters that the
// transaction of an exchange has for them.
func BenchmarkFiguresOfAPage(b *testing.B) {
	var ts account.Times
	var a account.Accounts
	tx := new(account.Tx)
	resp := &fetch.Response{Status: 200, Connect: time.Millisecond, TLS: 3 * time.Millisecond,
		FirstByte: 20 * time.Millisecond, Total: 30 * time.Millisecond, TLSVersion: tls.VersionTLS13, BytesWritten: 200,
		Encoding: "gzip"}
	b.ReportAllocs()
	for b.Loop() {
		fetcher.TimeExchange(&ts, resp, nil)
		tx.Count(state.CountBytesSent, resp.BytesWritten)
		fetcher.LinkOf(resp, fetcher.Signature{}, nil).Count(tx)
		tx.Response(resp.Status)
		tx.Count(state.CountCompressed, 1)
		tx.Count(state.CountBytesCompressed, 1000)
		tx.Count(state.CountBytesUncompressed, 5000)
		tx.Count(state.CountBytesPages, 5000)
		a.Apply(tx)
	}
}

// TestSectionVIII: the figures of the paper's section VIII for a crawl whose numbers are known: p counts only links
// that passed all filters, and hosts, addresses and PLDs that never answer are told from those that did.
func TestSectionVIII(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &insideWeb{names: func(host string, _ int) []netip.Addr {
			if host != "dead.test" {
				return addrs("127.20.1.1") // all hosts share an address
			}
			return nil
		}}
		w.Serve = func(host, path string) answer {
			switch {
			case path == "/robots.txt":
				return noRobots
			case host == "dead.test":
				return answer{Status: 0}
			case host == "a.test" && path == "/":
				// Seven links: three that a filter or the parser drops, and four to three URLs.
				return answer{200, "",
					`<a href="mailto:x@y"></a><a href="http://[bad/"></a><a href="http://b.test:99/"></a>
					<a href="http://b.test/x"></a><a href="http://b.test/x"></a><a href="http://dead.test/"></a><a href="/y"></a>`}
			}
			return answer{200, "", "x"}
		}
		opt := w.options(t, "http://a.test/")
		res := mustRun(t, t.Context(), opt)
		s := &res.Snapshot
		checked := s.Count(state.CountLinksCached) + s.Count(state.CountLinksChecked)
		a := state.Accounts{Counters: s.Counters}
		if a.Parsed() != 8 || s.Unique != 4 || checked != 5 || s.UniqueShare != 0.8 { // the seed counts, too
			t.Errorf("%d links, %d checked, %d unique, p %v; want 8, 5, 4, 0.8", a.Parsed(), checked,
				s.Unique, s.UniqueShare)
		}
		if s.Hosts != 3 || s.HostsAnswered != 2 || s.ServersAnswered != 1 || s.PLDsAnswered != 2 {
			t.Errorf("%d hosts, answered: %d hosts, %d addresses, %d PLDs; want 3, 2, 1, 2", s.Hosts, s.HostsAnswered,
				s.ServersAnswered, s.PLDsAnswered)
		}
		if want := int64(len("a.test/" + "a.test/y" + "b.test/x" + "dead.test/")); s.Count(
			state.CountURLBytes) != want {
			t.Errorf("%d bytes of URLs, want %d", s.Count(state.CountURLBytes), want)
		}
	})
}
