package state

import "drumbeat/weburl"

// Accounts is the coding of accounts in the manifest.
type Accounts struct {
	Unique   weburl.Sum            `json:"unique"`
	Names    weburl.Sum            `json:"names"` // of hosts and PLDs, merged
	Places   [NumPlaces]weburl.Sum `json:"places"`
	Refused  [NumReasons]int64     `json:"refused"` // in PlaceRefused or PlaceHeld
	Deferred [NumReasons]int64     `json:"later"`
	Counters [NumCounters]int64    `json:"counters"`
	Status   [6]int64              `json:"status"` // responses by hundreds: 1xx at 1 … 5xx at 5, others at 0
}

// Gained counts URLs found and URLs ended: what grows as a crawl gets on.
func (s *Accounts) Gained() int64 {
	return s.Unique.N + s.Places[PlaceFetched].N + s.Places[PlaceRefused].N
}

// lingering says whether the crawl's end doesn't wait for URLs deferred for a reason (Options.Linger).
func lingering(why Reason) bool {
	return why == ReasonRobotsUnavailable || why == ReasonHostBackoff || why == ReasonNotWelcome
}

// Lingering is how many of the URLs that wait are of that kind.
func (s *Accounts) Lingering() (n int64) {
	for why, later := range s.Deferred {
		if lingering(Reason(why)) {
			n += later
		}
	}
	return n
}
