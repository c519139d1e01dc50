package snapshot

import "time"

// Erasures are the requests to erase pages that wait.
type Erasures struct {
	Waiting int       // all, with those refused
	Refused int       // those that could not be carried out
	Why     string    // one of them could not
	Since   time.Time // when erasing began; zero unless the crawl rests for it
	Step    string    // what is being done, if it rests
}
