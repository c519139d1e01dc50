package flags

import (
	"fmt"
	"time"

	"drumbeat/crawl"
	"drumbeat/internal/human"
)

// Health holds the flags for hosts that fail or refuse.
type Health struct {
	Backoff    backoff       `group:"politeness" type:"parts" placeholder:"DURATION"`
	GiveUp     giveUp        `group:"politeness" type:"parts" placeholder:"PARTS"`
	RobotsWait time.Duration `group:"politeness" placeholder:"DURATION" default:"30d"`
}

// backoff is the time to leave a host alone after a failure, and the longest.
type backoff struct {
	First time.Duration `part:"" default:"10s" least:"1ms"`
	Most  time.Duration `part:"max" default:"1h" least:"1ms"`
	Asked time.Duration `part:"retry-after" default:"30d" least:"1s" most:"60d"`
}

// giveUp says after how many faults a host gets long back-offs, and none of our requests at last.
type giveUp struct {
	Failures Count `part:"failures" default:"10" most:"10000"`
	Rests    Count `part:"backoffs" default:"5" most:"10000"`
	Refusals Count `part:"refusals" default:"10" most:"10000"`
}

// robotsForget is the time for which a host is remembered that nothing asks for. The paper expunges such hosts, but
// has no figure; 30 days are as long as the default of RobotsWait.
const robotsForget = 720 * time.Hour

// Check returns the first fault. It does not check for negative durations: the crawl command does, for all
// its flags.
func (h *Health) Check() error {
	if b := h.Backoff; b.Most < b.First {
		return fmt.Errorf("--backoff: max=%v is less than %v", human.Exact(b.Most), human.Exact(b.First))
	}
	return nil
}

// Apply sets a crawl's options.
func (h *Health) Apply(o *crawl.HealthOptions) {
	o.Backoff, o.BackoffMax, o.RobotsWait, o.RobotsForget = h.Backoff.First, h.Backoff.Most, h.RobotsWait, robotsForget
	o.RetryAfterMax = h.Backoff.Asked
	g := &h.GiveUp
	o.HostFailures, o.HostRests, o.HostRefusals = int(g.Failures), int(g.Rests), int(g.Refusals)
}
