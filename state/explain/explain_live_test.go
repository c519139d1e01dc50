package explain_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/ports"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/explain"
)

// explainStage numbers the stages of a URL's life; a URL never goes back to an earlier one.
func explainStage(rep *explain.URLReport) int {
	switch {
	case rep.Place == "fetched" || rep.Place == "refused" || rep.Place == explain.PlaceEnded:
		return 3
	case rep.Seen:
		return 2
	case rep.Place == explain.PlaceLink:
		return 1
	}
	return 0
}

// writesNothing returns fsys for a reader that must not change anything.
func writesNothing(t *testing.T, fsys disk.FS) disk.FS {
	return memfs.NewFault(fsys, func(op memfs.Op, name string) error {
		switch op {
		case memfs.OpOpenRead, memfs.OpList, memfs.OpSize, memfs.OpRead, memfs.OpClose, memfs.OpSpace:
			return nil
		}
		t.Errorf("explain changes files: %v of %s", op, name)
		return fs.ErrPermission
	})
}

// watchCrawl explains some URLs repeatedly while a crawl runs, until done is closed, and calls rest in
// between. It checks that explain reports no error and no damage, and that no URL goes back. It returns the
// number of checkpoints seen.
func watchCrawl(t *testing.T, fsys disk.FS, opt *crawl.Options, urls []string, done <-chan struct{}, rest func()) int {
	x, err := explain.NewExplainer(explain.Options{FS: writesNothing(t, fsys), Dirs: opt.Disk.Dirs})
	if err != nil {
		t.Error(err)
		return 0
	}
	stage, checkpoints, asked := make([]int, len(urls)), map[uint64]bool{}, false
	for {
		select {
		case <-done:
			return len(checkpoints)
		default:
		}
		rest()
		reports, err := x.URLs(urls)
		if errors.Is(err, state.ErrIncompatible) && !asked || errors.Is(err, fs.ErrNotExist) && !asked {
			continue // the crawl has no checkpoint yet
		}
		if err != nil {
			t.Errorf("explain of a running crawl: %v", err)
			return len(checkpoints)
		}
		asked = true
		for i, rep := range reports {
			checkpoints[rep.AsOf.Checkpoint] = true
			now := explainStage(rep)
			if now < stage[i] || rep.Place == explain.PlaceUnknown || rep.Place == explain.PlaceEnded ||
				len(rep.Damage) > 0 {
				t.Errorf("checkpoint %d: %s: place %s after stage %d: %v %v", rep.AsOf.Checkpoint, rep.URL, rep.Place,
					stage[i], rep.Why, rep.Damage)
				return len(checkpoints)
			}
			stage[i] = max(stage[i], now)
		}
		if hosts, err := x.Hosts([]string{reports[0].Host}); err != nil || len(hosts[0].Damage) > 0 {
			t.Errorf("explain host of a running crawl: %v", err)
			return len(checkpoints)
		}
	}
}

// TestExplainRunningCrawl: explain must give consistent answers while the crawl runs: in virtual time, and
// on a disk with one checkpoint right after another.
func TestExplainRunningCrawl(t *testing.T) {
	testworld.NotShort(t)
	t.Parallel()
	some := func(web *simweb.Web) []string {
		all := testworld.AllURLs(web)
		rng := rand.New(rand.NewPCG(*testworld.Seed, 7))
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[:60]
	}
	watched := func(t *testing.T, fsys disk.FS, opt crawl.Options, urls []string, rest func(), least int) {
		done := make(chan struct{})
		var wg sync.WaitGroup
		seen := 0
		wg.Go(func() { seen = watchCrawl(t, fsys, &opt, urls, done, rest) })
		_, err := crawl.Run(t.Context(), opt)
		close(done)
		wg.Wait()
		must(t, err)
		if seen < least {
			t.Errorf("saw %d checkpoints, want at least %d", seen, least)
		}
	}
	t.Run("virtual", func(t *testing.T) {
		testworld.InBubble(t, func(t *testing.T) {
			web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages = 400 })
			mem := memfs.New(*testworld.Seed)
			opt := crawltest.SimOptions(t, web, mem)
			opt.Disk.CheckpointEvery, opt.Order.StockTarget, opt.Budgets.QueuePages = time.Second, 60, crawl.Unlimited
			watched(t, mem, opt, some(web), func() { time.Sleep(700 * time.Millisecond) }, 10)
		})
	})
	t.Run("disk", func(t *testing.T) {
		web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages, o.CrawlDelay = 300, 0 })
		opt := crawltest.SimOptions(t, web, disk.OS())
		crawltest.AtOnce(&opt)
		opt.Disk.Dirs = []string{t.TempDir(), t.TempDir()}
		opt.Disk.CheckpointEvery, opt.Order.StockTarget, opt.Limits.MaxPages, opt.Output.WARCFileBytes = 10*
			time.Millisecond, 60, 150, 100_000
		watched(t, disk.OS(), opt, some(web), func() {}, 1)
	})
}

// movedOn is a file system on which a checkpoint deletes a queue segment or a tail file just before explain
// opens the first of them.
type movedOn struct {
	disk.FS
	once    sync.Once
	move    func()
	deleted string // the file
}

func (m *movedOn) OpenRead(name string) (disk.File, error) {
	gone := false
	if strings.HasSuffix(name, ".seg") || strings.HasPrefix(filepath.Base(name), "tails-") {
		m.once.Do(func() { m.move(); gone, m.deleted = true, name })
	}
	if gone {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return m.FS.OpenRead(name)
}

// TestExplainBeginsAnew: explain must start again when a checkpoint comes while it opens its files. If
// files vanish without a new checkpoint, it must report damage.
func TestExplainBeginsAnew(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		mem, opt := crawltest.StoppedCrawl(t)
		var url string
		var place state.Place
		for u, at := range testworld.TruthOf(t, mem, opt.Disk.Dirs).Places {
			switch at.Place {
			case state.PlaceOverBudget, state.PlaceBeast, state.PlaceReady, state.PlaceAwaitRobots, state.PlaceDeferred:
				url, place = u, at.Place
			}
		}
		if url == "" {
			t.Fatal("no URL is in a queue")
		}
		for _, moved := range []bool{true, false} {
			fsys := &movedOn{FS: mem, move: func() {
				if moved {
					testworld.Tamper(t, mem, opt.Disk.Dirs,
						func(_ disk.Set, m *state.Manifest, _ *disk.Tails) error { m.Gen++; return nil })
				}
			}}
			x, err := explain.NewExplainer(explain.Options{FS: fsys, Dirs: opt.Disk.Dirs})
			must(t, err)
			reports, err := x.URLs([]string{url})
			must(t, err)
			rep := reports[0]
			if rep.Place != place.String() {
				t.Errorf("moved %v: place %s, want %v, damage %v", moved, rep.Place, place, rep.Damage)
			}
			if fsys.deleted == "" {
				t.Errorf("moved %v: explain opened no queue", moved)
			}
		}
	})
}

// TestExplainDamage: with any byte changed, explain must give a true answer, or report what is damaged, or
// fail with an error that names the file.
func TestExplainDamage(t *testing.T) {
	testworld.NotShort(t)
	t.Parallel()
	testworld.InBubble(t, func(t *testing.T) {
		mem, opt := crawltest.StoppedCrawl(t)
		tr := testworld.TruthOf(t, mem, opt.Disk.Dirs)
		var urls []string
		have := map[string]int{}
		for url := range tr.Places {
			if p := tr.Place(url); have[p] < 4 {
				have[p]++
				urls = append(urls, url)
			}
		}
		for url := range tr.Ended {
			if p := tr.Place(url); have[p] < 8 {
				have[p]++
				urls = append(urls, url)
			}
		}
		urls = append(urls, "http://nowhere.test/")
		rng := rand.New(rand.NewPCG(*testworld.Seed, 9))
		rounds, found := 40, 0
		if *testworld.Long {
			rounds = 5000
		}
		var files []string
		for _, dir := range opt.Disk.Dirs {
			files = append(files, filesBelow(t, mem, dir)...)
		}
		for range rounds {
			name := files[rng.IntN(len(files))]
			undo := flipByte(t, mem, name, rng)
			x, err := explain.NewExplainer(explain.Options{FS: mem, Dirs: opt.Disk.Dirs})
			must(t, err)
			reports, err := x.URLs(urls)
			hosts, err2 := x.Hosts([]string{"nowhere.test", reports0Host(reports)})
			if err = errors.Join(err, err2); err != nil {
				found++
				if !strings.Contains(err.Error(), name) && !errors.Is(err, state.ErrIncompatible) {
					t.Errorf("%s damaged: %v", name, err)
				}
			}
			for _, rep := range reports {
				if len(rep.Damage) > 0 {
					found++
				}
				if rep.Place != tr.Place(rep.URL) && (rep.Place != explain.PlaceUnknown || len(rep.Damage) == 0) {
					t.Errorf("%s damaged: %s: place %s, want %s; damage %v", name, rep.URL, rep.Place,
						tr.Place(rep.URL), rep.Damage)
				}
			}
			_ = hosts
			undo()
		}
		if found < rounds/10 {
			t.Errorf("explain reported damage %d times in %d rounds", found, rounds)
		}
	})
}

func reports0Host(reports []*explain.URLReport) string {
	if len(reports) == 0 {
		return "none.test"
	}
	return reports[0].Host
}

func filesBelow(t *testing.T, fsys disk.FS, dir string) (list []string) {
	t.Helper()
	names, err := fsys.List(dir)
	must(t, err)
	for _, name := range names {
		path := dir + "/" + name
		if _, err := fsys.List(path); err == nil {
			list = append(list, filesBelow(t, fsys, path)...)
		} else if size, err := fsys.Size(path); err == nil && size > 0 && !strings.HasSuffix(name, ".warc.gz") {
			list = append(list, path)
		}
	}
	return list
}

// flipByte changes one byte of a file. undo restores it.
func flipByte(t *testing.T, fsys disk.FS, name string, rng *rand.Rand) (undo func()) {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	off, old := rng.Int64N(size), []byte{0}
	if rng.IntN(2) == 0 {
		off = rng.Int64N(min(size, 200))
	}
	put := func(b byte) {
		if _, err := f.WriteAt([]byte{b}, off); err != nil {
			t.Fatal(err)
		}
	}
	must(t, disk.ReadFull(f, old, off))
	put(old[0] ^ 1<<rng.IntN(8))
	return func() {
		put(old[0])
		must(t, f.Close())
	}
}

// TestExplainWrongDirectories: explain must refuse questions that it can't answer, with an error that says
// why.
func TestExplainWrongDirectories(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		mem, opt := crawltest.StoppedCrawl(t)
		must(t, mem.MkdirAll("empty"))
		for _, c := range []struct {
			dirs, out []string
			want      string
		}{
			{[]string{"d0"}, nil, "directory 1 of 2"},
			{[]string{"d1"}, nil, "directory 0 of 2"},
			{[]string{"d0", "d0"}, nil, "both directory 0"},
			{[]string{"empty"}, nil, "holds no crawl"},
			{[]string{"none"}, nil, "holds no crawl"},
			{nil, nil, "no directory"},
		} {
			x, err := explain.NewExplainer(explain.Options{FS: writesNothing(t, mem), Dirs: c.dirs, Out: c.out})
			if err == nil {
				_, err = x.URLs([]string{"http://a.test/"})
			}
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				c.dirs != nil && !errors.Is(err, state.ErrIncompatible) {
				t.Errorf("%v: %v, want %q", c.dirs, err, c.want)
			}
		}
		x, err := explain.NewExplainer(explain.Options{FS: writesNothing(t, mem), Dirs: []string{"d1", "d0"}})
		must(t, err)
		reports, err := x.URLs([]string{"http://a.test/", "mailto:x", "", "a.test", "http://[::1"})
		must(t, err)
		for i, bad := range []bool{false, true, true, false, true} {
			if (reports[i].Error != "") != bad {
				t.Errorf("%q: error %q", reports[i].Asked, reports[i].Error)
			}
		}
		if reports[3].URL != "https://a.test/" {
			t.Errorf("a bare host is %s", reports[3].URL)
		}
		// The manifest of an older program has no options of the last run.
		testworld.Tamper(t, mem, opt.Disk.Dirs,
			func(_ disk.Set, m *state.Manifest, _ *disk.Tails) error { m.Run = nil; return nil })
		reports, err = x.URLs([]string{"http://a.test/"})
		if err != nil || !strings.Contains(reports[0].Link.Why, "older version") || reports[0].Robots.DelayWhy == "" {
			t.Errorf("without options of the last run: %+v, %v", reports, err)
		}
		must(t, errors.Join(mem.Remove("d0/"+state.ManifestName), mem.Remove("d1/"+state.ManifestName)))
		if _, err = x.URLs([]string{"http://a.test/"}); err == nil ||
			!strings.Contains(err.Error(), "without a checkpoint") {
			t.Errorf("no manifest: %v", err)
		}
	})
}

// TestExplainLinks: explain must predict what happens to a link from the options of the last run.
func TestExplainLinks(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		web := &testworld.Web{Serve: func(host, path string) testworld.Answer {
			if path == "/robots.txt" {
				return testworld.Answer{200, "", "User-agent: drumbeat\nCrawl-delay: 7\nDisallow: /no*x\nAllow: /\n"}
			}
			return testworld.Answer{200, "", fmt.Sprintf("<a href=/a><a href=/nothing/x>%s", host)}
		}}
		mem := memfs.New(1)
		must(t, mem.MkdirAll("in"))
		must(t, disk.WriteFileAtomic(mem, "in/seeds", []byte("http://one.site.test/\n")))
		opt := crawltest.WebOptions(t, web, mem)
		opt.Admission.Seeds, opt.Admission.SeedLines, opt.Admission.Scope, opt.Limits.MaxDepth = "in/seeds", nil,
			state.ScopePLD, 3
		opt.Network.Ports = ports.New(append(ports.Of(80, 443), ports.Range{First: 8000, Last: 8099})...)
		opt.Admission.MaxURLBytes, opt.Politeness.MaxCrawlDelay = 100, 5*time.Second
		crawltest.MustRun(t, t.Context(), opt)
		x, err := explain.NewExplainer(explain.Options{FS: mem, Dirs: opt.Disk.Dirs})
		must(t, err)
		for url, want := range map[string]string{
			"http://two.site.test/": "accepted, if the page is less than 3 links from a " +
				"seed (--max-depth)",
			"http://two.site.test:8099/": "accepted, if the page is less than 3 links from a " +
				"seed (--max-depth)",
			"http://two.site.test:8100/": "dropped: connections to its port are not allowed " +
				"(--ports): port 8100",
			"http://other.test/":                              "dropped: outside --scope",
			"http://two.site.test/" + strings.Repeat("x", 80): "dropped: 101 bytes, more than 100",
		} {
			reports, err := x.URLs([]string{url})
			taken := strings.HasPrefix(want, "accepted")
			if err != nil || reports[0].Link.Why != want || reports[0].Link.Taken != taken {
				t.Errorf("%s: %+v, %v, want %s", url, reports[0].Link, err, want)
			}
		}
		reports, err := x.URLs([]string{"http://one.site.test/nothing/x", "http://one.site.test/a"})
		must(t, err)
		no, yes := reports[0], reports[1]
		if no.Place != "refused" || no.Verdict.Rule != "Disallow: /no*x" ||
			no.Record.ParentURL != "http://one.site.test/" || !strings.Contains(no.Why[0], "/no*x") {
			t.Errorf("forbidden: %+v, verdict %+v, record %+v", no, no.Verdict, no.Record)
		}
		if yes.Place != "fetched" || yes.Verdict.Rule != "Allow: /" || !yes.Robots.OwnGroup ||
			yes.Robots.CrawlDelay != 7 || yes.Robots.Delay != 40 {
			t.Errorf("allowed: %+v, verdict %+v, robots %+v", yes, yes.Verdict, yes.Robots)
		}
		rules, err := x.Robots([]string{"one.site.test", "http://one.site.test/nothing/x"})
		if err != nil || rules[0].Robots.State != "none" || rules[1].Verdict.Allowed ||
			!bytes.Contains([]byte(rules[1].Text), []byte("Disallow: /no*x\n")) {
			t.Errorf("robots: %+v %+v, %v", rules[0].Robots, rules[1], err)
		}
	})
}

// troubleWeb has hosts that refuse, that are busy, whose robots.txt fails, and that have no address.
func troubleWeb() *testworld.Web {
	return &testworld.Web{
		Serve: func(host, path string) testworld.Answer {
			switch {
			case path == "/robots.txt" && strings.HasPrefix(host, "ill"):
				return testworld.Answer{500, "", ""}
			case path == "/robots.txt":
				return testworld.NoRobots
			case strings.HasPrefix(host, "closed"):
				return testworld.Answer{403, "", "go away"}
			case strings.HasPrefix(host, "busy"):
				return testworld.Answer{429, "Retry-After: 7200\r\n", ""}
			}
			return testworld.Answer{200, "", "<html>x"}
		},
		Lookup: func(host string) (string, error) {
			if strings.HasPrefix(host, "none") {
				return "", errors.New("no such name")
			}
			return "", nil
		},
	}
}

// TestExplainTrouble: for hosts that refuse, that send Retry-After, whose robots.txt is unreachable, or
// whose name doesn't exist, explain must say how the crawl treats them and until when.
func TestExplainTrouble(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		web := troubleWeb()
		mem := memfs.New(1)
		var seeds []string
		for _, name := range []string{"closed", "busy", "ill", "none", "good"} {
			seeds = append(seeds, testworld.URLs(name, 1, 12)...)
		}
		opt := crawltest.WebOptions(t, web, mem, seeds...)
		opt.Politeness.HostDelay, opt.Health.HostRefusals, opt.Health.HostFailures, opt.Health.HostRests = time.Second,
			5, 10, 5
		crawltest.MustRun(t, t.Context(), opt)
		testworld.CheckBalanced(t, mem, opt.Disk.Dirs)
		x, err := explain.NewExplainer(explain.Options{FS: mem, Dirs: opt.Disk.Dirs})
		must(t, err)
		reports, err := x.URLs(seeds)
		must(t, err)
		tr, places := testworld.TruthOf(t, mem, opt.Disk.Dirs), map[string]map[string]int{}
		for _, rep := range reports {
			name := strings.TrimSuffix(rep.Host, "0.test")
			if places[name] == nil {
				places[name] = map[string]int{}
			}
			places[name][rep.Place]++
			if want := tr.Place(rep.URL); rep.Place != want {
				t.Errorf("%s: place %s, want %s", rep.URL, rep.Place, want)
			}
			why := strings.Join(rep.Why, "; ")
			wants := map[string][2]string{"closed": {"deferred", "the host refused several requests"},
				"busy": {"deferred", "backs off until"}, "ill": {"deferred", "robots.txt is unreachable"},
				"good": {"fetched", "fetched"}}
			if w, ok := wants[name]; ok && rep.Place == w[0] && !strings.Contains(why, w[1]) {
				t.Errorf("%s: %s: %s, want %q", rep.URL, rep.Place, why, w[1])
			}
			if rep.Place == "deferred" && (name == "closed" || name == "busy") {
				if h := rep.Robots.Health; h == nil || !h.Until.After(time.Now()) ||
					!strings.Contains(why, "no requests to its host") || rep.Verdict.Decision != "back-off" {
					t.Errorf("%s: health %+v, verdict %+v: %s", rep.URL, h, rep.Verdict, why)
				}
			}
		}
		for name, place := range map[string]string{"closed": "deferred", "busy": "deferred", "ill": "deferred",
			"good": "fetched"} {
			if places[name][place] == 0 {
				t.Errorf("%s: places %v, want some %s", name, places[name], place)
			}
		}
		hosts, err := x.Hosts([]string{"closed0.test", "ill0.test"})
		must(t, err)
		if h := hosts[0]; !strings.Contains(strings.Join(h.Why, "; "), "its health: backs off until") ||
			h.Deferred["not-welcome"] == 0 || h.NextDue.IsZero() {
			t.Errorf("host: %+v", h)
		}
		if h := hosts[1]; !strings.Contains(strings.Join(h.Why, "; "), "robots.txt is unreachable") ||
			h.Deferred["robots-unavailable"] == 0 {
			t.Errorf("host: %+v", h)
		}
	})
}
