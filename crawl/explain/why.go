package explain

import (
	"fmt"
	"time"

	"drumbeat/crawl/admit"
	"drumbeat/crawl/state"
)

// conclude says in words what the fields say.
func (v *view) conclude(rep *URLReport) {
	if rep.Seen && rep.Place == "" {
		rep.Place = PlaceNotScanned
	}
	why := v.whyPlace(rep)
	if rep.Record != nil && rep.Record.Attempts > 0 && rep.Ended == nil {
		why = append(why, fmt.Sprintf("tried %d times so far", rep.Record.Attempts))
	}
	for _, d := range rep.Delays {
		why = append(why, fmt.Sprintf("%s rests until %s", d.Who, v.when(d.Until)))
	}
	if rep.Link.Rewritten != "" {
		why = append(why, "as a link it is rewritten, and the crawl then knows it as "+rep.Link.Rewritten)
	}
	if rep.Link.Blocked && rep.Ended == nil && rep.Place != placeUnseen {
		why = append(why, "it will be refused: "+rep.Link.Why)
	}
	if ended := rep.Ended != nil; !ended {
		why = append(why, v.whyRobots(rep)...)
	}
	rep.Why = why
}

// when spells a time with its distance from now.
func (v *view) when(t time.Time) string {
	text := t.UTC().Format(time.RFC3339)
	if d := t.Sub(v.now).Round(time.Second); d > 0 {
		return fmt.Sprintf("%s (in %v)", text, d)
	} else if d < 0 {
		return fmt.Sprintf("%s (%v ago)", text, -d)
	}
	return text + " (now)"
}

// whyPlace explains a place.
func (v *view) whyPlace(rep *URLReport) []string {
	say := func(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }
	switch rep.Place {
	case placeUnseen:
		return v.whyUnseen(rep)
	case PlaceLink:
		return say("met as a link; URLseen judges at its next merge whether it is new")
	case PlaceNotScanned:
		return say("known to URLseen: in a queue, fetched or refused; where was not looked for (--fast)")
	case PlaceUnknown:
		return say("not found, and files that could have it can't be read: drumbeat audit --deep lists all damage")
	case PlaceEnded:
		return v.whyEnded(rep)
	case state.PlaceUnstreamed.String():
		return say("new; it goes to STAR for its budget when URLseen's pass has ended")
	case state.PlaceStar.String():
		return say("waits for STAR's next merge, which gives it a queue by the budget of %s", rep.PLD)
	case state.PlaceBeast.String():
		return v.whyBeast(rep)
	case state.PlaceFailed.String():
		return say("over budget: %s; QF is read again when BEAST has come to queue %d (it is at %d), or when nothing else is left",
			v.budgetText(rep), v.beast.LastScan+v.beast.Horizon, v.beast.Current)
	case state.PlaceRobotsCheck.String():
		return say("released by BEAST or due again; waits for RobotsCache's next merge, which judges it by robots.txt")
	case state.PlaceAwaitRobots.String():
		return say("waits for the answer to a request for robots.txt or the addresses of %s%s", rep.Robots.Origin, v.askingText(rep.Robots))
	case state.PlaceReady.String():
		return say("allowed by robots.txt; waits on disk for room in RAM")
	case state.PlaceRAM.String():
		return say("in RAM: waits for the turn of its host and server, one visit in %v (%s), or is being fetched", seconds(rep.Robots.Delay),
			rep.Robots.DelayWhy)
	case state.PlaceDeferred.String():
		return say("put off until %s: %s", v.when(rep.Due), v.reasonText(rep.Record.Reason))
	case state.PlaceHeld.String():
		return say("held back by the flags of the run: %s; a run with other --ports or --allow-net tries it again",
			v.reasonText(rep.Record.Reason))
	case state.PlaceFetched.String():
		why := say("fetched %s", v.when(rep.Ended.Time))
		if rep.Ended.Dropped == admit.TooManyRedirects {
			why = append(why, fmt.Sprintf("the redirect to %s isn't followed: more than %d in a row led there (--max-redirects)", rep.Ended.Redirect,
				max(0, v.links.MaxRedirects)))
		}
		return why
	case state.PlaceRefused.String():
		why := say("refused %s: %s", v.when(rep.Ended.Time), v.reasonText(rep.Ended.Reason))
		if rep.Ended.Reason == state.ReasonRobots.String() {
			if d := rep.Verdict; d.Rule != "" && !d.Allowed {
				why[0] += fmt.Sprintf(": %q", d.Rule)
			} else {
				why = append(why, "the rules that are known now don't forbid it: robots.txt has changed since")
			}
		}
		return why
	}
	return say("in place %s", rep.Place)
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

func (v *view) whyUnseen(rep *URLReport) []string {
	why := []string{"never seen: no seed is this URL, and no page that has been fetched has a link to it that was taken"}
	if !rep.Link.Taken {
		why = append(why, "a link to it is "+rep.Link.Why)
	}
	if v.m.Seeds.Offset < v.m.Seeds.Size {
		why = append(why, fmt.Sprintf("%d of %d bytes of the seed file have been fed so far", v.m.Seeds.Offset, v.m.Seeds.Size))
	}
	return why
}

func (v *view) whyBeast(rep *URLReport) []string {
	q := rep.Queue
	text := fmt.Sprintf("in BEAST's queue %d, %d behind the one that is being read (%d); %s", q.Number, q.Ahead, q.Current, v.budgetText(rep))
	if q.Ahead == 0 {
		text = fmt.Sprintf("in BEAST's queue %d, the one that is being read; released when fewer URLs wait behind it", q.Number)
	}
	return []string{text}
}

func (v *view) budgetText(rep *URLReport) string {
	if s := rep.Site; s != nil && s.PerQueue > 0 {
		return fmt.Sprintf("%s (in-degree %d) has %d pages a queue", s.PLD, s.Indegree, s.PerQueue)
	}
	return "the budget of " + rep.PLD + " gives it this place"
}

func (v *view) askingText(o *OriginReport) string {
	switch o.Asking {
	case "":
		if o.WaitingAnswers > 0 {
			return "; an answer has come, and waits for RobotsCache's next merge"
		}
		return ""
	case "put off":
		return fmt.Sprintf("; the request is put off until %s", v.when(o.AskAt))
	}
	return "; the request is " + o.Asking
}

// whyEnded explains a seen URL that is in no queue and in no file of the output.
func (v *view) whyEnded(rep *URLReport) []string {
	why := []string{"ended: URLseen knows it, and it is in no queue; so it was fetched or refused"}
	if d := rep.Verdict; d != nil && !d.Allowed && d.Rule != "" {
		why = append(why, fmt.Sprintf("refused, most likely: robots.txt has %q", d.Rule))
	}
	run := v.m.Run
	switch {
	case v.logCut:
		why = append(why, fmt.Sprintf("the newest %d GiB of the crawl log don't have it, and no more was read", maxLogBytes>>30))
	case run != nil && run.CrawlLog == state.LogOff:
		why = append(why, "the crawl keeps no log of single URLs (--crawl-log off), only sums: errors keeps refusals, all keeps everything")
	case run != nil && run.CrawlLog == state.LogErrors && !run.Store:
		why = append(why, "--store none and --crawl-log errors keep nothing of a page that was fetched: --crawl-log all would have kept it. "+
			"A refusal would be in the log")
	case v.r.Out.Len() == 0:
		why = append(why, "the crawl's output lies in directories of its own, which were not given: --out")
	default:
		why = append(why, "neither crawl log nor indexes have it: files were moved away, or an earlier run kept less (--crawl-log all keeps everything)")
	}
	return why
}

// whyRobots explains what robots.txt and its state have to do with a URL that hasn't ended.
func (v *view) whyRobots(rep *URLReport) (why []string) {
	o, d := rep.Robots, rep.Verdict
	if o == nil || d == nil {
		return nil
	}
	if h := o.Health; h != nil && (h.End != "open" || h.Until.After(v.now)) {
		why = append(why, "its host is left alone: "+h.Text)
	}
	switch {
	case !d.Allowed && d.Rule != "":
		why = append(why, fmt.Sprintf("robots.txt forbids it: %q", d.Rule))
	case o.State == "unreachable":
		why = append(why, fmt.Sprintf("robots.txt is unreachable (%d failures): nothing is fetched; the next request follows from %s on", o.Failures,
			v.when(o.RetryAt)))
	case o.State == "no host" || o.State == "forbidden":
		why = append(why, fmt.Sprintf("the host can't be reached: %s, until %s", o.State, v.when(o.Expires)))
	case o.Stale:
		why = append(why, fmt.Sprintf("robots.txt was unreachable lately (%d failures); an earlier copy decides", o.Failures))
	}
	return why
}

// reasonTexts say what a reason means; one without a text speaks for itself.
var reasonTexts = [state.NumReasons]string{
	state.ReasonRobots:            "robots.txt forbids it",
	state.ReasonNoHost:            "the name doesn't exist, or has no address",
	state.ReasonDNS:               "the name servers gave no usable answer",
	state.ReasonConnect:           "the connection failed",
	state.ReasonTimeout:           "the exchange took too long",
	state.ReasonReset:             "the connection was broken off",
	state.ReasonTLS:               "TLS failed",
	state.ReasonBadResponse:       "the answer wasn't HTTP",
	state.ReasonForbiddenAddress:  "the host has only addresses that may not be connected to",
	state.ReasonRobotsUnavailable: "robots.txt is unreachable; drumbeat asks again, less and less often",
	state.ReasonHostBacklog:       "its host has many URLs, and each waits for its turn",
	state.ReasonTooMany:           "the server said that there were too many requests",
	state.ReasonServerError:       "the server said that it was out of order",
	state.ReasonEvicted:           "others needed the room in RAM",
	state.ReasonHTTPSFallback:     "its https form failed, so the http form is tried",
	state.ReasonAwaitRobots:       "robots.txt was asked for again before an answer was there",
	state.ReasonBadRecord:         "its record could not be read",
	state.ReasonForbiddenPort:     "its port may not be connected to (--ports)",
	state.ReasonUnconfirmed:       "the exchange failed in a way that could be our fault; it is tried again before it counts",
	state.ReasonLost:              "it was lost to damage on disk",
	state.ReasonPLDBusy:           "its PLD has many URLs in RAM",
	state.ReasonNotWelcome:        "the host said that it doesn't want us",
	state.ReasonHostBackoff:       "the host failed many times in a row, and rests",
	state.ReasonHostGivenUp:       "the host failed again after its long rests, and was given up",
	state.ReasonHostPages:         "the host has had its --max-pages-per-host",
	state.ReasonPLDPages:          "the PLD has had its --max-pages-per-pld",
	state.ReasonBlocked:           "the blacklist names host, PLD or network",
	state.ReasonInternal:          "it made this program panic, which is a bug; the run's log has the stack",
}

// reasonText spells a reason by its name.
func (v *view) reasonText(name string) string {
	for r, text := range reasonTexts {
		if text != "" && state.Reason(r).String() == name {
			return name + " (" + text + ")"
		}
	}
	if name == "" {
		return "no reason noted"
	}
	return name
}
