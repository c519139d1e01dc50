package erase_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/state/erase"
)

// file makes a request wait.
func (w *world) file(t *testing.T, ask erase.Ask) *erase.Request {
	t.Helper()
	saved, _ := w.open(t)
	defer func() { must(t, saved.Unlock()) }()
	waiting, err := erase.Requests(saved.Set)
	must(t, err)
	must(t, saved.OpenSuffixes(false, true))
	r, err := erase.NewRequest(&ask, saved.Suffixes, true, w.fs)
	must(t, err)
	must(t, erase.File(saved.Set, r, waiting, 0))
	return r
}

func (w *world) waiting() erase.Options {
	opt := w.options(erase.Source{})
	opt.Waiting, opt.Reason = true, ""
	return opt
}

// TestWaitingCuts: of requests that wait, one pass removes all targets, and each gets its own record, whatever
// interrupts it. None is lost, and no request is left.
func TestWaitingCuts(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := stopped(t)
		before := w.read(t)
		hosts := before.hosts()[:3]
		gone := func(url string) bool {
			return hostOf(hosts[0])(url) || hostOf(hosts[1])(url) || hostOf(hosts[2])(url)
		}
		var asked []*erase.Request
		for i, host := range hosts {
			asked = append(asked, w.file(t, erase.Ask{Who: "eve", Reason: "reason " + host, Hide: i == 1,
				Source: erase.Source{Hosts: []string{host}}}))
		}
		check := func(w *world, when int) {
			t.Helper()
			w.check(t, before, gone)
			all, err := erase.RecordsOf(w.fs, w.opt.Disk.Dirs)
			must(t, err)
			left, err := erase.RequestsOf(w.fs, w.opt.Disk.Dirs)
			must(t, err)
			if len(all) != 3 || len(left) > 0 {
				t.Fatalf("cut at %d: %d records, %d requests", when, len(all), len(left))
			}
			for i := range all {
				r := &all[i]
				if last := i == 2; r.Number != asked[i].Number || r.Digest != asked[i].Digest || r.Who != "eve" ||
					!strings.HasSuffix(r.Reason, hosts[i]) || (len(r.Targets) == 0) != (i == 1) ||
					(r.With == 0) != last || (r.Erased.Captures > 0) != last || r.Ended.IsZero() {
					t.Fatalf("cut at %d: record %+v", when, r)
				}
			}
		}
		whole := w.on(w.fs.Fork(1))
		was := whole.fs.Ops()
		rep, err := erase.Run(whole.waiting())
		must(t, err)
		if rep.Waited == nil || rep.Served != 3 || rep.Record != nil || rep.Waited.Erased.Captures == 0 {
			t.Errorf("the report: %+v", rep)
		}
		check(whole, 0)
		ops := whole.fs.Ops() - was
		rng := rand.New(rand.NewPCG(*testworld.Seed, 8))
		step := testworld.LongOr(1, max(1, ops/9))
		for cut := 1 + rng.IntN(step); cut <= ops; cut += step {
			one := w.on(w.fs.Fork(rng.Uint64()))
			for _, next := range []int{cut, 1 + rng.IntN(100), rng.IntN(2) * cut, 0} { // 0: no cut
				one.fs.CrashAfter(next)
				_, err := erase.Run(one.waiting())
				if err == nil {
					break
				}
				if !errors.Is(err, disk.ErrCrashed) {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				if rng.IntN(2) == 0 {
					one.fs = one.fs.Crash()
				} else {
					one.fs = one.fs.Kill()
				}
			}
			check(one, cut)
		}
	})
}

// TestWaitingRefused: requests that cannot be carried out keep waiting, with the reason. A plain erasure serves them
// first. Faulty requests are refused at once, and there are at most MaxWaiting.
func TestWaitingRefused(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := stopped(t)
		before := w.read(t)
		hosts := before.hosts()[:2]
		w.file(t, erase.Ask{Reason: "x", Source: erase.Source{Hosts: hosts[:1]}})
		w.fs.SetCapacity(w.fs.Used() + 1<<20)
		var space *erase.SpaceError
		if _, err := erase.Run(w.waiting()); !errors.As(err, &space) {
			t.Errorf("a disk with 1 MiB: %v", err)
		}
		if left, err := erase.RequestsOf(w.fs, w.opt.Disk.Dirs); err != nil || len(left) != 1 ||
			!strings.Contains(left[0].Error, "make room") || len(left[0].Rules) != 1 {
			t.Errorf("%+v, %v", left, err)
		}
		w.fs.SetCapacity(1 << 40)
		damaged := "d0/state/" + state.DamagedDir
		must(t, w.fs.MkdirAll(damaged))
		must(t, disk.WriteFileAtomic(w.fs, damaged+"/x", []byte("x")))
		if _, err := erase.Run(w.waiting()); !erase.IsRefused(err) {
			t.Errorf("with files of a repair: %v", err)
		}
		if left, err := erase.RequestsOf(w.fs, w.opt.Disk.Dirs); err != nil || len(left) != 1 ||
			!strings.Contains(left[0].Error, "repair") {
			t.Errorf("%+v, %v", left, err)
		}
		must(t, w.fs.Remove(damaged+"/x"))
		rep, err := erase.Run(w.options(erase.Source{Hosts: hosts[1:]}))
		must(t, err)
		if rep.Served != 1 || rep.Waited.Number != 1 || rep.Record.Number != 2 {
			t.Errorf("%+v", rep)
		}
		w.check(t, before, func(url string) bool { return hostOf(hosts[0])(url) || hostOf(hosts[1])(url) })
		if rep, err := erase.Run(w.waiting()); err != nil || rep.Waited != nil {
			t.Errorf("without requests: %+v, %v", rep, err)
		}

		saved, _ := w.open(t)
		defer func() { must(t, saved.Unlock()) }()
		must(t, saved.OpenSuffixes(false, true))
		for _, ask := range []erase.Ask{{Source: erase.Source{Hosts: hosts}}, {Reason: "x"}, {Reason: "a\nb",
			Source: erase.Source{Hosts: hosts}}, {Reason: "x", Source: erase.Source{Hosts: []string{"a/b"}}},
			{Reason: "x", Source: erase.Source{List: strings.NewReader(strings.Repeat("http://a.test/"+
				strings.Repeat("a", 4000)+"\nhttp://b.test/"+strings.Repeat("b", 4000)+"\n", 1))}}} {
			if _, err := erase.NewRequest(&ask, saved.Suffixes, true, w.fs); (ask.Source.List == nil) !=
				erase.IsRefused(err) {
				t.Errorf("%+v: %v", ask, err)
			}
		}
		var list strings.Builder
		for i := range 300 {
			list.WriteString("http://a.test/" + strings.Repeat("a", 4000+i) + "\n")
		}
		large := erase.Ask{Reason: "x", Source: erase.Source{List: strings.NewReader(list.String())}}
		if _, err := erase.NewRequest(&large, saved.Suffixes, true, w.fs); !erase.IsRefused(err) {
			t.Errorf("1.2 MB of targets: %v", err)
		}
		one, err := erase.NewRequest(&erase.Ask{Reason: "x", Source: erase.Source{Hosts: hosts[:1]}}, saved.Suffixes,
			true, w.fs)
		must(t, err)
		if err := erase.File(saved.Set, one, make([]erase.Request, erase.MaxWaiting), 0); !erase.IsRefused(err) {
			t.Errorf("one request too many: %v", err)
		}
		if err := erase.File(saved.Set, one, nil, 100_000); !erase.IsRefused(err) {
			t.Errorf("one blocked host too many: %v", err)
		}
	})
}
