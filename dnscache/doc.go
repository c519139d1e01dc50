// Package dnscache is an asynchronous stub resolver with a cache of bounded size.
//
// It is not a library because no library bounds the lookups of one PLD. The client of miekg/dns has no cache
// and no retries, and keeps one question at a time on a socket; it takes about the same CPU a lookup (8.1
// µs), and net.Resolver takes four times as much (docs/how-it-works/benchmarks.md).
//
// The paper mentions DNS in one line: a lookup for each host and robots.txt, 260 million in 41 days, through
// a local resolver. Here the local resolvers are the servers of Options. The package keeps many questions in
// flight on few sockets and prevents one host or one PLD from delaying the others. Its place is between
// RobotsRequested and the fetch of robots.txt. RobotsCache then holds the addresses until they expire, so
// this cache need not hold all hosts of a crawl.
//
// # Contract
//
// Lookup blocks until the answer is known. Concurrent lookups of one name share one question. A question has
// three tries by default, with timeouts of 1, 2 and 4 seconds. Each try goes to another server if there is
// one; after SERVFAIL or REFUSED the next server is tried at once. A late answer to an earlier try still
// counts. A reply counts only if it arrives on the socket of its question, has its id (both are random) and
// repeats the question, with MixCase in the same case. Records outside the alias chain of the name are
// ignored. Truncated replies are requested again by TCP. If a server leaves an alias chain unfinished, the
// resolver follows it with up to six questions.
//
// MixCase randomizes the case of the letters in a question. A reply that matches except for the case is
// dropped, and the question is also sent by TCP. After eight consecutive tries with such replies, the server
// gets questions in lower case for an hour (Stats.Flat). The sockets are replaced every 5 min; old
// sockets stay open until their questions have ended.
//
// An answer lives for the least TTL of its chain, clamped to 60 s..24 h. "No such name" and "no address"
// live as long as their SOA says, clamped to 5 min..1 h. Failures live 30 s and are not treated as denials:
// SERVFAIL and timeouts say nothing about the name.
//
// At most MaxInFlight lookups run at once, and at most MaxPerPLD for one PLD. Up to 65536
// lookups, MaxWaitingPerPLD of one PLD, wait in order of arrival; further ones fail with KindBusy. A lookup
// that lost all its callers is dropped if it has not been sent; otherwise it continues for the cache.
//
// # Concurrency
//
// A Resolver is safe for concurrent use. It owns one reader for each socket (Servers x Sockets, up to twice
// that while retired sockets drain), one clock goroutine, and at most one goroutine for each try by TCP, of
// which 64 run at once. Close ends them all and waits for them. One lock guards the state. It is never held
// while blocking, packing questions, reading replies or waking callers. Each socket has a lock of its own
// below it.
//
// # Cost
//
// A lookup that isn't in the cache costs some 6 to 9 µs of CPU, 2 of them the kernel's for a datagram out
// and one in; a hit 0.3 µs (docs/how-it-works/benchmarks.md). The library's share is 1.2 µs
// (BenchmarkMessages). All questions of the same try have the same timeout, so a list for each try, in order
// of arrival, replaces a heap. The clock is woken only for a timeout that is earlier than its next check.
//
// # Memory
//
//	cache      at most 1,000,000 entries and MaxBytes bytes, counting 96 + name + 4 or 16 for each address
//	           (measured: 1.1 times that), evicted by second chance (CLOCK); 96 MiB hold about 800,000 hosts
//	lookups    about 1 KiB each, at most MaxInFlight + 65536
//	sockets    4 KiB and a goroutine each
//
// # Differences from common stub resolvers
//
// The package has no search list, hosts file, recursion or DNSSEC, and does not sort addresses. A name with
// other characters than letters, digits, hyphens, underscores and dots gets KindBadName without a question.
// miekg/dns packs questions and reads names and data; only message.go and reply.go use it. A reply counts
// only if the headers of all its records (of the first 512) are readable. The data of records about other
// names may be arbitrary.
//
// The package writes no files and reads one only in ReadResolvConf.
package dnscache
