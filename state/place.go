package state

import "strings"

// Place is where a unique URL is. It is in exactly one place at any time (docs/how-it-works/architecture.md,
// "Life of a URL").
type Place int

// The places, in the order of the crawler.
const (
	PlaceUnstreamed  Place = iota // unique in URLseen's log, not yet emitted
	PlaceStar                     // in PLDindegree's buckets, waits for its budget check
	PlaceBeast                    // in a numbered queue of BEAST
	PlaceOverBudget               // in QF: over budget
	PlaceRobotsCheck              // in RobotsCache's buckets
	PlaceAwaitRobots              // in QR: waits for its origin's robots.txt or addresses
	PlaceReady                    // in Q: allowed, waits for admission into RAM
	PlaceRAM                      // in the heaps or being fetched
	PlaceDeferred                 // on disk until its due time
	PlaceFetched                  // ended: one response stored
	PlaceRefused                  // ended: refused with a reason
	PlaceHeld                     // forbidden by the operator's flags; a run with other flags tries it again
	PlaceContent                  // fetched; waits for the verdict on its body
	NumPlaces
)

// PlaceNames are the names of places in JSON, metrics, logs of changes and exported tables. Text has Place.Text.
var PlaceNames = [NumPlaces]string{"unstreamed", "star", "beast", "failed", "robotscheck", "awaitrobots", "ready",
	"ram", "deferred", "fetched", "refused", "held", "content"}

// String returns the name of PlaceNames.
func (p Place) String() string { return PlaceNames[p] }

// Text returns the name in text for people.
func (p Place) Text() string { return PlaceText(PlaceNames[p]) }

// PlaceText returns a place in words, given its name of PlaceNames, or "ended", which explain has for a URL that was
// fetched or refused. Most places have the names of their stages; the others are words of this program, which
// programs read but people do not.
func PlaceText(name string) string {
	switch name {
	case PlaceOverBudget.String():
		return "over budget"
	case PlaceAwaitRobots.String():
		return "waiting for robots.txt"
	case PlaceHeld.String():
		return "not allowed"
	case "ended":
		return "done"
	case PlaceUnstreamed.String():
		return "new"
	case PlaceContent.String():
		return "content check"
	case PlaceRobotsCheck.String():
		return "robots.txt check"
	case PlaceRAM.String():
		return "in RAM"
	case PlaceStar.String(), PlaceBeast.String():
		return strings.ToUpper(name)
	}
	return name
}

// Counter is a total over all runs of a crawl. The counters follow section VIII of the paper.
type Counter int

// The counters. The numbers are in the manifest: append only.
const (
	CountLinks             Counter = iota // links parsed that are URLs of http or https
	CountLinksInvalid                     // links that are no URL
	CountLinksScheme                      // links with a scheme other than http and https
	CountLinksTooLong                     // links over the length limit
	CountLinksScope                       // links outside of the scope
	CountLinksDepth                       // links beyond the depth limit
	CountLinksFiltered                    // links that a filter or nofollow dropped
	CountLinksCached                      // links found in the RAM cache
	CountLinksChecked                     // links sent to URLseen
	CountEdges                            // PLD-PLD links sent to STAR
	CountSeeds                            // seed lines read
	CountSeedsBad                         // seed lines refused
	CountAttempts                         // requests started for URLs
	CountResponses                        // responses stored or counted as final
	CountPages                            // responses with status 200 and an HTML type
	CountRedirects                        // responses with status 3xx and a Location
	CountBytesWire                        // bytes received for URLs
	CountBytesBody                        // bytes of decoded bodies
	CountRobotsAttempts                   // requests started for robots.txt
	CountRobotsBytes                      // bytes received for robots.txt
	CountLookups                          // DNS lookups
	CountLookupFailures                   // DNS lookups without an address
	CountRetries                          // failed requests that are tried again
	CountDeferrals                        // records deferred
	CountTruncated                        // bodies cut at a limit
	CountCheckpoints                      // durable manifests
	CountFetchMillis                      // time of requests, ms
	CountSeedPages                        // seeds that led to a page
	CountLinksDropped                     // links beyond the limit of one page
	CountLinksPort                        // links to ports that are not allowed
	CountLinksDraining                    // links dropped because the crawl drains
	CountDecodeCut                        // bodies whose decoding stopped early: bombs, damage, unknown codings
	CountUnconfirmed                      // failed requests and lookups that do not count: maybe our fault
	CountLinksNoFollow                    // links that ask not to be followed; part of CountLinksFiltered
	CountLinksExtension                   // links to files whose extension is not that of a page
	CountLinksPathDepth                   // links with too many path segments
	CountLinksRepeated                    // links whose path repeats a segment too often
	CountLinksParams                      // links with too many parameters
	CountLinksRules                       // links that the scope rules exclude
	CountLinksBlocked                     // links to hosts that the blacklist names
	CountURLsRewritten                    // links with parameters removed, or query or slashes normalized
	CountSitemaps                         // sitemaps read
	CountSitemapURLs                      // URLs found in sitemaps
	CountSitemapFaults                    // sitemaps not read to their end, and URLs not allowed in them
	CountNoIndex                          // pages that ask not to be indexed
	CountBodiesRefused                    // bodies not read because of their type
	CountSniffed                          // pages with another declared type whose bytes are HTML
	CountRefusals                         // responses that refuse us: 401, 403, challenges, resets
	CountChallenges                       // challenge pages; part of CountRefusals
	CountHostRests                        // long back-offs of hosts after many failures or refusals
	CountHostsGivenUp                     // hosts given up
	CountLinksRedirects                   // redirects beyond the limit
	CountInternalErrors                   // contained panics of this program on a response
	CountRobotsStored                     // robots.txt requests with records in WARC files
	CountDNSStored                        // DNS answers in WARC files
	CountBytesSent                        // bytes sent for URLs
	CountBytesPages                       // bytes of the decoded bodies of pages
	CountCompressed                       // responses with a compressed body
	CountBytesCompressed                  // bytes of compressed bodies
	CountBytesUncompressed                // bytes of the same bodies, decoded
	CountConnections                      // connections opened, for URLs and robots.txt
	CountConnectionsReused                // exchanges on a kept connection
	CountRobotsBytesSent                  // bytes sent for robots.txt
	CountRobotsFailed                     // requests for robots.txt without a response
	CountRobotsStatusOther                // responses for robots.txt by class of status
	CountRobotsStatus1xx
	CountRobotsStatus2xx
	CountRobotsStatus3xx
	CountRobotsStatus4xx
	CountRobotsStatus5xx
	CountURLsPlaced   // URLs from STAR to BEAST's queues
	CountURLsOver     // URLs from STAR to QF: over budget
	CountURLsScanned  // URLs from QF to STAR
	CountURLsReplaced // URLs from BEAST's queues back to STAR: the budget function changed
	CountURLsReleased // URLs from BEAST to RobotsCache
	CountURLsUnknown  // URLs from RobotsCache to QR
	CountURLsAnswered // URLs from QR to RobotsCache
	CountURLsAllowed  // URLs from RobotsCache to Q
	CountURLsAdmitted // URLs from Q into RAM
	CountURLsDue      // URLs from the deferred ones to RobotsCache
	CountURLsDenied   // URLs that RobotsCache refused or set aside
	CountSpooled      // bodies stored from a spool
	CountBytesSpooled // bytes of them as received
	// Three counters for each of Codings, in their order: responses, bytes as received, bytes decoded. A body in
	// several codings counts under the last one applied. The sums are CountCompressed, CountBytesCompressed and
	// CountBytesUncompressed.
	CountCoded
	_
	_
	_
	CountBytesCoded
	_
	_
	_
	CountBytesUncoded
	_
	_
	_
	CountHTTP2          // responses for URLs over HTTP/2
	CountDuplicates     // responses whose body was seen before, as far as they were compared
	CountRevisits       // of them, those stored as revisit records
	CountBytesRevisits  // decoded bytes of the bodies that revisit records leave out
	CountContentLarge   // responses too large for the store of contents, stored without its verdict
	CountLinksDuplicate // links not taken because the body was seen before
	CountNoArchive      // responses that ask archives not to keep them
	CountHeadsStored    // responses stored without their body, because they ask for it
	CountOmitted        // responses not stored, because they ask for it
	CountHookAnswers    // pages that a hook answered for
	CountHookTimeouts   // requests to a hook without an answer in time
	CountHookFailures   // requests to a hook that ended, or that did not keep to the protocol
	CountHookRefused    // answers of a hook over a limit
	CountHookUnasked    // pages that no process of the hook was free for
	CountHookRestarts   // processes of the hook that were replaced
	CountHookMicros     // time that pages waited for the hook, µs
	CountHookDropped    // responses not stored because the hook said so
	CountHookUnfollowed // pages whose own links were not taken because the hook said so
	CountHookLinks      // links that the hook added
	CountLinksHook      // links of pages that the hook said not to take
	CountRepeated       // pages whose text is nearly that of an earlier page of the host
	CountTrapURLs       // unique URLs of hosts whose pages repeat one another
	CountScheduled      // next visits scheduled; 0: no URL of this crawl was to be visited again
	CountVisits         // responses of URLs that were visited before
	CountUnchanged      // of them, those with an unchanged page
	CountNotModified    // of these, those without a body: 304
	CountGone           // URLs given up because visits found no page
	CountEnqueued       // URLs that the operator has enqueued
	CountRenderWanted   // pages that a rule says to render
	CountRendered       // pages that the browser rendered
	CountRenderedCut    // of them, those taken at a limit (time, requests, bytes, size) or without all answers
	CountRenderedStored // rendered pages in WARC files
	CountRenderFailed   // pages that were to be rendered, and the browser failed
	CountRenderSkipped  // pages that were to be rendered, and are too large or found the queue full
	CountRenderRequests // requests made for rendered pages, robots.txt apart
	CountRenderCached   // requests of rendered pages answered from RAM
	CountRenderRefused  // requests of rendered pages that were not made
	CountRenderBytes    // bytes received for rendered pages
	CountRenderLinks    // links of rendered pages
	CountRenderLost     // connections to the browser that ended
	CountLinksWalk      // links kept for the random walk, which follows some of them
	CountLinksSent      // links sent to the nodes that own them
	CountLinksTaken     // links taken from other nodes
	CountEdgesSent      // PLD-PLD edges sent to the nodes that own their second PLD
	CountEdgesTaken     // PLD-PLD edges taken from other nodes
	CountSeedsElsewhere // seeds that other nodes own
	CountPagesLent      // pages of the limit that other nodes may fetch instead of this one
	CountPagesBorrowed  // pages of the limit that this node may fetch instead of others
	CountLinksAbandoned // links sent that were dropped, because their owner was given up
	CountEdgesAbandoned // PLD-PLD edges sent that were dropped, because the owner of their second PLD was given up
	CountURLsSized      // unique URLs whose sizes the next two counters have
	CountURLBytes       // bytes of these URLs without http:// or https://
	CountRecordBytes    // bytes of their records, the paper's b
	CountLinksForeign   // links to URLs that need secrets, found on other sites
	// Exchanges over TLS with a server whose certificate is not good, for each of TLSVerdicts.
	CountTLSBad
	_
	_
	_
	_
	_
	CountRenderAnswers    // answers to requests of rendered pages in WARC files
	CountRenderParts      // parts of rendered pages that became links
	CountRenderPartsCut   // parts of rendered pages beyond the limit of a page
	CountUsageMarked      // responses stored although their site refuses a use of them that is to be marked
	CountUsageDropped     // responses not stored because their site refuses a use of them
	CountPayments         // responses that ask for payment or a licence
	CountSigned           // requests with a signature that their site had not asked for
	CountSignedAsked      // requests with the signature that their site had asked for
	CountSignatureAsks    // responses that refuse a request and ask for a signature
	CountSignatureUnable  // of them, those that ask for a signature that this crawl cannot make
	CountSignatureRefused // responses that refuse a request with the signature that their site had asked for
	CountTDMRep           // requests for tdmrep.json that ended, with the file or without
	CountWatched          // URLs of --watch that were enqueued, or cannot be
	CountWatchMet         // of them, those fetched by their deadlines
	CountWatchMissed      // of them, those that were not, or were refused
	CountNearCopies       // pages whose text is nearly that of a page of their host that is kept
	CountNearNotes        // of them, those stored without their body
	CountBytesNear        // decoded bytes of the bodies that these records leave out
	CountRenderAsked      // requests of rendered pages that the nodes of their hosts made and answered
	CountRenderUnanswered // requests of rendered pages that failed because the node of the host did not answer
	CountEnqueuedMoved    // enqueued URLs that waited when their slots moved here
	NumCounters
)

// TLSVerdicts are the verdicts that have counters, as labels of metrics.
var TLSVerdicts = [...]string{"expired", "not-yet-valid", "name-mismatch", "self-signed",
	"unknown-authority", "invalid"}

// TLSBadOf returns the counter of exchanges with a verdict; ok is false if the verdict is a good one, or none.
func TLSBadOf(verdict string) (c Counter, ok bool) {
	for i, name := range TLSVerdicts {
		if name == strings.ReplaceAll(verdict, " ", "-") {
			return CountTLSBad + Counter(i), true
		}
	}
	return 0, false
}

// counterNames are the names that users see, by counter.
var counterNames = [NumCounters]string{
	"links", "links_invalid", "links_scheme", "links_too_long", "links_scope", "links_depth",
	"links_filtered", "links_cached", "links_checked", "edges", "seeds", "seeds_bad", "attempts",
	"responses", "pages", "redirects", "received_bytes", "decoded_bytes", "robots_attempts", "robots_received_bytes",
	"lookups", "lookup_failures", "retries", "deferrals", "truncated", "checkpoints", "fetch_millis",
	"seed_pages", "links_dropped", "links_port", "links_draining", "decode_cut", "unconfirmed",
	"links_no_follow", "links_extension", "links_path_depth", "links_repeated", "links_params",
	"links_rules", "links_blocked", "urls_rewritten", "sitemaps", "sitemap_urls", "sitemap_faults",
	"no_index", "bodies_refused", "sniffed", "refusals", "challenges", "host_rests", "hosts_given_up",
	"links_redirects", "internal_errors", "robots_stored", "dns_stored", "sent_bytes", "page_bytes",
	"compressed", "compressed_bytes", "uncompressed_bytes", "connections", "connections_reused",
	"robots_sent_bytes", "robots_failed", "robots_status_other", "robots_status_1xx", "robots_status_2xx",
	"robots_status_3xx", "robots_status_4xx", "robots_status_5xx",
	"urls_placed", "urls_over_budget", "urls_scanned", "urls_replaced", "urls_released",
	"urls_unknown", "urls_answered", "urls_allowed", "urls_admitted", "urls_due", "urls_denied",
	"bodies_spooled", "spooled_bytes", "responses_gzip", "responses_deflate", "responses_br", "responses_zstd",
	"received_bytes_gzip", "received_bytes_deflate", "received_bytes_br", "received_bytes_zstd",
	"decoded_bytes_gzip", "decoded_bytes_deflate", "decoded_bytes_br", "decoded_bytes_zstd",
	"responses_http2", "duplicates", "revisits", "revisits_body_bytes", "content_large", "links_duplicate",
	"no_archive", "heads_stored", "omitted",
	"hook_answers", "hook_timeouts", "hook_failures", "hook_refused", "hook_unasked", "hook_restarts",
	"hook_wait_micros", "hook_dropped", "hook_unfollowed", "hook_links", "links_hook", "repeated", "trap_urls",
	"visits_scheduled", "visits", "visits_unchanged", "visits_not_modified", "urls_gone", "urls_enqueued",
	"render_wanted", "rendered", "rendered_cut", "rendered_stored", "render_failed", "render_skipped",
	"render_requests", "render_cached", "render_refused", "render_received_bytes", "render_links", "render_lost",
	"links_walk", "links_sent", "links_taken", "edges_sent", "edges_taken", "seeds_elsewhere", "pages_lent",
	"pages_borrowed", "links_given_up", "edges_given_up", "urls_sized", "url_bytes", "record_bytes", "links_foreign",
	"tls_expired", "tls_not_yet_valid", "tls_name_mismatch", "tls_self_signed", "tls_unknown_authority", "tls_invalid",
	"render_answers_stored", "render_parts", "render_parts_cut", "usage_marked", "usage_dropped", "payments",
	"signed_unasked", "signed_asked", "signature_challenges", "signature_challenges_unsupported",
	"signature_challenges_refused", "tdmrep", "watched", "watched_in_time", "watched_missed", "near_duplicates",
	"near_duplicates_noted", "near_duplicates_body_bytes", "render_asked", "render_unanswered",
	"urls_enqueued_moved"}

// Codings are the content codings that have counters, by their names in HTTP.
var Codings = [...]string{"gzip", "deflate", "br", "zstd"}

// CodingOf returns the index in Codings of a list of codings as fetch.Response.Encoding has it, by the last one
// of the list; -1 if it has none.
func CodingOf(list string) Counter {
	last := list[strings.LastIndexByte(list, ' ')+1:]
	for i, name := range Codings {
		if name == last {
			return Counter(i)
		}
	}
	return -1
}

// flows are the counters of moves between places, the edges of the crawler. 0 stands for none. Other edges need
// no counter: what entered STAR from URLseen is the number of unique URLs, what ended is in its place for good, and
// CountDeferrals counts what was deferred.
var flows = [NumPlaces][NumPlaces]Counter{
	PlaceStar:       {PlaceBeast: CountURLsPlaced, PlaceOverBudget: CountURLsOver},
	PlaceBeast:      {PlaceStar: CountURLsReplaced, PlaceRobotsCheck: CountURLsReleased},
	PlaceOverBudget: {PlaceStar: CountURLsScanned},
	PlaceRobotsCheck: {PlaceAwaitRobots: CountURLsUnknown, PlaceReady: CountURLsAllowed, PlaceRefused: CountURLsDenied,
		PlaceHeld: CountURLsDenied},
	PlaceAwaitRobots: {PlaceRobotsCheck: CountURLsAnswered},
	PlaceReady:       {PlaceRAM: CountURLsAdmitted},
	PlaceDeferred:    {PlaceRobotsCheck: CountURLsDue},
}

// FlowOf returns the counter of moves from one place to another; ok is false if there is none.
func FlowOf(from, to Place) (c Counter, ok bool) {
	c = flows[from][to]
	return c, c != 0
}

// String returns the name that users see.
func (c Counter) String() string { return counterNames[c] }
