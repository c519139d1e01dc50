package checkpoint

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/disk/memfs"
)

// slowPause is a structure whose Pause returns only after Pause was called on all structures.
type slowPause struct{ asked *sync.WaitGroup }

func (p slowPause) Pause()  { p.asked.Done(); p.asked.Wait() }
func (p slowPause) Resume() {}

// TestPausesTogether: a checkpoint must pause all structures at the same time, so that slow emissions delay
// it only once.
func TestPausesTogether(t *testing.T) {
	var asked sync.WaitGroup
	asked.Add(3)
	p := slowPause{&asked}
	pauseAll([]pausable{p, p, p}) // a deadlock fails the test
}

// TestSyncAll: the slowest disk sets the time of the sync before a manifest, and each error names its
// directory.
func TestSyncAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		fail := false
		fsys := memfs.NewFault(memfs.New(1), func(o memfs.Op, name string) error {
			time.Sleep(map[string]time.Duration{"a": time.Second, "b": 10 * time.Second, "c": 3 * time.Second}[name])
			if fail && name == "c" {
				return boom
			}
			return nil
		})
		for _, dir := range []string{"a", "b", "c"} {
			if err := fsys.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if err := syncAll(fsys, []string{"a", "b", "c"}); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("took %v, %v", time.Since(began), err)
		}
		fail = true
		if err := syncAll(fsys, []string{"a", "b", "c"}); !errors.Is(err, boom) ||
			!strings.Contains(err.Error(), "sync c:") {
			t.Errorf("got %v", err)
		}
	})
}
