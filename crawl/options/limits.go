package options

import "time"

// Limits are those of the process and of the whole crawl.
type Limits struct {
	// RAMBytes limits the RAM of the process. DiskBytes limits state and output together. Defaults: 1 GiB, 100
	// GiB.
	RAMBytes, DiskBytes int64
	// BrokerRAM is the part of RAMBytes for a broker in this process.
	BrokerRAM int64
	// MaxPages ends the crawl after so many pages, over all runs and nodes; 0 means no limit.
	MaxPages int64
	// MaxTime ends the crawl after fetching for so long, over all runs; 0 means no limit.
	MaxTime time.Duration
	// MaxDepth is the most links followed from a seed: 0 for the seeds only, Unlimited for no limit.
	MaxDepth int
	// OutagePatience ends the crawl if the network or the name servers have answered nothing for so long; zero
	// means never. What is queued stays so.
	OutagePatience time.Duration
	// References are URLs of servers that the operator expects to answer always, at most crawl.MaxReferences
	// (crawl.CheckReference). They are asked when known servers do not answer: the network works if one of them
	// does.
	References []string
	// Linger is the wait before the end when only unreachable hosts and URLs without budget remain.
	Linger time.Duration
}

// Defaults sets the zero fields.
func (o *Limits) Defaults() {
	setDefault(&o.RAMBytes, 1<<30)
	setDefault(&o.DiskBytes, 100<<30)
}
