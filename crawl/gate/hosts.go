package gate

import (
	"fmt"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/fetcher"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/health"
	"drumbeat/robots"
	"drumbeat/state"
	"drumbeat/weburl"
)

// The health of hosts (package health) is kept in two places. RobotsCache holds it durably for each origin
// and includes it in each check. It learns of an exchange by an update, which is sent only after a failure,
// a refusal, or a success of a host in trouble, so healthy hosts cost nothing. health.Table holds the hosts
// in trouble in RAM, with all origins of a host under one key. It takes effect at once, before the update
// is merged. If both know something, the later event counts.

// Hosts is the state of the hosts in trouble. It has no goroutine and is safe for concurrent use.
type Hosts struct {
	saved  *state.Saved
	opt    *Options
	others Others
	learn  func(tx *account.Tx, origin, update []byte) error // Check.learn
	table  health.Table
}

// NewHosts returns Hosts. NewCheck and Requests.Wire must give it the other stages before a run.
func NewHosts(saved *state.Saved, opt *Options) *Hosts { return &Hosts{saved: saved, opt: opt} }

// Restore restores the table from the last checkpoint.
func (h *Hosts) Restore(ref disk.Ref) error {
	data, err := disk.ReadTail(h.saved.Set, ref)
	if err != nil {
		return err
	}
	return h.table.Restore(data, time.Now())
}

// Add adds hosts of slots that move here from another node.
func (h *Hosts) Add(data []byte) error { return h.table.Add(data, time.Now()) }

// Freeze copies the table.
func (h *Hosts) Freeze() []health.Entry { return h.table.Snapshot() }

// StateOf returns the state of a host in the table.
func (h *Hosts) StateOf(host uint64, now time.Time) health.State {
	return h.table.Get(host, nil, now)
}

// InBackoff reports whether a host is in back-off, even a short one, or given up. Package polite forgets short
// back-offs when the program ends, but the table of hosts in trouble does not.
func (h *Hosts) InBackoff(host uint64, now time.Time) bool {
	s := h.StateOf(host, now)
	return s.End != health.Open || now.Before(s.Until)
}

// Doubted reports whether the host's last failure was unconfirmed.
func (h *Hosts) Doubted(host uint64) bool { return h.table.Doubted(host) }

// Doubt records an unconfirmed failure of a host.
func (h *Hosts) Doubt(host uint64, onDisk *health.State) {
	h.table.Doubt(host, onDisk, time.Now())
}

// IsClean reports whether a host has had no trouble lately.
func (h *Hosts) IsClean(host uint64) bool {
	s := h.table.Get(host, nil, time.Now())
	return s.Clean()
}

// Note records the end of a URL's exchange. It is part of the transaction that settles it. onDisk is the state in
// RobotsCache.
func (h *Hosts) Note(tx *account.Tx, host uint64, rec *weburl.Record, onDisk *health.State,
	e health.Event) (health.Verdict, error) {
	now := time.Now()
	e.Seed = max(1, uint8(host)) // 0 would lengthen nothing
	v, tell := h.table.Note(h.opt.Policy, host, onDisk, e, now)
	if !tell {
		return v, nil
	}
	switch {
	case e.Kind == health.Payment:
		tx.Count(state.CountPayments, 1)
	case e.Kind.Refused() > 0:
		tx.Count(state.CountRefusals, 1)
	}
	if e.Kind == health.Challenge {
		tx.Count(state.CountChallenges, 1)
	}
	if v.Began {
		tx.Count(state.CountHostRests, 1)
	}
	if v.Ended {
		tx.Count(state.CountHostsGivenUp, 1)
	}
	if v.Began || v.Ended {
		// Log at Debug only: there may be millions of hosts. The snapshot counts them.
		s := h.table.Get(host, onDisk, now)
		tx.Late.Add(h.opt.Log.Debug, "host in back-off or given up", "host", string(weburl.Split(rec.URL).Host),
			"state", s.String())
	}
	var buf [300]byte
	value := robots.AppendUpdateHead(make([]byte, 0, robots.UpdateHead+health.MaxEvent), robots.UpdateEvent, now)
	return v, h.learn(tx, weburl.AppendOrigin(buf[:0], rec.URL), e.Append(value))
}

// EventOf returns what a response means for its host.
func EventOf(rec *weburl.Record, resp *fetch.Response) health.Event {
	e := health.Event{Kind: health.KindOf(resp.Status), Status: resp.Status}
	switch {
	case health.Payments(resp.Status, resp.EachHeader) != "":
		e.Kind = health.Payment
	case health.Challenged(resp.Status, resp.Header, resp.Body) != "":
		e.Kind = health.Challenge
		return e
	}
	switch e.Kind {
	case health.TooFast, health.ServerError:
		e.RetryAfter = fetcher.RetryAfter(resp, time.Now())
	case health.Refusal, health.Payment:
		e.Place = health.PlaceOf(string(weburl.Split(rec.URL).Path))
	}
	return e
}

// FailureOf returns what a failed exchange means for its host.
func FailureOf(fe *fetch.Error) health.Event {
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

// BackoffReason returns the reason of URLs that wait while their host backs off. URLs with a reason other
// than ReasonNotWelcome, ReasonPayment and ReasonHostBackoff are only late: the end of the crawl waits for them.
func BackoffReason(s *health.State, why health.Why) state.Reason {
	switch why {
	case health.Unwelcome:
		if s.Paying {
			return state.ReasonPayment
		}
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

// EndReason returns the reason of URLs whose host was given up.
func EndReason(end health.End) state.Reason {
	switch end {
	case health.NotWelcome:
		return state.ReasonNotWelcome
	case health.PaymentAsked:
		return state.ReasonPayment
	}
	return state.ReasonHostGivenUp
}

// DeferInBackoff defers a URL whose host is in a back-off of at least health.Short, or refuses it if the host was
// given up. It is part of a transaction. It returns false if it did neither.
func (h *Hosts) DeferInBackoff(tx *account.Tx, host uint64, rec *weburl.Record, from state.Place,
	onDisk *health.State) (bool, error) {
	now := time.Now()
	s := h.table.Get(host, onDisk, now)
	if s.Clean() {
		return false, nil
	}
	if s.End != health.Open {
		return true, h.others.Deferrals.Refuse(tx, rec, from, EndReason(s.End))
	}
	until, why, ok := s.InBackoff(now)
	if !ok {
		return false, nil
	}
	return true, h.others.Deferrals.DeferURL(tx, rec, from, until, BackoffReason(&s, why))
}

// backoffError reports that a host may not be asked before a time, not even for its robots.txt.
type backoffError struct{ until time.Time }

func (e *backoffError) Error() string {
	return "crawl: the host backs off until " + e.until.Format(time.RFC3339)
}

// MayAsk returns a *backoffError while a host is in a back-off of at least health.Short or given up.
func (h *Hosts) MayAsk(host []byte) error {
	now := time.Now()
	s := h.table.Get(h.saved.HostKey(host), nil, now)
	if s.End != health.Open {
		return &backoffError{now.Add(robots.Lifetime)}
	}
	if until, _, ok := s.InBackoff(now); ok {
		return &backoffError{until}
	}
	return nil
}

// PoliteBackoff limits the back-off in package polite, which has one for all origins of a host. Its tables
// are bounded. RobotsCache and health.Table hold longer back-offs.
const PoliteBackoff = time.Hour

// Clear moves the URLs of a host in back-off to disk, or refuses them if the host was given up. It is
// part of a transaction.
func (h *Hosts) Clear(tx *account.Tx, host uint64, v health.Verdict) error {
	now := time.Now()
	items := h.others.Heaps().EvictHost(now, host, health.Short/2)
	if v.Why == health.BackOff && v.End == health.Open {
		return h.others.Deferrals.Evicted(tx, items, state.ReasonHostBacklog)
	}
	for _, item := range items {
		var rec weburl.Record
		if err := rec.Decode(item.Rec); err != nil {
			return fmt.Errorf("crawl: record in RAM: %w", err)
		}
		if moved, err := h.DeferInBackoff(tx, host, &rec, state.PlaceRAM, nil); err != nil {
			return err
		} else if moved {
			continue
		}
		if err := h.others.Deferrals.DeferURL(tx, &rec, state.PlaceRAM, item.Due, state.ReasonHostBacklog); err != nil {
			return err
		}
	}
	return nil
}
