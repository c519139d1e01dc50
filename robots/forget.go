package robots

import "time"

// Last returns the latest of all times in h: when its rules, its addresses, a retry or a back-off of the
// host end, or when they were learned. For an origin in use it is recent, because each of its URLs needs
// rules at most a day old. So no extra record is needed to tell which origins are in use.
func (h *HostData) Last() (last time.Time) {
	for _, t := range [...]time.Time{h.Fetched, h.Expires, h.RetryAt, h.AddrExpires, h.FailingSince,
		h.Health.At, h.Health.Until} {
		if t.After(last) {
			last = t
		}
	}
	return last
}
