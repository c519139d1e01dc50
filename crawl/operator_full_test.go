package crawl

import (
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/checkpoint"
	"drumbeat/crawl/operate"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/changes"
)

// TestOperatorSeedsLeaveJournal: while the crawl runs, seeds that have been fed leave the journal after the next
// checkpoint, even if the crawl is paused then, and not before; a restart does not miss them.
func TestOperatorSeedsLeaveJournal(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, nil)
		fs := memfs.New(*seedFlag)
		o := operating(t, web, fs, func(o *Options) { o.Disk.CheckpointEvery = 1000 * time.Hour })
		o.await(50)
		time.Sleep(checkpoint.First) // the next one is due ten seconds later
		// Three changes of nearly a MiB that are one URL.
		lines := slices.Repeat([]string{"http://" + busiestHost(web) + "/" + strings.Repeat("a", 900)}, 1000)
		for range 3 {
			o.make(changes.Change{Op: changes.OpSeeds, Seeds: lines})
		}
		size := func() int64 {
			n, err := fs.Size("d0/" + state.ChangesName)
			must(t, err)
			return n
		}
		time.Sleep(2 * time.Second)
		o.make(changes.Change{Op: changes.OpPause})
		if o.opt.Observe.Control.With(func(c *operate.Running) error {
			if !c.Operator.Fed() {
				t.Error("the seeds have not been fed")
			}
			return nil
		}) != nil || size() < 2_700_000 {
			t.Errorf("%d bytes before the checkpoint", size())
		}
		o.make(changes.Change{Op: changes.OpCheckpoint})
		time.Sleep(10 * time.Second)
		if size() > 10_000 {
			t.Errorf("%d bytes after the checkpoint", size())
		}
		o.make(changes.Change{Op: changes.OpResume})
		o.await(o.requests() + 20)
		o.stop()
		o.end()
		o.start()
		o.end()
		checkBalanced(t, o.opt.Disk.FS, o.opt.Disk.Dirs)
	})
}
