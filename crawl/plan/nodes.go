package plan

import (
	"cmp"
	"fmt"

	"drumbeat/cluster"
	"drumbeat/internal/human"
)

// measuredAway is the share of the links behind the RAM cache that lead to another PLD than their page's, on
// a synthetic web (docs/how-it-works/benchmarks.md, "What travels between nodes").
const measuredAway = 0.52

// NodesInput says what nodes exchange.
type NodesInput struct {
	// LinksAway is the share of the links that reach URLseen and lead to another PLD than their page's; 0 means 0.52.
	LinksAway float64
	// StreamBytes is what the broker may hold for a node. Replicas is the number of its copies; 0 means 1.
	StreamBytes int64
	Replicas    int
	// LeasesBytes is what the broker may hold for leases of networks; 0 means cluster.DefaultLeasesBytes.
	LeasesBytes int64
}

// NodesForecast is what the nodes of a cluster exchange, when all crawl at the rate of a Forecast.
type NodesForecast struct {
	Nodes int `json:"nodes"`
	// LargestShare is the part of the web that the largest node owns; the forecast is that of this node.
	LargestShare float64 `json:"largestShare"`
	// Rate is the pages/s of all nodes. Seconds is the time of the whole crawl: that of the largest node.
	Rate    float64 `json:"rate"`
	Seconds float64 `json:"seconds"`
	// LinksPerPage is the number of links that a page sends to other nodes. SentBytes is what a node sends in
	// a second, and receives.
	LinksPerPage float64 `json:"linksPerPage"`
	SentBytes    float64 `json:"sentBytes"`
	// OutboxRAM is the RAM of a node's outboxes. OutboxDiskBytes is what they hold while all works, until
	// checkpoints of both ends cover it. While the broker is away they grow by SentBytes a second.
	OutboxRAM       int64 `json:"outboxRAM"`
	OutboxDiskBytes int64 `json:"outboxDiskBytes"`
	// BrokerMessages and BrokerBytes are what the broker takes from all nodes in a second; it gives as much to them.
	// BrokerCopies is what its servers send to each other.
	BrokerMessages float64 `json:"brokerMessages"`
	BrokerBytes    float64 `json:"brokerBytes"`
	BrokerCopies   float64 `json:"brokerCopies"`
	// MarksBytes is what the broker sends in a second to tell each node of the checkpoints of all.
	MarksBytes float64 `json:"marksBytes"`
	// StreamFill is what a node's stream holds between two checkpoints of the node.
	StreamFill int64 `json:"streamFill"`
	// Leases is the number of networks whose URLs all nodes together can have in RAM, and so hold leases, if
	// each host is alone in its network. They take LeaseBytes in the broker, which has LeaseRoom for them.
	Leases     int64 `json:"leases"`
	LeaseBytes int64 `json:"leaseBytes"`
	LeaseRoom  int64 `json:"leaseRoom"`
	// BrokerRAM and BrokerDiskBytes are set aside in the node that runs the broker.
	BrokerRAM       int64 `json:"brokerRAM"`
	BrokerDiskBytes int64 `json:"brokerDiskBytes"`

	Warnings []string `json:"warnings,omitempty"`
}

// Nodes computes what the nodes of the cluster exchange at the rate of f, which is the forecast of the largest node.
func (p *Plan) Nodes(f *Forecast, in NodesInput) NodesForecast {
	o := &p.of
	nodes := o.Nodes
	if in.LinksAway == 0 {
		in.LinksAway = measuredAway
	}
	n := NodesForecast{Nodes: nodes, LargestShare: 1, Rate: f.Rate, Seconds: f.Seconds, BrokerRAM: o.BrokerRAM}
	if nodes == 1 {
		return n
	}
	n.LargestShare = cluster.LargestShare(nodes)
	n.Rate = f.Rate / n.LargestShare // nodes with less are done earlier, or crawl slower
	peers, every := float64(nodes-1), o.CheckpointEvery.Seconds()
	n.LinksPerPage = f.Load.Misses * f.Load.LinksPerPage * in.LinksAway * (1 - n.LargestShare)
	pair := cluster.TrafficOf(f.Rate * n.LinksPerPage * every / peers)
	n.SentBytes = pair.Bytes * peers / every
	n.OutboxRAM = int64(peers) * cluster.OutboxRAM(o.QueueBlockBytes)
	n.OutboxDiskBytes = amount(2 * every * n.SentBytes)
	n.BrokerMessages, n.BrokerBytes = pair.Messages*peers*float64(nodes)/every, n.SentBytes*float64(nodes)
	n.BrokerCopies = n.BrokerBytes * float64(max(1, in.Replicas)-1)
	n.MarksBytes = float64(nodes) * (float64(nodes)*2*cluster.HeadBytes + float64(cluster.PairsBytes(nodes))) / every
	n.StreamFill = amount(every * n.SentBytes)
	n.LeaseRoom = cmp.Or(in.LeasesBytes, cluster.DefaultLeasesBytes)
	n.Leases = min(int64(nodes)*(p.PoliteBytes/politeHostBytes), mostNetworks)
	n.LeaseBytes = n.Leases * cluster.LeaseBytes
	if o.BrokerRAM > 0 {
		n.BrokerDiskBytes = cluster.BrokerDisk(nodes, in.StreamBytes, n.LeaseRoom)
	}
	n.warn(o, in)
	return n
}

// mostNetworks is the number of IPv4 /24. IPv6 has more /48, but few of them have web servers.
const mostNetworks = 1 << 24

// embedMost is the number of nodes above which a broker of its own is better than one in a node.
const embedMost = 4

func (n *NodesForecast) warn(o *Options, in NodesInput) {
	add := func(format string, args ...any) { n.Warnings = append(n.Warnings, fmt.Sprintf(format, args...)) }
	// A share s of the pages beside 1/N of the rest makes its node's part 1.1/N if s = 0.1/(N-1).
	add("One node crawls all hosts of a PLD. A PLD with %.2g %% of all pages makes the crawl 10 %% longer.",
		10/float64(n.Nodes-1))
	if n.StreamFill > in.StreamBytes/2 {
		add("A node's stream receives %s between two checkpoints, and its limit is %s: use a larger --cluster-stream.",
			human.Bytes(n.StreamFill), human.Bytes(in.StreamBytes))
	}
	if float64(n.LeaseBytes) > cluster.LeaseRoom*float64(n.LeaseRoom) {
		add("Leases may need %s of the broker. Above 7/8 of %s, networks must wait: use --cluster-leases=%dMiB.",
			human.Bytes(n.LeaseBytes), human.Bytes(n.LeaseRoom), 1+int64(float64(n.LeaseBytes)/cluster.LeaseRoom)>>20)
	}
	if o.BrokerRAM > 0 && n.Nodes > embedMost {
		add("With more than %d nodes, use three separate NATS servers instead of one inside a node.", embedMost)
	}
	if most := cluster.MostMarks(); n.Nodes > most {
		add("The broker has room for the marks of %s.", human.Counted(most, "node", "nodes"))
	}
	if n.OutboxDiskBytes > o.DiskBytes/100 {
		add("The outboxes hold %s in normal operation.", human.Bytes(n.OutboxDiskBytes))
	}
}
