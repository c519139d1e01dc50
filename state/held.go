package state

// Held is the manifest's state of PlaceHeld. That place holds URLs that the operator's own flags forbid by
// address or port. The first run with other flags returns each of them once to RobotsCache.
type Held struct {
	Flags string `json:"flags"` // Options.NetworkFlags of the last run
	// Since is the Unix second from which RobotsCache's forbidden addresses follow Flags; older ones
	// followed other flags.
	Since int64 `json:"since"`
	Left  int64 `json:"left"` // records at the queue's head still to be returned under Flags
}

// Seeds is the feeder's position in the seed file. The feeder reads a file with another length or checksum
// from its start. URLseen drops the URLs that it fed before, so only new lines count.
type Seeds struct {
	Offset int64  `json:"offset"` // bytes read
	Size   int64  `json:"size"`
	Sum    uint64 `json:"sum"` // xxhash64 of the whole file
	Done   bool   `json:"done"`
}
