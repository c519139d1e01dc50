package snapshot

import (
	"time"

	"drumbeat/state"
)

// WaitKind is the kind of thing that keeps connections idle.
type WaitKind uint8

// The kinds.
const (
	WaitNothing   WaitKind = iota // nearly all connections are busy
	WaitOperator                  // the operator paused the crawl
	WaitSpace                     // a disk is full
	WaitOutage                    // the network or the name servers fail
	WaitLeases                    // the other nodes do not hear this one
	WaitDisowned                  // the other nodes have abandoned this one
	WaitPages                     // other nodes have the rest of the page limit
	WaitLimit                     // a limit of the operator: rate, bandwidth, connections
	WaitAnswers                   // all hosts with URLs in RAM are being asked
	WaitDelay                     // a delay that the operator or the site set
	WaitBackoff                   // a back-off after failures or refusals
	WaitNetwork                   // other nodes visit the networks
	WaitAdmission                 // URLs on disk are on their way into RAM
	WaitRobots                    // robots.txt or DNS
	WaitDisk                      // a merge, or BEAST
	WaitDue                       // all URLs left are deferred
	WaitSeeds                     // the seed file is being read
	WaitNodes                     // other nodes may have more work
	WaitLinks                     // nothing is left but what is under way; the last kind
)

// Wait says why connections are idle.
type Wait struct {
	Kind WaitKind
	Text string // "" when nearly all connections are busy
	// Until is the earliest time at which a request is due again; zero if it is unknown or has come.
	Until time.Time
	// Of the hosts with URLs in RAM that a delay holds, Held is the number of those with this kind of wait.
	// Host is one of them; "" if its name is unknown.
	Held, Hosts int
	Host        string
}

// Window counts the events of a recent time.
type Window struct {
	Over                       time.Duration // its length; 0 before the second snapshot
	Responses, Pages, Failures int64
	Errors                     int64            // Responses that are health.TooFast or health.ServerError
	Failed                     map[string]int64 // Failures by reason
	New, Ended                 int64            // unique URLs found, and URLs fetched or refused
	Bytes, Links               int64            // received, also for robots.txt, and found
}

// Rate returns the number of events a second.
func (w *Window) Rate(n int64) float64 {
	if w.Over <= 0 {
		return 0
	}
	return float64(n) / w.Over.Seconds()
}

// Browser describes the connection to the browser of --render.
type Browser struct {
	Waiting int64     // pages that wait for it
	Gone    time.Time // when it was lost or not found, until a page is rendered again; zero: it works, or has no page
	Why     string    // the last error; "" with Gone
	Back    bool      // it is there again
	Losses  int       // times that it was lost with a page, or not found, since it last rendered one
	Over    bool      // the crawl does not start it again
}

// Ended returns the number of URLs that were fetched or refused.
func (s *Snapshot) Ended() int64 { return s.Place(state.PlaceFetched) + s.Place(state.PlaceRefused) }

// Queued returns the number of URLs that are left to fetch or refuse, without those over budget or held by flags.
func (s *Snapshot) Queued() (n int64) {
	for p := range state.NumPlaces {
		n += s.Places[p]
	}
	return n - s.Ended() - s.Place(state.PlaceOverBudget) - s.Place(state.PlaceHeld)
}
