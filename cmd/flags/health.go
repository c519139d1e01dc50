package flags

import (
	"fmt"
	"time"

	"drumbeat/crawl"
)

// Health say what is done about hosts that fail or refuse, and about those that have too many pages.
type Health struct {
	Backoff         time.Duration `group:"manners" placeholder:"DURATION" default:"10s" help:"Leave a host alone for this long after 429, 503, another 5xx, a timeout, a reset or a failed connection. Each further failure doubles it. A longer Retry-After is obeyed, up to 24h at a time."`
	BackoffMax      time.Duration `group:"manners" placeholder:"DURATION" default:"1h" help:"Stop doubling at this time."`
	HostFailures    Count         `group:"manners" placeholder:"N" default:"10" help:"After so many failures in a row a host rests for 1h, then 2h, 4h … up to 24h, one request between. 0: never."`
	HostRests       Count         `group:"manners" placeholder:"N" default:"5" help:"After so many of these rests without any success it is given up, and its URLs are refused. 0: never."`
	HostRefusals    Count         `group:"manners" placeholder:"N" default:"10" help:"After so many 401 and 403 without a page between (a challenge page, and a connection cut right after the request, count as 3) a host rests a day, the next time a week, then it is left alone for good. 0: never."`
	RobotsWait      time.Duration `group:"manners" placeholder:"DURATION" default:"720h" help:"Refuse the URLs of a host whose robots.txt has been unreachable for this long. 0: never."`
	RobotsForget    time.Duration `group:"manners" placeholder:"DURATION" default:"720h" help:"Forget what is known of a host whose robots.txt expired so long ago and was not needed since. 0: never."`
	MaxPagesPerHost Count         `group:"limits" placeholder:"N" default:"0" help:"Fetch at most so many URLs of an origin (scheme, host and port); further ones are refused. 0: no limit."`
}

// Check returns the first fault but those of durations, which checkDelays finds.
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
			return fmt.Errorf("--%s %d: must lie between 0 and %d", n.flag, n.v, n.most)
		}
	}
	return nil
}

// Apply puts them into a crawl's options.
func (h *Health) Apply(o *crawl.Options) {
	o.Backoff, o.BackoffMax, o.RobotsWait, o.RobotsForget = h.Backoff, h.BackoffMax, h.RobotsWait, h.RobotsForget
	o.HostFailures, o.HostRests, o.HostRefusals = int(h.HostFailures), int(h.HostRests), int(h.HostRefusals)
	o.MaxPagesPerHost = int64(h.MaxPagesPerHost)
}
