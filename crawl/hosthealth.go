package crawl

import (
	"fmt"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/polite"
	"drumbeat/robots"
	"drumbeat/weburl"
)

// The health of hosts (package health) is kept in two places. RobotsCache has it for each origin: it says with each check
// whether a URL waits or ends, and counts on whatever becomes of RAM. It learns of an exchange by an update, which is sent only
// when there is something to tell: a failure, a refusal, or a success of a host that isn't well; so hosts that are cost nothing.
// And hostTable has, in RAM, the hosts in trouble, all origins of a host under one key: it decides at once, before the update has
// been merged. Where both know something, the later event counts.

// hostHealth is what the crawl knows of hosts in trouble. It has no goroutine; all may ask it at once.
type hostHealth struct {
	*engine
	hosts health.Table

	check     *robotsCheck
	deferrals *deferrals
}

// restoreHosts fills the table with what the last checkpoint has.
func (h *hostHealth) restoreHosts(ref disk.Ref) error {
	data, err := disk.ReadTail(h.Set, ref)
	if err != nil {
		return err
	}
	return h.hosts.Restore(data, time.Now())
}

// freeze copies the table.
func (h *hostHealth) freeze(m *moment) { m.hosts = h.hosts.Snapshot() }

// stateOf is what the table says of a host.
func (h *hostHealth) stateOf(host uint64, now time.Time) health.State {
	return h.hosts.Get(host, nil, now)
}

// doubted says whether the host's last failure was not confirmed; doubt notes one.
func (h *hostHealth) doubted(host uint64) bool { return h.hosts.Doubted(host) }

func (h *hostHealth) doubt(host uint64, onDisk *health.State) {
	h.hosts.Doubt(host, onDisk, time.Now())
}

// isClean says whether a host has given no trouble lately.
func (h *hostHealth) isClean(host uint64) bool {
	s := h.hosts.Get(host, nil, time.Now())
	return s.Clean()
}

// makePolicy is what the options say of hosts that fail or refuse.
func (o *Options) makePolicy() health.Policy {
	p := health.Defaults()
	p.Backoff, p.BackoffMax = o.Backoff, o.BackoffMax
	p.Failures, p.Rests, p.Refusals = o.HostFailures, o.HostRests, o.HostRefusals
	if o.tunePolicy != nil {
		o.tunePolicy(&p)
	}
	return p
}

// noteHost takes the end of a URL's exchange into account; part of the transaction that settles it. onDisk is what RobotsCache knew.
func (h *hostHealth) noteHost(tx *transaction, host uint64, rec *weburl.Record, onDisk *health.State,
	e health.Event) (health.Verdict, error) {
	now := time.Now()
	v, tell := h.hosts.Note(&h.policy, host, onDisk, e, now)
	if !tell {
		return v, nil
	}
	if e.Kind.Refused() > 0 {
		tx.count(state.CountRefusals, 1)
	}
	if e.Kind == health.Challenge {
		tx.count(state.CountChallenges, 1)
	}
	if v.Began {
		tx.count(state.CountHostRests, 1)
	}
	if v.Ended {
		tx.count(state.CountHostsGivenUp, 1)
	}
	if v.Began || v.Ended {
		// Debug: this is a transaction, for whose end all others wait, and there may be millions of hosts. The snapshot counts them.
		s := h.hosts.Get(host, onDisk, now)
		h.opt.Log.Debug("a host is left alone", "host", string(weburl.Split(rec.URL).Host), "state", s.String())
	}
	var buf [300]byte
	value := robots.AppendUpdateHead(make([]byte, 0, robots.UpdateHead+health.MaxEvent), robots.UpdateEvent, now)
	return v, h.check.learn(tx, weburl.AppendOrigin(buf[:0], rec.URL), e.Append(value))
}

// eventOf is what a response says of its host.
func eventOf(rec *weburl.Record, resp *fetch.Response) health.Event {
	e := health.Event{Kind: health.KindOf(resp.Status), Status: resp.Status}
	if resp.Status != 429 && health.Challenged(resp.Status, resp.Header, resp.Body) != "" {
		e.Kind = health.Challenge
		return e
	}
	switch e.Kind {
	case health.TooFast, health.ServerError:
		e.RetryAfter = retryAfter(resp, time.Now())
	case health.Refusal:
		e.Place = health.PlaceOf(string(weburl.Split(rec.URL).Path))
	}
	return e
}

// failureOf is what a failed exchange says of its host.
func failureOf(fe *fetch.Error) health.Event {
	switch fe.Kind {
	case fetch.KindTimeout:
		return health.Event{Kind: health.Timeout}
	case fetch.KindReset, fetch.KindEmptyReply:
		if fe.Stage == fetch.StageWrite || fe.Stage == fetch.StageFirstByte {
			return health.Event{Kind: health.Hangup}
		}
		return health.Event{Kind: health.Reset}
	case fetch.KindBadHead, fetch.KindHeadTooLarge:
		return health.Event{Kind: health.ServerError}
	}
	return health.Event{Kind: health.Unreachable}
}

// restReason is the reason of URLs that wait while their host rests. Those of a back-off are late, no more; the crawl's end
// waits for them.
func backoffReason(s *health.State, why health.Why) state.Reason {
	switch why {
	case health.Unwelcome:
		return state.ReasonNotWelcome
	case health.Asked, health.Failing:
		return state.ReasonHostBackoff
	}
	switch s.Last {
	case health.TooFast:
		return state.ReasonTooMany
	case health.Timeout:
		return state.ReasonTimeout
	case health.Reset, health.Hangup:
		return state.ReasonReset
	case health.Unreachable:
		return state.ReasonConnect
	}
	return state.ReasonServerError
}

// endReason is why URLs of a host that was given up end.
func endReason(end health.End) state.Reason {
	if end == health.NotWelcome {
		return state.ReasonNotWelcome
	}
	return state.ReasonHostGivenUp
}

// rests puts a URL off whose host rests for long, or ends it if the host was given up; part of a transaction. False if neither.
func (h *hostHealth) inBackoff(tx *transaction, host uint64, rec *weburl.Record, from state.Place, onDisk *health.State) (bool, error) {
	now := time.Now()
	s := h.hosts.Get(host, onDisk, now)
	if s.Clean() {
		return false, nil
	}
	if s.End != health.Open {
		return true, h.deferrals.refuse(tx, rec, from, endReason(s.End))
	}
	until, why, ok := s.InBackoff(now)
	if !ok {
		return false, nil
	}
	return true, h.deferrals.deferURL(tx, rec, from, until, backoffReason(&s, why))
}

// restingError says that a host may not be asked before a time, not even for its robots.txt.
type backoffError struct{ until time.Time }

func (e *backoffError) Error() string {
	return "crawl: the host rests until " + e.until.Format(time.RFC3339)
}

// mayAsk returns a *restingError while a host rests for long, or for good.
func (h *hostHealth) mayAsk(host []byte) error {
	now := time.Now()
	s := h.hosts.Get(h.HostKey(host), nil, now)
	if s.End != health.Open {
		return &backoffError{now.Add(health.MaxRetryAfter)}
	}
	if until, _, ok := s.InBackoff(now); ok {
		return &backoffError{until}
	}
	return nil
}

// politeRest bounds the rest that package polite keeps for a host, all of whose origins it knows as one: its tables are bounded.
// Longer rests are held by RobotsCache and hostTable alone.
const politeBackoff = time.Hour

// ending is how an exchange ends: what polite must know, and what follows for the host.
type ending struct {
	polite.Result
	health health.Verdict
}

// rest makes the host rest as the verdict says.
func (e *ending) rest(v health.Verdict) {
	e.health = v
	e.Backoff = max(e.Backoff, min(v.Rest, politeBackoff))
	if v.End != health.Open {
		e.Backoff = politeBackoff
	}
}

// clearHost sends the URLs of a resting host to disk, or ends them if it was given up; part of a step.
func (h *hostHealth) clearHost(tx *transaction, host uint64, v health.Verdict) error {
	now := time.Now()
	items := h.polite.EvictHost(now, host, health.Short/2)
	if v.Why == health.BackOff && v.End == health.Open {
		return h.deferrals.evicted(tx, items, state.ReasonHostBacklog)
	}
	for _, item := range items {
		var rec weburl.Record
		if err := rec.Decode(item.Rec); err != nil {
			return fmt.Errorf("crawl: record in RAM: %w", err)
		}
		if rests, err := h.inBackoff(tx, host, &rec, state.PlaceRAM, nil); err != nil {
			return err
		} else if rests {
			continue
		}
		if err := h.deferrals.deferURL(tx, &rec, state.PlaceRAM, item.Due, state.ReasonHostBacklog); err != nil {
			return err
		}
	}
	return nil
}
