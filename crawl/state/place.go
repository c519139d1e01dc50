package state

import "fmt"

// Place is where a unique URL is. Every unique URL is in exactly one place at all times (docs/ARCHITECTURE.md, "Life
// of a URL").
type Place int

// The places, in the order of the crawler.
const (
	PlaceUnstreamed  Place = iota // decided unique in URLseen's log, not yet emitted
	PlaceStar                     // waits in PLDindegree's buckets for its budget check
	PlaceBeast                    // in a BEAST queue Q(s)…Q(s+h)
	PlaceFailed                   // in QF: over budget
	PlaceRobotsCheck              // waits in RobotsCache's buckets
	PlaceAwaitRobots              // in QR: its host's robots.txt is being fetched
	PlaceReady                    // in Q, passed, waits for admission into RAM
	PlaceRAM                      // in the heaps or being fetched
	PlaceDeferred                 // waits for its due time on disk
	PlaceFetched                  // ended: one response stored
	PlaceRefused                  // ended: refused with a reason
	PlaceHeld                     // refused by the operator's own flags: tried again when a run has others
	NumPlaces
)

var PlaceNames = [NumPlaces]string{"unstreamed", "star", "beast", "failed", "robotscheck", "awaitrobots", "ready", "ram",
	"deferred", "fetched", "refused", "held"}

// String returns the name that users see.
func (p Place) String() string { return PlaceNames[p] }

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
	ReasonHTTPSFallback
	ReasonAwaitRobots
	ReasonBadRecord
	ReasonForbiddenPort
	ReasonUnconfirmed
	ReasonLost
	ReasonPLDBusy
	ReasonNotWelcome  // the host said that it doesn't want us
	ReasonHostBackoff // the host failed many times in a row
	ReasonHostGivenUp // it did so again after its long rests
	ReasonHostPages   // the host has had --max-pages-per-host
	ReasonPLDPages    // the PLD has had --max-pages-per-pld
	ReasonBlocked     // the blacklist names host, PLD or network
	ReasonInternal    // a bug of this program, which its answer or its host's robots.txt brought to light
	NumReasons
)

var reasonNames = [NumReasons]string{"", "robots", "no-such-host", "dns-failure", "connect-failure", "timeout", "reset", "tls",
	"bad-response", "forbidden-address", "robots-unavailable", "host-backlog", "too-many-requests", "server-error",
	"evicted", "https-fallback", "await-robots", "bad-record", "forbidden-port", "unconfirmed", "lost-to-damage", "pld-busy",
	"not-welcome", "host-backoff", "host-given-up", "host-pages", "pld-pages", "blocked", "internal-error"}

// String returns the name that users see; "" for none.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason-%d", uint8(r))
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
	NumCounters
)
