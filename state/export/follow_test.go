package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// TestFollowChanges: beside a crawl that runs three times, each change is a row once, soon after the checkpoint that
// has it; the rows of one checkpoint are in the order of time.
func TestFollowChanges(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		web, fs := newLivingWeb(), memfs.New(*testworld.Seed)
		opt := livingOptions(t, web, fs)
		opt.Disk.CheckpointEvery = 3 * time.Hour
		began := time.Now()
		run := func(until time.Duration) {
			opt.Limits.MaxTime = until
			crawltest.MustRun(t, t.Context(), opt)
		}
		run(day)
		errEnd := errors.New("end")
		ctx, cancel := context.WithCancelCause(t.Context())
		var out bytes.Buffer
		var rows []feedRow
		checkpoints := 0
		ended := make(chan error)
		go func() {
			ended <- export.Follow(ctx, export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Changes, Texts: true,
				Format: tabular.JSONL, TempDir: "tmp", Stream: &out}, func(rep *export.Report) {
				checkpoints++
				var last time.Time
				for line := range bytes.Lines(out.Bytes()) {
					var r feedRow
					if err := json.Unmarshal(line, &r); err != nil {
						t.Error(err)
					}
					if r.Time.Before(last) {
						t.Errorf("%s comes after %v", r.name(), last)
					}
					last = r.Time
					if late := time.Since(r.Time); checkpoints > 1 && late > opt.Disk.CheckpointEvery+time.Hour {
						t.Errorf("%s comes %v late", r.name(), late)
					}
					rows = append(rows, r)
				}
				out.Reset()
				if len(rep.Notes) > 0 {
					t.Errorf("notes %q", rep.Notes)
				}
			})
		}()
		for _, until := range []time.Duration{3 * day, 5 * day, 7 * day} {
			run(until)
			time.Sleep(time.Minute)
		}
		cancel(errEnd)
		if err := <-ended; !errors.Is(err, errEnd) {
			t.Error(err)
		}
		var truth []change
		for _, c := range web.changes() {
			if c.change != "unchanged" {
				truth = append(truth, c)
			}
		}
		texts := 0
		for _, r := range rows {
			if (r.Text == "") != (r.Change != "new" && r.Change != "changed") {
				t.Errorf("%s: text %.60q", r.name(), r.Text)
			}
			texts += min(1, len(r.Text))
		}
		checkSameChanges(t, rows, truth)
		if checkpoints < 20 || texts < 20 {
			t.Errorf("%d checkpoints in %v, %d texts", checkpoints, time.Since(began), texts)
		}
	})
}
