package gate

import (
	"context"
	"errors"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// RestAfter returns the back-off of a host after an exchange that was not for a page; 0 for none.
func RestAfter(resp *fetch.Response, err error) time.Duration {
	switch {
	case err != nil:
		return RobotsBackoff
	case health.KindOf(resp.Status) == health.TooFast:
		return max(RobotsBackoff, min(fetcher.RetryAfter(resp, time.Now()), PoliteBackoff))
	}
	return 0
}

// RulesOf requests the robots.txt of an origin and returns its rules. Nothing keeps them.
func (q *Requests) RulesOf(ctx context.Context, origin string) (*robots.HostData, error) {
	job := robots.Job{Origin: []byte(origin)}
	var f robots.Fetched
	resp := q.others.Slots.Response()
	defer q.others.Slots.Release(resp)
	for {
		var err error
		f = robots.Fetched{}
		if f.Addrs, f.AddrExpires, err = q.outages.Lookup(ctx, weburl.Split(job.Origin).Host, 0); err != nil {
			return nil, err
		}
		_, err = q.getRobots(ctx, &job, resp, &f)
		var late *deferredError
		if err == nil {
			break
		} else if !errors.As(err, &late) {
			return nil, err
		}
		job.Waits = late.waits
		if !account.Sleep(ctx, time.Until(late.until)) {
			return nil, ctx.Err()
		}
	}
	if !q.enterRobots(ctx) {
		return nil, ctx.Err()
	}
	defer q.leaveRobots()
	h, _ := q.readRobots(&job, &f, time.Now())
	kept := new(robots.HostData)
	return kept, kept.Decode(h.Append(nil)) // a copy: the rules may refer to the response
}
