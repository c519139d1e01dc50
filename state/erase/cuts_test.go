package erase_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/state/erase"
)

// interrupted is a crawl that was killed between two checkpoints: its output files are not final.
func interrupted(t *testing.T) *world {
	web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages = 1500 })
	fs := memfs.New(*testworld.Seed)
	opt := crawltest.SimOptions(t, web, fs)
	opt.Budgets.QueuePages, opt.Order.StockTarget = crawl.Unlimited, 100
	opt.Output.ContentSeen = state.ContentOff // no page waits for a comparison
	opt.Output.ArchiveRobots, opt.Output.ArchiveDNS, opt.Output.WARCFileBytes = true, true, 150_000
	fs.CrashAfter(450)
	if _, err := crawl.Run(t.Context(), opt); !errors.Is(err, disk.ErrCrashed) {
		t.Fatalf("the crawl ended: %v", err)
	}
	w := &world{fs: fs.Kill(), opt: opt, web: web}
	w.opt.Disk.FS = w.fs
	return w
}

// source names two hosts of a crawl, some other URLs, and one that it does not know.
func (f *found) source() (src func() erase.Source, gone func(string) bool) {
	hosts := f.hosts()[1:3]
	list, urls := "http://unknown.test/x\nhost:"+hosts[1], map[string]bool{}
	for i, url := range f.waiting {
		if i%17 == 0 {
			urls[url] = true
			list += "\n" + url
		}
	}
	for i, line := range f.lines {
		if i%13 == 0 && strings.HasPrefix(line, "crawl ") {
			url := strings.Split(line, " ")[1]
			urls[url] = true
			list += "\n" + url
		}
	}
	return func() erase.Source {
			return erase.Source{Hosts: hosts[:1], List: strings.NewReader(list), ListName: "list"}
		}, func(url string) bool {
			return urls[url] || hostOf(hosts[0])(url) || hostOf(hosts[1])(url)
		}
}

// TestCuts: the power fails or the process is killed at any operation of an erasure, once or several times. The
// same command then ends it: nothing else is gone, nothing of the targets is left, and the crawl balances.
// A crawl that starts in the middle ends it, too.
func TestCuts(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) *world{"stopped": stopped, "mirrors": mirrored,
		"interrupted": interrupted, "stored": stored, "half stored": halfStored} {
		t.Run(name, func(t *testing.T) {
			testworld.InBubble(t, func(t *testing.T) {
				w := make(t)
				if name != "interrupted" { // a power cut may take back the checkpoint that its outputs would have
					w.addOutputs(t)
					w.also = []string{"out"}
				}
				before := w.read(t)
				src, gone := before.source()
				whole := w.fork(1)
				was := whole.fs.Ops()
				rep, err := erase.Run(whole.options(src()))
				must(t, err)
				whole.check(t, before, gone)
				whole.checkOutputs(t, src())
				ops := whole.fs.Ops() - was
				if rep.Record.Erased.Captures == 0 || ops < 50 {
					t.Errorf("%d operations: %+v", ops, rep.Record)
				}
				rng := rand.New(rand.NewPCG(*testworld.Seed, 7))
				cuts := 12 // of each world
				if testing.Short() {
					cuts = 2
				}
				step := testworld.LongOr(1, max(1, ops/cuts))
				for cut := 1 + rng.IntN(step); cut <= ops; cut += step {
					cutOnce(t, w, src, before, gone, cut, rng)
				}
			})
		})
	}
}

func cutOnce(t *testing.T, w *world, src func() erase.Source, before *found, gone func(string) bool, cut int,
	rng *rand.Rand) {
	t.Helper()
	one := w.fork(rng.Uint64())
	for first := cut; ; first = 1 + rng.IntN(60) {
		one.fs.CrashAfter(first)
		_, err := erase.Run(one.options(src()))
		if err == nil { // the cut came too late
			one.fs.CrashAfter(0)
			one.check(t, before, gone)
			one.checkOutputs(t, src())
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
		if rng.IntN(3) > 0 {
			continue
		}
		if _, err := one.fs.Size("d0/" + state.EraseName); err == nil && rng.IntN(3) == 0 {
			if one.fork(1).start(t); t.Failed() {
				t.Fatalf("cut at %d: a crawl that starts in the middle", cut)
			}
		}
		if _, err := erase.Run(one.options(src())); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		one.check(t, before, gone)
		one.checkOutputs(t, src())
		break
	}
	if t.Failed() {
		t.Fatalf("cut at %d", cut)
	}
}

// start starts the crawl in the middle of an erasure, which it finishes, and stops it.
func (w *world) start(t *testing.T) {
	t.Helper()
	w.opt.Disk.FS, w.opt.Limits.MaxPages = w.fs, 1
	if _, err := crawl.Run(t.Context(), w.opt); err != nil && !errors.Is(err, state.ErrFinished) {
		t.Errorf("the crawl does not start: %v", err)
		return
	}
	all, err := erase.RecordsOf(w.fs, w.opt.Disk.Dirs)
	if rep := w.audit(t); err != nil || len(all) != 1 || !rep.Balanced() {
		t.Errorf("%d records, %v, %+v", len(all), err, rep)
	}
}

// TestFullDisk: an erasure that finds no room says so, and continues when there is some.
func TestFullDisk(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := stopped(t)
		before := w.read(t)
		src, gone := before.source()
		refused := 0
		for room := int64(20_000); ; room += 30_000 {
			w.fs.SetQuota(w.fs.Used() + room)
			_, err := erase.Run(w.options(src()))
			if err == nil {
				break
			}
			if refused++; !errors.Is(err, syscall.EDQUOT) || !strings.Contains(err.Error(), "make room") {
				t.Fatalf("with %d bytes: %v", room, err)
			}
		}
		w.fs.SetQuota(0)
		if refused == 0 {
			t.Error("there was always room")
		}
		w.check(t, before, gone)
		w.fs.SetCapacity(w.fs.Used() + 1<<20)
		var space *erase.SpaceError
		if _, err := erase.Run(w.options(erase.Source{Hosts: w.read(t).hosts()[:1]})); !errors.As(err, &space) {
			t.Errorf("a disk with 1 MiB: %v", err)
		}
		if _, err := w.fs.Size("d0/" + state.EraseName); err == nil {
			t.Error("an erasure without room has begun")
		}
	})
}

// TestFullBlacklist: hosts that the crawl's own blacklist has no room for are refused before anything changes.
func TestFullBlacklist(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := mirrored(t)
		before := w.read(t)
		host := before.hosts()[0]
		block := changes.Change{Op: changes.OpBlock}
		for i := range changes.MaxBlocked {
			block.Rules = append(block.Rules, fmt.Sprintf("- host %d.test", i))
		}
		change := func(c changes.Change) {
			j, err := changes.Open(w.fs, "d0/"+state.ChangesName, 0)
			must(t, err)
			_, err = j.Append(c, time.Now())
			must(t, errors.Join(err, j.Close()))
		}
		change(block)
		for _, hide := range []bool{false, true} {
			opt := w.options(erase.Source{Hosts: []string{host}})
			opt.Hide = hide
			if _, err := erase.Run(opt); !erase.IsRefused(err) || !strings.Contains(err.Error(), "no room for 1 host") {
				t.Errorf("a full blacklist: %v", err)
			}
		}
		w.check(t, before, func(string) bool { return false })
		change(changes.Change{Op: changes.OpUnblock, Rule: "- host 0.test"})
		_, err := erase.Run(w.options(erase.Source{Hosts: []string{host}}))
		must(t, err)
		w.check(t, before, hostOf(host))
	})
}

// TestThenAnother: a request after an interrupted one finishes that one first, and then counts and erases its
// own. A dry run refuses meanwhile, and finds nothing afterwards.
func TestThenAnother(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		w := stopped(t)
		before := w.read(t)
		hosts := before.hosts()[:2]
		first, second := erase.Source{Hosts: hosts[:1]}, erase.Source{Hosts: hosts[1:]}
		for n := 40; ; n += 10 { // until the journal is there
			w.fs.CrashAfter(n)
			if _, err := erase.Run(w.options(first)); !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("cut at %d: %v", n, err)
			}
			w.fs = w.fs.Kill()
			if _, err := w.fs.Size("d0/" + state.EraseName); err == nil {
				break
			}
		}
		dry := w.options(second)
		dry.DryRun = true
		if _, err := erase.Run(dry); !errors.Is(err, state.ErrErasing) {
			t.Errorf("a dry run in the middle: %v", err)
		}
		rep, err := erase.Run(w.options(second))
		must(t, err)
		if rep.Finished == nil || rep.Finished.Number != 1 || rep.Record == nil || rep.Record.Number != 2 ||
			rep.Finished.Erased.Captures == 0 || rep.Record.Erased.Captures == 0 {
			t.Errorf("finished %+v, then %+v", rep.Finished, rep.Record)
		}
		w.check(t, before, func(url string) bool { return hostOf(hosts[0])(url) || hostOf(hosts[1])(url) })
		dry = w.options(erase.Source{Hosts: hosts})
		dry.DryRun = true
		rep, err = erase.Run(dry)
		must(t, err)
		if rep.Record.Erased != (erase.Counts{}) {
			t.Errorf("afterwards a dry run finds %+v", rep.Record.Erased)
		}
		all, err := erase.RecordsOf(w.fs, w.opt.Disk.Dirs)
		if err != nil || len(all) != 2 || all[0].Number != 1 || all[1].Number != 2 {
			t.Errorf("%d records: %v", len(all), err)
		}
	})
}
