package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	Overview cluster.Overview  `json:"overview"`
	Nodes    []*cluster.Status `json:"nodes"`   // by node; null if a node never said anything
	Streams  []nats.StreamInfo `json:"streams"` // by node
}

// statusPatience is how long cluster status waits for the broker.
const statusPatience = 30 * time.Second

// Run prints what the nodes say of themselves.
func (c *statusCmd) Run(a *term.App) error {
	f, err := read(c.File)
	if err != nil {
		return err
	}
	e, err := c.connect(f, func(text string) { fmt.Fprintln(a.Stderr, "cluster: "+term.PlainText(text)) })
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
		out := json.NewEncoder(a.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	return r.print(a.Stdout)
}

// look reads the statuses and the figures of the streams.
func look(ctx context.Context, e *nats.Transport, f *cluster.File) (*report, error) {
	nodes := f.Table.Nodes()
	r := &report{Crawl: f.Crawl, Time: time.Now().UTC(), Nodes: make([]*cluster.Status, nodes)}
	values, err := e.Values(ctx, cluster.BucketCrawl, cluster.StatusPattern)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		if st, err := cluster.DecodeStatus(v.Key, v.Data, nodes); err == nil { // a strange one counts as none
			r.Nodes[st.Node] = st
		}
	}
	r.Overview = cluster.Summarize(r.Nodes, r.Time)
	c := condition.OfNodes(r.Nodes, r.Time)
	r.Health = string(c.State) + ": " + c.Text
	for node := range nodes {
		info, err := e.StreamInfo(ctx, node)
		if err != nil {
			return nil, err
		}
		r.Streams = append(r.Streams, info)
	}
	return r, nil
}

// print prints a table.
func (r *report) print(out io.Writer) error {
	n := humanize.Comma
	o := &r.Overview
	fmt.Fprintf(out, "crawl %s, %s: %s, %.1f pages/s, %s queued\n", r.Crawl,
		human.Counted(len(r.Nodes), "node", "nodes"), human.Counted(o.Pages, "page", "pages"),
		o.PagesPerSecond, human.Counted(o.Queued, "URL", "URLs"))
	if r.Health != "" {
		fmt.Fprintln(out, term.PlainText(r.Health))
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "node\thost\tstate\treported\tpages\tpages/s\tqueued\tkept for others\tdisk\tcheckpoint\tstream")
	for node, st := range r.Nodes {
		stream := "none"
		if s := r.Streams[node]; !s.Missing {
			stream = fmt.Sprintf("%s, %s of %s", human.Counted(int64(s.Messages), "message", "messages"),
				human.Bytes(s.Bytes), human.Bytes(s.MaxBytes))
		}
		if st == nil {
			fmt.Fprintf(t, "%d\t–\tnever reported\t–\t–\t–\t–\t–\t–\t–\t%s\n", node, stream)
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
		fmt.Fprintf(t, "%d\t%s\t%s\t%s ago\t%s\t%.1f\t%s\t%s\t%s\t%d\t%s\n", node, term.PlainText(st.Host),
			stateText(st, r.Time), human.Duration(max(0, r.Time.Sub(st.Time))), n(st.Pages),
			st.PagesPerSecond, n(st.Queued), kept, disk, st.Checkpoint, stream)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := r.printLeases(out); err != nil {
		return err
	}
	var notes strings.Builder
	for _, node := range o.Abandoned {
		fmt.Fprintf(&notes, "Node %d was abandoned: the others continue without it.\n", node)
	}
	for _, node := range o.Missing {
		fmt.Fprintf(&notes, "Node %d has not reported for a minute.\n", node)
	}
	if o.Fullest >= 0 && len(r.Nodes) > 1 {
		fmt.Fprintf(&notes, "The fullest disk is that of node %d: %.0f %% of its --disk.\n", o.Fullest,
			100*o.FullestShare)
	}
	for node, st := range r.Nodes {
		if st != nil && st.Quarantined > 0 {
			fmt.Fprintf(&notes, "Node %d keeps %s in quarantine: its version cannot read them.\n", node,
				human.Counted(st.Quarantined, "message of other nodes", "messages of other nodes"))
		}
		if st != nil && st.Refused > 0 {
			fmt.Fprintf(&notes, "Node %d has refused %s of other nodes: its log says why.\n", node,
				human.Counted(st.Refused, "message or mark", "messages and marks"))
		}
	}
	if o.Configs > 1 {
		fmt.Fprintf(&notes, "The nodes have %d different configurations: some lack a reload or run with other "+
			"options.\n", o.Configs)
	}
	_, err := io.WriteString(out, notes.String())
	return err
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

// stateText says what a node does.
func stateText(st *cluster.Status, now time.Time) string {
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
