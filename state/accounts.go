package state

import (
	"encoding/json"
	"fmt"
	"strconv"

	"drumbeat/cluster"
	"drumbeat/weburl"
)

// Accounts are the numbers and key sums that the manifest keeps of a crawl's URLs.
type Accounts struct {
	Unique weburl.Sum `json:"unique"`
	Orders weburl.Sum `json:"orders,omitzero"` // second records of URLs, which the operator has enqueued
	Names  weburl.Sum `json:"names"`           // merged names of hosts and PLDs
	// Moved are the URLs that ended on this node of a cluster and whose slots were moved to others, minus
	// those that ended on others and whose slots were moved here: Unique, Orders and Moved together are the
	// sum of Places.
	Moved weburl.Sum `json:"moved,omitzero"`
	// Given and Got are the URLs of slots that moved to others, and here, while the crawl ran: those that were sent,
	// and those that have come. They are part of Moved.
	Given    cluster.MovedSums     `json:"given,omitzero"`
	Got      cluster.MovedSums     `json:"got,omitzero"`
	Places   [NumPlaces]weburl.Sum `json:"places"`
	Refused  [NumReasons]int64     `json:"refused"` // in PlaceRefused or PlaceHeld
	Deferred [NumReasons]int64     `json:"later"`
	Counters [NumCounters]int64    `json:"counters"`
	Status   [6]int64              `json:"status"` // responses 1xx at 1 … 5xx at 5, others at 0
	Codes    Codes                 `json:"codes"`  // as Status, since the crawl counts them
	Failed   [NumReasons]int64     `json:"failed"` // attempts for URLs without a final response
	Peak     Peak                  `json:"peak"`
}

// Parsed returns the number of links found in pages, those included that are no URL of http or https.
func (s *Accounts) Parsed() int64 {
	return s.Counters[CountLinks] + s.Counters[CountLinksInvalid] + s.Counters[CountLinksScheme] +
		s.Counters[CountLinksTooLong] + s.Counters[CountLinksNoFollow]
}

// Checked returns the number of links that passed all filters: those that the RAM cache held and those sent to
// URLseen. It is the K of the paper's section VIII.A.
func (s *Accounts) Checked() int64 {
	return s.Counters[CountLinksCached] + s.Counters[CountLinksChecked]
}

// UniqueShare returns the paper's p: unique URLs for each link that passed all filters; 0 without a link.
func (s *Accounts) UniqueShare() float64 {
	if n := s.Checked(); n > 0 {
		return float64(s.Unique.N) / float64(n)
	}
	return 0
}

// Codes counts responses by status code, those outside of 100 to 999 at 0. In JSON it is an object of the
// codes that occurred.
type Codes [1000]int64

// CodeAt returns the index of a status code in Codes.
func CodeAt(code int) int {
	if code < 100 || code > 999 {
		return 0
	}
	return code
}

// MarshalJSON implements json.Marshaler.
func (c Codes) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for code, n := range c {
		if n == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(append(b, '"'), int64(code), 10), `":`...)
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Codes) UnmarshalJSON(data []byte) error {
	var by map[int]int64
	if err := json.Unmarshal(data, &by); err != nil {
		return err
	}
	*c = Codes{}
	for code, n := range by {
		if code < 0 || code >= len(c) {
			return fmt.Errorf("crawl: status code %d", code)
		}
		c[code] = n
	}
	return nil
}

// Peak has the highest means over ten minutes of a crawl; 0 for a crawl that never ran for ten minutes.
type Peak struct {
	Pages float64 `json:"pages"` // per second
	Bits  float64 `json:"bits"`  // received per second
}

// Gained returns the number of URLs found plus the number ended. It grows while a crawl makes progress.
func (s *Accounts) Gained() int64 {
	return s.Unique.N + s.Places[PlaceFetched].N + s.Places[PlaceRefused].N
}

// Waiting returns the number of URLs that are neither fetched nor refused.
func (s *Accounts) Waiting() (n int64) {
	for p := range s.Places {
		if p := Place(p); p != PlaceFetched && p != PlaceRefused {
			n += s.Places[p].N
		}
	}
	return n
}

// lingering reports whether the crawl may end while URLs wait for this reason (Options.Linger).
func lingering(why Reason) bool {
	return why == ReasonRobotsUnavailable || why == ReasonHostBackoff || why == ReasonNotWelcome ||
		why == ReasonPayment
}

// Recrawled reports whether a URL was to be visited again, or was enqueued, so that URLs may have several responses.
func (s *Accounts) Recrawled() bool { return s.Counters[CountScheduled]+s.Ordered() > 0 }

// Ordered returns how many URLs were enqueued here, or at another node and came with their slots.
func (s *Accounts) Ordered() int64 { return s.Counters[CountEnqueued] + s.Counters[CountEnqueuedMoved] }

// Lingering returns the number of deferred URLs with such a reason.
func (s *Accounts) Lingering() (n int64) {
	for why, deferred := range s.Deferred {
		if lingering(Reason(why)) {
			n += deferred
		}
	}
	return n
}
