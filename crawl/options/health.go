package options

import (
	"errors"
	"fmt"
	"time"

	"drumbeat/state"
)

// These are the defaults of Health.Backoff, BackoffMax and RetryAfterMax.
const (
	DefaultBackoff       = 10 * time.Second
	DefaultBackoffMax    = time.Hour
	DefaultRetryAfterMax = 30 * 24 * time.Hour
)

// Health says what becomes of hosts that fail, that refuse, or that have too many pages.
type Health struct {
	// Retries is the number of further attempts after a failed exchange of a URL; 0 for none.
	Retries int
	// Backoff is the back-off of a host after a failed exchange. It doubles with each further failure up to
	// BackoffMax. Defaults: 10 s, 1 h.
	Backoff, BackoffMax time.Duration
	// RetryAfterMax is the longest Retry-After that a host gets in full, at most health.MaxRetryAfter. Default: 30 d.
	RetryAfterMax time.Duration
	// After HostFailures consecutive failures a host enters a long back-off. After HostRests long back-offs
	// without a success it is given up. HostRefusals refusals without a page in between cause a back-off of
	// a day, then a week, then for good (package health). 0 means never.
	HostFailures, HostRests, HostRefusals int
	// RobotsWait is how long URLs wait for an unavailable robots.txt, from its first failure; 0 means
	// without limit.
	RobotsWait time.Duration
	// RobotsForget is how long the data of an origin are kept after they have expired and nothing used
	// them; 0 means for ever.
	RobotsForget time.Duration
	// MaxPagesPerHost limits the URLs of an origin (scheme, host, port) that are admitted to fetching, each
	// counted once; 0 means no limit. URLs fetched while there was no limit do not count.
	MaxPagesPerHost int64
}

// Defaults sets the zero fields.
func (o *Health) Defaults() {
	setDefault(&o.Backoff, DefaultBackoff)
	setDefault(&o.BackoffMax, max(DefaultBackoffMax, o.Backoff))
	setDefault(&o.RetryAfterMax, DefaultRetryAfterMax)
}

// Validate returns all errors in the group, joined.
func (o *Health) Validate() error {
	faults := negatives(named{"back-off", o.Backoff}, named{"longest back-off", o.BackoffMax},
		named{"longest Retry-After", o.RetryAfterMax},
		named{"wait for robots.txt", o.RobotsWait}, named{"time to forget robots.txt", o.RobotsForget})
	if o.HostFailures < 0 || o.HostRests < 0 || o.HostRefusals < 0 || o.MaxPagesPerHost < 0 {
		faults = append(faults,
			fmt.Errorf("crawl: failures %d, back-offs %d, refusals %d or pages %d of a host are negative",
				o.HostFailures, o.HostRests, o.HostRefusals, o.MaxPagesPerHost))
	}
	return errors.Join(faults...)
}

// Keep writes the group into what the manifest keeps of a run.
func (o *Health) Keep(run *state.LastRun) {
	run.Retries, run.Backoff, run.BackoffMax = o.Retries, o.Backoff.Milliseconds(), o.BackoffMax.Milliseconds()
	run.RetryAfterMax = o.RetryAfterMax.Milliseconds()
	run.HostFailures, run.HostRests, run.HostRefusals = o.HostFailures, o.HostRests, o.HostRefusals
	run.RobotsWait, run.RobotsForget = o.RobotsWait.Milliseconds(), o.RobotsForget.Milliseconds()
	run.MaxPagesPerHost = o.MaxPagesPerHost
}
