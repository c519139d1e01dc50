// Package outage decides whether a failure is ours or the site's: it watches the outcomes of exchanges and lookups, and
// finds out by canaries, references and name servers whether the network works.
//
// A failure that may be ours counts against a host only when it is confirmed. Two monitors (monitor.go)
// detect that far more fails than usual; then there is an outage: requests become rare, and failures are not
// counted, until probes succeed or a canary answers (canary.go, evidence.go). Names that vanish are confirmed
// by names that had addresses (names.go). Hosts that do not answer are asked ever more rarely meanwhile
// (hostgaps.go). Lookup is the crawl's way to a name server, since each lookup is evidence. The paper has
// nothing of this; its crawl was watched by people.
//
// Contract: no URL is refused for a failure in an outage, and an outage of others' servers ends within the
// patience of the monitor. Stages ask Confirmed, Absence, Hold, Gap and Slowed, and report by WatchExchange.
// The Watch calls other stages by the interfaces of Others only.
//
// Concurrency: a Watch is safe for concurrent use after Wire. One goroutine runs AskCanaries; questions asked meanwhile
// have goroutines counted in Run.Fetchers. No mutex of this package is held while another stage is called.
//
// Memory: fixed tables, 8,192 servers, 64 origins, 32 names and at most 16,384 hosts that do not answer: 2
// MB. Disk: none; a restart forgets them, which Watch allows for.
package outage
