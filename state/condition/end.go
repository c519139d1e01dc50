package condition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// End describes the end of a run.
type End struct {
	Why   string // a Stop constant of package crawl; "" after an error
	Err   error
	Fault bool // Why is a fault: a full disk, an outage
	Done  bool // nothing was left to fetch
}

// OfEnd returns the condition of a crawl that has ended with the figures of s.
func OfEnd(s *snapshot.Snapshot, end End) Condition {
	pages := human.Counted(s.Count(state.CountPages), "page", "pages")
	left := LeftText(s)
	v := Condition{State: Complete, Level: OK, Text: "The crawl is complete: " + pages + ", and nothing is left.",
		Next: "drumbeat report"}
	switch {
	case end.Err != nil:
		v.State, v.Level, v.Next = Failed, Bad, "drumbeat doctor"
		v.Text = sentence("The crawl has ended with an error: " + end.Err.Error())
		v.Problems = []Problem{{Level: Bad, What: "end", Text: v.Text, Next: v.Next, state: Failed}}
		return v
	case left != "":
		v.State = Left
		v.Text = fmt.Sprintf("The crawl has ended (%s): %s; left: %s.", end.Why, pages, left)
		if end.Done {
			v.Text = fmt.Sprintf("The crawl has ended: %s; it does not fetch the rest: %s.", pages, left)
		}
	}
	if end.Fault {
		v.State, v.Level = Failed, Bad
		v.Problems = []Problem{{Level: Bad, What: "end", Text: v.Text, Next: v.Next, state: Failed}}
	} else if s.Count(state.CountPages) == 0 {
		v.Level = Warn
		v.Problems = []Problem{{Level: Warn, What: "end", Text: "The crawl has fetched no page.", Next: "drumbeat log",
			state: v.State}}
	}
	return v
}

// LeftText lists the URLs that are left by their place or the reason of their wait, "" for none.
func LeftText(s *snapshot.Snapshot) string {
	left := map[string]int64{}
	for p := range state.NumPlaces {
		n := s.Place(p)
		switch p {
		case state.PlaceFetched, state.PlaceRefused:
		case state.PlaceDeferred:
			for why, n := range s.Deferred {
				left["deferred ("+why+")"] += n
			}
		case state.PlaceOverBudget:
			left["over budget"] += n
		case state.PlaceHeld:
			left["forbidden by flags (--allow-net, --ports)"] += n
		case state.PlaceContent:
			left["fetched, not compared yet"] += n
		default:
			left["queued"] += n
		}
	}
	return list(left)
}

// list writes counts with their names, the largest first.
func list(counts map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		if counts[name] > 0 {
			parts = append(parts, human.Counted(counts[name], name, name))
		}
	}
	return strings.Join(parts, ", ")
}

// sentence returns text with a capital and a full stop, "" for none.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.TrimSuffix(strings.ToUpper(text[:1])+text[1:], ".") + "."
}
