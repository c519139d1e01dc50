package ctl

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/history"
)

// endTexts explain the reasons for which a crawl ends.
var endTexts = map[string]string{
	crawl.StopDone:      nothingLeft,
	crawl.StopCancelled: "a signal or drumbeat ctl stop stopped it",
	crawl.StopPages:     "--max-pages was reached",
	crawl.StopTime:      "--max-time was reached",
	crawl.StopDisk:      "a disk was nearly full (--when-full stop)",
	crawl.StopDrained:   "it was drained",
	crawl.StopLeft:      "the node has left the cluster",
	crawl.StopOutage:    "nothing answered for --outage-patience",
}

const nothingLeft = "nothing was left to fetch"

// lastEvents is how long before the last record of the history the end of a run can be.
const lastEvents = 10 * time.Minute

// endOf says when and why the crawl in dir, its first directory, ended, and what to do next. "" if the crawl runs, or
// if dir cannot tell.
func endOf(fsys disk.FS, dir string) string {
	if held, known := disk.Locked(fsys, dir); held || !known {
		return ""
	}
	set := disk.Set{FS: fsys, Paths: []string{dir}}
	m, _, err := state.ReadManifest(set)
	if err != nil || m == nil {
		return ""
	}
	when, why := time.Unix(m.Time, 0), "it was interrupted after its checkpoint of that time"
	if m.Done != "" || m.Clean {
		why = cmp.Or(endTexts[m.Done], "an orderly stop")
	}
	if e := lastStop(fsys, set.Path(0, state.HistoryName)); e != nil {
		when, why = e.Time, cmp.Or(endTexts[e.Text], e.Text)
	}
	waiting := m.Accounts.Waiting()
	if why == nothingLeft && m.Accounts.Counters[state.CountResponses] == 0 {
		why = "nothing could be fetched (drumbeat log --log seeds has the reasons)"
	}
	found := human.Counted(m.Accounts.Counters[state.CountPages], "page", "pages")
	if waiting > 0 {
		found += ", and " + human.Counted(waiting, "URL waits", "URLs wait")
	}
	return fmt.Sprintf("the crawl in %s is not running; it ended at %s UTC: %s. It has %s. drumbeat report %[1]s "+
		"shows its results; the command that started it resumes it", term.PlainText(dir),
		when.UTC().Format(time.DateTime), why, found)
}

// lastStop returns the event by which the last run ended; nil if it ended without one.
func lastStop(fsys disk.FS, dir string) *history.Event {
	_, last, err := history.Span(fsys, dir)
	if err != nil || last.IsZero() {
		return nil
	}
	data, err := history.Read(fsys, dir, history.Query{From: last.Add(-lastEvents), To: last.Add(time.Second),
		Points: 1, Names: []string{"no series"}})
	if err != nil {
		return nil
	}
	for _, e := range slices.Backward(data.Events) {
		if e.What == "stop" {
			return &e
		} else if e.What == "start" {
			return nil
		}
	}
	return nil
}
