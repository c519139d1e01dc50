package snapshot

// Texts counts the texts extracted while the crawl runs, in this run.
type Texts struct {
	Parts   int64 // that were made, one for each WARC file
	Pages   int64 // in them
	Waiting int64 // WARC files with their final names and without a part
	Faults  int64 // failed attempts at a part, damaged records, waits for room, and a directory that cannot be used
}
