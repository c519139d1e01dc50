package crawl

import (
	"fmt"
	"sync"

	"drumbeat/weburl"
)

// Place is where a unique URL is. Every unique URL is in exactly one place at all times (docs/ARCHITECTURE.md, "Life
// of a URL").
type Place int

// The places, in the order of the ring.
const (
	PlaceUnstreamed  Place = iota // decided unique in URLseen's log, not yet emitted
	PlaceStar                     // waits in PLDindegree's buckets for its budget check
	PlaceBeast                    // in a BEAST queue Q(s)…Q(s+h)
	PlaceFailed                   // in QF: over budget
	PlaceRobotsCheck              // waits in RobotsCache's buckets
	PlaceAwaitRobots              // in QR: its host's robots.txt is being fetched
	PlaceReady                    // in Q, passed, waits for admission into RAM
	PlaceRAM                      // in the heaps or being fetched
	PlaceLater                    // waits for its due time on disk
	PlaceFetched                  // ended: one response stored
	PlaceRefused                  // ended: refused with a reason
	PlaceHeld                     // refused by the operator's own flags: tried again when a run has others
	numPlaces
)

var placeNames = [numPlaces]string{"unstreamed", "star", "beast", "failed", "robotscheck", "awaitrobots", "ready", "ram",
	"later", "fetched", "refused", "held"}

func (p Place) String() string { return placeNames[p] }

// Reason says why a URL was refused or put to later. The numbers are part of the record format: append only.
type Reason uint8

// The reasons.
const (
	ReasonNone Reason = iota
	ReasonRobots
	ReasonNoHost
	ReasonDNS
	ReasonConnect
	ReasonTimeout
	ReasonReset
	ReasonTLS
	ReasonBadResponse
	ReasonForbiddenAddress
	ReasonRobotsUnavailable
	ReasonHostBacklog
	ReasonTooMany
	ReasonServerError
	ReasonEvicted
	ReasonTwin
	ReasonAwaitRobots
	ReasonBadRecord
	ReasonForbiddenPort
	ReasonUnconfirmed
	ReasonLost
	ReasonPLDBusy
	ReasonNotWelcome  // the host said that it doesn't want us
	ReasonHostResting // the host failed many times in a row
	ReasonHostGivenUp // it did so again after its long rests
	ReasonHostPages   // the host has had --max-pages-per-host
	ReasonPLDPages    // the PLD has had --max-pages-per-pld
	ReasonBlocked     // the blacklist names host, PLD or network
	ReasonInternal    // a bug of this program, which its answer or its host's robots.txt brought to light
	numReasons
)

var reasonNames = [numReasons]string{"", "robots", "no-such-host", "dns-failure", "connect-failure", "timeout", "reset", "tls",
	"bad-response", "forbidden-address", "robots-unavailable", "host-backlog", "too-many-requests", "server-error",
	"made-room", "https-failed", "await-robots", "bad-record", "forbidden-port", "unconfirmed", "lost-to-damage", "pld-busy",
	"not-welcome", "host-resting", "host-given-up", "host-pages", "pld-pages", "blocked", "internal-error"}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason-%d", uint8(r))
}

// accounts keeps number and key sum of every place. The files are the truth; these are what the progress shows, what
// `audit` compares each file with, and, for ended URLs, the only memory of them.
type accounts struct {
	mu sync.Mutex // guards all; held for a few additions only
	s  accountsState
}

// accountsState is the coding of accounts in the manifest.
type accountsState struct {
	Unique   weburl.Sum            `json:"unique"`
	Names    weburl.Sum            `json:"names"` // of hosts and PLDs, merged
	Places   [numPlaces]weburl.Sum `json:"places"`
	Refused  [numReasons]int64     `json:"refused"` // in PlaceRefused or PlaceHeld
	Later    [numReasons]int64     `json:"later"`
	Counters [numCounters]int64    `json:"counters"`
	Status   [6]int64              `json:"status"` // responses by hundreds: 1xx at 1 … 5xx at 5, others at 0
}

// saved counts URLs found and URLs ended: what grows as a crawl gets on.
func (s *accountsState) saved() int64 {
	return s.Unique.N + s.Places[PlaceFetched].N + s.Places[PlaceRefused].N
}

// delta collects the moves of one step; it is applied under one hold of the lock.
type delta struct {
	moves     []move
	named     weburl.Sum // new names
	counts    [numCounters]int64
	dirty     bool
	status    int // hundreds of a response's status, 0 for others; valid if hasStatus
	hasStatus bool
	wakes     []signal
	nothing   bool // the step changed nothing: nobody need look at what it did
}

// Counter is a running total of the crawl, kept from its first run on (the paper's section VIII).
type Counter int

// The counters. The numbers are part of the manifest: append only.
const (
	CountLinks          Counter = iota // links parsed
	CountLinksInvalid                  // links that are no URL
	CountLinksScheme                   // links to other schemes than http and https
	CountLinksTooLong                  // links over the length limit
	CountLinksScope                    // links outside of the scope
	CountLinksDepth                    // links beyond the depth limit
	CountLinksFiltered                 // links that a filter or nofollow held back
	CountLinksCached                   // links met again in the RAM cache
	CountLinksChecked                  // links that went to URLseen
	CountEdges                         // PLD-PLD links sent to STAR
	CountSeeds                         // seed lines fed
	CountSeedsBad                      // seed lines refused
	CountAttempts                      // exchanges begun for URLs
	CountResponses                     // responses stored or counted as final
	CountPages                         // responses with status 200 and an HTML type
	CountRedirects                     // responses 3xx with a Location
	CountBytesWire                     // bytes received for URLs
	CountBytesBody                     // bytes of decoded bodies
	CountRobotsAttempts                // exchanges begun for robots.txt
	CountRobotsBytes                   // bytes received for robots.txt
	CountLookups                       // DNS lookups asked for
	CountLookupFailures                // of them without an address
	CountRetries                       // exchanges that failed and are tried again
	CountDeferrals                     // records put to later
	CountTruncated                     // bodies cut at a limit
	CountCheckpoints                   // durable manifests
	CountFetchMillis                   // time of exchanges, ms
	CountSeedPages                     // seeds that led to a page
	CountLinksDropped                  // links beyond the limit of one page
	CountLinksPort                     // links to ports that may not be connected to
	CountLinksDraining                 // links not queued: the crawl is draining
	CountDecodeCut                     // bodies whose decoding was cut: bombs, damage, codings nobody knows
	CountUnconfirmed                   // exchanges and lookups that failed and did not count: the fault could be ours
	CountLinksNoFollow                 // links that ask not to be followed; part of CountLinksFiltered
	CountLinksExtension                // links to files that are no HTML by their name
	CountLinksPathDepth                // links with too many path segments
	CountLinksRepeated                 // links whose path repeats a segment too often
	CountLinksParams                   // links with too many parameters
	CountLinksRules                    // links that the scope rules exclude
	CountLinksBlocked                  // links to what the blacklist names
	CountURLsRewritten                 // links from which parameters were taken, or whose query or slashes were put in order
	CountSitemaps                      // sitemaps read
	CountSitemapURLs                   // URLs found in them
	CountSitemapFaults                 // sitemaps that could not be read to their end, and URLs in them that may not be there
	CountNoIndex                       // pages that ask not to be indexed
	CountBodiesRefused                 // bodies not read because of their type
	CountSniffed                       // pages of another declared type that are HTML by their bytes
	CountRefusals                      // answers that say that we aren't welcome: 401, 403, challenges, resets
	CountChallenges                    // of them challenge pages
	CountHostRests                     // long rests that hosts were sent to because they failed or refused many times
	CountHostsGivenUp                  // hosts given up for good
	CountLinksRedirects                // redirects that lead further from a page than MaxRedirects
	CountInternalErrors                // answers that made this program panic, which was contained
	CountRobotsStored                  // exchanges for robots.txt whose records are in WARC files
	CountDNSStored                     // DNS answers in them
	numCounters
)

// wake raises a signal once the step has been accounted for.
func (d *delta) wake(s signal) { d.wakes = append(d.wakes, s) }

// response counts a response by its status.
func (d *delta) response(status int) {
	d.status, d.hasStatus, d.dirty = status/100, true, true
	if d.status < 1 || d.status > 5 {
		d.status = 0
	}
}

// count adds to a counter.
func (d *delta) count(c Counter, n int64) { d.counts[c] += n; d.dirty = true }

type move struct {
	key      uint64
	from, to Place
	reason   Reason
	was      Reason
}

// enter notes a new unique URL.
func (d *delta) enter(key uint64, to Place) {
	d.moves = append(d.moves, move{key: key, from: -1, to: to})
}

// move notes that a URL changed its place.
func (d *delta) move(key uint64, from, to Place) {
	d.moves = append(d.moves, move{key: key, from: from, to: to})
}

func (a *accounts) apply(d *delta) {
	if len(d.moves) == 0 && !d.dirty && d.named.N == 0 {
		return
	}
	a.mu.Lock()
	for _, m := range d.moves {
		if m.from < 0 {
			a.s.Unique.Add(m.key)
		} else {
			a.s.Places[m.from].Sub(m.key)
		}
		a.s.Places[m.to].Add(m.key)
		if m.to == PlaceRefused || m.to == PlaceHeld {
			a.s.Refused[m.reason]++
		}
		if m.from == PlaceHeld {
			a.s.Refused[m.was]--
		}
		if m.to == PlaceLater {
			a.s.Later[m.reason]++
		}
		if m.from == PlaceLater {
			a.s.Later[m.was]--
		}
	}
	a.s.Names.Merge(d.named)
	if d.dirty {
		for i, n := range d.counts {
			a.s.Counters[i] += n
		}
		if d.hasStatus {
			a.s.Status[d.status]++
		}
	}
	a.mu.Unlock()
	d.reset()
}

func (d *delta) reset() {
	d.moves, d.named = d.moves[:0], weburl.Sum{}
	if d.dirty {
		d.counts = [numCounters]int64{}
		d.dirty, d.hasStatus = false, false
	}
}

// copy returns the accounts of this moment.
func (a *accounts) copy() accountsState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.s
}

// places returns the number of URLs in a few places.
func (a *accounts) in(places ...Place) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var n int64
	for _, p := range places {
		n += a.s.Places[p].N
	}
	return n
}

// stock is what the paper's right half holds: the URLs that BEAST has released and that do not wait for a due time.
func (a *accounts) stock() int64 {
	return a.in(PlaceRobotsCheck, PlaceAwaitRobots, PlaceReady, PlaceRAM)
}
