package explain_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/explain"
	"drumbeat/weburl"
)

// robotsWitness is a Fetcher that keeps the robots.txt files that it receives, by host.
type robotsWitness struct {
	crawl.Fetcher
	mu    sync.Mutex // guards files
	files map[string]string
}

func (w *robotsWitness) Do(ctx context.Context, req *fetch.Request, resp *fetch.Response) error {
	err := w.Fetcher.Do(ctx, req, resp)
	// A redirect may lead to another path.
	if err == nil && strings.Contains(req.PathQuery, "robots") && resp.Status == 200 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.files[req.Host] = string(resp.Body)
	}
	return err
}

// checkExplained compares explain's answers about every URL with the truth. It counts the places.
func checkExplained(t *testing.T, web *simweb.Web, fsys disk.FS, opt *crawl.Options, w *robotsWitness) map[string]int {
	t.Helper()
	urls := testworld.AllURLs(web)
	tr := testworld.TruthOf(t, fsys, opt.Disk.Dirs)
	snap := web.Log().Snapshot()
	x, err := explain.NewExplainer(explain.Options{FS: fsys, Dirs: opt.Disk.Dirs})
	must(t, err)
	reports, err := x.URLs(urls)
	must(t, err)
	places := map[string]int{}
	for i, rep := range reports {
		url := urls[i]
		places[rep.Place]++
		if want := tr.Place(url); rep.URL != url || rep.Place != want || len(rep.Damage) > 0 || len(rep.Why) == 0 {
			t.Errorf("%s: place %s, want %s (%v, %v)", url, rep.Place, want, rep.Damage, rep.Why)
			continue
		}
		if rep.Seen != tr.Seen[tr.Hasher.URLKey([]byte(url))] {
			t.Errorf("%s: seen %v", url, rep.Seen)
		}
		at := tr.Places[url]
		switch rep.Place {
		case "beast":
			if rep.Queue == nil || rep.Queue.Number != int64(at.Queue) ||
				rep.Queue.Ahead != rep.Queue.Number-rep.Queue.Current || rep.Queue.Ahead < 0 {
				t.Errorf("%s: in queue %+v, want %d", url, rep.Queue, at.Queue)
			}
		case "deferred":
			if rep.Due.UnixMilli() != at.Due || rep.Record.Reason == "" {
				t.Errorf("%s: due %v because of %q, want %v", url, rep.Due, rep.Record.Reason, time.UnixMilli(at.Due))
			}
		case "fetched":
			if snap.Fetches[url] == 0 {
				t.Errorf("%s: reported as fetched, but the web got no request", url)
			}
			if e := tr.Ended[url]; rep.Ended.Status != e.Status || rep.Ended.File != e.File ||
				rep.Ended.Offset != e.Offset {
				t.Errorf("%s: ended %+v, the log has %+v", url, rep.Ended, e)
			}
		case "refused":
			checkRefused(t, web, w, rep, tr.Ended[url])
		}
		if rep.Record != nil && rep.Record.ParentURL != "" &&
			fmt.Sprintf("%016x", tr.Hasher.URLKey([]byte(rep.Record.ParentURL))) != rep.Record.Parent {
			t.Errorf("%s: parent %s doesn't have the key %s", url, rep.Record.ParentURL, rep.Record.Parent)
		}
		if e := tr.Ended[url]; e != nil && (rep.Record == nil || rep.Record.ParentURL != e.Via) {
			t.Errorf("%s: found on %+v, the log has %q", url, rep.Record, e.Via)
		}
		if rep.AsOf.State == state.StateRunning || rep.Site == nil || rep.Robots == nil || rep.Verdict == nil ||
			rep.Link == nil || !rep.Link.Taken {
			t.Errorf("%s: %+v, link %+v", url, rep.AsOf, rep.Link)
		}
	}
	checkFast(t, x, urls, reports)
	checkHosts(t, x, tr, urls)
	return places
}

func checkRefused(t *testing.T, web *simweb.Web, w *robotsWitness, rep *explain.URLReport, e *crawllog.Entry) {
	t.Helper()
	if rep.Ended.Reason != e.Reason {
		t.Errorf("%s: refused with reason %s, the log has %s", rep.URL, rep.Ended.Reason, e.Reason)
	}
	if e.Reason != "robots" {
		return
	}
	if _, refused, _ := web.Expected("drumbeat").Has(rep.URL); !refused {
		t.Errorf("%s: refused by robots.txt, which allows it", rep.URL)
	}
	w.mu.Lock()
	file, own := w.files[rep.Host]
	for _, other := range w.files {
		if !own { // a redirect led to another host's robots.txt
			file += other + "\n"
		}
	}
	w.mu.Unlock()
	if rep.Verdict.Allowed || rep.Verdict.Rule == "" || !strings.Contains(file, rep.Verdict.Rule+"\n") {
		t.Errorf("%s: rule %q (allowed %v) is not in\n%s", rep.URL, rep.Verdict.Rule, rep.Verdict.Allowed, file)
	}
}

// checkFast checks that explain without scans gives the same answers where it needs no scan.
func checkFast(t *testing.T, x *explain.Explainer, urls []string, full []*explain.URLReport) {
	t.Helper()
	opt := x.Opt
	opt.Fast = true
	fast, err := explain.NewExplainer(opt)
	must(t, err)
	reports, err := fast.URLs(urls)
	must(t, err)
	for i, rep := range reports {
		want := full[i].Place
		if full[i].Seen {
			want = explain.PlaceNotScanned
		}
		if rep.Place != want || rep.Seen != full[i].Seen || rep.Site.Indegree > full[i].Site.Indegree {
			t.Errorf("%s: fast: place %s, want %s", rep.URL, rep.Place, want)
		}
	}
}

// checkHosts compares the counts of all hosts with those of the truth.
func checkHosts(t *testing.T, x *explain.Explainer, tr *testworld.Truth, urls []string) {
	t.Helper()
	want, stored := map[string]map[string]int64{}, map[string]int64{}
	for url, at := range tr.Places {
		host := string(weburl.Split([]byte(url)).Host)
		if want[host] == nil {
			want[host] = map[string]int64{}
		}
		want[host][at.Place.String()]++
	}
	hosts := map[string]bool{}
	for _, url := range urls {
		host := string(weburl.Split([]byte(url)).Host)
		hosts[host] = true
	}
	for url, e := range tr.Ended {
		if e.File != "" {
			stored[string(weburl.Split([]byte(url)).Host)]++
		}
	}
	asked := slices.Sorted(maps.Keys(hosts))
	reports, err := x.Hosts(asked)
	must(t, err)
	for i, rep := range reports {
		if rep.Host != asked[i] || len(rep.Damage) > 0 || len(rep.Why) == 0 || rep.Stored == nil ||
			*rep.Stored != stored[rep.Host] || len(want[rep.Host])+len(rep.Places) > 0 &&
			!maps.Equal(rep.Places, want[rep.Host]) {
			t.Errorf("%s: %v, want %v, and %d stored: %+v", asked[i], rep.Places, want[asked[i]], stored[asked[i]], rep)
		}
		queued := int64(0)
		for _, n := range rep.Queues {
			queued += n
		}
		if queued > rep.Places["beast"] {
			t.Errorf("%s: %d URLs in queues %v, %d in beast", rep.Host, queued, rep.Queues, rep.Places["beast"])
		}
	}
}

// TestExplainEveryURL: for every URL of crawls that are stopped or killed at random moments, explain must
// agree with the crawl's files and the web's log.
func TestExplainEveryURL(t *testing.T) {
	testworld.NotShort(t)
	t.Parallel()
	rounds := 4
	if *testworld.Long {
		rounds = 60
	}
	all := map[string]int{}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			testworld.InBubble(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(*testworld.Seed, uint64(round)))
				web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages, o.Robots.ServerError = 400, 0.1 })
				fs := memfs.New(*testworld.Seed + uint64(round))
				opt := crawltest.SimOptions(t, web, fs)
				w := &robotsWitness{Fetcher: opt.Network.Fetcher, files: map[string]string{}}
				opt.Network.Fetcher, opt.Budgets.QueuePages, opt.Order.StockTarget, opt.Output.WARCFileBytes = w,
					crawl.Unlimited, 40, 100_000
				opt.Budgets.Default = 2
				if round%2 == 0 {
					opt.Limits.MaxPages = int64(1 + rng.IntN(200))
				} else {
					opt.Disk.CheckpointEvery = time.Second
					fs.CrashAfter(500 + rng.IntN(6000))
				}
				if _, err := crawl.Run(t.Context(), opt); err != nil && !errors.Is(err, disk.ErrCrashed) {
					t.Fatal(err)
				}
				for place, n := range checkExplained(t, web, fs.Crash(), &opt, w) {
					all[place] += n
				}
			})
		})
	}
	t.Logf("places: %v", all)
	for _, place := range []string{"unseen", "beast", "failed", "deferred", "fetched", "refused"} {
		if all[place] == 0 && (place != "failed" || *testworld.Long) { // few rounds may have none
			t.Errorf("no URL was in place %s", place)
		}
	}
}
