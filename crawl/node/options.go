package node

import (
	"cmp"
	"log/slog"
	"time"

	"drumbeat/cluster"
)

// Options are those of a node of a cluster. They do not change while the crawl runs.
type Options struct {
	Log         *slog.Logger
	Node        int            // this node
	Table       *cluster.Table // which node owns which PLD; nil: the crawl has one node
	Crawl       uint64         // identifies the crawl of the cluster
	Secret      []byte         // of the cluster
	Transport   cluster.Transport
	Reconfigure bool  // this node replaces the configuration of the cluster at its start
	Abandoned   []int // nodes that are lost for good; outboxes may know more
	// Change is the last change of the table while the crawl ran; nil: none. Adopt says that the manifest has the table
	// before it. Refused is a change that this node has refused, with the reason.
	Change   *cluster.TableChange
	Adopt    bool
	Refused  *cluster.TableChange
	LeaseTTL time.Duration // a lost node is forgotten when it has said nothing for this time

	MaxPages        int64         // of all nodes; 0: no limit
	Connections     int           // of this node
	ResendAfter     time.Duration // untaken messages are sent again after this time without progress
	QuarantineBytes int64         // room for unreadable messages; 0: 256 MiB

	Host, Version string // for people
	Broker        bool   // its process runs a broker
	// Reads is the latest version of messages that this node reads; 0: cluster.Version. Tests set it.
	Reads int
	// Visits says that URLs are visited again.
	Visits bool
}

// reads returns Reads or its default.
func (o *Options) reads() int { return cmp.Or(o.Reads, cluster.Version) }

// nodes returns the number of nodes.
func (o *Options) nodes() int { return o.Table.Nodes() }
