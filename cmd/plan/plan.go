// Package plan is the command plan: it predicts the RAM, disk space and speed of a crawl, by the plan that
// the crawl itself would make.
//
// Command is its flags, most of them in flags.Planned, which doctor shares. Those of the machine (--ram,
// --disk, --dir, and URLseen's geometry in flags.Drum) have the meaning and the defaults of crawl; a test
// compares the two commands' plans. Those of the web (pages, links per page, bytes of a URL) are the paper's
// symbols, with its values as defaults.
//
// Run calls crawl.MakePlan and Plan.Forecast with the options of that crawl, and prints tables, or one JSON
// object with --json. --measure first writes and reads some 100 MB in each directory, or in its nearest
// existing parent, to measure the disks; SIGINT and SIGTERM stop it. Otherwise plan writes nothing, and the
// directories need not exist.
//
// With --from the figures are those of a running or stopped crawl (from.go, words.go): package crawl/outlook reads
// its manifest and history, and computes what is ahead. Flags that were given replace what was measured. Nothing is
// locked, and without --measure nothing is written to the crawl's directories.
//
// Exit codes: 0 if the crawl fits; term.ExitUsage (2) if a flag is bad, RAM is too small, or the disk is too
// small for the pages, with the number of pages that fit; term.ExitDirectory (4) if --from names no crawl, or one
// with too little history; term.ExitSignal (11) if a signal stopped --measure.
//
// testdata/plan.txt is a golden file: go test ./cmd/plan -run TestPlanGolden -update rewrites it.
package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	benchdisk "drumbeat/bench/disk"
	"drumbeat/bench/result"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/plan"
	"drumbeat/internal/human"
	"drumbeat/star"
)

// Command is the table of plan's flags. The help of flags.Planned has the paper's symbols in brackets.
type Command struct {
	From []string `group:"what" common:"" placeholder:"DIR" config:"-"`
	flags.Planned
	Measure bool `group:"machine" common:""`

	JSON bool `group:"report" common:"" name:"json"`
	flags.Sources
}

// planned is the result that plan prints, in words or as JSON.
type planned struct {
	RAMBytes  int64 `json:"ramBytes"`
	DiskBytes int64 `json:"diskBytes"`
	// SupportersRAM is the part of the Go heap that crawl --budget supporters uses while it computes.
	SupportersRAM int64         `json:"supportersRAM"`
	Dirs          int           `json:"dirs"`
	Connections   int           `json:"connections"`
	URLSeen       plan.DrumPlan `json:"urlSeen"`
	// URLSeenDiskBytes is D, the disk space for URLseen's buckets.
	URLSeenDiskBytes int64         `json:"urlSeenDiskBytes"`
	RAM              []plan.Amount `json:"ram"`
	Forecast         plan.Forecast `json:"forecast"`
	// Nodes is what the nodes exchange; nil for one node. The other figures are those of the largest node.
	Nodes *plan.NodesForecast `json:"nodes,omitempty"`
	// MostPages is the number of pages that fit on the disk.
	MostPages float64 `json:"mostPages"`
}

// Run plans and prints.
func (c *Command) Run(a *term.App, kctx *kong.Context, settings *flags.Settings) error {
	if c.Measure && c.DiskRate != nil {
		return term.Usage(errors.New("--measure and --disk-rate exclude each other"))
	}
	if len(c.From) > 0 {
		return c.ofCrawl(a, kctx, settings)
	}
	if err := c.Check(); err != nil {
		return term.Usage(err)
	}
	o, err := c.Options()
	if err != nil {
		return err
	}
	load := c.Load()
	if c.Measure {
		if load.DiskRate, err = measureDisks(a, c.Dir); err != nil {
			return err
		}
	}
	made, err := crawl.MakePlan(&o)
	if err != nil {
		return term.Usage(err)
	}
	f, err := made.Forecast(load)
	if err != nil {
		return term.Usage(err)
	}
	p := planned{RAMBytes: made.RAMBytes, DiskBytes: int64(*c.Disk), Dirs: len(o.Disk.Dirs),
		Connections: o.Network.Connections, URLSeen: made.URLSeen, URLSeenDiskBytes: made.URLSeenDiskBytes,
		RAM: made.RAM(), SupportersRAM: made.SupportBytes() + star.MostVoteBytes, Forecast: f,
		MostPages: made.MostPages(load)}
	if c.Nodes > 1 {
		n := made.Nodes(&f, plan.NodesInput{LinksAway: float64(c.LinksAway), StreamBytes: int64(c.ClusterStream),
			LeasesBytes: int64(c.ClusterLeases), Replicas: c.ClusterReplicas})
		p.Nodes = &n
	}
	if c.JSON {
		enc := json.NewEncoder(a.Stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(p)
	} else {
		err = p.write(a.Stdout)
	}
	if err == nil && !f.Fits {
		err = term.Usage(fmt.Errorf("--disk %s is too little: %s pages take %s; about %s pages fit",
			human.Bytes(p.DiskBytes), human.Rough(f.Load.Pages), human.Bytes(f.DiskBytes),
			human.Rough(p.MostPages)))
	}
	return err
}

// measureDisks measures W, the bytes per second that the disks of all directories read and write together.
func measureDisks(a *term.App, dirs []string) (float64, error) {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	var existing []string
	for _, dir := range dirs {
		e, err := term.ExistingParent(dir)
		if err != nil {
			return 0, term.Usage(err)
		}
		existing = append(existing, e)
	}
	fmt.Fprintln(a.Stderr, "measuring the disks")
	w, err := benchdisk.Rate(ctx, existing)
	if err != nil && ctx.Err() != nil {
		return 0, &term.Ended{Code: term.ExitSignal, Why: "stopped by a signal"}
	}
	return w, err
}

// write prints the plan in words and tables.
func (p *planned) write(w io.Writer) error {
	f := &p.Forecast
	b := func(n int64) string { return human.Bytes(n) }
	s := &p.URLSeen
	where := "one directory"
	if p.Dirs > 1 {
		where = human.Counted(p.Dirs, "directory", "directories")
	}
	if p.Nodes != nil {
		if _, err := fmt.Fprintf(w, "The largest of %s owns %.3g %% of the web. This is its plan.\n",
			human.Counted(p.Nodes.Nodes, "node", "nodes"), 100*p.Nodes.LargestShare); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s pages: %s links (%s of them reach URLseen), %s unique URLs\nRAM %s, disk "+
		"%s in %s, %s\n\nURLseen: k = %s, M = %s, r = %s of RAM per round, %d concurrent, delta = %s, D = "+
		"%s for buckets\n  I/O %.1f bytes per link: keys %.1f, text %.1f, cache %.1f; alpha %.2f, by the "+
		"paper (eq. 14) %.2f\n  %s links per pass, %s\n  %s expected collisions (n²/2^65): new URLs that "+
		"count as seen\n\n",
		human.Rough(f.Load.Pages), human.Rough(f.Links), human.Rough(f.Checked), human.Rough(f.Unique),
		human.Bytes(p.RAMBytes), human.Bytes(p.DiskBytes), where,
		human.Counted(p.Connections, "connection", "connections"),
		human.Counted(s.Buckets, "bucket", "buckets"), human.Bytes(s.BufferBytes),
		human.Bytes(s.BucketBytes), max(1, s.Workers), human.Bytes(s.ChunkBytes),
		b(p.URLSeenDiskBytes), f.Cost.Bytes(), f.Cost.KeysRead+f.Cost.KeysWritten, f.Cost.AuxRead+f.Cost.AuxWritten,
		f.Cost.CacheRead+f.Cost.CacheWritten, f.Alpha, f.PaperAlpha, human.Rough(f.Cost.PassTuples),
		human.Counted(int64(math.Ceil(f.Cost.Passes)), "pass", "passes"), human.Rough(f.Collisions))
	if err != nil {
		return err
	}
	ram := amounts("RAM", p.RAM, p.RAMBytes)
	ram.Notes = []string{"The last four are the Go heap. --ram limits the sum."}
	of := ""
	if p.Nodes != nil {
		of = " of the first node"
	}
	used := amounts("Maximum disk space", f.Disk, f.DiskBytes)
	used.Notes = []string{fmt.Sprintf("About %s pages fit into --disk.", human.Rough(p.MostPages)),
		fmt.Sprintf("crawl --budget supporters takes %s more in the first directory%s while it computes, "+
			"and %s of the Go heap;", human.Bytes(f.SupportersDiskBytes), of,
			human.Bytes(p.SupportersRAM)),
		fmt.Sprintf("a computation reads and writes about %s.", human.Bytes(f.SupportersBytes))}
	pageIO := amounts("I/O per page", f.PageIO, int64(f.PageIOBytes))
	for _, t := range []result.Table{ram, used, pageIO} {
		if err := t.Write(w); err != nil {
			return err
		}
	}
	limit := "disks"
	if f.Rate < f.DiskRate {
		limit = "CPU and network"
	}
	_, err = fmt.Fprintf(w, "Pages/s: disks of %s/s allow %s (%s for URLseen alone), CPU and network %s.\n"+
		"Limited by %s: %s at %s pages/s. Politeness is another limit: hosts / delay.\n",
		human.Bytes(f.Load.DiskRate), result.Number(f.DiskRate), result.Number(f.SeenRate),
		result.Number(f.Load.MaxRate), limit, human.Seconds(f.Seconds), result.Number(f.Rate))
	if err != nil || p.Nodes == nil {
		return err
	}
	return writeNodes(w, p.Nodes, f)
}

// writeNodes prints what the nodes exchange.
func writeNodes(w io.Writer, n *plan.NodesForecast, f *plan.Forecast) error {
	b := func(n float64) string { return human.Bytes(n) }
	lines := []string{
		fmt.Sprintf("\n%s: %s pages/s, %s for all pages", human.Counted(n.Nodes, "node", "nodes"),
			result.Number(n.Rate), human.Seconds(n.Seconds)),
		fmt.Sprintf("  a page sends %.2g links to other nodes, with their edges: %s links/s of a node, "+
			"%s/s out and as much in", n.LinksPerPage, result.Number(f.Rate*n.LinksPerPage), b(n.SentBytes)),
		fmt.Sprintf("  outboxes of a node: %s of RAM, %s of disk; %s more an hour while the broker is away",
			b(float64(n.OutboxRAM)), b(float64(n.OutboxDiskBytes)), b(3600*n.SentBytes)),
		fmt.Sprintf("  broker: %s messages/s, %s/s in and as much out, %s/s of marks out, %s in a node's "+
			"stream between checkpoints", result.Number(n.BrokerMessages), b(n.BrokerBytes), b(n.MarksBytes),
			b(float64(n.StreamFill)))}
	if n.Leases > 0 {
		lines = append(lines,
			fmt.Sprintf("  leases of networks: at most %s, of the hosts in RAM; %s in the broker, of %s",
				result.Number(float64(n.Leases)), b(float64(n.LeaseBytes)), b(float64(n.LeaseRoom))))
	}
	if n.BrokerCopies > 0 {
		lines = append(lines, fmt.Sprintf("  between its servers: %s/s of copies", b(n.BrokerCopies)))
	}
	if n.BrokerRAM > 0 {
		lines = append(lines, fmt.Sprintf("  set aside for it in the node that runs it: %s of RAM, %s of disk",
			b(float64(n.BrokerRAM)), b(float64(n.BrokerDiskBytes))))
	}
	for _, line := range append(lines, n.Warnings...) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// amounts returns a table of parts and their sum.
func amounts(title string, parts []plan.Amount, sum int64) result.Table {
	t := result.Table{Title: title, Head: []string{"part", "size", "share", ""}}
	for _, p := range append(parts, plan.Amount{Name: "total", Bytes: sum}) {
		t.Add(p.Name, human.Bytes(p.Bytes),
			fmt.Sprintf("%.1f %%", 100*float64(p.Bytes)/float64(max(1, sum))), p.Of)
	}
	return t
}
