package flags

import (
	"fmt"
	"time"

	"drumbeat/crawl"
)

// Health holds the flags for hosts that fail, that refuse, or that have too many pages.
type Health struct {
	Backoff         time.Duration `group:"politeness" placeholder:"DURATION" default:"10s" help:"Back off from a host for this long after a 429, 503 or other 5xx, a timeout, a reset or a failed connection. Each further failure doubles it. A longer Retry-After takes precedence, up to 24h at a time."`
	BackoffMax      time.Duration `group:"politeness" placeholder:"DURATION" default:"1h" help:"Stop doubling the back-off at this time."`
	HostFailures    Count         `group:"politeness" placeholder:"N" default:"10" help:"Back off from a host for 1h after N consecutive failures, then for 2h, 4h and so on up to 24h, with one request between. 0 disables."`
	HostRests       Count         `group:"politeness" placeholder:"N" default:"5" help:"Give up a host, and refuse its URLs, after N of these long back-offs without a success. 0 disables."`
	HostRefusals    Count         `group:"politeness" placeholder:"N" default:"10" help:"Back off from a host for a day after N responses of 401 or 403 without a page between, for a week the next time, and then never contact it again. A challenge page, or a connection cut right after the request, counts as 3. 0 disables."`
	RobotsWait      time.Duration `group:"politeness" placeholder:"DURATION" default:"720h" help:"Refuse the URLs of a host whose robots.txt has been unreachable for this long, or for a day if TLS fails. 0: wait forever."`
	RobotsForget    time.Duration `group:"politeness" placeholder:"DURATION" default:"720h" help:"Forget what is known of a host this long after its robots.txt expired, unless it was needed since. 0: never."`
	MaxPagesPerHost Count         `group:"limits" placeholder:"N" default:"0" help:"Fetch at most N URLs of an origin (scheme, host and port); refuse further ones. 0: no limit."`
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
	}{{"host-failures", h.HostFailures, 10_000}, {"host-rests", h.HostRests, 10_000}, {"host-refusals", h.HostRefusals, 10_000},
		{"max-pages-per-host", h.MaxPagesPerHost, 1e12}} {
		if n.v < 0 || int64(n.v) > n.most {
			return fmt.Errorf("--%s %d: must be between 0 and %d", n.flag, n.v, n.most)
		}
	}
	return nil
}

// Apply sets a crawl's options.
func (h *Health) Apply(o *crawl.Options) {
	o.Health.Backoff, o.Health.BackoffMax, o.Health.RobotsWait, o.Health.RobotsForget = h.Backoff, h.BackoffMax, h.RobotsWait, h.RobotsForget
	o.Health.HostFailures, o.Health.HostRests, o.Health.HostRefusals = int(h.HostFailures), int(h.HostRests), int(h.HostRefusals)
	o.Health.MaxPagesPerHost = int64(h.MaxPagesPerHost)
}
