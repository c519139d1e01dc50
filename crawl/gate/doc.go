// Package gate is a room of the running crawl: it decides whether a URL may be fetched, by the robots.txt of its
// origin and by the health of its host. It has the paper's RobotsCache and RobotsRequested, and the queues QR and QD
// (section IV.C). The key is the origin, not the host (RFC 9309); docs/how-it-works/paper.md has the other
// departures.
//
// # Contract
//
// Check is RobotsCache: each URL that enters it (CheckRobots) leaves it in one transaction, to Q, to QR, to the
// deferred URLs, or refused. Requests asks for robots.txt and addresses once for each origin, keeps the URLs that
// wait for the answer in QR, and ends each request with an update of RobotsCache or defers it. A checkpoint has
// the requests under way (Freeze); a run that continues from it makes them again. Hosts learns how each exchange
// ended, in the transaction that settles its URL, and tells RobotsCache; it defers or refuses the URLs of a host
// in back-off, or given up, wherever they pass.
//
// # Concurrency
//
// All types are safe for concurrent use once the crawl runs. The comments of Check and Requests name their
// goroutines; Hosts has none.
//
// # Memory and disk
//
// The plan bounds the two stores. Requests under way are at most Options.Network.RobotsInFlight, those of other
// nodes 16; 65,536 PLDs have due times. Package health bounds the table of hosts in trouble. QR, QD and the
// calendar are on disk.
//
// # Files
//
// gate.go: options and the stages above; check.go, verdict.go: RobotsCache; requests.go, request.go, jobs.go,
// releases.go, comeback.go, named.go: RobotsRequested, QR and QD; hosts.go, rules.go; asks.go, places.go: requests
// for other nodes.
package gate
