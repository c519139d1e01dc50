package robots

import (
	"encoding/binary"
	"fmt"
	"time"

	"drumbeat/internal/health"
)

// The value of an update of RobotsCache consists of the kind, the Unix second of the answer (8 bytes,
// little-endian) and an encoded HostData or health.Event.
const (
	UpdateOutcome byte = 1 // a robots request, evaluated without earlier knowledge
	UpdateAddrs   byte = 2 // a DNS lookup alone
	UpdateEvent   byte = 3 // an exchange with the host; a health.Event follows, not HostData
	UpdateMissing byte = 4 // the name has no address or only forbidden ones; unconfirmed
	UpdateGone    byte = 5 // as before, and other names were answered
	UpdateReserve byte = 6 // the answer about tdmrep.json; HostData has nothing but Reservations
	UpdateArrived byte = 7 // all that another node knew of the origin, whose slot has moved here
	UpdateHead         = 9
)

// AppendUpdate appends an update with host data.
func AppendUpdate(dst []byte, kind byte, now time.Time, h *HostData) []byte {
	return h.Append(AppendUpdateHead(dst, kind, now))
}

// AppendUpdateHead appends the head of an update. A health.Event follows for UpdateEvent.
func AppendUpdateHead(dst []byte, kind byte, now time.Time) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, kind), uint64(now.Unix()))
}

// Update is a decoded update of RobotsCache.
type Update struct {
	Kind  byte
	At    time.Time
	Data  HostData     // for all kinds but UpdateEvent
	Event health.Event // for UpdateEvent
}

// DecodeUpdate is the inverse of AppendUpdate.
func DecodeUpdate(value []byte) (u Update, err error) {
	if len(value) < UpdateHead || value[0] < UpdateOutcome || value[0] > UpdateArrived {
		return u, fmt.Errorf("robots: decode update: bad head % x", value[:min(len(value), UpdateHead)])
	}
	u.Kind, u.At = value[0], time.Unix(int64(binary.LittleEndian.Uint64(value[1:])), 0)
	if u.Kind == UpdateEvent {
		return u, u.Event.Decode(value[UpdateHead:])
	}
	return u, u.Data.Decode(value[UpdateHead:])
}

// Apply returns what is known about an origin after the update. seed is the origin's key. Times of the update later
// than now come from a clock that was ahead and count as now.
func (u *Update) Apply(seed uint64, known *HostData, p *health.Policy, agent string, now time.Time) HostData {
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
	case u.Kind == UpdateArrived:
		return *h
	case u.Kind == UpdateReserve:
		known.setReservations(h.Reservations)
		return *known
	case u.Kind == UpdateMissing, u.Kind == UpdateGone:
		f := Fetched{Kind: NoSuchHost, Vouched: u.Kind == UpdateGone, Seed: seed}
		if h.State == StateForbidden {
			f.Kind = ForbiddenAddress
		}
		return Outcome(known, &f, agent, at)
	case h.State == StateUnreachable:
		return Outcome(known, &Fetched{Kind: NetworkFailure, RetryAfter: h.RetryAt.Sub(u.At), TLS: h.TLS,
			Seed: seed, Addrs: h.Addrs(), AddrExpires: h.AddrExpires}, agent, at)
	}
	u.Data.Health, u.Data.Pages = known.Health, known.Pages // it was evaluated without earlier knowledge
	return u.Data
}

// MaxValueBytes is the size of the longest value of RobotsCache, an update with its head.
const MaxValueBytes = UpdateHead + 65<<10
