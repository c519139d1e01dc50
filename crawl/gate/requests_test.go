package gate

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/options"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/internal/scope"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// TestNothingStaysInQR: a URL that enters QR just after the merge of its request must not wait for another
// merge.
func TestNothingStaysInQR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newGate(options.Health{})
		q.open(t)
		rec := weburl.Record{URL: []byte("http://a.test/"), Reason: uint8(state.ReasonAwaitRobots)}
		q.waiting.endPass(q.waiting.beginPass(), q.robotsJobs.issued()) // the merge that saw the request
		if err := q.run.Transact(func(tx *account.Tx) error {
			tx.Move(q.saved.Hasher.URLKey(rec.URL), state.PlaceRobotsCheck, state.PlaceAwaitRobots)
			return q.AwaitRobots.Append(rec.Append(nil))
		}); err != nil {
			t.Fatal(err)
		}
		q.waiting.appended()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := q.ReadAwaiting(ctx); err != nil {
			t.Fatal(err)
		}
		if n, _ := q.AwaitRobots.Len(); n > 0 {
			t.Errorf("%d URLs still wait in QR although nothing is left to merge", n)
		}
	})
}

// TestAwaitsNoFailingRobots: a URL that returned from QR before the answer of an origin that fails does not
// keep the crawl from ending.
func TestAwaitsNoFailingRobots(t *testing.T) {
	q := newGate(options.Health{})
	q.open(t)
	for i, failing := range []uint64{0, tokenFailing} {
		rec := weburl.Record{URL: fmt.Appendf(nil, "http://a%d.test/", i), Reason: uint8(state.ReasonAwaitRobots)}
		if err := q.run.Transact(func(tx *account.Tx) error {
			return q.requestRobots(tx, &rec, robots.Request, failing)
		}); err != nil {
			t.Fatal(err)
		}
		if s := q.run.Accounts.Copy(); s.Places[state.PlaceDeferred].N != int64(i+1) || s.Lingering() != int64(i) {
			t.Errorf("origin failing: %v: %d URLs deferred, %d of them linger", failing > 0,
				s.Places[state.PlaceDeferred].N, s.Lingering())
		}
	}
}

// TestRequestsFromTheFuture: a request recorded while the clock was a year ahead must not prevent a new
// request.
func TestRequestsFromTheFuture(t *testing.T) {
	value := func(at time.Time) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(at.Unix())), 7)
	}
	now := time.Now()
	for ahead, want := range map[time.Duration]bool{0: false, time.Minute: false, 365 * 24 * time.Hour: true,
		-7 * time.Hour: true} {
		run := []drum.Item{{Op: drum.CheckUpdate, Value: value(now)}}
		newGate(options.Health{}).applyRequested(1, value(now.Add(ahead)), true, run, nil, nil)
		if run[0].New != want {
			t.Errorf("%v ahead: new %v, want %v", ahead, run[0].New, want)
		}
	}
}

// TestRobotsPatience: how long URLs wait for robots.txt, and why they are refused then.
func TestRobotsPatience(t *testing.T) {
	for _, test := range []struct {
		tls  string
		wait time.Duration // --robots-wait
		most time.Duration
		why  state.Reason
	}{
		{"", 30 * aDay, 30 * aDay, state.ReasonRobotsUnavailable},
		{fetch.TLSClosed, 30 * aDay, 30 * aDay, state.ReasonRobotsUnavailable},
		{"unreadable certificate: invalid DNS name", 30 * aDay, aDay, state.ReasonTLS},
		{"no TLS: first record does not look like a TLS handshake", 30 * aDay, aDay, state.ReasonTLS},
		{"alert of the server: handshake failure", time.Hour, time.Hour, state.ReasonTLS},
		{fetch.VerdictSelfSigned, 30 * aDay, aDay, state.ReasonCertificate},
		{"unreadable certificate: invalid DNS name", 0, 0, state.ReasonRobotsUnavailable},
	} {
		k := &Check{opt: &Options{Health: &options.Health{RobotsWait: test.wait}}}
		if most, why := k.robotsPatience(&robots.HostData{TLS: test.tls}); most != test.most || why != test.why {
			t.Errorf("%q: %v, %v; want %v, %v", test.tls, most, why, test.most, test.why)
		}
	}
}

// TestBlacklistedMeanwhile: a reload that lists all addresses of a host, after their check and before the
// request, must end the request.
func TestBlacklistedMeanwhile(t *testing.T) {
	suffixes := weburl.NewSuffixes(false)
	black, err := scope.Parse(scope.Blacklist, suffixes, scope.Source{Name: "b", Text: []byte("- net 192.0.2.0/24")})
	if err != nil {
		t.Fatal(err)
	}
	q := newGate(options.Health{})
	q.opt.Rules.Suffixes = suffixes
	q.opt.Rules.Blacklist.Store(black)
	f := robots.Fetched{Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}}
	doubt, err := q.getRobots(t.Context(), &robots.Job{Origin: []byte("http://a.test:80")}, nil, &f)
	if doubt || err != nil || f.Kind != robots.NetworkFailure {
		t.Errorf("got %v, %v, %v", f.Kind, doubt, err)
	}
}
