package crawl

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/fetch"
	"drumbeat/health"
	"drumbeat/polite"
	"drumbeat/weburl"
)

// The health of hosts (package health) is kept in two places. RobotsCache has it for each origin: it says with each check
// whether a URL waits or ends, and counts on whatever becomes of RAM. It learns of an exchange by an update, which is sent only
// when there is something to tell: a failure, a refusal, or a success of a host that isn't well; so hosts that are cost nothing.
// And hostTable has, in RAM, the hosts in trouble, all origins of a host under one key: it decides at once, before the update has
// been merged. Where both know something, the later event counts.

// hostTable holds what was noted of hosts lately. At maxTroubled entries the oldest is forgotten; RobotsCache goes on counting.
type hostTable struct {
	mu    sync.Mutex // guards all below; a leaf
	hosts map[uint64]*troubledHost
	first *troubledHost // the list by time of the last event, the oldest first
	last  *troubledHost
}

// troubledHost is a host that failed or refused lately, or has recovered since.
type troubledHost struct {
	key        uint64
	state      health.State
	at         time.Time // of the last event; state forgets it when all is well
	doubtful   bool      // its last exchange failed in a way that could be our fault; a restart forgets that
	prev, next *troubledHost
}

// maxTroubled bounds hostTable: some 200 bytes each, 13 MB in all.
const maxTroubled = 1 << 16

// get returns what is known of a host, given what RobotsCache knew of one of its origins; nil for nothing.
func (t *hostTable) get(key uint64, onDisk *health.State) health.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, _ := t.newest(key, onDisk)
	return s
}

// newest is get, and the entry if there is one; mu is held.
func (t *hostTable) newest(key uint64, onDisk *health.State) (health.State, *troubledHost) {
	h := t.hosts[key]
	switch {
	case h == nil && onDisk == nil:
		return health.State{}, nil
	case h == nil:
		return *onDisk, nil
	case onDisk != nil && onDisk.At.After(h.at):
		return *onDisk, h
	}
	return h.state, h
}

// note takes an event into account; tell says whether RobotsCache must know it.
func (t *hostTable) note(p *health.Policy, key uint64, onDisk *health.State, e health.Event, now time.Time) (v health.Verdict, tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, h := t.newest(key, onDisk)
	if h != nil && !e.Kind.Failed() {
		h.doubtful = false
	}
	if s.Clean() && e.Kind.Good() {
		return v, false
	}
	v = s.Note(p, e, now)
	h = t.touch(key, h)
	h.state, h.at = s, now
	return v, true
}

// doubt notes that an exchange failed in a way that could be our fault, and doubted asks for that.
func (t *hostTable) doubt(key uint64, onDisk *health.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, h := t.newest(key, onDisk)
	h = t.touch(key, h)
	h.state, h.doubtful = s, true
	if h.at.IsZero() {
		h.at = s.At
	}
}

func (t *hostTable) doubted(key uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[key]
	return h != nil && h.doubtful
}

// touch makes a host the newest one, which may be new, in the place of the oldest; mu is held.
func (t *hostTable) touch(key uint64, h *troubledHost) *troubledHost {
	if h != nil {
		t.unlink(h)
		t.append(h)
		return h
	}
	if t.hosts == nil {
		t.hosts = map[uint64]*troubledHost{}
	}
	if len(t.hosts) >= maxTroubled {
		old := t.first
		t.unlink(old)
		delete(t.hosts, old.key)
	}
	h = &troubledHost{key: key}
	t.hosts[key] = h
	t.append(h)
	return h
}

func (t *hostTable) append(h *troubledHost) {
	h.prev, h.next = t.last, nil
	if t.last == nil {
		t.first = h
	} else {
		t.last.next = h
	}
	t.last = h
}

func (t *hostTable) unlink(h *troubledHost) {
	if h.prev == nil {
		t.first = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next == nil {
		t.last = h.prev
	} else {
		h.next.prev = h.prev
	}
}

// hostEntry is an entry for the checkpoint.
type hostEntry struct {
	key   uint64
	state health.State
}

// snapshot returns the hosts that aren't well, the oldest event first.
func (t *hostTable) snapshot() []hostEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]hostEntry, 0, len(t.hosts))
	for h := t.first; h != nil; h = h.next {
		if !h.state.Clean() {
			list = append(list, hostEntry{h.key, h.state})
		}
	}
	return list
}

// dumpHosts codes entries: key (8 bytes, little-endian), length byte, coding of health.State.
func dumpHosts(list []hostEntry) (b []byte) {
	for i := range list {
		b = binary.LittleEndian.AppendUint64(b, list[i].key)
		at := len(b)
		b = list[i].state.Append(append(b, 0))
		b[at] = byte(len(b) - at - 1)
	}
	return b
}

// eachHost reads what dumpHosts wrote.
func eachHost(b []byte, f func(key uint64, s health.State)) error {
	for off := 0; off < len(b); {
		var s health.State
		if len(b)-off < 9 || len(b)-off < 9+int(b[off+8]) {
			return fmt.Errorf("crawl: health of hosts at the last checkpoint ends in the midst of an entry, at %d", off)
		}
		end := off + 9 + int(b[off+8])
		if err := s.Decode(b[off+9 : end]); err != nil {
			return fmt.Errorf("crawl: health of hosts at the last checkpoint, at %d: %w", off, err)
		}
		f(binary.LittleEndian.Uint64(b[off:]), s)
		off = end
	}
	return nil
}

// restoreHosts fills the table with what the last checkpoint has.
func (r *ring) restoreHosts(ref disk.Ref) error {
	data, err := disk.ReadTail(r.set, ref)
	if err != nil {
		return err
	}
	t := &r.hosts
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts = map[uint64]*troubledHost{}
	return eachHost(data, func(key uint64, s health.State) {
		if t.hosts[key] == nil && len(t.hosts) < maxTroubled {
			h := &troubledHost{key: key, state: s, at: s.At}
			t.hosts[key] = h
			t.append(h)
		}
	})
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

// noteHost takes the end of a URL's exchange into account; part of the step that settles it. onDisk is what RobotsCache knew.
func (r *ring) noteHost(d *delta, host uint64, rec *weburl.Record, onDisk *health.State,
	e health.Event) (health.Verdict, error) {
	now := time.Now()
	v, tell := r.hosts.note(&r.policy, host, onDisk, e, now)
	if !tell {
		return v, nil
	}
	if e.Kind.Refused() > 0 {
		d.count(CountRefusals, 1)
	}
	if e.Kind == health.Challenge {
		d.count(CountChallenges, 1)
	}
	if v.Began {
		d.count(CountHostRests, 1)
	}
	if v.Ended {
		d.count(CountHostsGivenUp, 1)
	}
	if v.Began || v.Ended {
		// Debug: this is a step, for whose end all others wait, and there may be millions of hosts. The snapshot counts them.
		s := r.hosts.get(host, onDisk)
		r.opt.Log.Debug("a host is left alone", "host", string(weburl.Split(rec.URL).Host), "state", s.String())
	}
	var buf [300]byte
	value := appendHead(make([]byte, 0, updateHead+health.MaxEvent), updateEvent, now)
	tuple := [1]drum.Tuple{{Key: drum.Key(r.hasher.OriginKey(weburl.AppendOrigin(buf[:0], rec.URL))), Op: drum.Update,
		Value: e.Append(value)}}
	d.wake(r.wakeRobots)
	return v, r.robotsCache.Add(tuple[:])
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
func restReason(s *health.State, why health.Why) Reason {
	switch why {
	case health.Unwelcome:
		return ReasonNotWelcome
	case health.Asked, health.Failing:
		return ReasonHostResting
	}
	switch s.Last {
	case health.TooFast:
		return ReasonTooMany
	case health.Timeout:
		return ReasonTimeout
	case health.Reset, health.Hangup:
		return ReasonReset
	case health.Unreachable:
		return ReasonConnect
	}
	return ReasonServerError
}

// endReason is why URLs of a host that was given up end.
func endReason(end health.End) Reason {
	if end == health.NotWelcome {
		return ReasonNotWelcome
	}
	return ReasonHostGivenUp
}

// lingering says whether the crawl's end doesn't wait for URLs put off for a reason (Options.Linger).
func lingering(why Reason) bool {
	return why == ReasonRobotsUnavailable || why == ReasonHostResting || why == ReasonNotWelcome
}

// lingering is how many of the URLs that wait are of that kind.
func (s *accountsState) lingering() (n int64) {
	for why, later := range s.Later {
		if lingering(Reason(why)) {
			n += later
		}
	}
	return n
}

// rests puts a URL off whose host rests for long, or ends it if the host was given up; part of a step. False if neither.
func (r *ring) rests(d *delta, host uint64, rec *weburl.Record, from Place, onDisk *health.State) (bool, error) {
	s := r.hosts.get(host, onDisk)
	if s.Clean() {
		return false, nil
	}
	if s.End != health.Open {
		return true, r.refuse(d, rec, from, endReason(s.End))
	}
	until, why, ok := s.Resting(time.Now())
	if !ok {
		return false, nil
	}
	return true, r.putOff(d, rec, from, until, restReason(&s, why))
}

// restingError says that a host may not be asked before a time, not even for its robots.txt.
type restingError struct{ until time.Time }

func (e *restingError) Error() string {
	return "crawl: the host rests until " + e.until.Format(time.RFC3339)
}

// mayAsk returns a *restingError while a host rests for long, or for good.
func (r *ring) mayAsk(host []byte) error {
	s := r.hosts.get(r.hostKey(host), nil)
	if s.End != health.Open {
		return &restingError{time.Now().Add(health.MaxRetryAfter)}
	}
	if until, _, ok := s.Resting(time.Now()); ok {
		return &restingError{until}
	}
	return nil
}

// politeRest bounds the rest that package polite keeps for a host, all of whose origins it knows as one: its tables are bounded.
// Longer rests are held by RobotsCache and hostTable alone.
const politeRest = time.Hour

// ending is how an exchange ends: what polite must know, and what follows for the host.
type ending struct {
	polite.Result
	health health.Verdict
}

// rest makes the host rest as the verdict says.
func (e *ending) rest(v health.Verdict) {
	e.health = v
	e.Backoff = max(e.Backoff, min(v.Rest, politeRest))
	if v.End != health.Open {
		e.Backoff = politeRest
	}
}

// clearHost sends the URLs of a resting host to disk, or ends them if it was given up; part of a step.
func (r *ring) clearHost(d *delta, host uint64, v health.Verdict) error {
	now := time.Now()
	items := r.polite.EvictHost(now, host, health.Short/2)
	if v.Why == health.BackOff && v.End == health.Open {
		return r.evicted(d, items, ReasonHostBacklog)
	}
	for _, item := range items {
		var rec weburl.Record
		if err := rec.Decode(item.Rec); err != nil {
			return fmt.Errorf("crawl: record in RAM: %w", err)
		}
		if rests, err := r.rests(d, host, &rec, PlaceRAM, nil); err != nil {
			return err
		} else if rests {
			continue
		}
		if err := r.putOff(d, &rec, PlaceRAM, item.Due, ReasonHostBacklog); err != nil {
			return err
		}
	}
	return nil
}
