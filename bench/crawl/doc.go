// Package crawl runs the whole crawler against a web of endless pages: pages a second, its CPU of a page by
// stage, and what connections waited for, beside a loop that only fetches by the crawler's client.
//
// The web lies in a process of its own (Serve), so that getrusage counts the crawler alone. Stages come
// from a CPU profile of the measured time: each sample goes to the innermost function that a rule of
// stage.go names. What connections waited for comes from samples of the ring. In another form pages are
// made in this process, without sockets, DNS or TLS, to run many URLs through the disk structures; its
// tenths show whether the crawl slows down as it grows.
//
// # Contract
//
// Files lie in directories of their own, which are removed before Measure returns, also after an error and
// after a cancelled context.
//
// # Concurrency
//
// The crawl's own goroutines; one that samples, and as many as Options.Connections that fetch in the bare
// loop. All are waited for, and the server's process.
//
// # Memory
//
// The crawl's, which Options.RAMBytes bounds, a profile, and the samples of the course.
package crawl
