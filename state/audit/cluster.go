package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"drumbeat/cluster"
	"drumbeat/internal/human"
	"drumbeat/state"
)

// The audit of a cluster compares the accounts of its nodes.

// Node is the audit of one node of a cluster.
type Node struct {
	Name       string // of its file or directory
	Checkpoint uint64
	Balanced   bool // its own audit found neither discrepancies nor damage
	Cluster    *Cluster
}

// maxAuditBytes bounds the file of ReadNode. An audit has 11 bytes for each message in an outbox: some 300 MB
// for an outbox of 1 TB.
const maxAuditBytes = 1 << 30

// ReadNode reads the JSON of a node's audit, from the file of that name.
func ReadNode(name string, r io.Reader) (Node, error) {
	var form struct {
		Checkpoint uint64   `json:"checkpoint"`
		Balanced   bool     `json:"balanced"`
		Cluster    *Cluster `json:"cluster"`
	}
	data, err := io.ReadAll(io.LimitReader(r, maxAuditBytes+1))
	switch {
	case err != nil:
		return Node{}, fmt.Errorf("crawl: read %s: %w", name, err)
	case len(data) > maxAuditBytes:
		return Node{}, fmt.Errorf("crawl: %s is longer than %d bytes", name, maxAuditBytes)
	}
	if err := json.Unmarshal(data, &form); err != nil {
		return Node{}, fmt.Errorf("crawl: %s is not the JSON of an audit: %w", name, err)
	}
	if form.Cluster == nil {
		return Node{}, fmt.Errorf("crawl: %s is not the JSON of an audit of a cluster's node", name)
	}
	return Node{Name: name, Checkpoint: form.Checkpoint, Balanced: form.Balanced, Cluster: form.Cluster}, nil
}

// ClusterReport combines the audits of several nodes.
type ClusterReport struct {
	Nodes     []Node // by number
	Of        int    // nodes of the cluster
	Missing   []int  // nodes without an audit; their pairs are not compared
	Abandoned []int  // nodes that others have abandoned, and those that have departed
	Departed  []int  // nodes that take part no more, with an earlier table of owners; their pairs are not compared
	// Out, Taken and Above are sums over all compared pairs: records sent, records taken, and untaken records
	// in outboxes.
	Out, Taken, Above cluster.Totals
	// Records dropped for abandoned nodes. Out includes them; Taken includes the records these nodes had
	// taken, by their senders' count.
	Dropped  cluster.Totals
	PassedOn cluster.Totals // records for nodes that take part no more, sent to others instead: Out has them twice
	Lost     cluster.Totals // of Taken, the records that a set-back receiver lost, by its resync
	Pairs    int
	// Bad describes the discrepancies, the first maxBad of BadCount.
	Bad      []string
	BadCount int
	// Back is the first sign of a node that was set back to an older copy. Damaged says whether a node is
	// damaged.
	Back    *cluster.SetBackError
	Damaged bool
	Deep    *ClusterDeep // of AuditDirs with Deep
}

// maxBad limits ClusterReport.Bad.
const maxBad = 100

// Balanced reports whether there is no discrepancy.
func (r *ClusterReport) Balanced() bool { return r.BadCount == 0 }

func (r *ClusterReport) bad(format string, args ...any) {
	r.BadCount++
	if len(r.Bad) < maxBad {
		r.Bad = append(r.Bad, fmt.Sprintf(format, args...))
	}
}

// CompareNodes compares the audits of the nodes of a cluster. All nodes had stopped before the first audit,
// at checkpoints of any time. For each pair, the records that the receiver took must be a prefix of the sent
// ones, and include the dropped ones. The error is state.ErrIncompatible if the nodes are not those of one
// cluster.
func CompareNodes(nodes []Node) (*ClusterReport, error) {
	if len(nodes) == 0 {
		return nil, state.Incompatible("crawl: no audit of a node was given")
	}
	first := &nodes[0]
	if i := slices.IndexFunc(nodes, func(n Node) bool { return !gone(nodes, n.Cluster.Node) }); i > 0 {
		first = &nodes[i]
	}
	byNumber := make([]*Node, first.Cluster.Nodes)
	rep := &ClusterReport{Of: first.Cluster.Nodes}
	for i := range nodes {
		n := &nodes[i]
		c := n.Cluster
		switch {
		case c.Secret == first.Cluster.Secret && c.Table != first.Cluster.Table && gone(nodes, c.Node):
			rep.Departed = append(rep.Departed, c.Node)
			if !n.Balanced {
				rep.bad("node %d (%s), which has departed: its own audit does not balance", c.Node, n.Name)
			}
			continue
		case c.Secret != first.Cluster.Secret:
			return nil, state.Incompatible("crawl: %s and %s belong to different crawls: their secrets differ",
				first.Name, n.Name)
		case c.Nodes != first.Cluster.Nodes:
			return nil, state.Incompatible("crawl: %s belongs to a cluster of %s, %s to one of %d", first.Name,
				human.Counted(first.Cluster.Nodes, "node", "nodes"), n.Name, c.Nodes)
		case c.Table != first.Cluster.Table:
			return nil, state.Incompatible("crawl: node %d (%s) and node %d (%s) have different tables of owners",
				first.Cluster.Node, first.Name, c.Node, n.Name)
		case byNumber[c.Node] != nil:
			return nil, state.Incompatible("crawl: %s and %s are both node %d", byNumber[c.Node].Name, n.Name, c.Node)
		}
		byNumber[c.Node] = n
	}
	slices.Sort(rep.Departed)
	for number, n := range byNumber {
		if n == nil && slices.Contains(rep.Departed, number) {
			continue
		}
		if n == nil {
			rep.Missing = append(rep.Missing, number)
			continue
		}
		rep.Nodes = append(rep.Nodes, *n)
		if !n.Balanced {
			rep.bad("node %d (%s): its own audit does not balance", number, n.Name)
		}
	}
	for from, sender := range byNumber {
		for to, receiver := range byNumber {
			if from != to && sender != nil && sender.Cluster.pair(to).Sent.Abandoned {
				rep.addAbandoned(&sender.Cluster.pair(to).Sent, to)
			} else if from != to && sender != nil && receiver != nil {
				rep.pair(sender.Cluster.pair(to), receiver.Cluster.pair(from), from, to)
				if l := receiver.Cluster.pair(from).Incarnation; l != sender.Cluster.Incarnation {
					rep.bad("node %d has incarnation %d, but node %d accepts messages of incarnation %d: run "+
						"drumbeat repair --resync %[1]d on node %[3]d", from, sender.Cluster.Incarnation, to, l)
				}
			}
		}
	}
	rep.moved()
	rep.sums()
	return rep, nil
}

// sums compares the sums over all pairs.
func (r *ClusterReport) sums() {
	all := r.Taken
	all.Add(r.Above)
	all.Add(r.Dropped)
	all.Add(r.PassedOn)
	if r.Out != all && r.Balanced() {
		r.bad("%s and %s sent, %d and %d were received or are in outboxes",
			human.Counted(r.Out.Links.N, "link", "links"),
			human.Counted(r.Out.Edges.N, "edge was", "edges were"), all.Links.N, all.Edges.N)
	}
}

// gone reports whether one of the nodes has abandoned node, also because it has departed.
func gone(nodes []Node, node int) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool {
		return n.Cluster.Node != node && node < n.Cluster.Nodes && n.Cluster.pair(node).Sent.Abandoned
	})
}

// moved compares the URLs of slots that nodes have given with those that others have got, once none of them are on
// their way. Keys may wait in URLseen of their taker. With a node that is missing, abandoned or set back, nothing is
// known.
func (r *ClusterReport) moved() {
	if len(r.Missing)+len(r.Abandoned) > 0 {
		return
	}
	var given, got cluster.MovedSums
	for i := range r.Nodes {
		c := r.Nodes[i].Cluster
		if c.Incarnation > 0 || c.Quarantined > 0 { // a message there may have some
			return
		}
		given.Add(&c.Given)
		got.Add(&c.Got)
		for j := range c.Pairs {
			if c.Pairs[j].Parts != (cluster.MovedSums{}) {
				return
			}
		}
	}
	if given.Waiting != got.Waiting || got.Known.N > given.Known.N {
		r.bad("nodes have given slots with %s, %d of them waiting; others have got %d, %d of them waiting",
			human.Counted(given.Known.N, "known URL", "known URLs"), given.Waiting.N, got.Known.N, got.Waiting.N)
	}
}

// pair returns a node's account of its exchange with another.
func (c *Cluster) pair(other int) *Pair {
	if other > c.Node {
		other--
	}
	return &c.Pairs[other]
}

// addAbandoned adds the records that a node has sent to an abandoned one.
func (r *ClusterReport) addAbandoned(s *cluster.Sent, to int) {
	if !slices.Contains(r.Abandoned, to) {
		r.Abandoned = append(r.Abandoned, to)
		slices.Sort(r.Abandoned)
	}
	r.Out.Add(s.Out)
	r.Taken.Add(s.Gone)
	r.Taken.Sub(s.PassedOn)
	r.PassedOn.Add(s.PassedOn)
	r.Dropped.Add(s.Dropped)
}

// Pair returns a node's account of its exchange with another.
func (c *Cluster) Pair(other int) *Pair { return c.pair(other) }

// TakenFrom returns the records that a node has taken from another.
func (c *Cluster) TakenFrom(other int) cluster.Taken { return c.pair(other).Taken }

// pair compares the records that node from sent, by sent, with those that node to took, by received.
func (r *ClusterReport) pair(sent, received *Pair, from, to int) {
	r.Pairs++
	above, err := sent.Sent.Check(from, to, received.Taken)
	r.Out.Add(sent.Sent.Out)
	r.Taken.Add(received.Taken.Totals)
	r.Lost.Add(received.Lost)
	var back *cluster.SetBackError
	if errors.As(err, &back) && r.Back == nil {
		r.Back = back
	}
	if err != nil {
		r.bad("%v", err)
		return
	}
	// The untaken records in the outbox, by the files.
	found := sent.Files
	found.Add(sent.Sent.Gone)
	found.Sub(received.Taken.Totals)
	r.Above.Add(found)
	if found != above {
		r.bad("node %d has sent %s and %s to node %d that were not received; its outbox has "+
			"%d and %d of them",
			from, human.Counted(above.Links.N, "link", "links"),
			human.Counted(above.Edges.N, "edge", "edges"), to, found.Links.N, found.Edges.N)
	}
}

// Write prints the report.
func (r *ClusterReport) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "node\tcheckpoint\tlinks sent\treceived durably\tin outboxes\tlinks received\tedges sent\t"+
		"received durably\tin outboxes\tedges received\t\n")
	for i := range r.Nodes {
		n := &r.Nodes[i]
		var out, gone, files, taken cluster.Totals
		for i := range n.Cluster.Pairs {
			p := &n.Cluster.Pairs[i]
			out.Add(p.Sent.Out)
			gone.Add(p.Sent.Gone)
			files.Add(p.Files)
			taken.Add(p.Taken.Totals)
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", n.Cluster.Node, n.Checkpoint, out.Links.N,
			gone.Links.N, files.Links.N, taken.Links.N, out.Edges.N, gone.Edges.N, files.Edges.N, taken.Edges.N)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if d := r.Deep; d != nil {
		fmt.Fprintf(w, "%s of records, responses and logs belong to slots of their nodes, %d do not; %s of "+
			"URLseen, %d on two nodes\n", human.Counted(d.Own, "URL", "URLs"), d.Foreign,
			human.Counted(d.Keys, "key", "keys"), d.Twice)
		if d.History > 0 {
			fmt.Fprintf(w, "%s and log lines belong to URLs that were done before their slots moved to "+
				"other nodes\n", human.Counted(d.History, "response", "responses"))
		}
		if d.Leaving > 0 {
			fmt.Fprintf(w, "%s on their way to the nodes that have got their slots\n",
				human.Counted(d.Leaving, "URL in a queue is", "URLs in queues are"))
		}
	}
	for _, why := range r.Bad {
		fmt.Fprintln(w, "AUDIT:", why)
	}
	if r.BadCount > len(r.Bad) {
		fmt.Fprintf(w, "AUDIT: and %d more\n", r.BadCount-len(r.Bad))
	}
	for i := range r.Nodes {
		if c := r.Nodes[i].Cluster; c.Quarantined > 0 {
			fmt.Fprintf(w, "node %d has %s of other nodes in quarantine: what they have counts as received\n",
				c.Node, human.Counted(c.Quarantined, "message", "messages"))
		}
	}
	for _, node := range r.Departed {
		fmt.Fprintf(w, "node %d has departed: its records are not compared\n", node)
	}
	for _, node := range r.Abandoned {
		if slices.Contains(r.Departed, node) {
			continue
		}
		if r.passedOn(node) {
			fmt.Fprintf(w, "node %d takes part no more\n", node)
			continue
		}
		fmt.Fprintf(w, "node %d was abandoned: links and edges for it were dropped\n", node)
	}
	for _, node := range r.Missing {
		fmt.Fprintf(w, "node %d is missing: its records are not compared\n", node)
	}
	_, err := fmt.Fprintf(w, "%d of %s, %s: %s\n", len(r.Nodes), human.Counted(r.Of, "node", "nodes"),
		human.Counted(r.Pairs, "pair", "pairs"), r.verdict())
	return err
}

// passedOn reports whether all that waited for a node was sent to others, because it takes part no more.
func (r *ClusterReport) passedOn(node int) bool {
	var on, dropped cluster.Totals
	for i := range r.Nodes {
		if c := r.Nodes[i].Cluster; c.Node != node {
			on.Add(c.pair(node).Sent.PassedOn)
			dropped.Add(c.pair(node).Sent.Dropped)
		}
	}
	return on.Records() > 0 && dropped.Records() == 0
}

// verdict sums the report up in a line.
func (r *ClusterReport) verdict() string {
	if !r.Balanced() {
		return "NOT balanced"
	}
	verdict := fmt.Sprintf("balanced: %s and %s sent, %d and %d of them received; %d and %d are "+
		"in outboxes", human.Counted(r.Out.Links.N, "link", "links"),
		human.Counted(r.Out.Edges.N, "edge was", "edges were"), r.Taken.Links.N, r.Taken.Edges.N,
		r.Above.Links.N, r.Above.Edges.N)
	if r.Lost.Records() > 0 {
		verdict += fmt.Sprintf("; of those received, %d and %d were lost when a node was set back "+
			"to an older copy", r.Lost.Links.N, r.Lost.Edges.N)
	}
	if r.Dropped.Records() > 0 || len(r.Abandoned) > 0 && r.PassedOn.Records() == 0 {
		verdict += fmt.Sprintf("; %d and %d were dropped", r.Dropped.Links.N, r.Dropped.Edges.N)
	}
	if r.PassedOn.Records() > 0 {
		verdict += fmt.Sprintf("; %d and %d for nodes that take part no more were passed on to others",
			r.PassedOn.Links.N, r.PassedOn.Edges.N)
	}
	return verdict
}
