package state

import "fmt"

// Reason says why a URL was refused or deferred. The numbers are in URL records: append only.
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
	ReasonNotWelcome   // the host refused us several times
	ReasonHostBackoff  // the host failed many times in a row
	ReasonHostGivenUp  // the host failed again after its long back-offs
	ReasonHostPages    // the host reached --max-pages host
	ReasonPLDPages     // the PLD reached --max-pages pld
	ReasonBlocked      // the blacklist names host, PLD or network
	ReasonInternal     // a panic of this program on its response or its robots.txt
	ReasonRevisit      // fetched; deferred until its next visit
	ReasonDepth        // its site's max-depth has become less than its depth
	ReasonNetworkLease // another node visits its network
	ReasonHeadTooLarge // the head of the response exceeded its limits
	ReasonCertificate  // its request needs a good certificate, and the server has none
	ReasonSignature    // its site asked for a signed request
	ReasonErased       // erased by the operator (package erase), fetched or not
	ReasonPayment      // the host asked for payment several times
	ReasonAwaitTDMRep
	ReasonEarlier // an earlier crawl has fetched it (--since-known)
	NumReasons
)

// reasonTexts describe the reasons: the name that programs read, the words for people, and details, if the words do
// not say all.
var reasonTexts = [NumReasons]struct{ name, words, more string }{
	ReasonRobots:            {"robots", "forbidden by robots.txt", ""},
	ReasonNoHost:            {"no-such-host", "host not found", "its name does not exist or has no address"},
	ReasonDNS:               {"dns-failure", "DNS failure", "the name servers gave no usable answer"},
	ReasonConnect:           {"connect-failure", "connection failed", ""},
	ReasonTimeout:           {"timeout", "timeout", "the server took too long"},
	ReasonReset:             {"reset", "connection closed early", ""},
	ReasonTLS:               {"tls", "TLS failure", "the server and the crawl agreed on no secure connection"},
	ReasonBadResponse:       {"bad-response", "invalid response", "the server does not speak HTTP"},
	ReasonForbiddenAddress:  {"forbidden-address", "address not allowed", "all addresses of the host are forbidden"},
	ReasonRobotsUnavailable: {"robots-unavailable", "robots.txt unreachable", "it is requested at growing intervals"},
	ReasonHostBacklog:       {"host-backlog", "host busy", "too many of its URLs are waiting"},
	ReasonTooMany:           {"too-many-requests", "too many requests", "the server answered with status 429 or 503"},
	ReasonServerError:       {"server-error", "server error", "the server answered with another status 5xx"},
	ReasonEvicted:           {"evicted", "moved out of RAM", "other URLs needed the room"},
	ReasonHTTPSFallback:     {"https-fallback", "https failed", "the http URL is tried"},
	ReasonAwaitRobots:       {"await-robots", "waiting for robots.txt", "the earlier request had no response"},
	ReasonBadRecord:         {"bad-record", "damaged record", "it could not be read"},
	ReasonForbiddenPort:     {"forbidden-port", "port not allowed", "--ports lists the allowed ports"},
	ReasonUnconfirmed: {"unconfirmed", "failure not confirmed",
		"our own network may have failed, so the failure does not count"},
	ReasonLost:        {"lost-to-damage", "lost to damage on disk", ""},
	ReasonPLDBusy:     {"pld-busy", "domain busy", "many of its URLs are in RAM"},
	ReasonNotWelcome:  {"not-welcome", "crawler not welcome", "the host refused several requests"},
	ReasonHostBackoff: {"host-backoff", "host in back-off", "it failed many times in a row"},
	ReasonHostGivenUp: {"host-given-up", "host given up", "it failed again after its long back-offs"},
	ReasonHostPages:   {"host-pages", "page limit of the host", "the host reached --max-pages host"},
	ReasonPLDPages:    {"pld-pages", "page limit of the domain", "the PLD reached --max-pages pld"},
	ReasonBlocked:     {"blocked", "blacklisted", "the blacklist names its host, PLD or network"},
	ReasonInternal:    {"internal-error", "crawler bug", "drumbeat panicked; the log of the run has the stack"},
	ReasonRevisit:     {"revisit", "next visit", "the URL was fetched and will be visited again (--recrawl)"},
	ReasonDepth: {"too-deep", "too deep",
		"it is more links away from a seed than its site allows (max-depth in --sites)"},
	ReasonNetworkLease: {"network-lease", "network busy", "another node visits the network of its host"},
	ReasonHeadTooLarge: {"head-too-large", "response header too large", "it exceeds 64 KiB or 5000 fields"},
	ReasonPayment: {"payment", "payment required",
		"the host asked for payment several times; the crawl never pays"},
	ReasonCertificate: {"bad-certificate", "bad certificate", "the request needs a good one (--tls, --sites)"},
	ReasonSignature:   {"signature", "signature wanted", "the site asked for a signed request (--sign)"},
	ReasonAwaitTDMRep: {"await-tdmrep", "waiting for tdmrep.json", "the earlier request had no response"},
	ReasonEarlier:     {"earlier-crawl", "fetched by an earlier crawl", "--since-known leaves it out"},
	ReasonErased:      {"erased", "erased", "the operator has erased it (drumbeat erase)"},
}

// String returns the name that programs read; "" for none.
func (r Reason) String() string {
	if int(r) < len(reasonTexts) {
		return reasonTexts[r].name
	}
	return fmt.Sprintf("reason-%d", uint8(r))
}

// ReasonText returns a reason in words, given its name, and details, "" for none. A name without words is returned.
func ReasonText(name string) (words, more string) {
	for _, t := range reasonTexts[1:] {
		if t.name == name {
			return t.words, t.more
		}
	}
	return name, ""
}
