package crawl

import (
	"errors"
	"testing"
	"time"

	"drumbeat/disk/memfs"
	"drumbeat/internal/objstore/objtest"
)

// TestObjectStoreOneBad: the store refuses a call for one file, the first of the crawl, for an hour.
// Meanwhile it gets all others, so that fetching does not rest, and then that one.
func TestObjectStoreOneBad(t *testing.T) {
	t.Parallel()
	calls := []string{"Create", "PutPart", "Complete", "Head", "Uploads"}
	if testing.Short() {
		calls = calls[:1]
	}
	for _, call := range calls {
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, nil)
			f, b := newFinals(memfs.New(*seedFlag)), &objtest.Bucket{}
			opt := simOptions(t, web, f)
			withStore(&opt, b)
			opt.ObjectStore.SpoolBytes = 1 << 20
			began, bad, during := time.Now(), "", 0
			b.Before = func(is, key string) error {
				if is == "Check" || time.Since(began) >= time.Hour {
					return nil
				}
				if bad == "" {
					bad = key
				}
				if key == bad && is == call {
					return errors.New("403 AccessDenied")
				}
				if is == "Complete" {
					during++
				}
				return nil
			}
			res, err := Run(t.Context(), opt)
			if err != nil || res.Stop != StopDone || during < 3 || res.Snapshot.Uploads.Faults == 0 {
				t.Fatalf("%s: %v; %d files meanwhile; %+v", call, err, during, res.Snapshot.Uploads)
			}
			if time.Since(began) < time.Hour {
				time.Sleep(time.Hour)
				if _, err := Run(t.Context(), opt); err != nil && res == nil {
					t.Error(err)
				}
			}
			checkFetched(t, web, &opt)
			checkObjects(t, b, f, crawlID(t, f, opt.Disk.Dirs), opt.Disk.Dirs)
		})
	}
}
