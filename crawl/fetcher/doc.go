// Package fetcher is a room of the running crawl: it does one exchange, for pages, for robots.txt and for the
// requests of rendered pages.
//
// It decides what a request carries (the settings of its site, with secrets only if its source may have
// them), whose bodies are read, and where large ones go; it counts times and tells the watch for outages of
// each end.
//
// # Contract
//
// The caller has a grant of package polite for the address, and ends it with Result. An exchange with a
// blacklisted host or address does not begin, and one under way is cut off (inforce.ErrBlocked). A body above
// fetch.Limits.HeldBytes goes to a file, its spool, which no checkpoint names.
//
// # Concurrency
//
// A Fetcher has no goroutine. It is safe for concurrent use after Open.
//
// # Memory and disk
//
// Cookies are bounded by OpenCookies. At most 32 spools exist, which take disk space from package space.
package fetcher
