package crawl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drumbeat/beast"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/changes"
)

// TestReloadBudgets: a smaller fixed budget holds for the URLs that BEAST holds, and a larger one brings them
// forward if they are placed again. The answers count what changed, and the crawl fetches what an undisturbed
// one does.
func TestReloadBudgets(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		fs := memfs.New(*seedFlag)
		web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages = 5, 20, 2000 })
		const want = 5
		pin := func(budget int) {
			writeRules(t, fs, "sites.toml", ownSites(web, want, fmt.Sprintf("budget = %d", budget)))
		}
		pin(400)
		o := operating(t, web, fs, func(o *Options) {
			o.Budgets.Default, o.Budgets.Max, o.Budgets.QueuePages, o.Order.StockTarget, o.Budgets.QueuesMax = 3, 10,
				Unlimited, 50, 16
			o.Admission.Sites, o.Politeness.HostDelay, o.Politeness.HostDelayMin = "sites.toml",
				2*time.Second, 2*time.Second
		})
		o.await(100)
		replaced := func() int64 {
			s, err := o.opt.Observe.Control.Exact()
			must(t, err)
			return s.Count(state.CountURLsReplaced)
		}
		if n := replaced(); n != 0 {
			t.Errorf("%d URLs were placed again before the reload", n)
		}
		await := func(has func(*beast.Stats) bool) {
			for range 600 {
				if in, err := o.opt.Observe.Control.Structures(); err != nil || has(&in.Beast) {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		await(func(s *beast.Stats) bool { return s.CurrentRecords > 100 })
		pin(6)
		r, made, err := o.opt.Observe.Control.Reload(t.Context(), "test", false)
		if err != nil || made.Seq == 0 || r.Budgets != want || r.Replaced != 0 {
			t.Errorf("reload: %+v, %+v, %v", r, made, err)
		}
		placed := func(after int64, when string) {
			awaitMore(t, replaced, after, "no URL was placed again after "+when)
		}
		placed(0, "a smaller budget")
		writeRules(t, fs, "sites.toml", "[[site]]\npld = 'site0.test'\nbudget = 0")
		if _, _, err := o.opt.Observe.Control.Reload(t.Context(), "test", true); !changes.IsRefused(err) {
			t.Errorf("a file with a fault: %v", err)
		}
		await(func(s *beast.Stats) bool { return s.SpreadRecords > 20 })
		lowered := replaced()
		pin(300)
		if r, _, err = o.opt.Observe.Control.Reload(t.Context(), "test", true); err != nil || r.Budgets != want ||
			r.Replaced == 0 {
			t.Errorf("reload: %+v, %v", r, err)
		}
		placed(lowered, "the reload with anew")
		o.make(changes.Change{Op: changes.OpBudget, PLD: "site0.test", Budget: 5, Requeue: true})
		o.end()
		checkFetched(t, o.web, &o.opt)
		checkBalanced(t, fs, o.opt.Disk.Dirs)
	})
}

// awaitMore waits until a count is larger than after.
func awaitMore(t *testing.T, count func() int64, after int64, fault string) {
	t.Helper()
	for range 600 {
		if n := count(); n > after {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error(fault)
}

// TestFewerConnections: after a reload with fewer connections no exchange with the host begins while as many are under
// way, by the server's clock.
func TestFewerConnections(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.CrawlDelay, o.SlowHosts, o.SlowDelay = 2, 3, 900, 0, 2, 200*time.Millisecond
		})
		fs := memfs.New(*seedFlag)
		const own = "[[site]]\npld = 'site0.test'\nowner = true\ndelay = '50ms'\nconnections = %d\n" +
			"[[site]]\npld = 'site1.simweb'\nowner = true\ndelay = '50ms'\nconnections = %[1]d"
		writeRules(t, fs, "sites.toml", fmt.Sprintf(own, 4))
		o := operating(t, web, fs, func(o *Options) {
			o.Admission.Sites, o.Politeness.ServerDelay, o.Politeness.ServerDelayMin = "sites.toml", 0, 0
		})
		o.await(200)
		host := ""
		for name, h := range web.Log().Snapshot().Hosts {
			if h.MaxBusy > 1 {
				host = name
			}
		}
		if host == "" {
			t.Fatal("no host had two requests at once with four connections")
		}
		writeRules(t, fs, "sites.toml", fmt.Sprintf(own, 1))
		r, _, err := o.opt.Observe.Control.Reload(t.Context(), "test", false)
		if err != nil || r.Terms == 0 || r.Evicted == 0 {
			t.Errorf("reload: %+v, %v", r, err)
		}
		reloaded := web.Log().Snapshot()
		last := reloaded.Requests[len(reloaded.Requests)-1].Start
		o.end()
		var ends time.Duration // of all requests so far
		later := 0
		for _, q := range web.Log().Snapshot().Requests {
			if q.Host != host {
				continue
			}
			if q.Start > last {
				if later++; q.Start < ends {
					t.Errorf("%s: requested at %v, while another exchange went on until %v", q.URL, q.Start, ends)
				}
			}
			ends = max(ends, q.End)
		}
		if later < 50 {
			t.Errorf("only %d requests after the reload", later)
		}
		checkBalanced(t, fs, o.opt.Disk.Dirs)
	})
}

// TestReloadDepth: a smaller max-depth of sites refuses queued URLs that are deeper, wherever they wait.
func TestReloadDepth(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.PLDs, o.Hosts, o.Pages = 5, 10, 800 })
		fs := memfs.New(*seedFlag)
		writeRules(t, fs, "sites.toml", "")
		o := operating(t, web, fs, func(o *Options) {
			o.Admission.Sites, o.Politeness.HostDelay, o.Politeness.HostDelayMin = "sites.toml",
				time.Second, time.Second
		})
		o.await(100)
		writeRules(t, fs, "sites.toml", ownSites(web, 5, "max-depth = 0"))
		if _, _, err := o.opt.Observe.Control.Reload(t.Context(), "test", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // requests under way end
		before := o.requests()
		res := o.end()
		if n := o.requests() - before; n > 20 { // of robots.txt
			t.Errorf("%d requests after the reload", n)
		}
		if res.Snapshot.Refused["too-deep"] < 50 {
			t.Errorf("refused: %v", res.Snapshot.Refused)
		}
		checkDeep(t, &o.opt)
	})
}

// ownSites returns a file of sites with the same settings for the first PLDs of a web.
func ownSites(web *simweb.Web, plds int, settings string) (text string) {
	for _, seed := range web.Seeds()[:plds] {
		text += fmt.Sprintf("[[site]]\npld = '%s'\n%s\n",
			strings.Trim(strings.TrimPrefix(seed, "http://www."), "/"), settings)
	}
	return text
}
