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
// or a cancelled context. With Options.Resume they stay until the crawl has reached its number of pages or URLs: an
// end by duration, a cancelled context and the death of the process are the ends of a part, and the next call with the
// same options continues from the crawler's last checkpoint. Other options are refused.
//
// The course of such a crawl (sums of pages, URLs, time and CPU) is saved every five seconds. The next part returns it
// to the counters of the checkpoint, so that the sums never go back and lost work counts once. A damaged file of the
// course is an error; without the file the course begins at the checkpoint, and the report says so.
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
