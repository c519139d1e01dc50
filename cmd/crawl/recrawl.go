package crawl

import (
	"errors"
	"fmt"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/internal/revisit"
)

// recrawlFlags say when pages are visited again.
type recrawlFlags struct {
	Recrawl        bool          `group:"recrawl" common:""`
	RevisitPolicy  string        `group:"recrawl" enum:"proportional,uniform,optimal" default:"proportional"`
	RevisitDefault time.Duration `group:"recrawl" placeholder:"DURATION" default:"168h"`
	RevisitMin     time.Duration `group:"recrawl" placeholder:"DURATION" default:"1h"`
	RevisitMax     time.Duration `group:"recrawl" placeholder:"DURATION" default:"720h"`
	RevisitGone    flags.Count   `group:"recrawl" placeholder:"N" default:"2"`
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
