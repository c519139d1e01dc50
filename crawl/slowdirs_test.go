package crawl

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
)

// work returns the use of a device that moves a number of MB in some seconds.
func work(mb int64, seconds float64) disk.Use {
	return disk.Use{ReadBytes: mb * 4e5, WrittenBytes: mb * 6e5, Busy: time.Duration(seconds * float64(time.Second))}
}

func TestJudge(t *testing.T) {
	fast := work(1000, 10) // 100 MB/s
	for _, c := range []struct {
		name string
		uses []disk.Use // the first is judged, over 300 s
		want paceVerdict
	}{
		{"ten times slower", []disk.Use{work(2000, 200), fast, fast, fast}, paceSlow},
		{"of two", []disk.Use{work(2000, 200), fast}, paceSlow},
		{"hangs", []disk.Use{work(0, 300), fast, fast}, paceSlow},
		{"slower, but hardly in use", []disk.Use{work(1000, 100), fast, fast, fast}, paceUnknown},
		{"three times slower", []disk.Use{work(9000, 270), fast, fast, fast}, paceUnknown},
		{"fewer bytes, but not longer in use", []disk.Use{work(100, 60), work(1000, 60), work(1000, 60)}, paceFine},
		{"the same, all the time", []disk.Use{work(100, 200), work(1000, 200), work(1000, 200)}, paceFine},
		{"three times slower, hardly in use", []disk.Use{work(300, 9), work(1000, 10), fast}, paceFine},
		{"1.9 times slower", []disk.Use{work(9000, 171), fast, fast, fast}, paceFine},
		{"equal", []disk.Use{work(20_000, 200), fast, fast, fast}, paceFine},
		{"faster", []disk.Use{work(20_000, 20), fast, fast, fast}, paceFine},
		{"idle", []disk.Use{work(0, 0), fast, fast, fast}, paceUnknown},
		{"all idle", []disk.Use{work(0, 0), work(0, 0), work(0, 0)}, paceUnknown},
		{"one of two slow neighbours", []disk.Use{work(2000, 200), work(2000, 200), fast, fast, fast}, paceSlow},
		{"the fast one of three slow ones", []disk.Use{fast, work(2000, 200), work(2000, 200), work(2000, 200)}, paceFine},
		{"busy with small syncs beside idle ones", []disk.Use{work(1, 200), work(0, 0), work(0, 0)}, paceUnknown},
		{"others in RAM", []disk.Use{work(2000, 200), work(2000, 0), work(2000, 0)}, paceSlow},
		{"alone", []disk.Use{work(2000, 200)}, paceUnknown},
	} {
		if p, got := judge(5*time.Minute, c.uses, 0); got != c.want {
			t.Errorf("%s: got %d, want %d: %+v", c.name, got, c.want, p)
		}
	}
	p, _ := judge(5*time.Minute, []disk.Use{work(2000, 200), work(100, 1), work(300, 1), work(200, 1), work(400, 1)}, 0)
	if p.rate != 10e6 || p.others != 200e6 {
		t.Errorf("got %+v", p)
	}
	if _, got := judge(0, []disk.Use{work(2000, 200), fast}, 0); got != paceUnknown {
		t.Errorf("without a window: got %d", got)
	}
}

// TestPaceHysteresis: a named device stays named until a window finds it fine, or none tells anything for
// slowKept.
func TestPaceHysteresis(t *testing.T) {
	var d paceDevice
	now := time.Unix(1e9, 0)
	for i, c := range []struct {
		after         time.Duration
		v             paceVerdict
		slow, changed bool
	}{
		{0, paceUnknown, false, false},
		{0, paceSlow, true, true},
		{time.Minute, paceSlow, true, false},
		{slowKept, paceUnknown, true, false},
		{time.Minute, paceUnknown, false, true},
		{time.Minute, paceSlow, true, true},
		{time.Minute, paceFine, false, true},
		{time.Minute, paceFine, false, false},
	} {
		now = now.Add(c.after)
		if changed := d.note(c.v, now); d.slow != c.slow || changed != c.changed {
			t.Errorf("step %d: slow %t, changed %t", i, d.slow, changed)
		}
	}
}

func TestPaceWindow(t *testing.T) {
	g := &paceGroup{}
	now := time.Unix(1e9, 0)
	for i := range int64(100) {
		window, uses := g.add(paceSample{now, []disk.Use{work(i, float64(i))}})
		if now.Sub(time.Unix(1e9, 0)) < paceWindow {
			if window != 0 {
				t.Fatalf("sample %d: window of %v", i, window)
			}
		} else if window != paceWindow || uses[0] != work(30, 30) || len(g.samples) != 31 {
			t.Fatalf("sample %d: window of %v, %+v, %d samples", i, window, uses, len(g.samples))
		}
		now = now.Add(paceEvery)
	}
}

func TestPaceGroup(t *testing.T) {
	dir := t.TempDir()
	if g := newPaceGroup(disk.OS(), "", []string{dir, t.TempDir()}); len(g.devices) != 1 || len(g.devices[0].dirs) != 2 {
		t.Errorf("two directories of a device: got %+v", g.devices)
	}
	if g := newPaceGroup(memfs.New(1), "", []string{"a", "b"}); len(g.devices) != 2 {
		t.Errorf("unknown devices: got %+v", g.devices)
	}
	g := &paceGroup{of: "all passes", devices: make([]*paceDevice, 4)}
	d := &paceDevice{dirs: []string{"/d3"}, number: "8:48"}
	want := "directory /d3 (device 8:48) transfers 11 MB/s, the others 140 MB/s: the slowest disk sets the pace of all passes"
	if got := slowText(g, d, diskPace{11e6, 140e6}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSlowDirectory: a crawl names the directory whose disk takes ten times as long as the others, and says
// when that is over.
func TestSlowDirectory(t *testing.T) {
	notShort(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		const recovers = 15 * time.Minute
		fsys := disk.NewFault(memfs.New(1), func(o disk.Op, name string) error {
			d := 200 * time.Millisecond
			if strings.HasPrefix(name, "d1") && time.Since(began) < recovers {
				d *= 10
			}
			if o == disk.OpSyncFS {
				time.Sleep(d)
			}
			return nil
		})
		web, err := simweb.New(simweb.Options{Seed: *seedFlag, PLDs: 8, Hosts: 8, Pages: 3000, LinksPerPage: 8,
			PageBytes: 20_000, IPs: 8})
		if err != nil {
			t.Fatal(err)
		}
		opt := simOptions(t, web, fsys)
		opt.Disk.Dirs = []string{"d0", "d1", "d2"}
		opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Disk.CheckpointEvery = 3*time.Second, 3*time.Second, time.Second
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
		res, err := Run(context.Background(), opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range res.Snapshot.Dirs {
			t.Logf("%+v", d)
		}
		if len(named) != 1 || named["d1"] < paceWindow || named["d1"] > 2*paceWindow {
			t.Errorf("named %v", named)
		}
		if cleared < recovers || cleared > recovers+paceWindow {
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

// TestSyncAll: the slowest disk sets the time of the sync before a manifest, and each error names its directory.
func TestSyncAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		fail := false
		fsys := disk.NewFault(memfs.New(1), func(o disk.Op, name string) error {
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
		if err := syncAll(fsys, []string{"a", "b", "c"}); !errors.Is(err, boom) || !strings.Contains(err.Error(), "sync c:") {
			t.Errorf("got %v", err)
		}
	})
}
