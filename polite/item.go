package polite

import (
	"net/netip"
	"time"
)

// maxAddrs bounds the servers considered for an item. Four spread the load; more would cost RAM for each
// item.
const maxAddrs = 4

// Item is one URL in RAM. The caller sets the exported fields before Admit and does not change them
// afterwards.
type Item struct {
	Rec        []byte        // opaque; counted in Bytes
	Data       any           // opaque; not counted
	Host       uint64        // key of the host (FQDN)
	PLD        uint64        // key of the PLD
	Addrs      []netip.Addr  // addresses of the host, at least one; the first four distinct servers are used
	Budget     uint32        // Bx in pages, scales the delays; 0: unscaled
	CrawlDelay time.Duration // from robots.txt; 0: none
	Robots     bool          // a request for robots.txt; goes to the front of its host's line
	First      bool          // goes before all but delays and limits; see the package comment, "First"
	Waits      uint8         // number of earlier deferrals of this item
	Due        time.Time     // when to offer the item again; set by a deferral or an eviction
	Connection uint8         // of its host, below MaxConnections; see Terms
	Terms      *Terms        // of its host and its PLD, until SetTerms or a later item has others; nil: none

	itemLink
	host     *host
	pld      *pld
	servers  [maxAddrs]*server
	addrs    [maxAddrs]uint8 // index in Addrs for servers[i]
	nservers int
}

// bytes returns the item's size in Bytes.
func (it *Item) bytes() int64 { return int64(len(it.Rec)) + 24*int64(len(it.Addrs)) + ItemOverhead }

// key returns the key of the item's connection.
func (it *Item) key() uint64 { return connectionKey(it.Host, it.Connection) }

func connectionKey(host uint64, connection uint8) uint64 {
	return host ^ uint64(connection)*0x9e3779b97f4a7c15
}

// names reports whether v is one of the item's servers.
func (it *Item) names(v *server) bool {
	for _, w := range it.servers[:it.nservers] {
		if v == w {
			return true
		}
	}
	return false
}

// countRobots counts a queued robots item at its PLD, servers and networks.
func (it *Item) countRobots(n int) {
	it.pld.robots += n
	for _, v := range it.servers[:it.nservers] {
		v.robots += n
		if v.net != nil {
			v.net.robots += n
		}
	}
}

// Reason says why an item was deferred.
type Reason uint8

// The shares that an item may exceed.
const (
	None         Reason = iota
	HostShare           // the host has reached its share of items in RAM
	ServerShare         // all servers of the item have
	PLDShare            // the PLD has
	RobotsShare         // all servers of the robots item, or its PLD, have their share of robots items
	NetworkShare        // the networks of all servers of the item have
	LeaseShare          // other crawlers visit all its networks, and what waits for such networks has its share
)

// String returns the reason's name for logs and tables.
func (r Reason) String() string {
	return [...]string{"none", "host share", "server share", "pld share", "robots share", "network share",
		"lease share"}[r]
}

// Kind is the kind of a Verdict.
type Kind uint8

// The verdicts of Admit.
const (
	Admitted Kind = iota // the scheduler owns the item
	Deferred             // offer it again at Due
	Full                 // RAM or a table is full; offer it again after Room
)

// Verdict is the result of Admit.
type Verdict struct {
	Kind Kind
	Due  time.Time // if Deferred
	Why  Reason    // if Deferred
}
