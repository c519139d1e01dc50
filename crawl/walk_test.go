package crawl

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/plan"
	"drumbeat/crawl/strategy"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/internal/walk"
	"drumbeat/state"
	"drumbeat/state/export"
)

// walkWeb is a web for random walks: a part of its pages is forbidden, redirects, or is absent.
func walkWeb() (*topicWeb, *tinyWeb) {
	w := &topicWeb{pages: 400, hosts: 25, topics: 1, links: 6}
	return w, &tinyWeb{Serve: func(host, path string) answer {
		i, ok := w.page(path)
		switch {
		case path == "/robots.txt" && host == "h7.test":
			return answer{200, "", "User-agent: *\nDisallow: /"}
		case !ok || i%13 == 5:
			return noRobots // 404
		case i%11 == 3:
			return answer{301, "Location: " + w.url((i+1)%w.pages) + "\r\n", ""}
		}
		return w.serve(host, path)
	}}
}

func walkOptions(t *testing.T, w *topicWeb, tiny *tinyWeb, fs *memfs.FS) Options {
	opt := tinyOptions(t, tiny, fs, w.url(0), w.url(1))
	opt.Order.Strategy, opt.Politeness.HostDelay, opt.Disk.CheckpointEvery = strategy.RandomWalk,
		5*time.Second, 2*time.Minute
	opt.Order.Walk = walk.Options{Walkers: 15, URLs: 120}
	return opt
}

// walkOf returns the walk of the last checkpoint.
func walkOf(t *testing.T, opt *Options) (*walk.Walk, *state.Manifest) {
	t.Helper()
	r, err := state.OpenReader(opt.Disk.FS, opt.Disk.Dirs, nil)
	must(t, err)
	defer r.Close()
	w, err := loadWalk(opt, r.Set, r.Manifest)
	must(t, err)
	return w, r.Manifest
}

// checkWalk checks a walk that has ended: it and the crawl have the same URLs, no walker waits for a URL for ever, each
// URL with a response was stored once, and the pages among them are the sample.
func checkWalk(t *testing.T, opt *Options) {
	t.Helper()
	checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
	w, m := walkOf(t, opt)
	if f := w.Figures(); f.Visited != opt.Order.Walk.URLs || m.Accounts.Unique.N != int64(f.Visited) ||
		w.Ended() == "" {
		t.Errorf("%d URLs visited in %d steps, %d unique, want %d", f.Visited, f.Steps, m.Accounts.Unique.N,
			opt.Order.Walk.URLs)
	}
	if m.Walk.Len > int64(64+8*opt.Order.Walk.Walkers) {
		t.Errorf("a checkpoint writes %d bytes of the walk besides its log", m.Walk.Len)
	}
	if n := w.Waiting(); n != 0 {
		t.Errorf("%d URLs for which walkers wait were neither fetched nor refused", n)
	}
	stored, pages := storedURLs(t, opt.Disk.FS, opt.Disk.Dirs), int64(0)
	for url, n := range stored {
		if n != 1 && !strings.HasPrefix(url, bodyRecord) && !strings.HasPrefix(url, revisitRecord) {
			t.Errorf("%s was stored %d times", url, n)
		}
	}
	for _, s := range w.Sample() {
		if pages++; stored[s.URL] != 1 || s.Status != 200 || s.Weight < 1 {
			t.Errorf("sampled page %+v was stored %d times", s, stored[s.URL])
		}
	}
	if n := m.Accounts.Counters[state.CountPages]; n != pages || pages < int64(opt.Order.Walk.URLs/2) {
		t.Errorf("%d pages in the sample, %d were fetched", pages, n)
	}
}

// checkSample checks that the export has the sample of the walk.
func checkSample(t *testing.T, opt *Options) {
	t.Helper()
	if _, err := export.Run(t.Context(),
		export.Options{FS: opt.Disk.FS, Dirs: opt.Disk.Dirs, Kind: export.Sample, Format: tabular.JSONL,
			Target: "sample", TempDir: "sample.tmp", PartBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	w, _ := walkOf(t, opt)
	want, rows := w.Sample(), exportedRows(t, opt.Disk.FS, "sample")
	if len(rows) != len(want) {
		t.Fatalf("%d rows for %d pages", len(rows), len(want))
	}
	for i, row := range rows {
		if s := want[i]; row["url"] != s.URL || row["weight"] != s.Weight || row["chance"] != s.Chance ||
			row["linked"] != float64(s.Linked) {
			t.Errorf("row %v, want %+v", row, s)
		}
	}
}

// TestRandomWalk: a random walk fetches as many URLs as it is to, each once, and continues where its pages
// are forbidden, redirect or are absent. A later run continues it, also with more URLs.
func TestRandomWalk(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, tiny := walkWeb()
		opt := walkOptions(t, w, tiny, memfs.New(*seedFlag))
		opt.Limits.MaxTime = 30 * time.Second
		if res := mustRun(t, t.Context(), opt); res.Stop != StopTime {
			t.Errorf("the first run stopped by %q", res.Stop)
		}
		opt.Limits.MaxTime, opt.Order.Walk.URLs = 0, 200
		if res := mustRun(t, t.Context(), opt); res.Stop != StopDone || res.Snapshot.Count(state.CountLinksWalk) == 0 {
			t.Errorf("stopped by %q", res.Stop)
		}
		checkWalk(t, &opt)
		checkSample(t, &opt)
		asked := map[string]int{}
		for _, r := range tiny.Requests {
			if asked[r.Host+r.Path]++; asked[r.Host+r.Path] > 1 && r.Path != "/robots.txt" {
				t.Errorf("%s%s was requested twice", r.Host, r.Path)
			}
		}
		opt.Order.Strategy = strategy.BreadthFirst
		if _, err := Run(t.Context(), opt); !errors.Is(err, state.ErrIncompatible) {
			t.Errorf("a random walk continued breadth first: %v", err)
		}
	})
}

// TestRandomWalkOutlivesCuts: power cuts and kills at any operation lose no walker and double none: the walk ends with
// the URLs that it is to visit, each of which is in the crawl and in the output once.
func TestRandomWalkOutlivesCuts(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(uint64(*seedFlag), 23))
		for range longOr(30, 3) {
			w, tiny := walkWeb()
			fs, cuts := memfs.New(rng.Uint64()), 0
			opt := walkOptions(t, w, tiny, fs)
			for {
				if opt.Disk.FS = fs; cuts < 12 {
					most := 300
					if cuts < 3 {
						most = 60 // fewer than the walk takes, whoever writes first
					}
					fs.CrashAfter(1 + rng.IntN(most))
				}
				_, err := Run(t.Context(), opt)
				if err == nil || errors.Is(err, state.ErrFinished) { // a cut may come after the end
					break
				}
				if cuts >= 12 {
					t.Fatal(err) // of no cut
				}
				if cuts++; rng.IntN(3) == 0 {
					fs = fs.Kill()
				} else {
					fs = fs.Crash()
				}
				opt.Disk.FS = fs
				if _, err := fs.Size(opt.Disk.Dirs[0] + "/" + state.ManifestName); err == nil {
					got, m := walkOf(t, &opt)
					// Seeds count once they are fetched.
					if f := got.Figures(); int64(f.Visited+len(opt.Admission.SeedLines)) < m.Accounts.Unique.N {
						t.Fatalf("after a cut the walk has %d URLs, the crawl %d", f.Visited, m.Accounts.Unique.N)
					}
				}
			}
			if cuts < 3 {
				t.Errorf("only %d cuts", cuts)
			}
			checkWalk(t, &opt)
		}
	})
}

// TestRandomWalkDamaged: an audit finds damage in the log of a walk. After a repair the crawl's output is
// whole; the walk is lost, and neither the crawl nor an export takes what is left for one.
func TestRandomWalkDamaged(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, tiny := walkWeb()
		opt := walkOptions(t, w, tiny, memfs.New(*seedFlag))
		opt.Limits.MaxTime = time.Minute
		opt.tests.tune = func(p *plan.Plan) { p.QueueBlockBytes = 1 << 10 }
		mustRun(t, t.Context(), opt)
		fs := opt.Disk.FS.(*memfs.FS)
		files := crawlFiles(t, fs, &opt, func(path string) bool { return strings.Contains(path, "/state/walklog/") })
		if len(files) == 0 {
			t.Fatal("the log is in no file")
		}
		f, err := fs.Open(files[0])
		if err == nil {
			_, err = f.WriteAt([]byte("damage"), 500)
		}
		must(t, errors.Join(err, f.Close()))
		if rep := deep(t, fs, &opt); !rep.Damaged[state.NameWalkLog] {
			t.Errorf("the audit does not see the damage: %+v", rep)
		}
		if _, err := Run(t.Context(), opt); err == nil {
			t.Error("the walk continues with a damaged log")
		}
		if rep, err := repairOf(t, fs, &opt, nil); err != nil {
			t.Fatalf("repair: %v, %+v", err, rep)
		}
		if rep := deep(t, fs, &opt); !rep.Balanced() {
			t.Errorf("audit: %+v", rep)
		}
		if _, err := Run(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "not save the random walk") {
			t.Errorf("a lost walk continues: %v", err)
		}
		_, err = export.Run(t.Context(),
			export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Sample, Format: tabular.JSONL,
				Target: "sample", TempDir: "sample.tmp", PartBytes: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), "not a random walk") {
			t.Errorf("a lost walk is exported: %v", err)
		}
	})
}

// TestRandomWalkLeavesDeadHosts: walkers do not wait for hosts that give no answer.
func TestRandomWalkLeavesDeadHosts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w, tiny := walkWeb()
		serve := tiny.Serve
		tiny.Serve = func(host, path string) answer {
			if len(host) == len("h10.test") { // 15 of the 25 hosts
				return answer{503, "", ""}
			}
			return serve(host, path)
		}
		opt := walkOptions(t, w, tiny, memfs.New(*seedFlag))
		opt.Order.Walk.Walkers, opt.Limits.MaxTime = 3, 2*time.Hour
		mustRun(t, t.Context(), opt)
		checkBalanced(t, opt.Disk.FS, opt.Disk.Dirs)
		got, _ := walkOf(t, &opt)
		if n := len(got.Sample()); n < 30 {
			t.Errorf("three walkers visited %d pages, while most hosts fail: %+v", n, got.Figures())
		}
	})
}
