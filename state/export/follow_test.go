package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/tabular"
	"drumbeat/state/erase"
	"drumbeat/state/export"
)

// TestFollowChanges: beside a crawl that runs three times, each change is a row once, soon after the checkpoint that
// has it; the rows of one checkpoint are in the order of time.
func TestFollowChanges(t *testing.T) {
	testworld.NotShort(t)
	for _, texts := range []bool{false, true} {
		testworld.InBubble(t, func(t *testing.T) { followChanges(t, texts, false) })
	}
}

// TestFollowErased: an erasure is a row, after which the rows that come again are as before.
func TestFollowErased(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) { followChanges(t, false, true) })
}

func followChanges(t *testing.T, withTexts, erases bool) {
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
		ended <- export.Follow(ctx, export.Options{FS: fs, Dirs: opt.Disk.Dirs, Kind: export.Changes, Texts: withTexts,
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
				if late := time.Since(r.Time); checkpoints > 1 && late > opt.Disk.CheckpointEvery+time.Hour &&
					!erases && r.Change != "erased" {
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
		if erases && until == 5*day {
			_, err := erase.Run(erase.Options{FS: fs, Dirs: opt.Disk.Dirs, Reason: "asked", RAMBytes: 64 << 20,
				Source: erase.Source{URLs: []string{"http://a.test/tagged"}}, Now: time.Now})
			must(t, err)
		}
	}
	cancel(errEnd)
	if err := <-ended; !errors.Is(err, errEnd) {
		t.Error(err)
	}
	texts := checkFollowed(t, web, rows, withTexts, erases)
	if checkpoints < 20 || withTexts && texts < 20 {
		t.Errorf("%d checkpoints in %v, %d texts", checkpoints, time.Since(began), texts)
	}
}

// checkFollowed compares the rows of all checkpoints with the truth, and returns how many have texts.
func checkFollowed(t *testing.T, web *livingWeb, rows []feedRow, withTexts, erases bool) (texts int) {
	t.Helper()
	var truth []change
	for _, c := range web.changes() {
		if c.change != "unchanged" {
			truth = append(truth, c)
		}
	}
	for _, r := range rows {
		if (r.Text != "") != (withTexts && (r.Change == "new" || r.Change == "changed")) {
			t.Errorf("%s: text %.60q", r.name(), r.Text)
		}
		texts += min(1, len(r.Text))
	}
	if erases {
		n := len(rows)
		if rows = slices.DeleteFunc(rows, func(r feedRow) bool { return r.Change == "erased" }); len(rows) != n-1 {
			t.Errorf("%d rows of erasures", n-len(rows))
		}
		slices.SortFunc(rows, func(a, b feedRow) int { return strings.Compare(a.name(), b.name()) })
		n = len(rows)
		rows = slices.CompactFunc(rows, func(a, b feedRow) bool { return a.name() == b.name() })
		t.Logf("%d rows come again", n-len(rows))
	}
	checkSameChanges(t, rows, truth)
	return texts
}
