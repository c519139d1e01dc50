package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	crawlcmd "drumbeat/cmd/crawl"
	"drumbeat/crawl"
	"drumbeat/internal/simweb"
)

// checks compares the server's log with a correct crawl. This server has not seen the earlier part of a
// resumed crawl, so it can find only forbidden requests there, not missing ones.
func checks(web *simweb.Web, res *crawl.Result, opt *crawl.Options, resumed bool) (lines []string, err error) {
	log := web.Log().Snapshot()
	say := func(name, format string, args ...any) { lines = append(lines, name+": "+fmt.Sprintf(format, args...)) }
	_, host := log.MinHostGap()
	if host.Host != "" {
		say("least gap", "%v between two requests to a host (%s), as the server measured it",
			host.Value.Round(10*time.Microsecond), host.Host)
	}
	if conns, _ := log.MaxHostConns(); conns > 0 {
		say("connections", "at most %d to one host at a time, %s in total", conns, humanize.Comma(int64(log.Conns)))
	}
	var errs []error
	check := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("demo: %s: %w", what, err))
		}
	}
	check("fetched more than once, or never linked to", log.CheckOnce())
	// The delay of an address counts from start to start. A busy machine's servers may read two requests at
	// once that were sent apart, so their clock cannot check it.
	check("too close together", log.CheckEndGaps(opt.Politeness.HostDelayMin, 0))
	check("out of bounds", crawlcmd.WithinBounds(opt.Limits.RAMBytes+webRAM))
	want := web.Expected(opt.Identity.Agent)
	complete := res.Stop == crawl.StopDone && !resumed
	if len(web.HostileSeeds()) > 0 && res.Stop == crawl.StopTime && !resumed { // the traps do not end
		complete = log.CheckFetched(want, 1) == nil
	}
	if complete {
		check("fetched set differs from the reachable set", log.CheckFetched(want, 1))
	}
	switch {
	case len(errs) > 0:
		say("check", "FAILED, see below")
	case complete:
		say("check", "fetched exactly the %s reachable and allowed URLs, each once, and none of the %s "+
			"that robots.txt forbids", humanize.Comma(int64(want.Fetched)), humanize.Comma(int64(want.Refused)))
	default:
		say("check", "no URL fetched twice, and none that is forbidden; the crawl is incomplete or resumed, so "+
			"missing URLs are not checked")
	}
	return lines, errors.Join(errs...)
}
