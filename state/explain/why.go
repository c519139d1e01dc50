package explain

import (
	"fmt"
	"strings"
	"time"

	"drumbeat/admit"
	"drumbeat/internal/human"
	"drumbeat/state"
)

// conclude fills Why from the other fields.
func (v *view) conclude(rep *URLReport) {
	if rep.Place == "" {
		rep.Place = PlaceNotScanned
	}
	why := v.whyPlace(rep)
	if rep.Record != nil && rep.Record.Attempts > 0 && rep.Ended == nil {
		why = append(why, fmt.Sprintf("tried %s so far", human.Counted(rep.Record.Attempts, "time", "times")))
	}
	for _, d := range rep.Delays {
		why = append(why, fmt.Sprintf("%s backs off until %s", d.Who, v.when(d.Until)))
	}
	if rep.Link.Rewritten != "" {
		why = append(why, "as a link it is rewritten: the crawl follows "+rep.Link.Rewritten)
	}
	if rep.Link.Blocked && rep.Ended == nil && rep.Place != placeUnseen {
		why = append(why, "it will be refused: "+rep.Link.Why)
	}
	if ended := rep.Ended != nil; !ended {
		why = append(why, v.whyRobots(rep)...)
	}
	rep.Why = why
}

// when formats a time and its distance from now.
func (v *view) when(t time.Time) string {
	text := t.UTC().Format(time.RFC3339)
	if d := t.Sub(v.now).Round(time.Second); d > 0 {
		return fmt.Sprintf("%s (in %s)", text, human.Duration(d))
	} else if d < 0 {
		return fmt.Sprintf("%s (%s ago)", text, human.Duration(-d))
	}
	return text + " (now)"
}

// whyPlace explains a place.
func (v *view) whyPlace(rep *URLReport) []string {
	say := func(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }
	switch rep.Place {
	case placeUnseen:
		return v.whyUnseen(rep)
	case PlaceOtherNode:
		return v.whyOther(rep)
	case PlaceLink:
		return say("found as a link; URLseen's next merge checks whether it is new")
	case PlaceNotScanned:
		return say("in URLseen: waiting, fetched or refused; --fast does not search for its place")
	case PlaceUnknown:
		return say("not found, but files that may contain it cannot be read: drumbeat audit --deep lists all damage")
	case PlaceEnded:
		return v.whyEnded(rep)
	case state.PlaceUnstreamed.String():
		return say("new; it goes to STAR for its budget when URLseen's pass ends")
	case state.PlaceStar.String():
		return say("waits for STAR's next merge, which puts it into a queue by the budget of %s", rep.PLD)
	case state.PlaceBeast.String():
		return v.whyBeast(rep)
	case state.PlaceOverBudget.String():
		return say("over budget: %s; BEAST reads QF again at queue %d (it is at %d), or when nothing else is left",
			v.budgetText(rep), v.laneState(rep.lane).LastScan+v.laneState(rep.lane).Horizon,
			v.laneState(rep.lane).Current)
	case state.PlaceRobotsCheck.String():
		return say("released by BEAST or due again; RobotsCache's next merge checks it against robots.txt")
	case state.PlaceAwaitRobots.String():
		return say("waits for robots.txt or the addresses of %s%s", rep.Robots.Origin, v.askingText(rep.Robots))
	case state.PlaceReady.String():
		return say("allowed by robots.txt; waits on disk for room in RAM")
	case state.PlaceRAM.String():
		return say("in RAM: being fetched, or waiting for its host and server; one request per %s (%s)",
			human.Seconds(rep.Robots.Delay), rep.Robots.DelayWhy)
	case state.PlaceDeferred.String():
		if !rep.Due.After(v.now) {
			return say("deferred, and due since %s: it returns as soon as there is room for it; %s",
				v.when(rep.Due), reasonText(rep.Record.Reason))
		}
		why := say("deferred until %s: %s", v.when(rep.Due), reasonText(rep.Record.Reason))
		if rep.Copy {
			why = append(why, "its text is, or nearly is, that of another page of its host, so it is visited less "+
				"often (--near-duplicates)")
		}
		return why
	case state.PlaceHeld.String():
		return say("not allowed by the flags of the run: %s; a run with other --ports, --allow-net or --nat64-prefix "+
			"tries it again", reasonText(rep.Record.Reason))
	case state.PlaceContent.String():
		return say("fetched; waits in the store of contents, whose next pass compares its body, or its text, with " +
			"those seen before")
	case state.PlaceFetched.String():
		return v.whyFetched(rep)
	case state.PlaceRefused.String():
		return v.whyRefused(rep)
	}
	return say("in place %s", state.PlaceText(rep.Place))
}

// whyFetched says what became of a URL that was fetched.
func (v *view) whyFetched(rep *URLReport) []string {
	why := []string{fmt.Sprintf("fetched %s", v.when(rep.Ended.Time))}
	if run := v.m.Run; rep.Ended.Source == "log" && rep.Ended.File == "" && rep.Ended.Status > 0 &&
		run != nil && run.Store {
		why = append(why, whyNotStored)
	}
	if of := rep.Ended.NearDuplicateOf; of != "" {
		why = append(why, "its text is nearly that of "+of+", which is kept (--near-duplicates)")
	}
	if rep.Ended.Dropped == admit.TooManyRedirects {
		why = append(why, fmt.Sprintf(
			"the redirect to %s is not followed: more than %d redirects in a row (--max-redirects)",
			rep.Ended.Redirect, max(0, v.links.MaxRedirects)))
	}
	return append(why, v.whyRevisit(rep.Ended)...)
}

func (v *view) whyRefused(rep *URLReport) []string {
	why := []string{fmt.Sprintf("refused %s: %s", v.when(rep.Ended.Time), reasonText(rep.Ended.Reason))}
	switch rep.Ended.Reason {
	case state.ReasonRobots.String():
		if d := rep.Verdict; d.Rule != "" && !d.Allowed {
			why[0] += fmt.Sprintf(": %q", d.Rule)
		} else {
			why = append(why, "the rules known now allow it: robots.txt has changed since")
		}
	case state.ReasonEarlier.String():
		why = append(why, "explain url --dir has the answer for a crawl of --since: "+v.earlier())
	}
	return why
}

// whyRevisit says where the body of a response may be that has none of its own.
func (v *view) whyRevisit(ended *EndedReport) []string {
	names := v.earlier()
	if names == "" || !ended.Revisit {
		return nil
	}
	return []string{"its body is that of an earlier capture, here or in a crawl of --since (" + names +
		"): drumbeat get --record has the reference"}
}

// earlier names the crawls of --since, "" for none.
func (v *view) earlier() string {
	if v.m.Run == nil {
		return ""
	}
	var names []string
	for _, e := range v.m.Run.Earlier {
		name := strings.Join(e.Dirs, ",")
		if len(e.Out) > 0 {
			name += " --out " + strings.Join(e.Out, ",")
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func (v *view) whyUnseen(rep *URLReport) []string {
	why := []string{"never seen: it is not a seed, and no fetched page has a link to it that the crawl follows"}
	if !rep.Link.Taken {
		why = append(why, "a link to it is "+rep.Link.Why)
	}
	if v.m.Seeds.Offset < v.m.Seeds.Size {
		why = append(why, fmt.Sprintf("%d of %d bytes of the seed file are read so far",
			v.m.Seeds.Offset, v.m.Seeds.Size))
	}
	return why
}

func (v *view) whyBeast(rep *URLReport) []string {
	q := rep.Queue
	text := fmt.Sprintf("in BEAST's queue %d, %d after the current queue %d; %s",
		q.Number, q.Ahead, q.Current, v.budgetText(rep))
	if q.Ahead == 0 {
		text = fmt.Sprintf("in BEAST's current queue %d; BEAST releases it when fewer released URLs wait", q.Number)
	}
	if q.Lanes > 1 {
		text += fmt.Sprintf("; lane %d of 0 to %d, which take turns", q.Lane, q.Lanes-1)
	}
	return []string{text}
}

func (v *view) budgetText(rep *URLReport) string {
	if s := rep.Site; s != nil && s.PerQueue > 0 {
		return fmt.Sprintf("%s (in-degree %d) may have %s in each queue", s.PLD, s.Indegree,
			human.Counted(s.PerQueue, "page", "pages"))
	}
	return "the budget of " + rep.PLD + " sets its place"
}

func (v *view) askingText(o *OriginReport) string {
	switch o.Asking {
	case "":
		if o.WaitingAnswers > 0 {
			return "; the answer waits for RobotsCache's next merge"
		}
		return ""
	case "put off":
		text := "; the request"
		if o.AskTries > 0 {
			text += fmt.Sprintf(" (or the lookup before it) failed %s, perhaps because of this machine, and",
				human.Counted(o.AskTries, "time", "times"))
		}
		return text + " is deferred until " + v.when(o.AskAt)
	}
	return "; the request is " + o.Asking
}

// whyNotStored lists what keeps a response out of the indexes of a crawl that stores pages.
const whyNotStored = "its response is not stored, because the page asks for that (--robots-meta), its site " +
	"refuses a use of it (--usage), the hook answered keep: false, or --store leaves it out; stored in the " +
	"page's metadata record says which"

// whyEnded explains a seen URL that is in no queue and in no file of the output.
func (v *view) whyEnded(rep *URLReport) []string {
	if rep.Erased {
		return []string{"erased: drumbeat erase removed it, and the crawl never fetches it again; " +
			"drumbeat erase --report lists the requests"}
	}
	why := []string{"done: URLseen has it and no queue does, so it was fetched or refused"}
	if d := rep.Verdict; d != nil && !d.Allowed && d.Rule != "" {
		why = append(why, fmt.Sprintf("probably refused: robots.txt has %q", d.Rule))
	}
	run := v.m.Run
	switch {
	case v.logCut:
		why = append(why, fmt.Sprintf("not in the newest %d GiB of the crawl log; the rest was not read",
			maxLogBytes>>30))
	case run != nil && run.CrawlLog == state.LogOff:
		why = append(why, "the crawl keeps no log of URLs (--crawl-log off); errors logs refusals, all logs every URL")
	case run != nil && run.CrawlLog == state.LogErrors && !run.Store:
		why = append(why, "probably fetched: --store none with --crawl-log errors keeps no trace of fetched pages; "+
			"--crawl-log all logs them, and a refusal would be in the log")
	case v.r.Out.Len() == 0:
		why = append(why, "the crawl's output is in separate directories: give them with --out")
	default:
		why = append(why, "not in the crawl log or the indexes: files were moved away, an earlier run "+
			"logged less (--crawl-log all logs every URL), or "+whyNotStored)
	}
	return why
}

// whyRobots explains the effect of robots.txt and the host's health on a URL that has not ended.
func (v *view) whyRobots(rep *URLReport) (why []string) {
	o, d := rep.Robots, rep.Verdict
	if o == nil || d == nil {
		return nil
	}
	if h := o.Health; h != nil && (h.End != "open" || h.Until.After(v.now)) {
		why = append(why, "no requests to its host: "+h.Text)
	}
	switch {
	case !d.Allowed && d.Rule != "":
		why = append(why, fmt.Sprintf("robots.txt forbids it: %q", d.Rule))
	case o.State == "unreachable":
		why = append(why, fmt.Sprintf("robots.txt is unreachable (%s), so nothing is fetched; next request from %s",
			o.failed(), v.when(o.RetryAt)))
	case o.State == "no host" || o.State == "forbidden":
		why = append(why, fmt.Sprintf("the host cannot be reached: %s, until %s", o.State, v.when(o.Expires)))
	case o.Stale:
		why = append(why, fmt.Sprintf("robots.txt was unreachable recently (%s); an earlier copy applies",
			human.Counted(o.Failures, "failure", "failures")))
	}
	return why
}

// reasonText returns the words and the name of a reason.
func reasonText(name string) string {
	if name == "" {
		return "no reason recorded"
	}
	words, more := state.ReasonText(name)
	if words != name {
		words += " (" + name + ")"
	}
	if more != "" {
		words += "; " + more
	}
	return words
}
