package crawl

import (
	"fmt"
	"time"

	"drumbeat/internal/revisit"
)

// recrawlFlags say when pages are visited again.
type recrawlFlags struct {
	Recrawl bool     `group:"recrawl" common:""`
	Revisit revisits `group:"recrawl" type:"parts" placeholder:"POLICY"`
}

// revisits say how a page's interval follows from its changes.
type revisits struct {
	Policy  string        `part:"" enum:"proportional,uniform,optimal" default:"proportional"`
	Default time.Duration `part:"default" default:"7d" least:"1s" most:"60d"`
	Least   time.Duration `part:"min" default:"1h" least:"1s" most:"60d"`
	Longest time.Duration `part:"max" default:"30d" least:"1s" most:"60d"`

	Importance float64 `part:"importance" default:"0" least:"0" most:"1"`
}

// goneVisits is the number of visits in a row without a page (404, 410 and other statuses from 400 to 499) after
// which it is given up: one such answer can be a mistake of the site, the second comes an interval later.
const goneVisits = 2

// policy returns the policy of the flags; nil without --recrawl.
func (r *recrawlFlags) policy() *revisit.Policy {
	if !r.Recrawl {
		return nil
	}
	p := r.values()
	return &p
}

func (r *recrawlFlags) values() revisit.Policy {
	v := &r.Revisit
	kind := map[string]revisit.Kind{"uniform": revisit.Uniform, "optimal": revisit.Optimal}[v.Policy]
	return revisit.Policy{Least: v.Least, Longest: v.Longest, Default: v.Default, Kind: kind, Gone: goneVisits,
		Importance: v.Importance}
}

// check returns the first fault of the flags.
func (r *recrawlFlags) check() error {
	p := r.values()
	if err := p.Validate(); err != nil {
		return fmt.Errorf("--revisit: %w", err)
	}
	return nil
}
