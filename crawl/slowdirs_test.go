package crawl

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/crawl/observe"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
)

// TestSlowDirectory: a crawl names the directory whose disk takes ten times as long as the others, and says
// when that is over.
func TestSlowDirectory(t *testing.T) {
	notShort(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		const recovers = 15 * time.Minute
		fsys := memfs.NewFault(memfs.New(1), func(o memfs.Op, name string) error {
			d := 200 * time.Millisecond
			if strings.HasPrefix(name, "d1") && time.Since(began) < recovers {
				d *= 10
			}
			if o == memfs.OpSyncFS {
				time.Sleep(d)
			}
			return nil
		})
		web, err := simweb.New(simweb.Options{Seed: *seedFlag, PLDs: 8, Hosts: 8, Pages: 3000, LinksPerPage: 8,
			PageBytes: 20_000, IPs: 8})
		must(t, err)
		opt := simOptions(t, web, fsys)
		opt.Disk.Dirs = []string{"d0", "d1", "d2"}
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Disk.CheckpointEvery = 3*time.Second,
			3*time.Second, time.Second
		var log bytes.Buffer
		opt.Observe.Log = slog.New(slog.NewTextHandler(&log, nil))
		named := map[string]time.Duration{} // the first time
		var cleared time.Duration
		opt.Observe.SnapshotEvery = time.Second
		opt.Observe.Snapshot = func(s *Snapshot) {
			for _, d := range s.Dirs {
				if _, ok := named[d.Path]; d.Slow != "" && !ok {
					named[d.Path] = time.Since(began)
				}
				if d.Path == "d1" && d.Slow == "" && named["d1"] > 0 && cleared == 0 {
					cleared = time.Since(began)
				}
			}
		}
		res := mustRun(t, context.Background(), opt)
		for _, d := range res.Snapshot.Dirs {
			t.Logf("%+v", d)
		}
		if len(named) != 1 || named["d1"] < observe.PaceWindow || named["d1"] > 2*observe.PaceWindow {
			t.Errorf("named %v", named)
		}
		if cleared < recovers || cleared > recovers+observe.PaceWindow {
			t.Errorf("cleared after %v", cleared)
		}
		text := log.String()
		if n := strings.Count(text, "directory d1 transfers"); n != 1 {
			t.Errorf("named %d times:\n%s", n, text)
		}
		if n := strings.Count(text, "directory d1 no longer sets the pace of all passes"); n != 1 {
			t.Errorf("cleared %d times:\n%s", n, text)
		}
		t.Logf("took %v; named %v, cleared %v\n%s", time.Since(began), named, cleared, text)
	})
}
