package robots

import (
	"drumbeat/internal/health"
	"encoding/binary"
	"fmt"
	"time"
)

// An update of RobotsCache has as value: kind, Unix second of the answer (8 bytes, little-endian), encoded HostData or
// health.Event.
const (
	UpdateOutcome byte = 1 // of a robots request, as if nothing had been known before
	UpdateAddrs   byte = 2 // of a DNS lookup alone
	UpdateEvent   byte = 3 // an exchange with the host; the value ends with a health.Event, not with HostData
	UpdateMissing byte = 4 // the name has no address, or none that may be connected to; nobody vouches for that
	UpdateGone    byte = 5 // so it is, and other names were answered
	UpdateHead         = 9
)

// AppendUpdate codes an update that carries host data.
func AppendUpdate(dst []byte, kind byte, now time.Time, h *HostData) []byte {
	return h.Append(AppendUpdateHead(dst, kind, now))
}

// AppendUpdateHead codes the head of an update; a health.Event follows UpdateEvent.
func AppendUpdateHead(dst []byte, kind byte, now time.Time) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, kind), uint64(now.Unix()))
}

// Update is a decoded update of RobotsCache.
type Update struct {
	Kind  byte
	At    time.Time
	Data  HostData     // of the other kinds
	Event health.Event // of updateEvent
}

// DecodeUpdate is the inverse of appendUpdate.
func DecodeUpdate(value []byte) (u Update, err error) {
	if len(value) < UpdateHead || value[0] < UpdateOutcome || value[0] > UpdateGone {
		return u, fmt.Errorf("crawl: update of RobotsCache begins % x", value[:min(len(value), UpdateHead)])
	}
	u.Kind, u.At = value[0], time.Unix(int64(binary.LittleEndian.Uint64(value[1:])), 0)
	if u.Kind == UpdateEvent {
		return u, u.Event.Decode(value[UpdateHead:])
	}
	return u, u.Data.Decode(value[UpdateHead:])
}

// Apply returns what is known of an origin once the update has come. now shows times that a clock which was ahead has noted: they
// count as now.
func (u *Update) Apply(known *HostData, p *health.Policy, agent string, now time.Time) HostData {
	at := u.At
	if at.After(now.Add(ClockSlack)) { // the clock was ahead
		at = now
	}
	switch h := &u.Data; {
	case u.Kind == UpdateEvent:
		known.Health.Note(p, u.Event, at)
		return *known
	case u.Kind == UpdateAddrs:
		known.SetAddrs(h.Addrs(), h.AddrExpires)
		known.MissingSince = time.Time{}
		return *known
	case u.Kind == UpdateMissing, u.Kind == UpdateGone:
		f := Fetched{Kind: NoSuchHost, Vouched: u.Kind == UpdateGone}
		if h.State == StateForbidden {
			f.Kind = ForbiddenAddress
		}
		return Outcome(known, &f, agent, at)
	case h.State == StateUnreachable:
		return Outcome(known, &Fetched{Kind: NetworkFailure, RetryAfter: h.RetryAt.Sub(u.At),
			Addrs: h.Addrs(), AddrExpires: h.AddrExpires}, agent, at)
	}
	u.Data.Health, u.Data.Pages = known.Health, known.Pages // it was made as if nothing had been known before
	return u.Data
}

// MaxValueBytes is the longest value of RobotsCache: an update with its head.
const MaxValueBytes = UpdateHead + 65<<10
