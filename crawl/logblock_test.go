package crawl

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/disk/memfs"
)

// blockingHandler is a log whose reader has stopped.
type blockingHandler struct {
	slog.Handler
	blocked chan struct{} // each line that waits
	release chan struct{}
}

// Enabled implements slog.Handler.
func (blockingHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h blockingHandler) Handle(context.Context, slog.Record) error {
	h.blocked <- struct{}{}
	<-h.release
	return nil
}

// TestBlockedLogStopsNoStage: while a log line waits for its reader, the locks that stages take must be free.
func TestBlockedLogStopsNoStage(t *testing.T) {
	for name, log := range map[string]func(c *crawler){
		"pause": func(c *crawler) {
			c.space.setReason("free", "a test")
			c.space.logPause(time.Now())
		},
		"end of a pause": func(c *crawler) {
			c.space.since = time.Now()
			c.space.logPause(time.Now().Add(time.Second))
		},
		"stop": func(c *crawler) {
			c.space.opt.Disk.WhenFull = WhenFullStop
			c.space.setReason("free", "a test")
			c.space.logPause(time.Now())
		},
		"failed upload": func(c *crawler) { c.uploads.retryAfter(&volume{}, errors.New("refused")) },
	} {
		inBubble(t, func(t *testing.T) {
			h := blockingHandler{slog.DiscardHandler, make(chan struct{}, 10), make(chan struct{})}
			c := newCrawler(Options{Disk: DiskOptions{FS: memfs.New(1), Dirs: []string{"."}},
				Observe: ObserveOptions{Log: slog.New(h)}})
			go log(c)
			synctest.Wait()
			if len(h.blocked) != 1 {
				t.Errorf("%s: %d log lines", name, len(h.blocked))
			}
			for what, lock := range map[string]interface{ TryLock() bool }{"space": &c.space.mu, "uploads": &c.uploads.mu} {
				if !lock.TryLock() {
					t.Errorf("%s: the log line is written under the lock of %s", name, what)
				}
			}
			close(h.release)
		})
	}
}
