package robots

import "time"

// Last returns the latest time of which h says anything: when its rules, its addresses, a retry or a rest of the host end, or were
// learned. An origin in use is never far behind, since each of its URLs needs rules that are a day old at most; so nothing need
// be written to tell what is in use.
func (h *HostData) Last() (last time.Time) {
	for _, t := range [...]time.Time{h.Fetched, h.Expires, h.RetryAt, h.AddrExpires, h.FailingSince, h.Health.At, h.Health.Until} {
		if t.After(last) {
			last = t
		}
	}
	return last
}
