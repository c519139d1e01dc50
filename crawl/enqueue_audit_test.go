package crawl

import (
	"fmt"
	"testing"
	"time"

	"drumbeat/crawl/orders"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// enqueuedCrawl returns a stopped crawl that has fetched one URL again because it was enqueued, that URL, and another
// one that was fetched.
func enqueuedCrawl(t *testing.T) (fs *memfs.FS, opt Options, again, other string) {
	t.Helper()
	fs = memfs.New(*seedFlag)
	o := operating(t, smallWeb(t, nil), fs,
		func(o *Options) { o.Politeness.HostDelay, o.Politeness.HostDelayMin = 2*time.Second, 2*time.Second })
	o.await(120)
	host := busiestHost(o.web)
	fetched, _ := pagesOf(o.web, host)
	again, other = fetched[0], fetched[1]
	o.enqueue(again)
	for o.fetches(again) < 2 {
		time.Sleep(time.Second)
	}
	o.make(changes.Change{Op: changes.OpCheckpoint})
	o.stop()
	o.end()
	return fs, o.opt, again, other
}

// putHeld appends the record of a URL to the queue of held URLs, whatever other place the URL is in.
func putHeld(url string) func(disk.Set, *state.Manifest, *disk.Tails) error {
	return func(set disk.Set, m *state.Manifest, tails *disk.Tails) error {
		st, err := state.Part[queue.State](m, state.NameHeld)
		if err != nil {
			return err
		}
		q, err := queue.Open(queue.Options{Set: set, Name: state.NameHeld, BlockBytes: 128 << 10}, st)
		if err != nil {
			return err
		}
		rec := weburl.Record{URL: []byte(url)}
		if err := q.Append(rec.Append(nil)); err != nil {
			return err
		}
		return saved(m, state.NameHeld, q.Freeze(), tails)
	}
}

// TestDeepAuditAfterEnqueue: an enqueued URL may have several responses, also when the table of orders has
// forgotten it. All other URLs are audited as before: a deep audit finds a removed, doubled or changed record
// by its key, and a fetched URL that also waits. Only if the keys that were enqueued are lost, it takes such
// URLs.
func TestDeepAuditAfterEnqueue(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		whole, opt, again, other := enqueuedCrawl(t)
		testworld.FindsEachFault(t, whole, opt.Disk.Dirs)
		forget := func(_ disk.Set, m *state.Manifest, _ *disk.Tails) error { m.Orders = disk.Ref{}; return nil }
		lose := func(_ disk.Set, m *state.Manifest, _ *disk.Tails) error {
			delete(m.Parts, state.NameOrdered)
			return nil
		}
		for _, c := range []struct {
			name   string
			change func(disk.Set, *state.Manifest, *disk.Tails) error
			twice  int64
			whole  bool
		}{
			{"the table has no orders", forget, 0, true},
			{"another URL is held too", putHeld(other), 1, false},
			{"the enqueued URL is held too", putHeld(again), 0, false}, // the sums find it
			{"the enqueued keys are lost", lose, 0, true},
		} {
			fs := whole.Fork(1)
			tamper(t, fs, &opt, c.change)
			if rep := deep(t, fs, &opt); rep.Balanced() != c.whole || rep.Keys.Twice != c.twice {
				t.Errorf("%s: balanced %v, %d twice: %q", c.name, rep.Balanced(), rep.Keys.Twice, rep.Bad)
			}
		}
	})
}

// TestEnqueueMoreThanRAM: enqueued URLs that fill RAM do not drive each other to disk: those without room
// wait in Q. Other URLs make room for them.
func TestEnqueueMoreThanRAM(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := &tinyWeb{Serve: pagesOnly}
		opt := tinyOptions(t, web, memfs.New(*seedFlag), urls("h", 30, 20)...)
		small(&opt)
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Admission.Scope, opt.Limits.RAMBytes = 10*
			time.Minute, 10*time.Minute, state.ScopePLD, plan.LeastRAM
		opt.Network.Connections = 1 // never idle, which would move what is due late to disk
		o := &operated{t: t, opt: opt}
		o.start()
		time.Sleep(30 * time.Second)
		lot := make([]string, changes.MaxEnqueued)
		for n := 0; n < orders.Max; n += len(lot) {
			lot = lot[:min(len(lot), orders.Max-n)]
			for i := range lot {
				lot[i] = fmt.Sprintf("http://h0.test/enqueued/%d", n+i)
			}
			o.enqueue(lot...)
		}
		time.Sleep(10 * time.Second)
		s, err := o.opt.Observe.Control.Exact()
		must(t, err)
		if ram, ready := s.Place(state.PlaceRAM), s.Place(state.PlaceReady); ram+ready < orders.Max || ready == 0 {
			t.Errorf("%d URLs in RAM and %d in Q, deferred %v: want all %d orders, more than RAM holds", ram, ready,
				s.Deferred, orders.Max)
		}
		if n := s.Deferred[state.ReasonEvicted.String()]; n == 0 || n > 30*20 {
			t.Errorf("%d URLs left RAM, want some of the %d that were not enqueued", n, 30*20)
		}
		o.stop()
		o.end()
		checkDeep(t, &o.opt)
	})
}
