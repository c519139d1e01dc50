package crawl

import (
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state/changes"
)

// TestEnqueueWhileLanded enqueues URLs that wait in RAM while the parsers are slow, so that a fetched page
// waits for its transaction and its host continues with the URL's other record. Each URL is requested once.
func TestEnqueueWhileLanded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) {
			o.PLDs, o.Hosts, o.Pages, o.CrawlDelay, o.Page.ServerError = 2, 3, 1500, 0, 0
		})
		o := operating(t, web, memfs.New(*seedFlag), func(o *Options) {
			atOnce(o)
			o.Budgets.QueuePages = Unlimited
			o.tests.hook = func(place string) {
				if place == "landed" {
					time.Sleep(5 * time.Second)
				}
			}
		})
		o.await(150)
		o.make(changes.Change{Op: changes.OpPause})
		time.Sleep(20 * time.Second)
		_, missing := pagesOf(web, busiestHost(web))
		missing = missing[:min(len(missing), changes.MaxEnqueued)]
		if len(missing) < 50 {
			t.Fatalf("only %d pages are left", len(missing))
		}
		o.enqueue(missing...)
		time.Sleep(time.Second) // until they are orders: a page fetched before is fetched again, as it should be
		o.make(changes.Change{Op: changes.OpResume})
		if res := o.end(); res.Stop != StopDone {
			t.Errorf("ended: %s", res.Stop)
		}
		twice := 0
		for _, url := range missing {
			if o.fetches(url) != 1 {
				twice++
				t.Logf("%s: requested %d times", url, o.fetches(url))
			}
		}
		if twice > 0 {
			t.Errorf("%d of %d enqueued URLs were not requested once", twice, len(missing))
		}
		checkDeep(t, &o.opt)
	})
}
