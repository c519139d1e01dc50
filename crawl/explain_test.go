package crawl

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

	"drumbeat/beast"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/simweb"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/explain"
	"drumbeat/weburl"
)

// robotsWitness is a Fetcher that keeps the robots.txt files that it receives, by host.
type robotsWitness struct {
	Fetcher
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

// truth has what the queue readers of audit, the drums and the crawl log say about every URL.
type truth struct {
	places map[string]explain.Spot
	ended  map[string]*crawllog.Entry
	seen   map[uint64]bool
	links  map[string]bool
	hasher *weburl.Hasher
}

func truthOf(t *testing.T, fsys disk.FS, dirs []string) *truth {
	t.Helper()
	r, m, err := audit.Open(&audit.Options{FS: fsys, Dirs: dirs})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Unlock(); err != nil {
			t.Error(err)
		}
	}()
	tr := &truth{places: map[string]explain.Spot{}, ended: map[string]*crawllog.Entry{}, seen: map[uint64]bool{}, links: map[string]bool{}, hasher: r.Hasher}
	put := func(at explain.Spot) func([]byte) error {
		return func(data []byte) error {
			var rec weburl.Record
			if err := rec.Decode(data); err != nil {
				return err
			}
			if _, twice := tr.places[string(rec.URL)]; twice {
				t.Errorf("%s is in two places", rec.URL)
			}
			tr.places[string(rec.URL)] = at
			return nil
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(star.WalkChecks(r.Set, state.NameStar, partOf[star.State](t, m, state.NameStar), put(explain.Spot{Place: state.PlaceStar})))
	_, _, err = beast.Scan(r.Set, state.NameBeast, partOf[beast.State](t, m, state.NameBeast), func(_ int, n beast.Number, data []byte) error {
		if n == beast.Failed {
			return put(explain.Spot{Place: state.PlaceFailed})(data)
		}
		return put(explain.Spot{Place: state.PlaceBeast, Queue: n})(data)
	}, nil)
	must(err)
	cache := partOf[drum.State](t, m, state.NameRobotsCache)
	_, err = drum.ScanState(r.Set, state.NameRobotsCache, cache.Waiting(), drum.Scan{Tuple: func(tu drum.Tuple) error {
		if tu.Op != drum.Check {
			return nil
		}
		return put(explain.Spot{Place: state.PlaceRobotsCheck})(tu.Value)
	}})
	must(err)
	for name, place := range map[string]state.Place{
		state.NameAwaitRobots: state.PlaceAwaitRobots, state.NameReady: state.PlaceReady, state.NameHeld: state.PlaceHeld,
	} {
		_, err = queue.Scan(r.Set, name, partOf[queue.State](t, m, name), put(explain.Spot{Place: place}), nil)
		must(err)
	}
	_, err = queue.ScanCalendar(r.Set, state.NameDeferred, partOf[queue.CalendarState](t, m, state.NameDeferred), func(due int64, data []byte) error {
		return put(explain.Spot{Place: state.PlaceDeferred, Due: due})(data)
	}, nil)
	must(err)
	ram, err := disk.ReadTail(r.Set, m.RAM)
	must(err)
	must(state.EachRecord("RAM", ram, put(explain.Spot{Place: state.PlaceRAM})))
	_, err = drum.ScanState(r.Set, state.NameURLSeen, partOf[drum.State](t, m, state.NameURLSeen), drum.Scan{
		Entry: func(key drum.Key, _ []byte) error { tr.seen[uint64(key)] = true; return nil },
		Text: func(aux []byte, unique bool) error {
			if unique {
				return put(explain.Spot{Place: state.PlaceUnstreamed})(aux)
			}
			var rec weburl.Record
			must(rec.Decode(aux))
			tr.links[string(rec.URL)] = true
			return nil
		},
	})
	must(err)
	_, err = crawllog.Scan(crawllog.Options{Set: r.Set, Prefix: "crawl"}, partOf[crawllog.State](t, m, state.NameCrawlLog), func(e *crawllog.Entry) error {
		c := *e
		tr.ended[e.URL] = &c
		return nil
	}, func(err error) error { return err })
	must(err)
	return tr
}

// place returns the place that explain must report.
func (tr *truth) place(url string) string {
	at, live := tr.places[url]
	e := tr.ended[url]
	switch {
	case live:
		return at.Place.String()
	case e != nil && e.Reason != "":
		return "refused"
	case e != nil:
		return "fetched"
	case tr.seen[tr.hasher.URLKey([]byte(url))]:
		return "ended"
	case tr.links[url]:
		return "link"
	}
	return "unseen"
}

// allURLs returns the URLs of a web that a crawl may meet, and some that it can't.
func allURLs(web *simweb.Web) []string {
	e := web.Expected("drumbeat")
	var list []string
	for _, urls := range []func(func(string) bool){e.FetchedURLs(), e.RefusedURLs(), e.DeadURLs()} {
		for url := range urls {
			list = append(list, url)
		}
	}
	for i := range 20 {
		list = append(list, list[i]+"-no-such-page")
	}
	return list
}

// checkExplained compares explain's answers about every URL with the truth. It counts the places.
func checkExplained(t *testing.T, web *simweb.Web, fsys disk.FS, opt *Options, w *robotsWitness) map[string]int {
	t.Helper()
	urls := allURLs(web)
	tr := truthOf(t, fsys, opt.Dirs)
	snap := web.Log().Snapshot()
	x, err := explain.NewExplainer(explain.Options{FS: fsys, Dirs: opt.Dirs})
	if err != nil {
		t.Fatal(err)
	}
	reports, err := x.URLs(urls)
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]int{}
	for i, rep := range reports {
		url := urls[i]
		places[rep.Place]++
		if want := tr.place(url); rep.URL != url || rep.Place != want || len(rep.Damage) > 0 || len(rep.Why) == 0 {
			t.Errorf("%s: place %s, want %s (%v, %v)", url, rep.Place, want, rep.Damage, rep.Why)
			continue
		}
		if rep.Seen != tr.seen[tr.hasher.URLKey([]byte(url))] {
			t.Errorf("%s: seen %v", url, rep.Seen)
		}
		at := tr.places[url]
		switch rep.Place {
		case "beast":
			if rep.Queue == nil || rep.Queue.Number != int64(at.Queue) || rep.Queue.Ahead != rep.Queue.Number-rep.Queue.Current || rep.Queue.Ahead < 0 {
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
			if e := tr.ended[url]; rep.Ended.Status != e.Status || rep.Ended.File != e.File || rep.Ended.Offset != e.Offset {
				t.Errorf("%s: ended %+v, the log has %+v", url, rep.Ended, e)
			}
		case "refused":
			checkRefused(t, web, w, rep, tr.ended[url])
		}
		if rep.Record != nil && rep.Record.ParentURL != "" && fmt.Sprintf("%016x", tr.hasher.URLKey([]byte(rep.Record.ParentURL))) != rep.Record.Parent {
			t.Errorf("%s: parent %s doesn't have the key %s", url, rep.Record.ParentURL, rep.Record.Parent)
		}
		if e := tr.ended[url]; e != nil && (rep.Record == nil || rep.Record.ParentURL != e.Via) {
			t.Errorf("%s: found on %+v, the log has %q", url, rep.Record, e.Via)
		}
		if rep.AsOf.State == state.StateRunning || rep.Site == nil || rep.Robots == nil || rep.Verdict == nil || rep.Link == nil || !rep.Link.Taken {
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
	if err != nil {
		t.Fatal(err)
	}
	reports, err := fast.URLs(urls)
	if err != nil {
		t.Fatal(err)
	}
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
func checkHosts(t *testing.T, x *explain.Explainer, tr *truth, urls []string) {
	t.Helper()
	want, stored := map[string]map[string]int64{}, map[string]int64{}
	for url, at := range tr.places {
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
	for url, e := range tr.ended {
		if e.File != "" {
			stored[string(weburl.Split([]byte(url)).Host)]++
		}
	}
	asked := slices.Sorted(maps.Keys(hosts))
	reports, err := x.Hosts(asked)
	if err != nil {
		t.Fatal(err)
	}
	for i, rep := range reports {
		if rep.Host != asked[i] || len(rep.Damage) > 0 || len(rep.Why) == 0 || rep.Stored == nil || *rep.Stored != stored[rep.Host] ||
			len(want[rep.Host])+len(rep.Places) > 0 && !maps.Equal(rep.Places, want[rep.Host]) {
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
	notShort(t)
	t.Parallel()
	rounds := 4
	if *longRuns {
		rounds = 60
	}
	all := map[string]int{}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(*seedFlag, uint64(round)))
				web := smallWeb(t, func(o *simweb.Options) { o.Pages, o.Robots.ServerError = 400, 0.1 })
				fs := memfs.New(*seedFlag + uint64(round))
				opt := simOptions(t, web, fs)
				w := &robotsWitness{Fetcher: opt.Fetcher, files: map[string]string{}}
				opt.Fetcher, opt.QueuePages, opt.StockTarget, opt.WARCFileBytes = w, Unlimited, 40, 100_000
				opt.BudgetDefault = 2
				if round%2 == 0 {
					opt.MaxPages = int64(1 + rng.IntN(200))
				} else {
					opt.CheckpointEvery = time.Second
					fs.CrashAfter(500 + rng.IntN(6000))
				}
				if _, err := Run(t.Context(), opt); err != nil && !errors.Is(err, disk.ErrCrashed) {
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
		if all[place] == 0 && (place != "failed" || *longRuns) { // few rounds may have none
			t.Errorf("no URL was in place %s", place)
		}
	}
}
