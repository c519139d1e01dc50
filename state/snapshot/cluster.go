package snapshot

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cluster describes the exchange of a node with the rest of its cluster. Nodes is 0 in a crawl of one node.
type Cluster struct {
	Node, Nodes int
	Connected   bool      // to the broker
	Since       time.Time // when Connected changed last
	Connects    uint64    // connections in this run
	Idle        bool      // the node only waits for others
	PagesLeft   int64     // of the node's part of Options.MaxPages; 0 without
	Pairs       []Pair    // one for each other node
	Leases      Leases
	Orders      Orders
	GiveWhy     string // why this node cannot give its slots though others have given theirs; "": it can
}

// Orders are those that all nodes carry out (cluster.Order).
type Orders struct {
	Taken   int    // of the whole crawl
	Waiting int    // of other nodes, which this one could not carry out
	Why     string // why one of them waits
}

// Leases are those of networks that several nodes may visit.
type Leases struct {
	On           bool          // the nodes visit networks in turn
	Held, Wanted int           // networks that this node may visit, and that it waits for
	Longest      time.Duration // longest wait for one of them
	URLs         int64         // URLs that wait for such networks, in RAM, some seconds ago, and on disk
	Taken        int64         // leases acquired in this run
	HandedOver   int64         // of these, handed to another node
	Lost         int64         // of these, found in other hands
	Unreadable   int64         // leases whose value could not be read
	Replaced     int64         // of these, those that this node took after --cluster-lease
	Refused      int64         // leases refused for lack of room, in this run; each is tried again
	Collected    int64         // leases of ended and killed processes that this node has deleted in this run
	RoomBytes    int64         // that the broker uses for leases
	RoomLimit    int64         // and may use; 0: unknown
	Guarded      bool          // new leases wait until all nodes have claimed theirs, after a loss or at the start
	Resting      bool          // nothing is fetched: the other nodes have not read this node's heartbeats for too long
	Starting     bool          // resting since the start of the process
	Losses       int64         // times in this run that the broker had lost changes
}

// Pair are the figures of this node and another one. Records are links and edges between PLDs.
type Pair struct {
	Node         int           // the other one
	Added        int64         // records for it, of all runs
	Waiting      int64         // of these, records that it has not made durable
	WaitingBytes int64         // of the messages of these, in RAM and on disk
	Missing      bool          // it has not been heard of in this run, and its last run, if any, has not ended
	Ended        string        // why its last run has ended; "" while it runs, and before it was heard of
	Silent       time.Duration // time since its last status, in this run; 0 if its run has ended or it is abandoned
	Stalled      time.Duration // time since it last took a waiting record
	Published    int64         // messages published in this run
	Resends      int64         // resends of all messages in flight, in this run
	Taken        int64         // records taken from it, of all runs
	Holes        int64         // gaps in its messages, in this run
	Abandoned    bool          // it is lost for good
	Departed     bool          // it is abandoned because others have its slots (cluster leave, forget)
	Replacing    bool          // drumbeat cluster replace gives its backup its place
	Dropped      int64         // records for it dropped because it was abandoned

	Quarantined     int64 // its unreadable messages, kept in quarantine
	RefusedMessages int64 // its refused messages, in this run
	RefusedMarks    int64 // its refused marks, in this run
	Held            bool  // nothing is sent to it: it cannot read the next message for it
}

// namedNodes bounds the nodes that Missing names.
const namedNodes = 5

// Missing names the other nodes that have not been heard of in this run; "" for none.
func (c *Cluster) Missing() string {
	var names []string
	n := 0
	for i := range c.Pairs {
		if p := &c.Pairs[i]; p.Missing && !p.Abandoned {
			if n++; n <= namedNodes {
				names = append(names, strconv.Itoa(p.Node))
			}
		}
	}
	switch {
	case n == 0:
		return ""
	case n == 1:
		return "node " + names[0]
	case n > namedNodes:
		return fmt.Sprintf("nodes %s and %d more", strings.Join(names, ", "), n-namedNodes)
	}
	return "nodes " + strings.Join(names[:n-1], ", ") + " and " + names[n-1]
}

// Waiting sums the backlog for all other nodes. slowest is the node with the largest backlog (any node if
// there is none).
func (c *Cluster) Waiting() (records, bytes int64, slowest int) {
	most := int64(-1)
	for i := range c.Pairs {
		p := &c.Pairs[i]
		records += p.Waiting
		bytes += p.WaitingBytes
		if p.Waiting > most {
			most, slowest = p.Waiting, p.Node
		}
	}
	return records, bytes, slowest
}
