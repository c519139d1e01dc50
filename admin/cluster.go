package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/cluster"
	"drumbeat/crawl"
	"drumbeat/crawl/operate"
	"drumbeat/internal/human"
	"drumbeat/state/condition"
)

// Broker is the connection of a node of a cluster to the broker.
type Broker struct {
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since" doc:"Time since which it is connected, or is not."`
	Connects  uint64    `json:"connects" doc:"Connections in this run."`
}

// NodeOf says which node of which cluster a crawl is.
type NodeOf struct {
	Node   int    `json:"node"`
	Nodes  int    `json:"nodes"`
	Broker Broker `json:"broker"`
	Orders Orders `json:"orders" doc:"Orders to all nodes: blocked and unblocked rules, erasures."`
}

// Orders are orders to all nodes of a cluster.
type Orders struct {
	Done    int    `json:"done" doc:"Orders that the node has carried out, or that wait for its next stop."`
	Waiting int    `json:"waiting" doc:"Orders of other nodes that it could not carry out yet."`
	Why     string `json:"why,omitempty" doc:"Why one of them waits."`
}

// Cluster is the state of all nodes of a cluster, as this node sees it.
type Cluster struct {
	Time     time.Time        `json:"time"`
	Health   Health           `json:"health" doc:"The condition of the whole cluster."`
	Self     NodeOf           `json:"self" doc:"This node."`
	Nodes    []ClusterNode    `json:"nodes"`
	Overview cluster.Overview `json:"overview"`
	Pairs    []Pair           `json:"pairs" doc:"The exchange of this node with each other node."`
}

// ClusterNode is a node of a cluster.
type ClusterNode struct {
	Node   int             `json:"node"`
	Heard  bool            `json:"heard" doc:"It reported in the last minute, or reported its end."`
	Age    float64         `json:"age" doc:"Seconds since its last status, by two clocks; 0 without one."`
	Status *cluster.Status `json:"status,omitempty" doc:"Its last report; missing if there is none."`
}

// Pair is the exchange of this node with another one. Records are links and edges between PLDs.
type Pair struct {
	Node         int     `json:"node" doc:"The other node."`
	Added        int64   `json:"added" doc:"Records for it, of all runs."`
	Waiting      int64   `json:"waiting" doc:"Of these, those that it has not stored durably."`
	WaitingBytes int64   `json:"waitingBytes"`
	Stalled      float64 `json:"stalled" doc:"Seconds since it last received one of the waiting records."`
	Published    int64   `json:"published" doc:"Messages published in this run."`
	Resends      int64   `json:"resends" doc:"Times that all messages under way were published again, in this run."`
	Taken        int64   `json:"taken" doc:"Records received from it, of all runs."`
	Holes        int64   `json:"holes" doc:"Times that its messages were missing, in this run."`

	Quarantined     int64 `json:"quarantined" doc:"Its messages that this version cannot read, kept in quarantine."`
	RefusedMessages int64 `json:"refusedMessages" doc:"Its messages that were refused, in this run."`
	RefusedMarks    int64 `json:"refusedMarks" doc:"Its marks that were refused, in this run."`
	Held            bool  `json:"held" doc:"Nothing is sent to it, because it cannot read the next message for it."`
}

// nodeOf returns which node a crawl is, nil for a crawl of one node.
func nodeOf(s *crawl.Snapshot) *NodeOf {
	c := &s.Cluster
	if c.Nodes == 0 {
		return nil
	}
	return &NodeOf{c.Node, c.Nodes, Broker{c.Connected, c.Since.UTC(), c.Connects},
		Orders{c.Orders.Taken, c.Orders.Waiting, c.Orders.Why}}
}

// clusterLine describes in a line of text how a node of a cluster sees the others.
func clusterLine(s *crawl.Snapshot) string {
	c := &s.Cluster
	var silent, abandoned, departed []string
	for i := range c.Pairs {
		p := &c.Pairs[i]
		if p.Silent >= cluster.StatusOld {
			silent = append(silent, strconv.Itoa(p.Node))
		}
		switch {
		case p.Departed:
			departed = append(departed, strconv.Itoa(p.Node))
		case p.Abandoned:
			abandoned = append(abandoned, strconv.Itoa(p.Node))
		}
	}
	broker := "without the broker"
	if c.Connected {
		broker = "connected to the broker"
	}
	left := ""
	if len(departed) > 0 {
		left = "; departed nodes: " + strings.Join(departed, ", ")
	}
	records, bytes, _ := c.Waiting()
	return fmt.Sprintf("cluster: node %d of %d, %s for %s; silent nodes: %s; abandoned nodes: %s%s; "+
		"%s (%s) for other nodes\n", c.Node, c.Nodes, broker, human.Duration(s.Time.Sub(c.Since).Round(time.Second)),
		cmp.Or(strings.Join(silent, ", "), "none"), cmp.Or(strings.Join(abandoned, ", "), "none"), left,
		human.Counted(records, "record waits", "records wait"), human.Bytes(bytes))
}

// cluster describes all nodes.
func (s *Server) cluster() (*Cluster, error) {
	_, list, err := s.opt.Control.Cluster()
	if errors.Is(err, operate.ErrOneNode) {
		return nil, problem(http.StatusNotFound, "this crawl has one node only")
	}
	if err != nil {
		return nil, err
	}
	snap, err := s.opt.Control.Exact()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	self := snap.Cluster.Node
	if st := list[self]; st != nil { // what this node sees now, not with its last status
		c, fresh := condition.Of(snap), *st
		fresh.State, fresh.Level, fresh.Text = string(c.State), string(c.Level), c.Text
		list = slices.Clone(list)
		list[self] = &fresh
	}
	out := &Cluster{Time: now.UTC(), Health: s.healthOf(condition.OfNodes(list, now)), Self: *nodeOf(snap),
		Overview: cluster.Summarize(list, now), Pairs: []Pair{}}
	for node, st := range list {
		n := ClusterNode{Node: node, Status: st}
		if st != nil {
			n.Heard, n.Age = st.Heard(now), now.Sub(st.Time).Seconds()
		}
		out.Nodes = append(out.Nodes, n)
	}
	for _, p := range snap.Cluster.Pairs {
		out.Pairs = append(out.Pairs, Pair{p.Node, p.Added, p.Waiting, p.WaitingBytes, p.Stalled.Seconds(), p.Published,
			p.Resends, p.Taken, p.Holes, p.Quarantined, p.RefusedMessages, p.RefusedMarks, p.Held})
	}
	return out, nil
}
