package node

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestDoubts: an error about another node is final once that node has shown it three times and for a
// minute and a half, with nothing plausible between. The same mark seen again, after a new connection, does
// not count.
func TestDoubts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoubts(slog.Default(), 2)
		again := func(want bool, revision uint64, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			if final, _ := d.note(1, doubtMark, revision); final != want {
				t.Errorf("final: %v, want %v", final, want)
			}
		}
		again(false, 1, 0)
		again(false, 1, time.Hour)
		again(false, 1, time.Hour)
		again(false, 2, 0)
		again(true, 3, 0)
		d.clear(1, doubtMark)
		again(false, 4, time.Hour)
		again(false, 5, time.Second)
		again(false, 6, time.Second)
		again(true, 7, doubtFor)
		d.refuse(-1, logUnreadable, true) // of no node: not counted
		d.refuse(2, logUnreadable, true)
		if marks, messages := d.counts(1); marks+messages != 0 {
			t.Errorf("%d marks and %d messages were refused", marks, messages)
		}
	})
}
