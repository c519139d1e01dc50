package cluster

// Sizes for plans. TestMessageBytes and TestOutboxRAM measure them, with links of 111 bytes and the pages
// that they are on.
const (
	// linkBytes is the compressed size of a link and its edges in a message. Each of the first earlyLinks of
	// a message takes earlyBytes more, because the compressor has not seen its texts. messageBytes covers the
	// header, the checksum and the rest.
	linkBytes    = 71
	earlyLinks   = 30
	earlyBytes   = 60
	messageBytes = 200
	// rawLinkBytes is a link with its edges before compression.
	rawLinkBytes = 300
	// codecBytes is the RAM for a message in the making or reading.
	codecBytes = 256 << 10
	// mostPending is the least buffer of an outbox's queue that holds a whole message.
	mostPending = 80 << 10
)

// Limits of a broker.
const (
	// BucketCrawlBytes limits the values of BucketCrawl. DefaultLeasesBytes is the default limit of the
	// leases; LeastLeasesBytes is the least.
	BucketCrawlBytes   = 128 << 20
	DefaultLeasesBytes = 512 << 20
	LeastLeasesBytes   = 4 << 20
	// BrokerRAM is set aside for a broker in the process of a node: 64 MiB for consumers, 64 MiB for a slow
	// connection, the write queue of streams, and the garbage of messages. LeaseIndexRAM comes on top.
	BrokerRAM = 256 << 20
	// LeaseBytes is the size of a lease in the broker's files (TestLeaseRoom of package cluster/nats
	// measures 176), and leaseIndexBytes that of its entry in the broker's RAM (measured in the heap of a
	// server with 1.5 million leases).
	LeaseBytes      = 180
	leaseIndexBytes = 170
	// leaseShare is the part of a node's RAM for URLs that may be fetched now, leaseHostBytes for each host.
	// Each host may have a network of its own.
	leaseShare     = 1.0 / 16
	leaseHostBytes = 2400
)

// BrokerDisk returns the bytes that a broker may store for nodes with streams of streamBytes each, and for
// leases.
func BrokerDisk(nodes int, streamBytes, leasesBytes int64) int64 {
	return int64(nodes)*streamBytes + BucketCrawlBytes + leasesBytes
}

// JoinRoom is the number of nodes that may join a cluster whose broker is in the process of a node, before that process
// starts again: a broker's limit is fixed at its start.
const JoinRoom = 4

// LeaseIndexRAM returns the RAM of a broker for its index of leases. The number of leases is limited by the
// networks that fit in the RAM of nodes with ramBytes each, and by the room for leases.
func LeaseIndexRAM(nodes int, ramBytes, leasesBytes int64) int64 {
	wanted := float64(nodes) * float64(ramBytes) * leaseShare / leaseHostBytes
	return leaseIndexBytes * int64(min(wanted, float64(leasesBytes/LeaseBytes)))
}

// Traffic measures the messages from one node to another between two checkpoints of the sender.
type Traffic struct {
	Messages float64
	Bytes    float64
}

// TrafficOf returns the traffic for a number of links between two checkpoints. A checkpoint ends a message.
func TrafficOf(links float64) Traffic {
	if links <= 0 {
		return Traffic{}
	}
	n := max(min(1, links), 0.5+links*rawLinkBytes/sealBytes) // with less than a link, some intervals have none
	return Traffic{Messages: n, Bytes: n*(messageBytes+earlyBytes*min(links/n, earlyLinks)) + links*linkBytes}
}

// OutboxRAM returns the RAM of an outbox in use: the open message, and a tail and a head of blockBytes for
// each of its queues.
func OutboxRAM(blockBytes int) int64 { return 2*sealBytes + 4*int64(max(blockBytes, mostPending)) }

// CodecRAM returns the RAM for encoding and decoding messages in a process with this number of processors.
func CodecRAM(processors int) int64 { return int64(processors+1) * codecBytes }

// MostMarks returns the number of nodes whose marks fit into BucketCrawl, beside what else each node writes there. With
// more, the broker refuses marks: the other nodes keep what those nodes have taken, and the crawl does not end.
func MostMarks() (nodes int) {
	for n := 1; int64(n)*(PairsBytes(n)+HeadBytes+restBytes) <= BucketCrawlBytes; n++ {
		nodes = n
	}
	return nodes
}

// restBytes is what a node has in BucketCrawl beside its mark: its status, and the loads of some slots.
const restBytes = 2 << 10

// HeadBytes bounds the head of a mark in a cluster whose nodes have exchanged much, with the entry of one of them.
const HeadBytes = 600

// PairsBytes bounds the entries of a mark.
func PairsBytes(nodes int) int64 { return HeadBytes + pairBytes*int64(nodes) }
