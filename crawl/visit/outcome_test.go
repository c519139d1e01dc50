package visit

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"drumbeat/admit"
	"drumbeat/crawl/options"
	"drumbeat/crawl/reader"
	"drumbeat/crawl/sitemaps"
	"drumbeat/crawl/strategy"
	"drumbeat/crawl/testworld"
	"drumbeat/fetch"
	"drumbeat/internal/trapscore"
	"drumbeat/parse"
	"drumbeat/state"
	"drumbeat/weburl"
)

// answered returns the fetch response of a web with this answer.
func answered(t *testing.T, a testworld.Answer) *fetch.Response {
	t.Helper()
	w := &testworld.Web{Serve: func(_, _ string) testworld.Answer { return a }}
	req := fetch.Request{Scheme: "http", Host: "a.test", Port: 80, PathQuery: "/",
		Addr: netip.MustParseAddrPort("127.0.0.1:80")}
	resp := new(fetch.Response)
	if err := testworld.Client(t, fetch.Options{Dial: w.Dial}).Do(t.Context(), &req, resp); err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestCountersOfARecord: deferrals, redirects of a seed, and faults of ours must have separate counters in
// a record. It guards against one counter for all: a seed deferred often lost its redirect, and a URL
// deferred often no longer counted its failures as possibly ours.
func TestCountersOfARecord(t *testing.T) {
	saved := &state.Saved{Hasher: weburl.NewHasher(weburl.Secret{1}), Suffixes: weburl.NewSuffixes(false)}
	policy := &admit.Policy{Hasher: saved.Hasher, Suffixes: saved.Suffixes, Lists: &admit.Lists{}, MaxDepth: -1,
		Sites: admit.NewSites(state.ScopeAll, saved.HostKey, nil)}
	p := New(nil, saved, Options{Links: &options.Links{}, Output: &options.Output{}, Policy: policy}, nil, nil)
	p.sitemaps = sitemaps.New(sitemaps.Options{Links: p.opt.Links})
	p.others = Others{Strategy: func() *strategy.Strategy { return new(strategy.Strategy) },
		Traps: func() *trapscore.Table { return nil }}
	w := &Worker{Reader: reader.Reader{Links: admit.NewBatch(policy),
		Parser: parse.NewExtractor(parse.Options{}, weburl.Options{})}}
	resp := answered(t, testworld.Answer{302, "Location: /b\r\n", ""})
	for _, test := range []struct {
		name          string
		rec           weburl.Record
		flags, redirs uint8
		depth         uint16
	}{
		{"a seed deferred often", weburl.Record{Flags: weburl.FlagSeed, Waits: 250, Faults: 250},
			weburl.FlagSeed, 1, 0},
		{"a seed's last redirect", weburl.Record{Flags: weburl.FlagSeed, Redirects: MaxSeedHops - 1},
			weburl.FlagSeed, MaxSeedHops, 0},
		{"one more", weburl.Record{Flags: weburl.FlagSeed, Redirects: MaxSeedHops}, 0, MaxSeedHops + 1, 1},
		{"no seed", weburl.Record{Depth: 7, Redirects: 255}, 0, 255, 8},
		{"maximum depth", weburl.Record{Depth: math.MaxUint16}, 0, 1, math.MaxUint16},
	} {
		test.rec.URL = []byte("http://a.test/")
		if _, err := p.Find(w, &test.rec, resp, time.Now()); err != nil {
			t.Fatal(err)
		}
		got := w.Links.Rec
		if got.Flags != test.flags|weburl.FlagRedirect || got.Redirects != test.redirs || got.Depth != test.depth ||
			got.Waits+got.Faults != 0 {
			t.Errorf("%s: the target has flags %d, %d redirects, depth %d, %d waits, %d faults; want %d, %d, %d, 0, 0",
				test.name, got.Flags, got.Redirects, got.Depth, got.Waits, got.Faults, test.flags|weburl.FlagRedirect,
				test.redirs, test.depth)
		}
	}
	for _, test := range []struct {
		rec  weburl.Record
		want bool
	}{
		{weburl.Record{Waits: 250, Faults: 255}, true}, // the first failure in a row
		{weburl.Record{Waits: 250, Flags: weburl.FlagUnconfirmed}, true},
		{weburl.Record{Faults: maxOurFaults - 1, Flags: weburl.FlagUnconfirmed}, true},
		{weburl.Record{Faults: maxOurFaults, Flags: weburl.FlagUnconfirmed}, false},
	} {
		if got := mayBeOurs(&test.rec); got != test.want {
			t.Errorf("a failure may be ours with %+v: got %v, want %v", test.rec, got, test.want)
		}
	}
}
