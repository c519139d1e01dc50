package state

import "drumbeat/weburl"

// Accounts are the numbers and key sums that the manifest keeps of a crawl's URLs.
type Accounts struct {
	Unique   weburl.Sum            `json:"unique"`
	Names    weburl.Sum            `json:"names"` // merged names of hosts and PLDs
	Places   [NumPlaces]weburl.Sum `json:"places"`
	Refused  [NumReasons]int64     `json:"refused"` // in PlaceRefused or PlaceHeld
	Deferred [NumReasons]int64     `json:"later"`
	Counters [NumCounters]int64    `json:"counters"`
	Status   [6]int64              `json:"status"` // responses 1xx at 1 … 5xx at 5, others at 0
}

// Gained returns the number of URLs found plus the number ended. It grows while a crawl makes progress.
func (s *Accounts) Gained() int64 {
	return s.Unique.N + s.Places[PlaceFetched].N + s.Places[PlaceRefused].N
}

// lingering reports whether the crawl may end while URLs wait for this reason (Options.Linger).
func lingering(why Reason) bool {
	return why == ReasonRobotsUnavailable || why == ReasonHostBackoff || why == ReasonNotWelcome
}

// Lingering returns the number of deferred URLs with such a reason.
func (s *Accounts) Lingering() (n int64) {
	for why, deferred := range s.Deferred {
		if lingering(Reason(why)) {
			n += deferred
		}
	}
	return n
}
