package docweb

import (
	"time"
)

// Options describe a web.
type Options struct {
	Hosts     int     // ordinary hosts, 8 to 5,000
	Addrs     int     // addresses that they share, 1 to 200
	Largest   int     // pages of the largest host, 1 to 1,000,000
	Skew      float64 // exponent of the power law of sizes, more than 0
	MeanBytes int     // mean size of a page, 4,000 to 100,000 bytes
	Port      int     // TCP port of all URLs; Serve tries the next ones, too, and with 0 takes a free one
	Seed      uint64
	Bad       bool // add the bad hosts
	Vast      int  // pages of the bad host vast, with Bad: 2,500 to 1,000,000

	RobotsDelay time.Duration // time that a slow robots.txt takes
	SlowDelay   time.Duration // time of each answer of the slow host
}

// Discover, DiscoverFull and DiscoverSmall return the webs of the race; the last one is for CI.
func Discover() Options {
	return Options{Hosts: 48, Addrs: 6, Largest: 60_000, Skew: 1.5, MeanBytes: 25_000, Seed: 1}.usual()
}

// DiscoverFull is described at Discover.
func DiscoverFull() Options {
	return Options{Hosts: 400, Addrs: 40, Largest: 60_000, Skew: 1.25, MeanBytes: 25_000, Seed: 2}.usual()
}

// DiscoverSmall is described at Discover.
func DiscoverSmall() Options {
	return Options{Hosts: 24, Addrs: 4, Largest: 1_200, Skew: 1.2, MeanBytes: 12_000, Seed: 3}.usual()
}

// usual sets the port, the same from run to run so that URLs are, and the delays.
func (o Options) usual() Options {
	o.Vast = 1_000_000
	o.Port, o.RobotsDelay, o.SlowDelay = 18480, 1500*time.Millisecond, 2*time.Second
	return o
}
