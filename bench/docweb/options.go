package docweb

import (
	"fmt"
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

func (o Options) check() error {
	switch {
	case o.Hosts < 8 || o.Hosts > 5000:
		return fmt.Errorf("docweb: %d hosts: want 8 to 5000", o.Hosts)
	case o.Addrs < 1 || o.Addrs > 200:
		return fmt.Errorf("docweb: %d addresses: want 1 to 200", o.Addrs)
	case o.Largest < 1 || o.Largest > 1_000_000:
		return fmt.Errorf("docweb: largest host of %d pages: want 1 to 1000000", o.Largest)
	case !(o.Skew > 0):
		return fmt.Errorf("docweb: skew %v: want more than 0", o.Skew)
	case o.MeanBytes < 4000 || o.MeanBytes > 100_000:
		return fmt.Errorf("docweb: pages of %d bytes: want a mean of 4000 to 100000", o.MeanBytes)
	case o.Bad && (o.Vast < listLinks || o.Vast > 1_000_000):
		return fmt.Errorf("docweb: bad host of %d pages: want %d to 1000000", o.Vast, listLinks)
	case o.Port < 0 || o.Port > 65535:
		return fmt.Errorf("docweb: port %d: want 0 to 65535", o.Port)
	}
	return nil
}
