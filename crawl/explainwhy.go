package crawl

import (
	"fmt"
	"time"
)

// conclude says in words what the fields say.
func (v *explainView) conclude(rep *URLReport) {
	if rep.Seen && rep.Place == "" {
		rep.Place = placeNotScanned
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
func (v *explainView) when(t time.Time) string {
	text := t.UTC().Format(time.RFC3339)
	if d := t.Sub(v.now).Round(time.Second); d > 0 {
		return fmt.Sprintf("%s (in %v)", text, d)
	} else if d < 0 {
		return fmt.Sprintf("%s (%v ago)", text, -d)
	}
	return text + " (now)"
}

// whyPlace explains a place.
func (v *explainView) whyPlace(rep *URLReport) []string {
	say := func(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }
	switch rep.Place {
	case placeUnseen:
		return v.whyUnseen(rep)
	case placeLink:
		return say("met as a link; URLseen judges at its next merge whether it is new")
	case placeNotScanned:
		return say("known to URLseen: in a queue, fetched or refused; where was not looked for (--fast)")
	case placeUnknown:
		return say("not found, and files that could have it can't be read: drumbeat audit --deep lists all damage")
	case placeEnded:
		return v.whyEnded(rep)
	case PlaceUnstreamed.String():
		return say("new; it goes to STAR for its budget when URLseen's pass has ended")
	case PlaceStar.String():
		return say("waits for STAR's next merge, which gives it a queue by the budget of %s", rep.PLD)
	case PlaceBeast.String():
		return v.whyBeast(rep)
	case PlaceFailed.String():
		return say("over budget: %s; QF is read again when BEAST has come to queue %d (it is at %d), or when nothing else is left",
			v.budgetText(rep), v.beast.LastScan+v.beast.Horizon, v.beast.Current)
	case PlaceRobotsCheck.String():
		return say("released by BEAST or due again; waits for RobotsCache's next merge, which judges it by robots.txt")
	case PlaceAwaitRobots.String():
		return say("waits for the answer to a request for robots.txt or the addresses of %s%s", rep.Robots.Origin, v.askingText(rep.Robots))
	case PlaceReady.String():
		return say("allowed by robots.txt; waits on disk for room in RAM")
	case PlaceRAM.String():
		return say("in RAM: waits for the turn of its host and server, one visit in %v (%s), or is being fetched", seconds(rep.Robots.Delay),
			rep.Robots.DelayWhy)
	case PlaceLater.String():
		return say("put off until %s: %s", v.when(rep.Due), v.reasonText(rep.Record.Reason))
	case PlaceHeld.String():
		return say("held back by the flags of the run: %s; a run with other --ports or --allow-net tries it again",
			v.reasonText(rep.Record.Reason))
	case PlaceFetched.String():
		why := say("fetched %s", v.when(rep.Ended.Time))
		if rep.Ended.Dropped == tooManyRedirects {
			why = append(why, fmt.Sprintf("the redirect to %s isn't followed: more than %d in a row led there (--max-redirects)", rep.Ended.Redirect,
				max(0, v.r.opt.MaxRedirects)))
		}
		return why
	case PlaceRefused.String():
		why := say("refused %s: %s", v.when(rep.Ended.Time), v.reasonText(rep.Ended.Reason))
		if rep.Ended.Reason == ReasonRobots.String() {
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

func (v *explainView) whyUnseen(rep *URLReport) []string {
	why := []string{"never seen: no seed is this URL, and no page that has been fetched has a link to it that was taken"}
	if !rep.Link.Taken {
		why = append(why, "a link to it is "+rep.Link.Why)
	}
	if v.m.Seeds.Offset < v.m.Seeds.Size {
		why = append(why, fmt.Sprintf("%d of %d bytes of the seed file have been fed so far", v.m.Seeds.Offset, v.m.Seeds.Size))
	}
	return why
}

func (v *explainView) whyBeast(rep *URLReport) []string {
	q := rep.Queue
	text := fmt.Sprintf("in BEAST's queue %d, %d behind the one that is being read (%d); %s", q.Number, q.Ahead, q.Current, v.budgetText(rep))
	if q.Ahead == 0 {
		text = fmt.Sprintf("in BEAST's queue %d, the one that is being read; released when fewer URLs wait behind it", q.Number)
	}
	return []string{text}
}

func (v *explainView) budgetText(rep *URLReport) string {
	if s := rep.Site; s != nil && s.PerQueue > 0 {
		return fmt.Sprintf("%s (in-degree %d) has %d pages a queue", s.PLD, s.Indegree, s.PerQueue)
	}
	return "the budget of " + rep.PLD + " gives it this place"
}

func (v *explainView) askingText(o *OriginReport) string {
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
func (v *explainView) whyEnded(rep *URLReport) []string {
	why := []string{"ended: URLseen knows it, and it is in no queue; so it was fetched or refused"}
	if d := rep.Verdict; d != nil && !d.Allowed && d.Rule != "" {
		why = append(why, fmt.Sprintf("refused, most likely: robots.txt has %q", d.Rule))
	}
	run := v.m.Run
	switch {
	case v.logCut:
		why = append(why, fmt.Sprintf("the newest %d GiB of the crawl log don't have it, and no more was read", maxLogBytes>>30))
	case run != nil && run.CrawlLog == LogOff:
		why = append(why, "the crawl keeps no log of single URLs (--crawl-log off), only sums: errors keeps refusals, all keeps everything")
	case run != nil && run.CrawlLog == LogErrors && !run.Store:
		why = append(why, "--store none and --crawl-log errors keep nothing of a page that was fetched: --crawl-log all would have kept it. "+
			"A refusal would be in the log")
	case v.r.out.Len() == 0:
		why = append(why, "the crawl's output lies in directories of its own, which were not given: --out")
	default:
		why = append(why, "neither crawl log nor indexes have it: files were moved away, or an earlier run kept less (--crawl-log all keeps everything)")
	}
	return why
}

// whyRobots explains what robots.txt and its state have to do with a URL that hasn't ended.
func (v *explainView) whyRobots(rep *URLReport) (why []string) {
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
		why = append(why, fmt.Sprintf("robots.txt can't be had (%d failures): nothing is fetched; the next request is made from %s on", o.Failures,
			v.when(o.RetryAt)))
	case o.State == "no host" || o.State == "forbidden":
		why = append(why, fmt.Sprintf("the host can't be reached: %s, until %s", o.State, v.when(o.Expires)))
	case o.Stale:
		why = append(why, fmt.Sprintf("robots.txt couldn't be had lately (%d failures); an earlier copy decides", o.Failures))
	}
	return why
}

// reasonTexts say what a reason means; one without a text speaks for itself.
var reasonTexts = [numReasons]string{
	ReasonRobots:            "robots.txt forbids it",
	ReasonNoHost:            "the name doesn't exist, or has no address",
	ReasonDNS:               "the name servers gave no usable answer",
	ReasonConnect:           "no connection was to be had",
	ReasonTimeout:           "the exchange took too long",
	ReasonReset:             "the connection was broken off",
	ReasonTLS:               "TLS failed",
	ReasonBadResponse:       "the answer wasn't HTTP",
	ReasonForbiddenAddress:  "the host has only addresses that may not be connected to",
	ReasonRobotsUnavailable: "robots.txt can't be had; it is asked for again, less and less often",
	ReasonHostBacklog:       "its host has many URLs, and each waits for its turn",
	ReasonTooMany:           "the server said that there were too many requests",
	ReasonServerError:       "the server said that it was out of order",
	ReasonEvicted:           "others needed the room in RAM",
	ReasonTwin:              "its https form failed, so the http form is tried",
	ReasonAwaitRobots:       "robots.txt was asked for again before an answer was there",
	ReasonBadRecord:         "its record could not be read",
	ReasonForbiddenPort:     "its port may not be connected to (--ports)",
	ReasonUnconfirmed:       "the exchange failed in a way that could be our fault; it is tried again before it counts",
	ReasonLost:              "it was lost to damage on disk",
	ReasonPLDBusy:           "its PLD has many URLs in RAM",
	ReasonNotWelcome:        "the host said that it doesn't want us",
	ReasonHostResting:       "the host failed many times in a row, and rests",
	ReasonHostGivenUp:       "the host failed again after its long rests, and was given up",
	ReasonHostPages:         "the host has had its --max-pages-per-host",
	ReasonPLDPages:          "the PLD has had its --max-pages-per-pld",
	ReasonBlocked:           "the blacklist names host, PLD or network",
	ReasonInternal:          "it made this program panic, which is a bug; the run's log has the stack",
}

// reasonText spells a reason by its name.
func (v *explainView) reasonText(name string) string {
	for r, text := range reasonTexts {
		if text != "" && Reason(r).String() == name {
			return name + " (" + text + ")"
		}
	}
	if name == "" {
		return "no reason noted"
	}
	return name
}
