// Package docweb is a web of documentation for races: hosts of very unequal size that a crawler finds on the
// way from one seed. It costs so little CPU to serve that it can share the machine with the crawlers.
//
// # The web
//
// Everything follows from Options by hashing; nothing is read from outside. Host r (from 0) of N has
// 1 + (Largest-1)·((r+1)^-Skew - N^-Skew)/(1 - N^-Skew) pages, so the sizes follow a power law from Largest
// down to 1. The hosts share Addrs addresses of 127.0.0.0/8, and several of them a registrable domain.
//
// Page 0 of a host is its root. Page i lists its children 5i+1 to 5i+5, its siblings, its parent and its
// neighbours; its text links to near and to some far other pages of the host, and on a quarter of the pages
// to a few other hosts, the same ones for each page of a host; some hosts are popular. Pages 1 to 3 of a
// large host are indexes with 100 links. A quarter of the hosts of 8 to 200 pages are books, whose pages lead
// only to the next and the previous one. Some links lead to a missing page (404), to a page that moved (301)
// or to a name that does not exist. Each host but the first is also linked from a page of a host before it in
// a random tree, so each is reachable from the first.
//
// The robots.txt of a host is absent, empty, with a Disallow, with Crawl-delay: 0, an HTML page, forbidden
// (403), a redirect, slow (Options.RobotsDelay), or fails (500). The last kind keeps its host's pages from a
// crawler that follows RFC 9309, so Expected leaves them out.
//
// Sizes of pages are log-normal with mean MeanBytes. A page has a head of its own, with all of its links but
// those to its own fragments, followed by blocks of text from a pool. Hosts with a third of the bytes send
// their pages as they are, the others in gzip: head and blocks are compressed once, each for itself, and a
// response joins them.
//
// # Bad hosts
//
// With Options.Bad there are four more hosts, on addresses of their own: lists, whose 400 pages have 2,500
// links each; vast, to whose 10^6 pages these lead, with a Crawl-delay of an hour; slow, which takes
// Options.SlowDelay for each answer; and silent, which accepts connections and never answers. Some pages of
// ordinary hosts link to them. Lookup knows them only as far as SetBad says, so that one web serves crawls
// with and without them.
//
// # Server and log
//
// Server answers HTTP/1.1 with kept connections on all addresses and one port, which is part of all URLs. Its
// log has each answer with its time; Log.Counts counts from it. Addresses are looked up by Lookup; the
// caller runs the name server.
//
// # Concurrency and memory
//
// A Web does not change after New, except for SetBad, and may be used concurrently. A server has a goroutine
// for each listener and connection, for which Close waits. Memory: 8 MB of blocks, 1 to 5 KB a page, 8 bytes
// a request, 100 KB an open connection.
//
// # Files
//
// options.go and hosts.go have the hosts, graph.go the links, expected.go the set of pages that a crawl must
// fetch, page.go and text.go the HTML, store.go the compressed pages, server.go and robots.go the answers,
// log.go the log. The paper has no such web: it had the Internet.
package docweb
