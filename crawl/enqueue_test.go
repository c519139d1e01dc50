package crawl

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/audit"
	"drumbeat/crawl/changes"
	"drumbeat/crawl/state"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
)

// busiestHost returns the host with the most requests.
func busiestHost(web *simweb.Web) string {
	hosts := web.Log().Snapshot().Hosts
	return slices.MaxFunc(slices.Sorted(maps.Keys(hosts)), func(a, b string) int { return int(hosts[a].Requests) - int(hosts[b].Requests) })
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
func (o *operated) enqueue(urls ...string) []Enqueued {
	o.t.Helper()
	answers, made, err := o.opt.Control.Enqueue(o.t.Context(), "test", urls)
	if err != nil || made.Count != len(urls) {
		o.t.Fatalf("enqueue: %d of %d taken, %v, %+v", made.Count, len(urls), err, answers)
	}
	return answers
}

// checkDeep audits every key of a stopped crawl.
func checkDeep(t *testing.T, o *Options) {
	t.Helper()
	rep, err := audit.Deep(audit.Options{FS: o.FS, Dirs: o.Dirs})
	if err != nil || !rep.Balanced() {
		t.Errorf("deep audit: %v, %v, %v", err, rep.Bad, rep.Keys.Examples)
	}
}

// checkTimes compares the answers about enqueued URLs with the requests that follow: each comes within the tolerance
// that docs/GUIDE.md states, one visit of its host and a second, and in the order of the answers.
func (o *operated) checkTimes(answers []Enqueued, before []int) {
	o.t.Helper()
	began := time.Now()
	for i, a := range answers {
		for o.fetches(a.URL) == before[i] {
			if time.Since(began) > a.Wait+time.Minute {
				o.t.Fatalf("%s: no request %v after it was enqueued; the estimate was %v", a.URL, time.Since(began), a.Wait)
			}
			time.Sleep(10 * time.Millisecond)
		}
		took := time.Since(began)
		tolerance := time.Second + o.opt.HostDelay
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
		web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages, o.CrawlDelay = 3, 4, 700, 0 })
		o := operate(t, web, memfs.New(*seedFlag), func(o *Options) { o.HostDelay, o.HostDelayMin = 2*time.Second, 2*time.Second })
		o.await(120)
		host := busiestHost(web)
		fetched, missing := pagesOf(web, host)
		if len(missing) < 100 {
			t.Fatalf("%s has only %d pages left", host, len(missing))
		}
		urls := []string{missing[len(missing)/2], "http://" + host + "/never-seen", fetched[0], missing[3]}
		before := []int{0, 0, o.fetches(fetched[0]), 0}
		o.checkTimes(o.enqueue(urls...), before)
		s, err := o.opt.Control.Exact()
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
