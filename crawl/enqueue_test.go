package crawl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/operate"
	"drumbeat/crawl/orders"
	"drumbeat/crawl/space"
	"drumbeat/disk/memfs"
	"drumbeat/internal/revisit"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/changes"
)

// busiestHost returns the host with the most requests.
func busiestHost(web *simweb.Web) string {
	hosts := web.Log().Snapshot().Hosts
	return slices.MaxFunc(slices.Sorted(maps.Keys(hosts)),
		func(a, b string) int { return int(hosts[a].Requests) - int(hosts[b].Requests) })
}

// pagesOf returns URLs of a host that a crawl fetches, those that were requested already and those that were not.
func pagesOf(web *simweb.Web, host string) (fetched, missing []string) {
	snap := web.Log().Snapshot()
	for url := range web.Expected("drumbeat").FetchedURLs() {
		if !strings.HasPrefix(url, "http://"+host+"/") {
			continue
		}
		if snap.Fetches[url] > 0 {
			fetched = append(fetched, url)
		} else {
			missing = append(missing, url)
		}
	}
	slices.Sort(fetched)
	slices.Sort(missing)
	return fetched, missing
}

// fetches returns how often the web was asked for a URL.
func (o *operated) fetches(url string) int {
	s := o.web.Log().Snapshot()
	return int(s.Fetches[url]) + s.Wrong[url]
}

// enqueue enqueues URLs that must be accepted.
func (o *operated) enqueue(urls ...string) []operate.Enqueued {
	o.t.Helper()
	answers, made, err := o.opt.Observe.Control.Enqueue(o.t.Context(), "test", urls)
	if err != nil || made.Count != len(urls) {
		o.t.Fatalf("enqueue: %d of %d taken, %v, %+v", made.Count, len(urls), err, answers)
	}
	return answers
}

// checkDeep audits every key of a stopped crawl.
func checkDeep(t *testing.T, o *Options) {
	t.Helper()
	opt := audit.Options{FS: o.Disk.FS, Dirs: o.Disk.Dirs}
	if s := o.ObjectStore; s != nil {
		opt = lookAt(o.Disk.FS, o.Disk.Dirs, s.Bucket)
	}
	rep, err := audit.Deep(opt)
	if err != nil {
		t.Fatalf("deep audit: %v", err)
	}
	if !rep.Balanced() {
		t.Errorf("deep audit: %v, %v, %v", err, rep.Bad, rep.Keys.Examples)
	}
}

// checkTimes compares the answers about enqueued URLs with the requests that follow: each comes within the tolerance
// that docs/howto/run/steer.md states, one visit of its host and a second, and in the order of the answers.
func (o *operated) checkTimes(answers []operate.Enqueued, before []int) {
	o.t.Helper()
	began := time.Now()
	for i, a := range answers {
		for o.fetches(a.URL) == before[i] {
			if time.Since(began) > a.Wait+time.Minute {
				o.t.Fatalf("%s: no request %v after it was enqueued; the estimate was %v", a.URL,
					time.Since(began), a.Wait)
			}
			time.Sleep(10 * time.Millisecond)
		}
		took := time.Since(began)
		tolerance := time.Second + o.opt.Politeness.HostDelay
		if d := (took - a.Wait).Abs(); d > tolerance {
			o.t.Errorf("%s: requested after %v, estimated %v (%s)", a.URL, took, a.Wait, a.Because)
		}
		o.t.Logf("%s: requested after %v, estimated %v (%s)", a.URL, took, a.Wait, a.Because)
	}
}

// TestEnqueue: URLs that are enqueued while the host has a long queue are requested when the answer says, before all
// others: a fetched one again, others once. The accounts balance.
func TestEnqueue(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.CrawlDelay = 3, 4, 700, 0
			o.Page.ServerError = 0 // a failure makes the host back off, which no estimate foresees
		})
		o := operating(t, web, memfs.New(*seedFlag),
			func(o *Options) { o.Politeness.HostDelay, o.Politeness.HostDelayMin = 2*time.Second, 2*time.Second })
		o.await(120)
		host := busiestHost(web)
		fetched, missing := pagesOf(web, host)
		if len(missing) < 40 {
			t.Fatalf("%s has only %d pages left", host, len(missing))
		}
		urls := []string{missing[len(missing)/2], "http://" + host + "/never-seen", fetched[0], missing[3]}
		before := []int{0, 0, o.fetches(fetched[0]), 0}
		o.checkTimes(o.enqueue(urls...), before)
		s, err := o.opt.Observe.Control.Exact()
		if err != nil || s.Count(state.CountEnqueued) != 4 {
			t.Errorf("%d URLs enqueued, %v", s.Count(state.CountEnqueued), err)
		}
		o.make(changes.Change{Op: changes.OpCheckpoint})
		if res := o.end(); res.Stop != StopDone {
			t.Errorf("ended: %s", res.Stop)
		}
		snap := web.Log().Snapshot()
		for url := range web.Expected("drumbeat").FetchedURLs() {
			want := 1
			if url == fetched[0] {
				want = 2
			}
			if n := int(snap.Fetches[url]); n != want {
				t.Errorf("%s: fetched %d times, want %d", url, n, want)
			}
		}
		if n := snap.Wrong[urls[1]]; n != 1 {
			t.Errorf("%s: requested %d times", urls[1], n)
		}
		checkDelays(t, snap, &o.opt, 0)
		checkDeep(t, &o.opt)
	})
}

// fetchedAndNot returns the last path that was requested, and the last one that was not.
func fetchedAndNot(web *tinyWeb) (fetched, waits string) {
	for i := range 60 {
		if path := fmt.Sprintf("/%d", i); len(web.Got("h0.test", path)) > 0 {
			fetched = path
		} else {
			waits = path
		}
	}
	return fetched, waits
}

// fillOrders enqueues as many URLs as there is room for.
func (o *operated) fillOrders(room int) {
	o.t.Helper()
	many := make([]string, changes.MaxEnqueued)
	for room > 0 {
		for i := range many {
			many[i] = fmt.Sprintf("http://h0.test/%d/%d", room, i)
		}
		lot := many[:min(room, len(many))]
		o.enqueue(lot...)
		room -= len(lot)
	}
}

// checkEnqueuedFirst: thousands were enqueued, and those in Q come to RAM first after a restart, but none comes
// after other URLs.
func checkEnqueuedFirst(t *testing.T, requests []request, waits, fetched string) {
	t.Helper()
	for _, r := range requests {
		if r.Path != waits && r.Path != fetched && strings.Count(r.Path, "/") != 2 {
			t.Errorf("%s was requested before what was enqueued", r.Path)
		}
	}
	if len(requests) < 4 {
		t.Errorf("%d requests after the pause", len(requests))
	}
}

// TestEnqueueRefused: what the crawl may not fetch is refused in the answer, or, if robots.txt forbids it, when that is
// known. A pause holds, and what was enqueued meanwhile comes first afterwards, over a restart and a repair as well.
func TestEnqueueRefused(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: func(host, path string) answer {
			if path == "/robots.txt" {
				return answer{200, "Content-Type: text/plain\r\n", "User-agent: *\nDisallow: /secret\n"}
			}
			return answer{200, "", "<html>x"}
		}}
		fs := memfs.New(*seedFlag)
		opt := tinyOptions(t, web, fs, urls("h", 1, 60)...)
		small(&opt)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Admission.Scope = 10*time.Second,
			10*time.Second, state.ScopePLD
		o := &operated{t: t, opt: opt}
		o.start()
		time.Sleep(35 * time.Second)
		o.make(changes.Change{Op: changes.OpBlock, Rule: "host blocked.h0.test"})
		answers, made, err := o.opt.Observe.Control.Enqueue(t.Context(), "test",
			[]string{"http://h0.test/secret", "http://h0.test/new",
				"http://other.test/", "http://blocked.h0.test/", "ftp://h0.test/", ""})
		if err != nil || made.Count != 2 {
			t.Fatalf("%+v, %v", answers, err)
		}
		for i, a := range answers {
			if (a.Refused != "") != (i > 1) {
				t.Errorf("%s: refused %q", a.Line, a.Refused)
			}
		}
		time.Sleep(25 * time.Second)
		if n := len(web.Got("h0.test", "/new")); n != 1 {
			t.Errorf("/new was requested %d times", n)
		}
		o.make(changes.Change{Op: changes.OpPause})
		time.Sleep(15 * time.Second)
		before := len(web.Got("h0.test", ""))
		fetched, waits := fetchedAndNot(web)
		if a := o.enqueue("http://h0.test"+waits, "http://h0.test"+fetched)[0]; !strings.Contains(a.Because,
			space.PausedByOperator) {
			t.Errorf("the answer during a pause: %+v", a)
		}
		o.fillOrders(orders.Max - 2)
		if _, _, err := o.opt.Observe.Control.Enqueue(t.Context(), "test",
			[]string{"http://h0.test/over"}); !changes.IsRefused(err) {
			t.Errorf("beyond the limit: %v", err)
		}
		o.make(changes.Change{Op: changes.OpCheckpoint})
		o.stop()
		o.end()
		checkDeep(t, &o.opt)
		if n := len(web.Got("h0.test", "")); n != before {
			t.Errorf("%d requests during the pause", n-before)
		}
		o.start()
		o.make(changes.Change{Op: changes.OpResume})
		time.Sleep(45 * time.Second)
		checkEnqueuedFirst(t, web.Got("h0.test", "")[before:], waits, fetched)
		o.stop()
		o.end()
		checkDeep(t, &o.opt)
		if _, err := repairOf(t, fs, &o.opt, nil); err != nil {
			t.Error(err)
		}
		checkDeep(t, &o.opt)
		if n := len(web.Got("h0.test", "/secret")); n != 0 {
			t.Errorf("/secret: %d requests", n)
		}
	})
}

// TestEnqueueRecrawl: a page that waits for its next visit is fetched at once when it is enqueued, and its next visit
// comes an interval later.
func TestEnqueueRecrawl(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: pagesOnly}
		opt := tinyOptions(t, web, memfs.New(*seedFlag), "http://h0.test/a", "http://h0.test/b")
		small(&opt)
		opt.Recrawl = &revisit.Policy{Least: time.Hour, Longest: time.Hour, Default: time.Hour,
			Kind: revisit.Uniform, Gone: 3}
		o := &operated{t: t, opt: opt}
		o.start()
		time.Sleep(30 * time.Minute)
		o.enqueue("http://h0.test/a")
		time.Sleep(time.Minute)
		if n := len(web.Got("h0.test", "/a")); n != 2 {
			t.Fatalf("/a: %d requests a minute after it was enqueued", n)
		}
		o.stop()
		o.end()
		checkDeep(t, &o.opt)
		o.start()
		time.Sleep(75 * time.Minute)
		visits := web.Got("h0.test", "/a")
		if len(visits) != 3 {
			t.Fatalf("/a: %d visits after 106 minutes", len(visits))
		}
		if gap := visits[2].At.Sub(visits[1].At); gap < 55*time.Minute || gap > 70*time.Minute {
			t.Errorf("/a: the visit after the enqueued one came %v later, want 1h", gap)
		}
		if n := len(web.Got("h0.test", "/b")); n != 2 {
			t.Errorf("/b: %d visits after 106 minutes, want 2", n)
		}
		o.stop()
		o.end()
		checkDeep(t, &o.opt)
	})
}
