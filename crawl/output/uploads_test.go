package output

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"drumbeat/crawl/account"
	"drumbeat/crawl/space"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
)

// TestBlockedLogHoldsNoLock: while a log line waits for its reader, the lock that checkpoints take must be free.
func TestBlockedLogHoldsNoLock(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		h := testworld.NewBlockedLog()
		log := slog.New(h)
		run := account.New(log, nil, nil)
		u := NewUploads(run, nil, UploadOptions{Log: log}, nil,
			space.New(run, nil, space.Options{Log: log, Limit: space.NewLimit(memfs.New(1), nil, 0)}))
		go u.retryAfter(&volume{}, errors.New("refused"))
		synctest.Wait()
		if len(h.Blocked) != 1 {
			t.Errorf("%d log lines", len(h.Blocked))
		}
		if !u.mu.TryLock() {
			t.Error("the log line is written under the lock")
		}
		close(h.Release)
	})
}
