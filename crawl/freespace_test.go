package crawl

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
)

// statfsCounter counts the calls of statfs.
type statfsCounter struct {
	disk.FS
	n int
}

func (c *statfsCounter) Space(name string) (free, total int64, err error) {
	c.n++
	return c.FS.Space(name)
}

// TestStatfsIsRare: a pass over 4,096 buckets must not ask each directory for its space for each bucket.
func TestStatfsIsRare(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		counter := &statfsCounter{FS: memfs.New(1)}
		opt := Options{Disk: DiskOptions{FS: counter}}
		for i := range 12 {
			opt.Disk.Dirs = append(opt.Disk.Dirs, fmt.Sprint("d", i))
		}
		c := newCrawler(opt)
		for i := range 4096 {
			release, err := c.space.reserve(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			release()
			if i%1024 == 0 {
				time.Sleep(freeFor)
			}
		}
		if want := 12 * 5; counter.n > want {
			t.Errorf("%d calls of statfs in 4 times freeFor, want at most %d", counter.n, want)
		}
	})
}

// TestStatfsIsNotTrusted: what a merge may have written counts, though the last answer of statfs is older. So does room
// that others have made, as a refusal is never from memory.
func TestStatfsIsNotTrusted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		mem := memfs.New(1)
		mem.SetCapacity(1 << 20)
		c := newCrawler(Options{Disk: DiskOptions{FS: mem, Dirs: []string{"."}}})
		c.plan.KeepFreeBytes = 64 << 10
		release, err := c.space.reserve(500 << 10)
		if err != nil {
			t.Fatal(err)
		}
		f, err := mem.Create("part")
		if err == nil {
			_, err = f.WriteAt(make([]byte, 500<<10), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		release()
		if _, err := c.space.reserve(500 << 10); !errors.Is(err, errNoRoom) {
			t.Errorf("a second merge of the same size: %v", err)
		}
		if err := errors.Join(f.Close(), mem.Remove("part")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.space.reserve(500 << 10); err != nil {
			t.Errorf("once there is room again: %v", err)
		}
	})
}
