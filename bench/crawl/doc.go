// Package crawl runs the whole crawler against a web of endless pages. It measures pages/s, CPU per page by
// stage, and the use of connection slots, and compares them with a loop that only fetches with the
// crawler's client.
//
// The web runs in a process of its own (Serve), so that getrusage counts the crawler alone. Stages come
// from a CPU profile of the measured time: each sample belongs to the innermost function with a rule in
// stage.go. The use of slots comes from samples of the crawler. Another form generates pages in this
// process, without sockets, DNS or TLS, to run many URLs through the disk structures; its tenths show
// whether the crawl slows down as it grows.
//
// # Contract
//
// The files are in directories of their own, which are removed before Measure returns, also after an error
// or a cancelled context.
//
// # Concurrency
//
// Measure runs the crawl's own goroutines, one that takes samples, and Options.Connections goroutines in
// the bare loop. It waits for all of them and for the server's process.
//
// # Memory
//
// The crawl's RAM, bounded by Options.RAMBytes, a profile, and the samples of the course.
package crawl
