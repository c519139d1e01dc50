package report

import (
	"cmp"
	"errors"
	"strings"

	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/condition"
	"drumbeat/state/explain"
	"drumbeat/state/history"
	"drumbeat/state/snapshot"
)

// Verdict says how the crawl ended, or that it runs.
type Verdict struct {
	// State is running, interrupted, unknown, or that of package condition for an end: complete, ended, failed.
	State string `json:"state"`
	Level string `json:"level"` // ok, warn, bad; off for a crawl that runs, which this report does not judge
	Text  string `json:"text"`
	// Next is a command that helps, "" for none.
	Next string `json:"next,omitempty"`
	// Left has the URLs that are not fetched, by the reason, the most first.
	Left []Left `json:"left,omitempty"`
}

// Left are URLs that are not fetched.
type Left struct {
	URLs   int64  `json:"urls"`
	Text   string `json:"text"`             // their number and the reason
	Do     string `json:"do"`               // how to fetch them
	Reason string `json:"reason,omitempty"` // of deferred URLs, by its name
}

// faults are the reasons for which a run ends that are faults, as package crawl has them.
var faults = map[string]bool{"disk limit": true, "outage": true}

// judge returns the verdict on a crawl as of its last checkpoint.
func judge(f *explain.Figures, events []history.Event) Verdict {
	s := &snapshot.Snapshot{Unique: f.Accounts.Unique.N, Counters: f.Accounts.Counters, Deferred: map[string]int64{}}
	for p := range s.Places {
		s.Places[p] = f.Accounts.Places[p].N
	}
	for why, n := range f.Accounts.Deferred {
		if n > 0 {
			s.Deferred[state.Reason(why).String()] = n
		}
	}
	v := Verdict{State: f.AsOf.State, Level: string(condition.OK)}
	for _, l := range condition.LeftOf(s) {
		v.Left = append(v.Left, Left(l))
	}
	pages, stop := human.Counted(s.Count(state.CountPages), "page", "pages"), lastStop(events)
	failure, failed := strings.CutPrefix(stop, "error: ")
	switch f.AsOf.State {
	case state.StateRunning:
		v.Level = "off"
		v.Text, v.Next = "The crawl is running. At its last checkpoint it had "+pages+".", "drumbeat ctl status"
		return v
	case state.StateFinished, state.StateStopped:
	default:
		if !failed {
			v.Level = string(condition.Warn)
			if f.AsOf.State == state.StateUnknown {
				v.Text = "The crawl is running, or was interrupted. At its last checkpoint it had " + pages + "."
				return v
			}
			v.Text = "The crawl was interrupted. At its last checkpoint it had " + pages +
				". The command that started it continues it from there."
			return v
		}
	}
	end := condition.End{Why: cmp.Or(stop, f.AsOf.Done, "stopped"), Done: f.AsOf.State == state.StateFinished,
		Fault: faults[stop]}
	if failed {
		end.Err = errors.New(failure)
	}
	c := condition.OfEnd(s, end)
	v.State, v.Level, v.Text, v.Next = string(c.State), string(c.Level), c.Text, c.Next
	for _, p := range c.Problems {
		if p.Text != c.Text {
			v.Text += " " + p.Text
		}
		v.Next = p.Next
	}
	if v.Next == "drumbeat report" {
		v.Next = "" // the reader has it
	}
	return v
}

// lastStop says why the last run ended, "" if no event does.
func lastStop(events []history.Event) (why string) {
	for _, e := range events {
		switch e.What {
		case "stop":
			why = e.Text
		case "start":
			why = ""
		}
	}
	return why
}
