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
	left := leftText(s)
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
		v.Problems = []Problem{{Level: Warn, What: "end", Text: "The crawl has fetched no page.", Next: v.Next,
			state: v.State}}
	}
	if n := quarantined(s); n > 0 && v.Level == OK {
		v.State, v.Level = Left, Warn
		kept := human.Counted(n, "message of other nodes", "messages of other nodes") +
			" in quarantine: a version that can read them takes them at its start"
		v.Text = fmt.Sprintf("The crawl has ended: %s, and %s.", pages, kept)
		if left != "" {
			v.Text = fmt.Sprintf("The crawl has ended: %s, and %s; left: %s.", pages, kept, left)
		}
		v.Problems = []Problem{{Level: Warn, What: "cluster", Text: v.Text, Next: v.Next, state: Left}}
	}
	return v
}

// quarantined counts the messages of other nodes that this node could not read.
func quarantined(s *snapshot.Snapshot) (n int64) {
	for i := range s.Cluster.Pairs {
		n += s.Cluster.Pairs[i].Quarantined
	}
	return n
}

// Rest are URLs that a crawl has not fetched, for one reason.
type Rest struct {
	URLs   int64
	Text   string // the number and the reason
	Do     string // how to fetch them
	Reason string // of deferred URLs, by its name in package state; "" for others
}

// LeftOf lists the URLs that are left by their reason, the most first.
func LeftOf(s *snapshot.Snapshot) (list []Rest) {
	add := func(n int64, why, do string) {
		if n > 0 {
			list = append(list, Rest{URLs: n, Text: human.Counted(n, why, why), Do: do})
		}
	}
	add(s.Queued()-s.Place(state.PlaceDeferred)-s.Place(state.PlaceContent), "queued", "the same command fetches them")
	for why, n := range s.Deferred {
		words, _ := state.ReasonText(why)
		do := "the same command tries them again when they are due"
		if why == state.ReasonRevisit.String() {
			do = "--recrawl visits them again when they are due"
		}
		if add(n, "deferred ("+words+")", do); n > 0 {
			list[len(list)-1].Reason = why
		}
	}
	add(s.Place(state.PlaceOverBudget), "over budget", "a larger --budget allows more pages of their domains")
	add(s.Place(state.PlaceHeld), "forbidden by flags", "--allow-net and --ports admit addresses and ports")
	add(s.Place(state.PlaceContent), "fetched, not compared yet", "the same command stores them")
	slices.SortFunc(list, func(a, b Rest) int {
		return cmp.Or(cmp.Compare(b.URLs, a.URLs), cmp.Compare(a.Text, b.Text))
	})
	return list
}

// leftText lists the URLs that are left by their reason, "" for none.
func leftText(s *snapshot.Snapshot) string {
	var parts []string
	for _, r := range LeftOf(s) {
		parts = append(parts, r.Text)
	}
	return strings.Join(parts, ", ")
}

// ReasonCounts lists numbers by the names of reasons in words, the largest first.
func ReasonCounts(counts map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(counts),
		func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	var parts []string
	for _, name := range names {
		if counts[name] > 0 {
			words, _ := state.ReasonText(name)
			parts = append(parts, fmt.Sprintf("%s (%s)", words, human.Count(counts[name])))
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

// Signatures says how many requests were signed and how many sites asked for it, by the counters; "" if nothing was.
func Signatures(count func(state.Counter) int64) (text string) {
	var parts []string
	add := func(n int64, format, one, many string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, human.Counted(n, one, many)))
		}
	}
	add(count(state.CountSigned), "%s signed unasked", "request", "requests")
	add(count(state.CountSignedAsked), "%s signed as the site asked", "request", "requests")
	add(count(state.CountSignatureAsks), "%s for a signature", "response asked", "responses asked")
	add(count(state.CountSignatureUnable), "%s for one that this crawl cannot make", "response asked",
		"responses asked")
	add(count(state.CountSignatureRefused), "%s by the site that had asked for it", "signature refused",
		"signatures refused")
	return strings.Join(parts, ", ")
}
