package exchange

// Sizes for plans. TestMessageBytes and TestOutboxRAM measure them, with links of 111 bytes and the pages that they are on.
const (
	// linkBytes is a link on its way, with the edges that go with it, compressed. Each of the first earlyLinks of a message
	// takes earlyBytes more: no link before has had its texts. messageBytes are the header, the checksum and what is left.
	linkBytes    = 71
	earlyLinks   = 30
	earlyBytes   = 60
	messageBytes = 200
	// rawLinkBytes is a link with its edges before compression.
	rawLinkBytes = 300
	// codecBytes is a message that is being made or read.
	codecBytes = 256 << 10
	// mostPending is the least buffer of an outbox's queue that holds a whole message.
	mostPending = 80 << 10
)

// Limits of a broker.
const (
	// BucketCrawlBytes limits what the values of BucketCrawl may take. DefaultLeasesBytes does so for the leases, unless an
	// operator says otherwise; they need LeastLeasesBytes.
	BucketCrawlBytes   = 64 << 20
	DefaultLeasesBytes = 512 << 20
	LeastLeasesBytes   = 4 << 20
	// BrokerRAM is set aside for a broker in the process of a node: 64 MiB for consumers, 64 MiB for a slow connection,
	// what waits to be written to streams, and the garbage of messages. LeaseIndexRAM comes on top.
	BrokerRAM = 256 << 20
	// LeaseBytes is a lease in the broker's files, and leaseIndexBytes its entry in the broker's RAM (TestLeaseRoom of
	// package exchange/nats measures 176; 170 is what the heap of a server with 1.5 million was found to hold).
	LeaseBytes      = 180
	leaseIndexBytes = 170
	// leaseShare is the part of a node's RAM for URLs that may be fetched now, leaseHostBytes for each host. Each host may be
	// alone in its network.
	leaseShare     = 1.0 / 16
	leaseHostBytes = 2400
)

// BrokerDisk returns what a broker may store for nodes with streams of streamBytes each, and for leases.
func BrokerDisk(nodes int, streamBytes, leasesBytes int64) int64 {
	return int64(nodes)*streamBytes + BucketCrawlBytes + leasesBytes
}

// LeaseIndexRAM returns the RAM of a broker for its index of leases: of those of the networks that nodes with ramBytes each
// can have in RAM, or of those for which there is room.
func LeaseIndexRAM(nodes int, ramBytes, leasesBytes int64) int64 {
	wanted := float64(nodes) * float64(ramBytes) * leaseShare / leaseHostBytes
	return leaseIndexBytes * int64(min(wanted, float64(leasesBytes/LeaseBytes)))
}

// Traffic is what one node sends to another between two checkpoints of its own.
type Traffic struct {
	Messages float64
	Bytes    float64
}

// TrafficOf returns the traffic for a number of links between two checkpoints. A checkpoint ends a message.
func TrafficOf(links float64) Traffic {
	if links <= 0 {
		return Traffic{}
	}
	n := max(min(1, links), 0.5+links*rawLinkBytes/sealBytes) // less than a link: not in each interval
	return Traffic{Messages: n, Bytes: n*(messageBytes+earlyBytes*min(links/n, earlyLinks)) + links*linkBytes}
}

// OutboxRAM returns the RAM of an outbox in use: the open message, and a tail and a head for each of its queues of
// blockBytes.
func OutboxRAM(blockBytes int) int64 { return 2*sealBytes + 4*int64(max(blockBytes, mostPending)) }

// CodecRAM returns the RAM for messages that a process with this number of processors makes and reads.
func CodecRAM(processors int) int64 { return int64(processors+1) * codecBytes }

// MarkBytes returns the size of a mark in a cluster of nodes that have exchanged much.
func MarkBytes(nodes int) int64 { return 100 + 190*int64(nodes) }
