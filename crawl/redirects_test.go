package crawl

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"drumbeat/fetch"
	"drumbeat/parse"
	"drumbeat/weburl"
)

// answered is what a tinyWeb with such an answer gives for a request.
func answered(t *testing.T, a answer) *fetch.Response {
	t.Helper()
	w := &tinyWeb{serve: func(_, _ string) answer { return a }}
	opt := w.options(t, nil)
	req := fetch.Request{Scheme: "http", Host: "a.test", Port: 80, PathQuery: "/", Addr: netip.MustParseAddrPort("127.0.0.1:80")}
	resp := new(fetch.Response)
	if err := opt.Fetcher.Do(t.Context(), &req, resp); err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestCountersOfARecord: one counter had held the times that a URL was put off, a seed's redirects and the faults of ours, so that
// a seed put off often lost its redirect, and a URL put off often the benefit of the doubt.
func TestCountersOfARecord(t *testing.T) {
	r := linkRing(t, 0)
	w := &pageWorker{links: newLinkBatch(r), parser: parse.NewExtractor(parse.Options{}, weburl.Options{})}
	resp := answered(t, answer{302, "Location: /b\r\n", ""})
	for _, test := range []struct {
		name          string
		rec           weburl.Record
		flags, redirs uint8
		depth         uint16
	}{
		{"a seed put off often", weburl.Record{Flags: weburl.FlagSeed, Waits: 250, Faults: 250}, weburl.FlagSeed, 1, 0},
		{"a seed's last redirect", weburl.Record{Flags: weburl.FlagSeed, Redirects: maxSeedHops - 1}, weburl.FlagSeed, maxSeedHops, 0},
		{"one more", weburl.Record{Flags: weburl.FlagSeed, Redirects: maxSeedHops}, 0, maxSeedHops + 1, 1},
		{"no seed", weburl.Record{Depth: 7, Redirects: 255}, 0, 255, 8},
		{"as deep as can be", weburl.Record{Depth: math.MaxUint16}, 0, 1, math.MaxUint16},
	} {
		test.rec.URL = []byte("http://a.test/")
		if err := r.redirectLink(w, &test.rec, resp, 1, time.Now()); err != nil {
			t.Fatal(err)
		}
		got := w.links.rec
		if got.Flags != test.flags|weburl.FlagRedirect || got.Redirects != test.redirs || got.Depth != test.depth || got.Waits+got.Faults != 0 {
			t.Errorf("%s: the target has flags %d, %d redirects, depth %d, %d waits, %d faults; want %d, %d, %d, 0, 0", test.name, got.Flags,
				got.Redirects, got.Depth, got.Waits, got.Faults, test.flags|weburl.FlagRedirect, test.redirs, test.depth)
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
