package flags

import (
	"errors"
	"fmt"
	"slices"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/state"
)

// Planned holds the flags that describe a crawl that has not begun: the web, the output and the machine.
// Their help has the paper's symbols in brackets.
type Planned struct {
	Pages        Count    `group:"what" common:"" placeholder:"N" default:"1e9" help:"Number of pages of the crawl (N)."`
	LinksPerPage Fraction `group:"what" common:"" placeholder:"N" default:"59" help:"Links per page (l)."`
	Unique       Fraction `group:"what" common:"" placeholder:"SHARE" default:"1/9" help:"Share of links that lead to new URLs (p)."`
	URLBytes     Size     `group:"what" name:"url-bytes" placeholder:"SIZE" default:"110B" help:"Mean size of a URL's text and what travels with it (b)."`
	TextRatio    Fraction `group:"what" placeholder:"N" default:"4" help:"Compression ratio of URLs on disk."`
	Misses       Fraction `group:"what" placeholder:"SHARE" default:"0" help:"Share of links that are not in the RAM cache of recent URLs (pi). 0: 0.33, as in the paper, or 1 with --cache-ram 0."`
	Store        string   `group:"what" common:"" enum:"warc,none" default:"warc" help:"As for crawl."`
	PageBytes    Size     `group:"what" common:"" placeholder:"SIZE" default:"6kB" help:"Mean compressed size of a page in a WARC file."`
	CrawlLog     string   `group:"what" enum:"off,errors,all" default:"errors" help:"As for crawl."`

	Nodes           int      `group:"cluster" common:"" placeholder:"N" default:"1" help:"Plan the largest of N nodes. --pages are those of all nodes, but --ram, --disk and the rates are those of each."`
	Cluster         []string `group:"cluster" placeholder:"URL" help:"As for crawl. embed: plan the node that runs the broker."`
	ClusterStream   Size     `group:"cluster" placeholder:"SIZE" default:"1GiB" help:"As for crawl."`
	ClusterLeases   Size     `group:"cluster" placeholder:"SIZE" default:"512MiB" help:"As for crawl."`
	ClusterReplicas int      `group:"cluster" placeholder:"N" default:"1" help:"As for crawl."`
	LinksAway       Fraction `group:"cluster" placeholder:"SHARE" default:"0.52" help:"Share of the links behind the RAM cache that lead to another PLD than their page's. The default was measured on a synthetic web."`

	Dir         []string     `group:"machine" common:"" placeholder:"DIR" default:"${defaultDir}" help:"Directory of the crawl; it need not exist. Repeat the flag for several disks."`
	Out         []string     `group:"machine" placeholder:"DIR" help:"As for crawl."`
	RAM         *Size        `group:"machine" common:"" name:"ram" placeholder:"SIZE" help:"As for crawl."`
	Disk        *Size        `group:"machine" common:"" placeholder:"SIZE" help:"As for crawl."`
	KeepFree    *Size        `group:"machine" common:"" placeholder:"SIZE" help:"As for crawl."`
	Connections *Connections `group:"machine" placeholder:"N" help:"As for crawl."`
	QueuesMax   Count        `group:"machine" placeholder:"N" default:"1024" help:"As for crawl."`
	DiskRate    *Size        `group:"machine" common:"" placeholder:"SIZE" help:"Bytes per second that all disks together read and write (W). Default: 150MB per --dir; plan --measure measures it."`
	MaxRate     *Count       `group:"machine" common:"" placeholder:"N" help:"Pages per second that CPU and network allow (Smax). Default: 1000 per processor, as in the paper."`
	Drum
}

// Load returns the properties of the web and the machine that the flags set, for the largest node of several.
func (p *Planned) Load() crawl.Load {
	pages := float64(p.Pages)
	if p.Nodes > 1 {
		pages *= cluster.LargestShare(p.Nodes)
	}
	return crawl.Load{Pages: pages, LinksPerPage: float64(p.LinksPerPage), UniqueFraction: float64(p.Unique),
		URLBytes: float64(p.URLBytes), TextRatio: float64(p.TextRatio), Misses: float64(p.Misses), PageBytes: float64(p.PageBytes),
		DiskRate: float64(OrZero(p.DiskRate)), MaxRate: float64(OrZero(p.MaxRate))}
}

// Check returns the first fault that can be seen in the flags alone.
func (p *Planned) Check() error {
	for _, f := range []struct {
		flag string
		zero bool
	}{{"pages", p.Pages == 0}, {"links-per-page", p.LinksPerPage == 0}, {"unique", p.Unique == 0}, {"url-bytes", p.URLBytes == 0},
		{"text-ratio", p.TextRatio == 0}, {"page-bytes", p.PageBytes == 0}, {"disk-rate", p.DiskRate != nil && *p.DiskRate == 0},
		{"max-rate", p.MaxRate != nil && *p.MaxRate == 0}, {"ram", p.RAM != nil && *p.RAM == 0}, {"disk", p.Disk != nil && *p.Disk == 0},
		{"queues-max", p.QueuesMax == 0}} {
		if f.zero {
			return fmt.Errorf("--%s can't be 0", f.flag)
		}
	}
	if n := p.QueuesMax; n > 1<<20 || n&(n-1) != 0 {
		return fmt.Errorf("--queues-max %d: must be a power of 2 up to %d", n, 1<<20)
	}
	if p.Nodes < 1 || p.Nodes > cluster.MaxNodes {
		return fmt.Errorf("--nodes %d: must be between 1 and %d", p.Nodes, cluster.MaxNodes)
	}
	if p.Nodes == 1 && len(p.Cluster) > 0 {
		return errors.New("--cluster needs --nodes of 2 or more")
	}
	if p.LinksAway == 0 || p.LinksAway > 1 {
		return fmt.Errorf("--links-away %v: must be above 0 and at most 1", p.LinksAway)
	}
	return errors.Join(p.Drum.Check(), p.Load().Validate())
}

// Options returns the options of the planned crawl, with crawl's defaults for this machine.
func (p *Planned) Options() (crawl.Options, error) {
	m, err := term.ThisMachine()
	if err != nil {
		return crawl.Options{}, err
	}
	if p.RAM == nil {
		p.RAM = new(Size(m.RAMBytes / 2))
	}
	if p.Disk == nil {
		n, err := term.DiskBytes(disk.OS(), slices.Concat(p.Dir, Directories(p.Out)))
		if err != nil {
			return crawl.Options{}, term.Usage(err)
		}
		p.Disk = new(Size(n))
	}
	if p.Connections == nil {
		p.Connections = new(Connections)
		n, _ := p.Reserve(m, len(p.Dir), len(Directories(p.Out)), false).Connections(DefaultConnections)
		p.Connections.Lower(n)
	}
	o := crawl.Options{Dirs: Clean(p.Dir), Out: Clean(Directories(p.Out)), RAMBytes: int64(*p.RAM), DiskBytes: int64(*p.Disk), Connections: int(p.Connections.Most()),
		KeepFree: int64(OrZero(p.KeepFree)), QueuesMax: int(p.QueuesMax), Store: p.Store == "warc", CrawlLog: state.LogLevel(p.CrawlLog)}
	p.Drum.Apply(&o)
	if p.Nodes == 1 {
		return o, nil
	}
	if o.Cluster, err = crawl.PlannedCluster(p.Nodes); err != nil {
		return o, err
	}
	if p.embeds() {
		err = SetBroker(&o, p.ClusterStream, p.ClusterLeases)
	}
	return o, err
}

func (p *Planned) embeds() bool { return len(p.Cluster) > 0 && p.Cluster[0] == "embed" }

// SetBroker sets RAM and disk aside for a broker in the process of a node. o.Cluster is set.
func SetBroker(o *crawl.Options, stream, leases Size) error {
	nodes := o.Cluster.Table.Nodes()
	store := cluster.BrokerDisk(nodes, int64(stream), int64(leases))
	if store > o.DiskBytes/2 {
		return term.Usage(fmt.Errorf("--cluster-stream %v for each of %d nodes is %v, more than half of --disk %v", stream,
			nodes, Size(store), Size(o.DiskBytes)))
	}
	o.BrokerRAM = cluster.BrokerRAM + cluster.LeaseIndexRAM(nodes, o.RAMBytes, int64(leases))
	o.DiskBytes -= store
	return nil
}
