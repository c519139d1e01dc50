// Package dispatch is a room of the running crawl: it decides when a URL that passed RobotsCache is
// fetched. It has the queue Q of such URLs, the heaps of hosts and servers in RAM (package polite), and the
// connection slots. The paper has Q and its heaps in section IV.C; docs/how-it-works/paper.md has the departures.
//
// # Contract
//
// Enqueue is part of the transaction in which RobotsCache lets a URL pass. One transaction takes it from Q:
// into RAM, or to the deferred URLs, to RobotsCache again, or to its end. A grant of polite and a slot
// belong to one exchange. Each grant ends once: by polite.Done, by Landed, or unused by DropGrant. With a
// limit of pages, no more exchanges are under way than pages are missing. Each page that is granted ends
// with Ended, so that the check for the end of the crawl sees when nothing is in flight.
//
// # Concurrency
//
// A Dispatcher is safe for concurrent use after Open. ReadReady and Dispatch have a goroutine each;
// Dispatch starts the fetchers, at most one for each slot. At most 256 of them wait for another page. The
// lock of grants comes above those of package polite and of the limits.
//
// # Memory and disk
//
// The plan bounds the URLs in RAM. Beside them are a buffer for a response for each slot, and a counter for
// each PLD with an exchange. Q is on disk; a URL in RAM is in the tails of a checkpoint only.
//
// # Files
//
// options.go: options, the rooms below and the stages above; dispatcher.go: Q, admission, grants, fetchers;
// workers.go: slots and buffers; pldlimit.go: exchanges of one PLD.
package dispatch
