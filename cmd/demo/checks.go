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

// checks compares the server's own log with what a correct crawl does. A resumed crawl has done a part of it before
// this server's time, so that only what must not happen can be seen.
func checks(web *simweb.Web, res *crawl.Result, opt *crawl.Options, resumed bool) (lines []string, err error) {
	log := web.Log().Snapshot()
	say := func(name, format string, args ...any) { lines = append(lines, name+": "+fmt.Sprintf(format, args...)) }
	_, host := log.MinHostGap()
	if host.Host != "" {
		say("least gap", "%v between two requests to one host (%s), from the end of one to the start of the next, as the server saw it",
			host.Value.Round(10*time.Microsecond), host.Host)
	}
	if conns, _ := log.MaxHostConns(); conns > 0 {
		say("connections", "%d at most to one host at a time, %s in all", conns, humanize.Comma(int64(log.Conns)))
	}
	var errs []error
	check := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("demo: %s: %w", what, err))
		}
	}
	check("fetched more than once, or never linked to", log.CheckOnce())
	// The delay of an address counts from start to start; on a busy machine the servers here may read two heads at once that
	// were sent apart, so it isn't checked by their clock.
	check("too close together", log.CheckEndGaps(opt.HostDelayMin, 0))
	check("out of bounds", crawlcmd.WithinBounds(opt.RAMBytes+webRAM))
	complete := res.Stop == crawl.StopDone && !resumed
	want := web.Expected(opt.Agent)
	if complete {
		check("not the set that can be reached", log.CheckFetched(want, 1))
	}
	switch {
	case len(errs) > 0:
		say("check", "FAILED, see below")
	case complete:
		say("check", "exactly the %s URLs that can be reached and are allowed, each once; %s that robots.txt forbids left alone",
			humanize.Comma(int64(want.Fetched)), humanize.Comma(int64(want.Refused)))
	default:
		say("check", "no URL twice, none that must not be fetched; the crawl is not complete, or was begun before")
	}
	return lines, errors.Join(errs...)
}
