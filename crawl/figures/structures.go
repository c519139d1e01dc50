package figures

import (
	"drumbeat/beast"
	"drumbeat/drum"
)

// DrumInfo describes a drum of the running crawl.
type DrumInfo struct {
	Name    string
	Stats   drum.Stats
	Buckets int
	Running bool // a pass is in progress
	// TupleIO is the number of bytes read and written for a tuple in this run, PredictedIO what the model of
	// package drum says for the same passes; 0 before the first.
	TupleIO, PredictedIO float64
}

// QueueInfo describes a queue on disk.
type QueueInfo struct {
	Name           string
	Records, Bytes int64 // uncompressed
	DiskBytes      int64 // size of its files, compressed
}

// Structures describes the structures on disk.
type Structures struct {
	Drums  []DrumInfo
	Queues []QueueInfo
	Beast  beast.Stats
	Lanes  []beast.Stats     // of each lane; Beast has their sums
	Spread []beast.QueueInfo // the numbered queues, by lane and number

	Priority string   // name of the strategy in force
	Weights  []uint32 // of each lane
}
