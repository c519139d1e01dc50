// Package observe has the parts that watch a running crawl, beside the way of its URLs: the history of its
// figures, the use of its connection slots, disks that are slower than their neighbours, and the codings that
// suit the load.
//
// History samples the figures on disk and writes down events. SlotMeter says what idle connections wait for,
// by samples. SlowDirs compares the devices of directories by the bytes and the time of their I/O. Codings
// asks for brotli while the network limits the crawl and processors are free; it is the one that also acts,
// by one call. Sketches estimates how many hosts and servers there are. The paper reports such figures of its
// crawl (section VIII), not how they were taken.
//
// Contract: nothing here stops the crawl or a URL. An error of the history loses samples, which are counted and logged.
//
// Concurrency: each has one goroutine, in Run; the other methods may be called from any. Their mutexes are leaves.
//
// Memory: at most 1,000 events that wait, 464 KiB of sketches, 300 s of samples for each device.
// Disk: the history, within its own limit.
//
// Files: history.go, sketches.go, slots.go, slowdirs.go, codings.go.
package observe
