package state

// Held is in the manifest what PlaceHeld goes by. What the operator's own flags forbid (an address, a port) isn't the
// end of a URL: it is held, and the first run with other flags gives it back to RobotsCache, each URL once.
type Held struct {
	Flags string `json:"flags"` // Options.NetworkFlags of the last run
	Since int64  `json:"since"` // Unix second: what RobotsCache says of forbidden addresses from before is of other flags
	Left  int64  `json:"left"`  // records at the queue's head that this run and those after it with the same flags try again
}

// Seeds is the feeder's place in the manifest. A file whose length or content changed is read again from its start:
// URLseen drops what was fed before, so only new lines count.
type Seeds struct {
	Offset int64  `json:"offset"` // bytes fed
	Size   int64  `json:"size"`
	Sum    uint64 `json:"sum"` // xxhash64 of the whole file
	Done   bool   `json:"done"`
}
