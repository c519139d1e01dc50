package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/cluster"
	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
	"drumbeat/state/condition"
)

// connectFlags say how to reach the broker. Their names and meanings are those of crawl.
type connectFlags struct {
	Cluster []string `required:"" placeholder:"URL"`
	CA      string   `name:"cluster-ca" placeholder:"FILE"`
	Cert    string   `name:"cluster-cert" placeholder:"FILE"`
	Key     string   `name:"cluster-key" placeholder:"FILE"`
	Creds   string   `name:"cluster-creds" placeholder:"FILE"`
	Seed    string   `name:"cluster-seed" placeholder:"FILE"`
}

// connect returns a connection that makes nothing at the broker.
func (c *connectFlags) connect(f *cluster.File, warn func(text string)) (*nats.Transport, error) {
	opt := nats.Options{Crawl: f.Crawl, Secret: f.Secret[:], URLs: c.Cluster, CA: c.CA, Cert: c.Cert, Key: c.Key,
		Creds: c.Creds, Seed: c.Seed, Observe: true, Warn: warn}
	if err := opt.Validate(); err != nil {
		return nil, term.Usage(err)
	}
	e, err := nats.Open(opt)
	if err == nil && !e.State().Connected {
		err = errors.Join(fmt.Errorf("no server of %s answers", strings.Join(c.Cluster, ", ")), e.Close())
	}
	return e, err
}

// open reads a file of a cluster, and connects. Warnings are printed.
func (c *connectFlags) open(a *term.App, file string) (*cluster.File, *nats.Transport, error) {
	f, err := read(file)
	if err != nil {
		return nil, nil, err
	}
	e, err := c.connect(f, warnings(a))
	return f, e, err
}

// warnings returns a function that prints warnings of a connection.
func warnings(a *term.App) func(text string) {
	return func(text string) { fmt.Fprintln(a.Stderr, "cluster: "+term.PlainText(text)) }
}

type statusCmd struct {
	File string `arg:"" name:"file"`
	connectFlags
	JSON bool
}

// report is what cluster status prints as JSON.
type report struct {
	Crawl    string            `json:"crawl"`
	Time     time.Time         `json:"time"`
	Health   string            `json:"health"` // the condition of the cluster: state and sentence
	Level    condition.Level   `json:"level"`  // of the condition: ok, warn or bad
	Problems []problem         `json:"problems"`
	Change   string            `json:"change,omitempty"` // of the table of owners, under way
	Overview cluster.Overview  `json:"overview"`
	Nodes    []*cluster.Status `json:"nodes"`   // by node; null if a node never said anything
	Streams  []nats.StreamInfo `json:"streams"` // by node
	Largest  *largestLoads     `json:"largestLoads,omitempty"`
}

// problem is one thing that is wrong with the cluster.
type problem struct {
	Level condition.Level `json:"level"`
	Text  string          `json:"text"`
}

// statusPatience is how long cluster status waits for the broker.
const statusPatience = 30 * time.Second

// Run prints what the nodes say of themselves.
func (c *statusCmd) Run(a *term.App) error {
	f, e, err := c.open(a, c.File)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusPatience)
	defer cancel()
	r, err := look(ctx, e, f)
	if err = errors.Join(err, e.Close()); err != nil {
		return err
	}
	if c.JSON {
		err = term.WriteJSON(a.Stdout, r)
	} else {
		err = r.print(a.Stdout)
	}
	if err == nil && r.Level == condition.Bad {
		err = &term.Ended{Code: term.ExitFailure, Why: r.Health, Quiet: true}
	}
	return err
}

// inForce returns the table of owners: that of the broker, if it has changed while the crawl ran, else that of the
// file. last is the last change at the broker; nil if there is none, or it was refused.
func inForce(ctx context.Context, e *nats.Transport, f *cluster.File) (_ *cluster.Table, last *cluster.TableChange,
	_ error) {
	v, err := e.Get(ctx, cluster.BucketCrawl, cluster.TableKey)
	if err != nil && !errors.Is(err, cluster.ErrNotFound) {
		return nil, nil, err
	}
	last, table, err := cluster.DecodeTableChange(v.Data)
	switch {
	case err != nil || last.Refused != "":
		return f.Table, nil, nil
	case table.Moves() <= f.Table.Moves():
		return f.Table, last, nil
	}
	return table, last, nil
}

// behind returns the nodes whose marks do not have the table; none if it has not changed while the crawl ran.
func behind(ctx context.Context, e *nats.Transport, table *cluster.Table) (late []int, _ error) {
	for node := range table.Nodes() {
		if table.HasDeparted(node) {
			continue
		}
		v, err := e.Get(ctx, cluster.BucketCrawl, cluster.MarkKey(node))
		switch {
		case errors.Is(err, cluster.ErrNotFound): // it has not started: the condition says so
		case err != nil:
			return nil, err
		case cluster.MarkMoves(v.Data) < table.Moves():
			late = append(late, node)
		}
	}
	return late, nil
}

// look reads the statuses and the figures of the streams.
func look(ctx context.Context, e *nats.Transport, f *cluster.File) (*report, error) {
	table, last, err := inForce(ctx, e, f)
	if err != nil {
		return nil, err
	}
	nodes := table.Nodes()
	r := &report{Crawl: f.Crawl, Time: time.Now().UTC()}
	loads, statuses, err := readLoads(ctx, e, nodes)
	if err != nil {
		return nil, err
	}
	r.Nodes, r.Overview = statuses, cluster.Summarize(statuses, r.Time)
	r.Largest = largestOf(loads, r.Overview.Abandoned)
	c := condition.OfNodes(r.Nodes, r.Time)
	r.Health, r.Level, r.Problems = string(c.State)+": "+c.Text, c.Level, []problem{}
	for _, p := range c.Problems {
		r.Problems = append(r.Problems, problem{p.Level, p.Text})
	}
	late, err := behind(ctx, e, table)
	if err != nil {
		return nil, err
	}
	if len(late) > 0 {
		r.Change = fmt.Sprintf("The table of owners changes, until %s table %d.", nodesHave(late), table.Moves())
	}
	if last != nil && last.Command != nil {
		r.Change = strings.TrimSpace(fmt.Sprintf("%s is in progress, or was interrupted (%s continues it). %s",
			commandText(last.Command), againText(last.Command), r.Change))
	}
	for node := range nodes {
		info, err := e.StreamInfo(ctx, node)
		if err != nil {
			return nil, err
		}
		r.Streams = append(r.Streams, info)
	}
	return r, nil
}

// printHead prints the sums, the condition and the problems, a line each.
func (r *report) printHead(out io.Writer) {
	o := &r.Overview
	fmt.Fprintf(out, "crawl %s, %s: %s, %.1f pages/s, %s queued\n", r.Crawl,
		human.Counted(len(r.Nodes), "node", "nodes"), human.Counted(o.Pages, "page", "pages"),
		o.PagesPerSecond, human.Counted(o.Queued, "URL", "URLs"))
	fmt.Fprintln(out, term.PlainText(r.Health))
	for _, p := range r.Problems[min(1, len(r.Problems)):] { // the first one is Health
		fmt.Fprintf(out, "%s: %s\n", p.Level, term.PlainText(p.Text))
	}
	if r.Change != "" {
		fmt.Fprintln(out, r.Change)
	}
}

// print prints all that is known.
func (r *report) print(out io.Writer) error {
	r.printHead(out)
	if err := r.printNodes(out, nil); err != nil {
		return err
	}
	if err := r.printLeases(out); err != nil {
		return err
	}
	if o := &r.Overview; o.Fullest >= 0 && len(r.Nodes) > 1 {
		fmt.Fprintf(out, "The fullest disk is that of node %d: %.0f %% of its --disk.\n", o.Fullest,
			100*o.FullestShare)
	}
	if text := r.Largest.text(); text != "" {
		fmt.Fprintln(out, text)
	}
	for node, st := range r.Nodes {
		if st != nil && st.Refused > 0 {
			fmt.Fprintf(out, "Node %d has refused %s of other nodes: its log says why.\n", node,
				human.Counted(st.Refused, "message or mark", "messages and marks"))
		}
	}
	r.printOrders(out)
	return nil
}

// printOrders names the nodes that have not carried out all orders to all nodes.
func (r *report) printOrders(out io.Writer) {
	all := 0
	for _, st := range r.Nodes {
		if st != nil {
			all = max(all, st.Orders)
		}
	}
	for node, st := range r.Nodes {
		if st == nil || st.Orders == all && st.OrdersWaiting == 0 || r.goneText(node) != "" {
			continue
		}
		why := ""
		if st.OrderWhy != "" {
			why = ": " + term.PlainText(st.OrderWhy)
		}
		fmt.Fprintf(out, "Node %d has carried out %d of %s to all nodes%s.\n", node, st.Orders,
			human.Counted(all, "order", "orders"), why)
	}
}

// printNodes prints a row for each node, and their sums. trend, if it is not nil, draws the speed of a node.
func (r *report) printNodes(out io.Writer, trend func(node int) string) error {
	n, t := humanize.Comma, tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	begin := func(name, trend string) string { return name }
	if trend != nil {
		begin = func(name, trend string) string { return name + "\t" + trend }
	} else {
		trend = func(int) string { return "" }
	}
	fmt.Fprintln(t, begin("node", "last minute")+"\thost\tversion\thealth\tstate\treported\tpages\tpages/s\t"+
		"queued\toutbox\tquarantine\tdisk\tcheckpoint\tstream")
	quarantined, bytes := int64(0), int64(0)
	for node, st := range r.Nodes {
		stream := "none"
		if s := r.Streams[node]; !s.Missing {
			stream = fmt.Sprintf("%s, %s of %s", human.Counted(int64(s.Messages), "message", "messages"),
				human.Bytes(s.Bytes), human.Bytes(s.MaxBytes))
		}
		health := string(condition.LevelOf(st, r.Time))
		first := begin(strconv.Itoa(node), trend(node))
		gone := r.goneText(node)
		if gone != "" {
			health = "–"
		}
		if st == nil {
			fmt.Fprintf(t, "%s\t–\t–\t%s\t%s\t–\t–\t–\t–\t–\t–\t–\t–\t%s\n", first, health,
				stateText(st, gone, r.Time), stream)
			continue
		}
		disk := "–"
		if st.DiskLimit > 0 {
			disk = fmt.Sprintf("%.0f %%", 100*float64(st.DiskUsed)/float64(st.DiskLimit))
		}
		kept := n(st.Waiting)
		if st.Waiting > 0 {
			kept += fmt.Sprintf(" (%s, most for node %d)", human.Bytes(st.WaitingBytes), st.Slowest)
		}
		quarantined += st.Quarantined
		bytes += st.WaitingBytes
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s ago\t%s\t%.1f\t%s\t%s\t%s\t%s\t%d\t%s\n", first,
			term.PlainText(st.Host), term.PlainText(st.Version), health, stateText(st, gone, r.Time),
			human.Duration(max(0, r.Time.Sub(st.Time))), n(st.Pages), st.PagesPerSecond, n(st.Queued), kept,
			n(st.Quarantined), disk, st.Checkpoint, stream)
	}
	if o := &r.Overview; len(r.Nodes) > 1 {
		kept := n(o.Waiting)
		if o.Waiting > 0 {
			kept += " (" + human.Bytes(bytes) + ")"
		}
		fmt.Fprintf(t, "%s\t\t\t%s\t\t\t%s\t%.1f\t%s\t%s\t%s\t\t\t\n", begin("all", ""), r.Level,
			n(o.Pages), o.PagesPerSecond, n(o.Queued), kept, n(quarantined))
	}
	return t.Flush()
}

// printLeases prints a table of the networks that nodes visit in turn, if they do.
func (r *report) printLeases(out io.Writer) error {
	n := humanize.Comma
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	any := false
	for node, st := range r.Nodes {
		if st == nil || st.Leases == nil {
			continue
		}
		if !any {
			fmt.Fprintln(t,
				"\nnode\tvisits\twaits for\tlongest wait\tURLs that wait\tleases acquired\thanded over\tlost\tpaused")
			any = true
		}
		l := st.Leases
		longest, rests := "–", "no"
		if l.Wanted > 0 {
			longest = human.Duration(time.Duration(min(max(l.Longest, 0), maxWait) * float64(time.Second)))
		}
		switch {
		case l.Starting:
			rests = "since its start"
		case l.Resting:
			rests = "yes"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", node,
			human.Counted(l.Held, "network", "networks"), n(int64(l.Wanted)),
			longest, n(l.URLs), n(l.Taken), n(l.HandedOver), n(l.Lost), rests)
	}
	if any {
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// maxWait bounds a time that a node says, in seconds: a hundred years.
const maxWait = 100 * 365 * 24 * 3600

// goneText says how a node takes part no more; "" if it does.
func (r *report) goneText(node int) string {
	switch o := &r.Overview; {
	case slices.Contains(o.Departed, node):
		return "departed"
	case slices.Contains(o.Abandoned, node):
		return "abandoned"
	}
	return ""
}

// stateText says what a node does; st is nil if it has never reported. gone is that of goneText.
func stateText(st *cluster.Status, gone string, now time.Time) string {
	switch {
	case gone != "":
		return gone
	case st == nil:
		return "never reported"
	}
	waits := term.PlainText(st.Waits)
	switch {
	case st.Ended != "":
		return "ended: " + term.PlainText(st.Ended)
	case !st.Heard(now):
		return "not reporting"
	case st.Paused:
		return "paused: " + waits
	case st.Idle:
		return "waits for the other nodes"
	case waits != "":
		return "waits for " + waits
	}
	return "running"
}
