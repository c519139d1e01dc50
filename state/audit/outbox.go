package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"drumbeat/cluster"
	"drumbeat/internal/human"
	"drumbeat/queue"
	"drumbeat/state"
	"drumbeat/weburl"
)

// Cluster is the account of a node's exchange with the other nodes. Its JSON form is a part of the JSON of an
// audit, which ReadNode reads.
type Cluster struct {
	Node, Nodes int
	Table       uint64            // cluster.Table.Sum
	Secret      uint64            // keyed hash of a constant: equal for nodes of one crawl
	Incarnation uint64            // how often the node was resynced
	Given, Got  cluster.MovedSums // URLs of slots that moved to others, and here, while the crawl ran
	Quarantined int64             // messages of other nodes that wait unread: they count as taken
	Pairs       []Pair            // one for each other node
}

// Pair is the account of a node's exchange with one other node.
type Pair struct {
	Node int // the other one
	Sent cluster.Sent
	// Files are the records in the outbox. They are Sent.Out less Sent.Gone, unless the outbox is damaged.
	Files       cluster.Totals
	Parts       cluster.MovedSums // in the outbox: URLs of slots that move
	Taken       cluster.Taken
	Lost        cluster.Totals // of Taken, the records lost when this node was set back
	Incarnation uint64         // of the other node; this one takes messages of this incarnation
}

// clusterOf returns the Cluster of a manifest, without Files; nil for a crawl of one node.
func clusterOf(m *state.Manifest) (*Cluster, error) {
	f := &m.Frozen
	if f.Nodes == 0 {
		return nil, nil
	}
	if m.Intake == nil || len(m.Intake.Taken) != f.Nodes {
		return nil, state.Incompatible("crawl: manifest: node %d of %d has no account of the messages it has received",
			f.Node, f.Nodes)
	}
	c := &Cluster{Node: f.Node, Nodes: f.Nodes, Table: f.Table, Secret: f.SecretCheck,
		Incarnation: m.Intake.Incarnation, Given: m.Accounts.Given, Got: m.Accounts.Got}
	quarantine, err := state.Part[queue.State](m, state.NameQuarantine)
	if err != nil {
		return nil, err
	}
	if quarantine != nil { // an older manifest has none
		c.Quarantined = quarantine.Records
	}
	for node := range f.Nodes {
		if node == f.Node {
			continue
		}
		st, err := outboxState(m, node)
		if err != nil {
			return nil, err
		}
		var lost cluster.Totals
		if node < len(m.Intake.Lost) {
			lost = m.Intake.Lost[node]
		}
		c.Pairs = append(c.Pairs,
			Pair{Node: node, Taken: m.Intake.Taken[node], Lost: lost, Incarnation: m.Intake.IncarnationOf(node),
				Sent: cluster.Sent{Out: st.Out, Gone: st.Gone, PassedOn: st.PassedOn, Dropped: st.Dropped,
					Abandoned: st.Abandoned, Last: st.Last, GoneNumber: st.Taken}})
	}
	return c, nil
}

func outboxState(m *state.Manifest, node int) (*cluster.OutboxState, error) {
	st, err := state.Part[cluster.OutboxState](m, state.OutboxName(node))
	if err == nil && st == nil {
		err = state.Incompatible("crawl: the manifest has no state of the outbox for node %d", node)
	}
	return st, err
}

// scanOutbox reads the outbox of a pair, and sets its Files and Sums.
func (p *Pair) scan(r *state.Saved, m *state.Manifest, damaged func(error) error) (*cluster.OutboxFound, error) {
	st, err := outboxState(m, p.Node)
	if err != nil {
		return nil, err
	}
	found, err := cluster.ScanOutbox(cluster.OutboxScan{Set: r.Set, Name: state.OutboxName(p.Node),
		From: m.Frozen.Node, To: p.Node, State: st, Damaged: damaged, LinkKey: func(record []byte) (uint64, error) {
			var rec weburl.Record
			if err := rec.Decode(record); err != nil {
				return 0, err
			}
			return r.Hasher.URLKey(rec.URL), nil
		}})
	if err != nil {
		return nil, fmt.Errorf("crawl: audit of the outbox for node %d: %w", p.Node, err)
	}
	p.Files, p.Parts, p.Sent.Sums = found.Files, found.Moved, found.Sums
	return found, nil
}

// auditCluster reads the outboxes. The error is the first damage.
func auditCluster(r *state.Saved, m *state.Manifest) (*Cluster, error) {
	c, err := clusterOf(m)
	if err != nil || c == nil {
		return nil, err
	}
	for i := range c.Pairs {
		if _, err := c.Pairs[i].scan(r, m, nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// scanOutboxes reads the outboxes of a node of a cluster.
func (x *Scanner) scanOutboxes() error {
	c, err := clusterOf(x.Manifest)
	if err != nil || c == nil {
		return err
	}
	x.Outboxes = map[int]*cluster.OutboxFound{}
	for i := range c.Pairs {
		p := &c.Pairs[i]
		x.Begin(state.OutboxName(p.Node))
		found, err := p.scan(x.Saved, x.Manifest, x.damage)
		if err != nil {
			return err
		}
		x.Outboxes[p.Node] = found
		x.row.Records = found.Files.Records()
		x.lost(max(0, p.Sent.Out.Records()-p.Sent.Gone.Records()-p.Sent.Dropped.Records()-found.Files.Records()))
	}
	x.cluster = c
	return nil
}

// quarantined checks an unreadable message of another node.
func (x *Scanner) quarantined(msg []byte) error {
	if _, err := cluster.ReadHeader(msg); err != nil {
		x.lost(1)
		return x.damage(err)
	}
	x.row.Records++
	return nil
}

// Write prints the accounts of the exchange.
func (c *Cluster) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "node %d with node\tlinks sent\treceived durably\tin outbox\tlinks received\tedges sent\t"+
		"received durably\tin outbox\tedges received\t\n", c.Node)
	for i := range c.Pairs {
		p := &c.Pairs[i]
		s := &p.Sent
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", p.Node, s.Out.Links.N, s.Gone.Links.N, p.Files.Links.N,
			p.Taken.Totals.Links.N, s.Out.Edges.N, s.Gone.Edges.N, p.Files.Edges.N, p.Taken.Totals.Edges.N)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range c.Pairs {
		p := &c.Pairs[i]
		if p.Sent.Abandoned && (p.Sent.PassedOn.Records() == 0 || p.Sent.Dropped.Records() > 0) {
			fmt.Fprintf(w, "node %d was abandoned: %s and %s for it were dropped\n", p.Node,
				human.Counted(p.Sent.Dropped.Links.N, "link", "links"),
				human.Counted(p.Sent.Dropped.Edges.N, "edge", "edges"))
		}
		if on := p.Sent.PassedOn; on.Records() > 0 {
			fmt.Fprintf(w, "node %d takes part no more: %s and %s for it were passed on to other nodes\n", p.Node,
				human.Counted(on.Links.N, "link", "links"), human.Counted(on.Edges.N, "edge", "edges"))
		}
	}
	return nil
}

// dropped returns the records dropped because their nodes were abandoned.
func (c *Cluster) dropped() (dropped cluster.Totals) {
	for i := range c.Pairs {
		dropped.Add(c.Pairs[i].Sent.Dropped)
	}
	return dropped
}

// check compares the accounts of the exchange with the counters of the manifest.
func (c *Cluster) check(m *state.Manifest, rep *Report) {
	if c == nil {
		return
	}
	count, dropped := &m.Accounts.Counters, c.dropped()
	if links, edges := count[state.CountLinksAbandoned], count[state.CountEdgesAbandoned]; links != dropped.Links.N ||
		edges != dropped.Edges.N {
		rep.Bad = append(rep.Bad, fmt.Sprintf(
			"outboxes: %s and %s dropped because their nodes were abandoned, by the counters "+
				"%d and %d", human.Counted(dropped.Links.N, "link", "links"),
			human.Counted(dropped.Edges.N, "edge was", "edges were"), links, edges))
	}
}

// The JSON form of Cluster. Sums are hexadecimal, because some programs lose bits of 64-bit numbers.
type clusterJSON struct {
	Node        int        `json:"node"`
	Nodes       int        `json:"nodes"`
	Table       string     `json:"table"`
	Secret      string     `json:"secret_check"`
	Incarnation uint64     `json:"life,omitempty"`
	Given       totalsJSON `json:"given,omitzero"` // links: known, edges: waiting
	Got         totalsJSON `json:"got,omitzero"`
	Quarantined int64      `json:"quarantined,omitempty"`
	Pairs       []pairJSON `json:"pairs"`
}

type pairJSON struct {
	Node        int        `json:"node"`
	Out         totalsJSON `json:"out"`
	Gone        totalsJSON `json:"gone"`
	Files       totalsJSON `json:"files"`
	Parts       totalsJSON `json:"parts,omitzero"` // as Given
	Taken       totalsJSON `json:"taken"`
	OutNumber   uint64     `json:"out_message"`
	GoneNumber  uint64     `json:"gone_message"`
	TakenNumber uint64     `json:"taken_message"`
	Sums        []byte     `json:"message_sums"`       // 8 bytes for each message after GoneNumber
	PassedOn    totalsJSON `json:"passed_on,omitzero"` // of Gone: to others
	Dropped     totalsJSON `json:"dropped,omitzero"`   // of an abandoned node
	GivenUp     bool       `json:"given_up,omitempty"`
	Lost        totalsJSON `json:"lost,omitzero"` // when this node was set back
	Incarnation uint64     `json:"life,omitempty"`
}

type totalsJSON struct {
	Links    int64  `json:"links"`
	LinkKeys string `json:"link_keys"`
	Edges    int64  `json:"edges"`
	EdgeKeys string `json:"edge_keys"`
}

func totalsForm(t cluster.Totals) totalsJSON {
	keys := func(s weburl.Sum) string { return fmt.Sprintf("%016x%016x", s.Hi, s.Lo) }
	return totalsJSON{Links: t.Links.N, LinkKeys: keys(t.Links), Edges: t.Edges.N, EdgeKeys: keys(t.Edges)}
}

// movedForm is totalsForm for the URLs of slots that move; the zero value for none.
func movedForm(s cluster.MovedSums) totalsJSON {
	if s == (cluster.MovedSums{}) {
		return totalsJSON{}
	}
	return totalsForm(cluster.Totals{Links: s.Known, Edges: s.Waiting})
}

func (f *totalsJSON) moved() (s cluster.MovedSums, err error) {
	if *f == (totalsJSON{}) {
		return s, nil
	}
	t, err := f.totals()
	return cluster.MovedSums{Known: t.Links, Waiting: t.Edges}, err
}

func (f *totalsJSON) totals() (t cluster.Totals, err error) {
	for _, s := range [...]struct {
		sum  *weburl.Sum
		n    int64
		keys string
	}{{&t.Links, f.Links, f.LinkKeys}, {&t.Edges, f.Edges, f.EdgeKeys}} {
		if len(s.keys) != 32 || s.n < 0 {
			return t, fmt.Errorf("key sum %.40q of %s", s.keys, human.Counted(s.n, "record", "records"))
		}
		s.sum.N = s.n
		if s.sum.Hi, err = strconv.ParseUint(s.keys[:16], 16, 64); err == nil {
			s.sum.Lo, err = strconv.ParseUint(s.keys[16:], 16, 64)
		}
		if err != nil {
			return t, err
		}
	}
	return t, nil
}

// MarshalJSON implements json.Marshaler.
func (c *Cluster) MarshalJSON() ([]byte, error) {
	form := clusterJSON{Node: c.Node, Nodes: c.Nodes, Table: fmt.Sprintf("%016x", c.Table),
		Secret: fmt.Sprintf("%016x", c.Secret), Incarnation: c.Incarnation,
		Given: movedForm(c.Given), Got: movedForm(c.Got), Quarantined: c.Quarantined}
	for i := range c.Pairs {
		p := &c.Pairs[i]
		s := &p.Sent
		form.Pairs = append(form.Pairs,
			pairJSON{Node: p.Node, Out: totalsForm(s.Out), Gone: totalsForm(s.Gone), Files: totalsForm(p.Files),
				Taken: totalsForm(p.Taken.Totals), OutNumber: s.Last, GoneNumber: s.GoneNumber,
				TakenNumber: p.Taken.Number, Sums: cluster.AppendSums(nil, s.Sums), GivenUp: s.Abandoned,
				Incarnation: p.Incarnation, Parts: movedForm(p.Parts)})
		if p.Lost != (cluster.Totals{}) {
			form.Pairs[i].Lost = totalsForm(p.Lost)
		}
		if s.PassedOn != (cluster.Totals{}) {
			form.Pairs[i].PassedOn = totalsForm(s.PassedOn)
		}
		if s.Abandoned {
			form.Pairs[i].Dropped = totalsForm(s.Dropped)
		}
	}
	return json.Marshal(&form)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Cluster) UnmarshalJSON(data []byte) error {
	var form clusterJSON
	if err := json.Unmarshal(data, &form); err != nil {
		return err
	}
	if form.Nodes < 1 || form.Nodes > cluster.MaxNodes || form.Node < 0 || form.Node >= form.Nodes ||
		len(form.Pairs) != form.Nodes-1 {
		return fmt.Errorf("node %d of %d with %d others", form.Node, form.Nodes, len(form.Pairs))
	}
	*c = Cluster{Node: form.Node, Nodes: form.Nodes, Incarnation: form.Incarnation, Quarantined: form.Quarantined}
	err := cluster.CheckIncarnation(form.Incarnation)
	if err != nil {
		return err
	}
	if c.Table, err = strconv.ParseUint(form.Table, 16, 64); err == nil {
		c.Secret, err = strconv.ParseUint(form.Secret, 16, 64)
	}
	if err == nil {
		c.Given, err = form.Given.moved()
	}
	if err == nil {
		c.Got, err = form.Got.moved()
	}
	for i := range form.Pairs {
		if err != nil {
			return err
		}
		other := i // the nodes but this one, in order
		if i >= c.Node {
			other++
		}
		if form.Pairs[i].Node != other {
			return fmt.Errorf("node %d is in the place of node %d", form.Pairs[i].Node, other)
		}
		var p Pair
		if p, err = form.Pairs[i].pair(); err == nil {
			c.Pairs = append(c.Pairs, p)
		}
	}
	return err
}

func (f *pairJSON) pair() (p Pair, err error) {
	p = Pair{Node: f.Node, Incarnation: f.Incarnation, Taken: cluster.Taken{Number: f.TakenNumber},
		Sent: cluster.Sent{Last: f.OutNumber, GoneNumber: f.GoneNumber}}
	for _, s := range [...]struct {
		to   *cluster.Totals
		form *totalsJSON
	}{{&p.Sent.Out, &f.Out}, {&p.Sent.Gone, &f.Gone}, {&p.Files, &f.Files}, {&p.Taken.Totals, &f.Taken}} {
		if *s.to, err = s.form.totals(); err != nil {
			return p, err
		}
	}
	if err = cluster.CheckIncarnation(f.Incarnation); err != nil {
		return p, err
	}
	if p.Parts, err = f.Parts.moved(); err != nil {
		return p, err
	}
	for _, s := range [...]struct {
		to   *cluster.Totals
		form *totalsJSON
	}{{&p.Lost, &f.Lost}, {&p.Sent.PassedOn, &f.PassedOn}} {
		if *s.form == (totalsJSON{}) {
			continue
		}
		if *s.to, err = s.form.totals(); err != nil {
			return p, err
		}
	}
	if p.Sent.Abandoned = f.GivenUp; f.GivenUp {
		if p.Sent.Dropped, err = f.Dropped.totals(); err != nil {
			return p, err
		}
	}
	if p.Sent.Sums, err = cluster.ParseSums(f.Sums); err != nil {
		return p, err
	}
	n := uint64(len(p.Sent.Sums)) // 0 if the outbox was too damaged
	if p.Sent.GoneNumber > p.Sent.Last || n > 0 && n != p.Sent.Last-p.Sent.GoneNumber {
		return p, fmt.Errorf("messages %d to %d for node %d have %d sums", p.Sent.GoneNumber+1, p.Sent.Last, p.Node, n)
	}
	return p, nil
}
