// Package crawl is the crawler: it owns every goroutine of a crawl, moves URLs between the structures of the layers below,
// and makes checkpoints.
//
// It implements the high-level organisation of the IRLbot paper (§IV.C, Figures 2, 4 and 5): URLseen, STAR's check
// against PLDindegree, BEAST, RobotsCache with RobotsRequested, QR and QD, the ready queue Q, the two heaps of §VII.A,
// and the counters of §VIII. crawler.go draws it; docs/ARCHITECTURE.md follows one URL through it.
//
// # Departures from the paper
//
// The paper's threads push URLs on; here BEAST releases them on demand, while the stock (everything between RobotsCache
// and a finished fetch) is below a target, so that over-budget URLs really wait and profit from a growing in-degree. A
// URL that must wait for time (a host's backlog, a retry, an unreachable robots.txt) goes to a calendar of queues on
// disk, `deferred`, instead of staying in RAM or being dropped. robots.txt requests go through the host heap as well.
// QR is released in batches when the requests made for it are answered (releases.go), not after a fixed delay.
//
// # Contract
//
// Every unique URL is in exactly one Place at all times. It changes place only in a transaction (transaction.go): source, destination
// and accounts together, under the shared lock. A checkpoint (checkpoint.go) takes that lock alone for an instant, so it
// sees every transaction whole or not at all. After kill -9, power cut or a failed write the same Options go on from the last
// durable manifest: no URL is lost (up to collisions of the keyed 64-bit hash), output records exist once, and every host
// and server counts as just visited. A failed write stops the crawl; nothing is checkpointed after it.
//
// # Concurrency
//
// Run owns a goroutine for each stage (crawler.startStages), one for each exchange and each robots request under way; all
// have ended when it returns. Two crawls may run in one process. Lock order: Drum gates, transaction lock, then the locks of the
// structures; accounts and polite are leaves.
//
// # Memory and disk
//
// Plan (plan.go) divides Options.RAMBytes; nothing grows with the number of URLs, hosts or PLDs but files. Files are those of the
// structures under state/, the manifest state/MANIFEST, state/SECRET and state/suffixes.txt; see docs/FORMATS.md.
package crawl
