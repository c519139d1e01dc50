// Package snapshot has the figures of a running crawl at one instant: Snapshot and its parts.
//
// Package crawl fills a Snapshot each second. Progress lines, the summary, the admin server, the metrics and
// the history read it. The types are here and not in crawl, so that package metrics can read them and crawl
// can use package metrics for its history. Package crawl has aliases of them.
//
// The figures are those of section VIII of the paper, and others for operators: URLs by place, links before
// and after each filter, responses by status code, failures by reason, bytes, lookups, the sizes of the PLD
// graph and of the structures, the times of each stage of an exchange, and the use of connection slots.
//
// # Contract
//
// A Snapshot does not change after crawl has passed it on. Readers must not change it. Totals cover all runs
// of the crawl and are exact over crashes, unless their comment says "of this run". The numbers are not read
// atomically: two of them may differ by the transactions of a millisecond.
//
// # Cost
//
// A Snapshot takes 20 KB, mostly the histograms and the status codes. Crawl makes one each second, none for
// a page.
package snapshot
