package crawl

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/ports"
	"drumbeat/state"
	"drumbeat/state/audit"
)

// flags sets the network flags of a run, and tells the crawl what they allow.
func (w *insideWeb) flags(t *testing.T, opt *Options, nets []netip.Prefix, allowed ...uint16) {
	t.Helper()
	client, err := fetch.New(fetch.Options{Dial: w.dial, AllowNets: nets, Ports: ports.Of(allowed...)}) // may be none
	must(t, err)
	opt.Network.Fetcher, opt.Network.AllowedAddr, opt.Network.Ports = client, client.AllowedAddr, client.Ports()
	opt.Network.Flags = fmt.Sprint(nets, allowed)
}

// TestFlagsRefuseNothingForGood: the crawl must hold URLs that a run's own flags forbid, and the first run
// whose flags allow them must fetch them once. The same applies to a new seed of a host that was just
// forbidden. A run with unchanged flags must try nothing.
func TestFlagsRefuseNothingForGood(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &insideWeb{}
		seeds := []string{"http://a.test:8080/", "http://b.test/", "c.test", "http://127.16.0.9/",
			"http://127.16.0.9:8080/"}
		opt := w.options(t, seeds...)
		own := []netip.Prefix{ownNet}
		w.flags(t, &opt, nil)
		res := mustRun(t, t.Context(), opt)
		s := &res.Snapshot
		if s.Place(state.PlaceHeld) != 3 || s.Refused["forbidden-address"] != 3 || s.Place(state.PlaceRefused) != 0 ||
			res.Stop != StopDone {
			t.Errorf("%s: %v, refused %v: want 3 URLs held for their addresses", res.Stop, s.Places, s.Refused)
		}
		if len(w.dialed) > 0 || len(res.Seeds) != len(seeds) {
			t.Errorf("dialled %v; seeds without yield %q, want all", w.dialed, res.Seeds)
		}
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
		if _, err := Run(t.Context(), opt); !errors.Is(err, state.ErrFinished) {
			t.Errorf("the same flags again: %v, want %v", err, state.ErrFinished)
		}

		w.flags(t, &opt, own) // the port is still forbidden; add a seed of a host that was just forbidden
		opt.Admission.SeedLines = append(seeds, "http://b.test/new")
		res = mustRun(t, t.Context(), opt)
		for _, c := range []struct{ host, path string }{{"b.test", "/"}, {"b.test", "/new"}, {"127.16.0.9", "/"}} {
			if n := len(w.Got(c.host, c.path)); n != 1 {
				t.Errorf("%s%s was fetched %d times with --allow-net, want 1", c.host, c.path, n)
			}
		}
		w.flags(t, &opt, own, 8080)
		mustRun(t, t.Context(), opt)
		for _, host := range []string{"a.test:8080", "127.16.0.9:8080"} {
			if n := len(w.Got(host, "/")); n != 1 {
				t.Errorf("%s was fetched %d times with --ports, want 1", host, n)
			}
		}
		if s = &res.Snapshot; s.Place(state.PlaceHeld) != 0 ||
			s.Refused["forbidden-address"]+s.Refused["forbidden-port"] != 0 {
			t.Errorf("%v, refused %v: want no URL held", s.Places, s.Refused)
		}
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
		if rep, err := audit.Deep(audit.Options{FS: opt.Disk.FS, Dirs: opt.Disk.Dirs}); err != nil || !rep.Balanced() {
			t.Errorf("deep audit: %v, %+v", err, rep)
		}
	})
}

// TestHeldURLsSurviveKills: a crawl must survive kill -9 at any time while it retries held URLs, and a
// restart with the same flags.
func TestHeldURLsSurviveKills(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 60
		w := &insideWeb{}
		var seeds []string
		for i := range n {
			seeds = append(seeds, fmt.Sprintf("http://h%d.test:8080/%d", i%7, i))
		}
		opt := w.options(t, seeds...)
		own := []netip.Prefix{ownNet}
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Order.StockTarget, opt.Disk.CheckpointEvery =
			time.Second, time.Second, 16, 2*time.Second
		w.flags(t, &opt, nil, 8080)
		mustRun(t, t.Context(), opt)

		w.flags(t, &opt, own, 8080)
		mem, calls := opt.Disk.FS.(*memfs.FS), 0
		var forks []*memfs.FS
		var mu sync.Mutex // guards calls and forks
		opt.tests.hook = func(string) {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls%9 == 0 && len(forks) < 8 {
				forks = append(forks, mem.Fork(uint64(calls)))
			}
		}
		mustRun(t, t.Context(), opt)
		opt.tests.hook = nil
		for i, fork := range append(forks, mem) {
			opt.Disk.FS = fork
			res, err := Run(t.Context(), opt)
			if err != nil && !errors.Is(err, state.ErrFinished) {
				t.Fatalf("fork %d: %v", i, err)
			}
			if s := &res.Snapshot; s.Place(state.PlaceFetched) != n || s.Unique != n {
				t.Errorf("fork %d: %v, refused %v: want %d fetched", i, s.Places, s.Refused, n)
			}
			checkBalanced(t, fork, opt.Disk.Dirs)
			if again, err := Run(t.Context(), opt); !errors.Is(err, state.ErrFinished) {
				t.Errorf("fork %d, once more: %v, %+v", i, err, again)
			}
		}
		if len(forks) < 4 {
			t.Errorf("%d kills, want more", len(forks))
		}
	})
}
