package gate

import (
	"context"
	"crypto/sha1"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl/fetcher"
	"drumbeat/crawl/inforce"
	"drumbeat/crawl/outage"
	"drumbeat/internal/bug"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// If a robots.txt redirects to a host of another node, this node asks that node, which keeps the host's delays.
// The owner follows all further redirects, asking other nodes in turn, and answers with the outcome.

// AskKind is the kind of these requests (Cluster.Ask).
const AskKind = "robots"

const (
	robotsAskFor  = 5 * time.Minute  // then the owner may be away: the request is made again later
	robotsAskWait = 30 * time.Second // a busy owner is asked again
	robotsAskSoon = 2 * time.Second  // and one that may not fetch yet
)

// robotsAsk is the request.
type robotsAsk struct {
	URL string `json:"url"` // the redirect's target, canonical
	Hop int    `json:"hop"` // number of redirects that led there
}

// robotsAnswer is the answer: the outcome, or a reason to ask again.
type robotsAnswer struct {
	Doubt       bool          `json:"doubt,omitempty"`       // the failure may be ours
	Unconfirmed bool          `json:"unconfirmed,omitempty"` // ask again: it is not confirmed
	Later       time.Duration `json:"later,omitempty"`       // ask again after it
	Kind        robots.Kind   `json:"kind"`
	Status      int           `json:"status,omitempty"`
	Body        []byte        `json:"body,omitempty"`
	Digest      []byte        `json:"digest,omitempty"` // SHA-1 of the body as received
	MaxAge      time.Duration `json:"max_age,omitempty"`
	HasMaxAge   bool          `json:"has_max_age,omitempty"`
	RetryAfter  time.Duration `json:"retry_after,omitempty"`
}

// askOwner asks the owner of a redirect's target for the outcome. If the owner was abandoned, the rules are unknown.
func (q *Requests) askOwner(ctx context.Context, url string, hop int, waits uint8,
	f *robots.Fetched) (doubt bool, _ error) {
	data, err := json.Marshal(robotsAsk{url, hop})
	if err != nil {
		return false, err
	}
	limited, cancel := context.WithTimeout(ctx, robotsAskFor)
	defer cancel()
	data, abandoned, err := q.others.Cluster.Ask(limited, weburl.Split([]byte(url)).Host, AskKind, data)
	if abandoned {
		f.Kind = robots.NetworkFailure
		return false, nil
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	var a robotsAnswer
	if err != nil || json.Unmarshal(data, &a) != nil || a.Kind > robots.Internal || len(a.Body) > RobotsBodyBytes {
		q.opt.Log.Debug("another node did not answer about a robots.txt", "url", url, "error", err)
		return false, &deferredError{until: time.Now().Add(askAgainAfter(waits)), waits: min(waits+1, robots.MaxWaits)}
	}
	switch {
	case a.Later > 0:
		return false, &deferredError{until: time.Now().Add(min(a.Later, robots.Lifetime)),
			waits: min(waits+1, robots.MaxWaits)}
	case a.Unconfirmed:
		return false, errUnconfirmed
	}
	f.Kind, f.Status, f.Body, f.MaxAge, f.HasMaxAge = a.Kind, a.Status, a.Body, max(0, a.MaxAge), a.HasMaxAge
	f.RetryAfter = max(0, min(a.RetryAfter, q.opt.Policy.RetryAfterMax))
	if len(a.Digest) == len(f.Digest) {
		f.Digest = [sha1.Size]byte(a.Digest)
	}
	return a.Doubt, nil
}

// askAgainAfter returns when an owner that has not answered is asked again: soon at first, since it may be starting.
func askAgainAfter(waits uint8) time.Duration { return min(robotsAskWait, time.Second<<min(waits, 5)) }

// AnswerRobots answers the requests of other nodes until ctx ends.
func (q *Requests) AnswerRobots(ctx context.Context) error {
	places := newRobotsPlaces()
	later := func() []byte {
		if q.others.Cluster.NoRequests() {
			return encodeRobots(&robotsAnswer{Later: robotsAskSoon})
		}
		return encodeRobots(&robotsAnswer{Later: robotsAskWait})
	}
	stop, err := q.others.Cluster.Answer(AskKind,
		func(asked context.Context, from int, data []byte) []byte {
			ask, ok := q.parseAsk(data)
			switch {
			case !ok:
				return encodeRobots(&robotsAnswer{Kind: robots.BadRedirect})
			case q.others.Cluster.Elsewhere(weburl.Split([]byte(ask.URL)).Host): // one node has another table
				return encodeRobots(&robotsAnswer{Later: robotsAskWait})
			}
			place, asked := places.take(asked, q.saved.PLDKey(weburl.Split([]byte(ask.URL)).Host))
			if place == nil {
				return later()
			}
			answer := q.robotsFor(asked, ask)
			// If this node stops, has failed, or has made room for another request, that says nothing about the site.
			if ended := places.give(place); ended || ctx.Err() != nil {
				return later()
			}
			return answer
		})
	if err != nil {
		return fmt.Errorf("crawl: answers to other nodes: %w", err)
	}
	<-ctx.Done()
	stop()
	return nil
}

func encodeRobots(a *robotsAnswer) []byte {
	data, err := json.Marshal(a)
	if err != nil || len(data) > cluster.MaxMessageBytes {
		panic("BUG: crawl: a robots.txt's outcome cannot be encoded") // its body has 500 KiB
	}
	return data
}

// parseAsk parses a request of another node. It comes from outside.
func (q *Requests) parseAsk(data []byte) (ask robotsAsk, ok bool) {
	if json.Unmarshal(data, &ask) != nil || ask.Hop < 1 || ask.Hop > robots.MaxHops {
		return ask, false
	}
	url, err := weburl.Canonical(ask.URL)
	return ask, err == nil && url == ask.URL
}

// robotsFor makes a request of another node, and returns its encoded outcome.
func (q *Requests) robotsFor(ctx context.Context, ask robotsAsk) []byte {
	url := ask.URL
	resp := q.others.Slots.Response()
	defer q.others.Slots.Release(resp)
	var f robots.Fetched
	var doubt bool
	if panicked := bug.Contained(func() (err error) {
		doubt, err = q.follow(ctx, &robots.Job{Tries: outage.ConfirmTries}, url, nil, ask.Hop,
			fetcher.Foreign, resp, &f)
		return err
	}); panicked != nil {
		var late *deferredError
		switch {
		case errors.As(panicked, &late):
			return encodeRobots(&robotsAnswer{Later: max(time.Millisecond, time.Until(late.until))})
		case ctx.Err() != nil:
			return encodeRobots(&robotsAnswer{Later: robotsAskWait})
		default:
			q.run.LogBug(url, panicked)
			return encodeRobots(&robotsAnswer{Unconfirmed: true})
		}
	}
	// f.Body is part of resp, which another request gets once it is released.
	return encodeRobots(&robotsAnswer{Doubt: doubt, Kind: f.Kind, Status: f.Status, Body: f.Body, MaxAge: f.MaxAge,
		HasMaxAge: f.HasMaxAge, RetryAfter: f.RetryAfter, Digest: f.Digest[:]})
}

// AskNow requests a URL, for its answer alone, if the delays of its host allow it now. what is its purpose, for tests;
// verdict is that on its certificate.
func (q *Requests) AskNow(ctx context.Context, what, url string, addrs []netip.Addr) (asked bool,
	verdict string, err error) {
	if !q.others.Slots.Take(ctx) {
		return false, "", ctx.Err()
	}
	host := weburl.Split([]byte(url)).Host
	item := &polite.Item{Host: q.saved.HostKey(host), PLD: q.saved.PLDKey(host), Addrs: addrs, Robots: true,
		Terms: q.opt.Sites.Terms(host)}
	g := q.others.Heaps().AdmitNow(time.Now(), item)
	if g == nil {
		q.others.Slots.Free()
		return false, "", nil
	}
	q.run.Hook(what + " " + url)
	resp := q.others.Slots.Response()
	defer q.others.Slots.Release(resp)
	_, err = q.getGranted(ctx, g, url, nil, resp, nil)
	return !errors.Is(err, inforce.ErrBlocked), resp.TLSVerdict, err
}
