// Package dnscache is an asynchronous stub resolver with a cache bounded in RAM.
//
// The paper gives DNS a line: a lookup per host and robots.txt, 260 million of them in 41 days, a local
// resolver behind it. Here the local resolvers are the servers of Options, more than one; this package
// keeps many questions in flight on few sockets, and keeps one host or one PLD from holding up the
// others. It stands between RobotsRequested and the fetch of robots.txt; the
// addresses themselves then live in RobotsCache until they expire, so the cache here need not hold all
// hosts of the crawl.
//
// The resolver is our own because no library bounds the lookups of one PLD, and the client of miekg/dns neither caches nor retries
// and has one question on a socket at a time. Its CPU a lookup is about the same (8.1 us), net.Resolver's is four times that
// (docs/BENCHMARKS.md).
//
// # Contract
//
// Lookup blocks its caller until the answer is there. Lookups of one name at the same time ask once. A
// question is tried three times (after 1, 2 and 4 seconds; SERVFAIL and REFUSED go on to the next server
// at once), each try at another server when there is one; a late answer to an earlier try is taken. A
// reply counts when it comes to the socket and with the id of its question (both random) and repeats the
// question, with MixCase in the same case; records outside the chain of aliases that starts at the name are ignored. Truncated replies
// are asked for again by TCP. Chains that a server leaves unfinished are followed for six questions.
//
// MixCase draws the case of a question's letters. A reply that is right but for the case is dropped, and its
// question is asked by TCP besides. After eight tries in a row that were answered so, their server is asked in
// lower case for an hour (Stats.Flat). The sockets are renewed every RenewEvery; the old ones stay open until
// their questions have ended.
//
// An answer lives for the least TTL of its chain, clamped to 60 s - 24 h. "No such name" and "no
// address" live as their SOA says, clamped to 5 min - 1 h. Failures live 30 s and aren't taken for
// denials: SERVFAIL and silence say nothing about the name.
//
// At most MaxInFlight lookups are under way, MaxPerPLD of them for one PLD; MaxWaiting and
// MaxWaitingPerPLD wait in order of arrival; one more is turned away with KindBusy. A lookup that nobody
// waits for any more is dropped if it hasn't been sent, and finished for the cache if it has.
//
// # Concurrency
//
// A Resolver is safe for concurrent use. It owns one reader per socket (Servers x Sockets, twice that while
// the questions of retired ones end), one clock, and at most one goroutine per try that is asked by TCP, of which 64 proceed. Close ends and
// awaits them all. One lock guards the state; nothing waits under it, and questions are packed,
// replies read and waiters woken outside of it. Sockets have locks of their own below it.
//
// # Cost
//
// A lookup that isn't in the cache costs some 6 to 9 us of CPU, 2 of them the kernel's for a datagram out and one in; a hit 0.3 us
// (go run ./bench/lab dns). The library's share is 1.2 us (BenchmarkMessages); a parser of our own took 0.3. Timeouts are the same
// for all questions at the same try, so they stand in lists in order of when they end, with no heap to be kept; the clock is woken
// only for what ends before it would look anyway.
//
// # Memory
//
//	cache      at most MaxEntries entries and MaxBytes bytes by the formula 96 + name + 4 or 16 per address
//	           (measured: 1.1 times that), evicted by second chance (CLOCK); 96 MiB hold some 800,000 hosts
//	lookups    some 1 KiB each, at most MaxInFlight + MaxWaiting of them
//	sockets    4 KiB and a goroutine each
//
// # Where it departs from common stubs
//
// There is no search list, no hosts file, no sorting of addresses (the order is the server's), no own
// recursion and no DNSSEC. Names that aren't letters, digits, hyphens, underscores and dots get
// KindBadName unasked. The library miekg/dns packs questions and reads names and data; only message.go and reply.go use it. A
// reply counts only if the heads of all its records can be read (of the first 512); the data of records about other names may hold
// anything.
//
// The package reads no files but in ReadResolvConf, and writes none.
package dnscache
