// Package stock sizes the stock: the URLs that BEAST has released and that wait between RobotsCache and a
// finished fetch.
//
// A Keeper says when BEAST may release another URL, and when one that was deferred may return. The target
// follows Polybot's rule, by the number of hosts in their delays that package polite counts; it grows while
// hosts or connections are idle. The Keeper also makes room: it moves the URLs in RAM that are due last to
// disk while connections are idle. The paper's threads push URLs forward without such a bound;
// docs/how-it-works/architecture.md ("The stages", back-pressure) has the reasons.
//
// Contract: the stock always has room for one URL at least, and a share of it for URLs that return. RAM
// bounds the target, since Use.Most does.
//
// Concurrency: all methods are safe for concurrent use after Wire; one goroutine runs Run. There is no lock:
// the figures are read one after the other, so a decision may be late by a URL.
//
// Memory: a few words. Disk: nothing.
//
// Files: stock.go.
package stock
