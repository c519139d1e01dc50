// Package figures is a room of the running crawl: it makes its snapshots, the figures of one instant.
//
// Figures asks the stages for their figures and says what keeps connections idle. A goroutine makes a
// snapshot each second, with the rates since the last one, and passes it on. Progress, the admin server and
// the history show it by the table of package state/metrics. Figures that ask the file systems, or lock every
// bucket of a drum, are measured at most every 5 s (gauges). The paper's section VIII has such figures at the
// end of a crawl.
//
// # Contract
//
// A snapshot takes the stages' own locks, each for microseconds, and never waits for a pass or a checkpoint.
// Its figures are read one after the other, so they may differ by what happened meanwhile.
//
// # Concurrency
//
// One goroutine runs Run. All other methods are safe for concurrent use once the crawl is open.
//
// # Memory and disk
//
// Two snapshots, and 61 samples for the peak of ten minutes. Nothing on disk.
//
// Files: figures.go (the snapshot), waits.go (what it waits for), gauges.go (gauges, peaks), structures.go
// (the structures on disk).
package figures
