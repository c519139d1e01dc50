package crawl

import (
	"testing"
	"time"

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
