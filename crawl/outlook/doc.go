// Package outlook says from the measured figures of a crawl when its disk is full, when it ends, what limits
// it, and what more RAM and disks would change.
//
// Read takes the figures from the directories of a running or stopped crawl: the accounts of its last
// manifest, and the rates and sizes over time from its history. Make computes an Outlook from them and from a
// plan of package crawl/plan. Outlook.Write prints it.
//
//	f, err := outlook.Read(disk.OS(), []string{"crawl"})
//	o, err := outlook.Make(outlook.Input{Figures: f, Plan: plan, RAMBytes: f.RAMBytes, DiskBytes: f.DiskLimit})
//	err = o.Write(os.Stdout)
//
// # Model
//
// Figures for each page (links, the unique share p, misses of the RAM cache, output) are those of the last hours in
// which the crawl ran (Recent). A page takes URLs from the queue and adds l·p new ones. As p falls while the
// crawl grows (figure 7a of the paper), new URLs per page follow a power of the pages; its exponent comes from the
// last two doublings of the crawl. The crawl ends when the queue is empty.
//
// Disk space is what is measured now and what the pages to come add: output by its measured growth, queues by the
// URLs in them, the stores by the difference between two forecasts of package plan. Passes make the size of a
// store go up and down, so the highest of the last hours counts.
//
// The rates that disks allow are Theorem 3 with the cost of package drum for the links from now on. The
// alternatives (twice the RAM, twice the disks, faster disks) are plans of their own, so Theorem 2 decides which
// of them lowers the overhead alpha.
//
// # Departures
//
// The paper plans for a crawl as a whole. Here the cost is that of the links to come, with the URLs known now.
//
// # Contract
//
// A crawl with too little history is an error that says how much is needed (LeastActive, LeastPages). Overrides
// of the operator replace what was measured. All results are estimates; the measured cost of a link stands beside
// the predicted one so that a reader can judge them.
//
// Concurrency: Read and Make may be called concurrently. Memory: some MB for the points of the history. Disk:
// nothing is written and no lock is taken, so the crawl may be running.
//
// Files: read.go (figures), series.go (the history as totals), make.go (the outlook), growth.go (queue and disk
// over pages), compare.go (alternatives), text.go (words).
package outlook
