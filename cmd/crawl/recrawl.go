package crawl

import (
	"errors"
	"fmt"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/crawl"
	"drumbeat/internal/revisit"
)

// recrawlFlags say when pages are visited again.
type recrawlFlags struct {
	Recrawl        bool          `group:"recrawl" common:"" help:"Visit pages again, for as long as the crawl runs. The interval follows how often a page changes. Requests are conditional, unchanged pages become revisit records, and new links are followed."`
	RevisitPolicy  string        `group:"recrawl" enum:"proportional,uniform,optimal" default:"proportional" help:"proportional: visit a page once for each change that is expected, which finds the most changes. uniform: visit all pages after --revisit-default, which keeps more of the collection up to date for the same number of visits. optimal: make as many visits as uniform, where each keeps a page up to date for the longest time; this keeps the most up to date."`
	RevisitDefault time.Duration `group:"recrawl" placeholder:"DURATION" default:"168h" help:"Interval between the first two visits of a page; with uniform all intervals, and with optimal their mean over all visits of all pages."`
	RevisitMin     time.Duration `group:"recrawl" placeholder:"DURATION" default:"1h" help:"Least interval between two visits of a page."`
	RevisitMax     time.Duration `group:"recrawl" placeholder:"DURATION" default:"720h" help:"Longest interval between two visits of a page; at most 1440h (60 days)."`
	RevisitGone    flags.Count   `group:"recrawl" placeholder:"N" default:"2" help:"Give a page up after N visits in a row that find none (404, 410 and other statuses from 400 to 499)."`
}

// policy returns the policy of the flags; nil without --recrawl.
func (r *recrawlFlags) policy() *revisit.Policy {
	if !r.Recrawl {
		return nil
	}
	kind := map[string]revisit.Kind{"uniform": revisit.Uniform, "optimal": revisit.Optimal}[r.RevisitPolicy]
	return &revisit.Policy{Least: r.RevisitMin, Longest: r.RevisitMax, Default: r.RevisitDefault, Kind: kind,
		Gone: int(r.RevisitGone)}
}

// check returns the first fault of the flags.
func (r *recrawlFlags) check() error {
	p := revisit.Policy{Least: r.RevisitMin, Longest: r.RevisitMax, Default: r.RevisitDefault, Gone: int(r.RevisitGone)}
	switch err := p.Validate(); {
	case errors.Is(err, revisit.ErrLeast):
		return fmt.Errorf("--revisit-min: %w", err)
	case errors.Is(err, revisit.ErrLongest):
		return fmt.Errorf("--revisit-max: %w", err)
	case errors.Is(err, revisit.ErrDefault):
		return fmt.Errorf("--revisit-default: %w", err)
	case err != nil:
		return fmt.Errorf("--revisit-gone: %w", err)
	}
	return nil
}

// apply sets the options of the flags.
func (r *recrawlFlags) apply(o *crawl.Options) { o.Recrawl = r.policy() }
