package crawl

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/changes"
	"drumbeat/state/history"
)

// historyOf reads the history of a crawl under test.
func historyOf(t *testing.T, fs disk.FS, names ...string) *history.Data {
	t.Helper()
	data, err := history.Read(fs, "d0/history",
		history.Query{From: time.Now().Add(-24 * time.Hour), To: time.Now().Add(time.Second), Names: names})
	if err != nil || len(data.Damage) > 0 {
		t.Fatal(err, data)
	}
	return data
}

// TestHistory: the history must have a sample every ten seconds, the last one with the final figures, and
// the start and end of each run, over a stop, a crash and changes of the operator. The audit must accept it.
func TestHistory(t *testing.T) {
	notShort(t)
	inBubble(t, func(t *testing.T) {
		_, mem, opt := smallCrawl(t, nil)
		opt.Observe.HistoryBytes, opt.Politeness.HostDelay, opt.Politeness.HostDelayMin, opt.Identity.Version = 1<<20,
			2*time.Second, time.Second, "v9"
		ctx, stop := context.WithTimeout(t.Context(), 25*time.Second)
		defer stop()
		mustRun(t, ctx, opt)
		var crashed *memfs.FS
		opt.Observe.Control = new(Control)
		opt.Observe.SnapshotEvery = 35 * time.Second
		opt.Observe.Snapshot = func(*Snapshot) {
			if crashed == nil {
				crashed = mem.Fork(1)
			}
		}
		go func() {
			time.Sleep(5 * time.Second)
			if _, err := opt.Observe.Control.Make(t.Context(),
				changes.Change{Op: changes.OpLimits, Rate: "90", Who: "me"}); err != nil {
				t.Error(err)
			}
		}()
		res := mustRun(t, t.Context(), opt)
		data := historyOf(t, mem, "pages_total", "urls", "exchange_seconds_count")
		last := len(data.Times) - 1
		if got, want := data.Series["pages_total"][last], float64(res.Snapshot.Count(state.CountPages)); got != want ||
			want == 0 {
			t.Errorf("%v pages at the end, want %v", got, want)
		}
		if len(data.Series) != int(state.NumPlaces)+2 || data.Series["exchange_seconds_count"][last] == 0 {
			t.Errorf("series %v", data.Series)
		}
		if n := int((25*time.Second+res.Snapshot.Elapsed)/history.Interval) + 3; last+1 < n-2 || last+1 > n+1 {
			t.Errorf("%d samples, want %d", last+1, n)
		}
		var events []string
		for _, e := range data.Events {
			events = append(events, e.What+": "+e.Text)
		}
		want := "start: drumbeat v9|stop: stopped|start: drumbeat v9|change: limits 90 by me|stop: done"
		if got := strings.Join(events, "|"); got != want {
			t.Errorf("events %s, want %s", got, want)
		}
		if res.Snapshot.HistoryErrors != 0 {
			t.Errorf("%d errors", res.Snapshot.HistoryErrors)
		}
		rep, err := audit.Deep(audit.Options{FS: mem, Dirs: opt.Disk.Dirs, RAMBytes: 1 << 20})
		if err != nil || len(rep.Bad)+len(rep.Unnamed)+len(rep.Damages) > 0 {
			t.Errorf("audit: %v, %+v", err, rep)
		}

		checkCrashInHistory(t, crashed, opt)
	})
}

// checkCrashInHistory continues a crawl after a crash; the history says so and has what it had.
func checkCrashInHistory(t *testing.T, crashed *memfs.FS, opt Options) {
	t.Helper()
	before := historyOf(t, crashed, "pages_total")
	opt.Disk.FS, opt.Observe.Control, opt.Observe.Snapshot = crashed.Kill(), nil, nil
	mustRun(t, t.Context(), opt)
	data := historyOf(t, opt.Disk.FS, "pages_total")
	n := len(before.Events)
	if len(data.Events) != n+3 || data.Events[n].What != "crash" ||
		!strings.Contains(data.Events[n].Text, "continues from checkpoint") {
		t.Errorf("events after the crash: %+v", data.Events)
	}
	if len(data.Times) <= len(before.Times) {
		t.Errorf("%d samples before the crash, %d after", len(before.Times), len(data.Times))
	}
}

// TestHistoryFaults: a history that cannot be written must not disturb the crawl. It must be logged once,
// counted, and continue when the disk allows it.
func TestHistoryFaults(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		web, mem := smallWeb(t, nil), memfs.New(*seedFlag)
		var broken atomic.Bool
		broken.Store(true)
		fs := memfs.NewFault(mem, func(op memfs.Op, name string) error {
			if broken.Load() && strings.Contains(name, "/history") && (op == memfs.OpWrite || op == memfs.OpCreate) {
				return syscall.ENOSPC
			}
			return nil
		})
		opt := simOptions(t, web, fs)
		opt.Observe.HistoryBytes, opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = 1<<20,
			2*time.Second, time.Second
		var log bytes.Buffer
		opt.Observe.Log = slog.New(slog.NewTextHandler(&log, nil))
		opt.Observe.SnapshotEvery = time.Second
		opt.Observe.Snapshot = func(s *Snapshot) {
			if s.Elapsed > 35*time.Second {
				broken.Store(false)
			}
		}
		res := mustRun(t, t.Context(), opt)
		checkFetched(t, web, &opt)
		if n := strings.Count(log.String(), "the history is losing samples"); n != 1 ||
			res.Snapshot.HistoryErrors < 4 {
			t.Errorf("%d log lines, %d errors", n, res.Snapshot.HistoryErrors)
		}
		if data := historyOf(t, mem, "history_errors_total"); len(data.Times) == 0 ||
			data.Series["history_errors_total"][len(data.Times)-1] < 4 {
			t.Errorf("history %+v", data)
		}
	})
}
