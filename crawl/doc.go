// Package crawl runs a crawl: it owns every goroutine, and moves URLs between the structures of the lower
// layers. Its rooms, the packages in crawl/, do what one stage decides; crawler.go and rooms.go connect them.
//
// It implements the high-level organisation of the IRLbot paper (§IV.C, Figures 2, 4 and 5): URLseen,
// STAR's check against PLDindegree, BEAST, RobotsCache with RobotsRequested, QR and QD, the ready queue Q,
// the two heaps of §VII.A, and the counters of §VIII. crawler.go has a diagram; docs/how-it-works/architecture.md
// follows one URL through the stages.
//
// # Departures from the paper
//
// The paper's threads push URLs forward. Here BEAST releases URLs on demand, while the stock (everything
// between RobotsCache and a finished fetch) is below a target. URLs over budget therefore stay in BEAST and
// benefit from a growing in-degree. A URL that must wait (for a backlog of its host, a retry, or an
// unreachable robots.txt) goes to `deferred`, a calendar of queues on disk, instead of staying in RAM or
// being dropped. Requests for robots.txt pass through the host heap as well. QR is released in batches when
// the requests made for it are answered (gate/releases.go), not after a fixed delay. A host's next request leaves
// while its last page is parsed and stored (visit/landed.go).
//
// # Contract
//
// Every unique URL is in exactly one Place at all times. It changes its place only in a transaction
// (package account), which updates source, destination and accounts together under the shared lock. A
// checkpoint (package checkpoint) briefly holds that lock exclusively, so it sees every transaction either
// whole or not at all. After kill -9, a power cut or a failed write, a run with the same Options continues
// from the last durable manifest: no URL is lost (except for collisions of the keyed 64-bit hash), each
// output record exists once, and every host and server counts as just visited. A failed write stops the
// crawl, and no checkpoint follows it.
//
// # Concurrency
//
// Run starts the goroutines of the stages (crawler.startStages), up to one fetcher for each connection, a few
// storers of landed pages, and one goroutine for each robots.txt request. All have ended when it returns. Two
// crawls may run in one process. Lock order: Drum gates, transaction lock, locks of the structures. Code that
// holds the lock of the accounts or of polite takes no other lock.
//
// # Memory and disk
//
// Package plan divides Options.Limits.RAMBytes. Only files grow with the number of URLs, hosts or PLDs. The
// files are those of the structures under state/, the manifest state/MANIFEST, state/SECRET and
// state/suffixes.txt; see docs/reference/files/_index.md.
package crawl
