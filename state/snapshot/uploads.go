package snapshot

// Uploads counts finished output files on their way to an object store.
type Uploads struct {
	On           bool   // the crawl has an object store
	Files, Bytes int64  // that the store took in this run
	Objects      int64  // files in the store as of the last checkpoint, of all runs
	Waiting      int64  // finished WARC files and logs that are still here
	WaitingBytes int64  // of them
	SpoolBytes   int64  // fetching rests when WaitingBytes is more
	Faults       int64  // failed attempts in this run
	Failing      string // the last error, while an attempt fails; "": none does
}
