// Package polite decides which of the URLs in RAM may be fetched now, and from which address.
//
// It implements the two heaps of the IRLbot paper, §VII.A: the host heap with delay τh (40 s for low-ranked
// PLDs, scaled down with the budget Bx to a minimum) and the IP heap with delay τs (1 s, scaled down with the
// mean budget on that IP). A host whose delay has passed waits in the first-in-first-out line of one server;
// the server whose turn came first grants its first host. At most one connection is open to a host at any
// time.
//
// Departures from the paper. A server is an IPv4 address or an IPv6 /64. The delay of a host counts from the
// end of the last exchange and is the largest of τh·B0/Bx, the robots.txt Crawl-delay (capped), a multiple of
// the last response time and a back-off that the caller names. Requests for robots.txt take the host slot as
// any other (the paper lets them skip it, which is true of the first fetch only) and stand in front of the
// line of their host. RAM is bounded, with shares for hosts, servers and PLDs; what exceeds a share is handed
// back with a time at which to come again.
//
// Contract. An item is given out once: by Next, which must be answered by Done, or by an Evict. Items of a host
// are granted in the order of admission, robots items first. From Done(now) of one item of a host to the next
// grant for that host at least the host's delay passes. A server is granted to nobody between a grant and its
// Started (or Done, if Started is not called), and for τs after; so gaps hold on the server's clock whatever
// a connection set-up takes. With Options.StartAtGrant the grant itself counts as start. No item waits for
// ever: hosts and servers are served in the order in which their time came.
//
// Deferral. A host with more URLs than its share could be offered them again and again. So each deferred item
// gets a time of its own in a line of future slots, one spacing apart (the host's delay), kept by number of
// past deferrals: a batch that returns together, because far times are kept coarsely on disk, is spread over
// the time until the next batch. An item is thus deferred about log4(URLs/share) times at most.
//
// Restart. Plain delays need no record: with Options.Visited hosts and servers count as visited at the restart.
// Longer ones are read by Delays and given to Restore of the next run.
//
// Concurrency. All methods may be called from any goroutine; one mutex, O(log n) under it except Evict,
// EvictLater, Soon, Each and Snapshot, which are O(items), and Delays and Restore, which are O(table entries). No
// goroutines, no clock: callers pass now, which should carry a monotonic reading. Ready and Room are channels of
// capacity one: one waiter each.
//
// Memory: MaxItems or MaxBytes of items (Rec + ItemOverhead each), MaxHosts entries of some 200 bytes for
// hosts and as many for servers, and at most MaxHosts deferral lines of some 100 bytes. At the bound of the
// tables Admit says Full until an entry's delay has passed; deferral lines are dropped at random instead,
// which costs further deferrals, no URL.
//
// No files. The coding of a Delay, for the caller's checkpoint, is in format.go.
package polite
