package crawl

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
)

// TestBlockedLogStopsNoStage: while a log line waits for its reader, the locks that stages take must be free.
func TestBlockedLogStopsNoStage(t *testing.T) {
	for name, log := range map[string]func(c *crawler){
		"failed upload": func(c *crawler) { c.uploads.retryAfter(&volume{}, errors.New("refused")) },
	} {
		inBubble(t, func(t *testing.T) {
			h := testworld.NewBlockedLog()
			c := newCrawler(Options{FS: memfs.New(1), Dirs: []string{"."}, Log: slog.New(h)})
			go log(c)
			synctest.Wait()
			if len(h.Blocked) != 1 {
				t.Errorf("%s: %d log lines", name, len(h.Blocked))
			}
			for what, lock := range map[string]interface{ TryLock() bool }{"uploads": &c.uploads.mu} {
				if !lock.TryLock() {
					t.Errorf("%s: the log line is written under the lock of %s", name, what)
				}
			}
			close(h.Release)
		})
	}
}
