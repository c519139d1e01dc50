package flags

import (
	"fmt"
	"time"

	"drumbeat/crawl"
)

// Health holds the flags for hosts that fail, that refuse, or that have too many pages.
type Health struct {
	Backoff      time.Duration `group:"politeness" placeholder:"DURATION" default:"10s"`
	BackoffMax   time.Duration `group:"politeness" placeholder:"DURATION" default:"1h"`
	HostFailures Count         `group:"politeness" placeholder:"N" default:"10"`
	HostRests    Count         `group:"politeness" placeholder:"N" default:"5"`
	HostRefusals Count         `group:"politeness" placeholder:"N" default:"10"`
	RobotsWait   time.Duration `group:"politeness" placeholder:"DURATION" default:"720h"`
	RobotsForget time.Duration `group:"politeness" placeholder:"DURATION" default:"720h"`
}

// Check returns the first fault. It does not check for negative durations: the crawl command does, for all
// its flags.
func (h *Health) Check() error {
	if h.BackoffMax < h.Backoff {
		return fmt.Errorf("--backoff-max %v is less than --backoff %v", h.BackoffMax, h.Backoff)
	}
	for _, n := range []struct {
		flag string
		v    Count
		most int64
	}{{"host-failures", h.HostFailures, 10_000}, {"host-rests", h.HostRests, 10_000},
		{"host-refusals", h.HostRefusals, 10_000}} {
		if n.v < 0 || int64(n.v) > n.most {
			return fmt.Errorf("--%s %d: must be between 0 and %d", n.flag, n.v, n.most)
		}
	}
	return nil
}

// Apply sets a crawl's options.
func (h *Health) Apply(o *crawl.HealthOptions) {
	o.Backoff, o.BackoffMax, o.RobotsWait, o.RobotsForget = h.Backoff, h.BackoffMax, h.RobotsWait, h.RobotsForget
	o.HostFailures, o.HostRests, o.HostRefusals = int(h.HostFailures), int(h.HostRests), int(h.HostRefusals)
}
