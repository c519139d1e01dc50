package flags

import (
	"errors"
	"fmt"
	"slices"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
)

// Planned holds the flags that describe a crawl that has not begun: the web, the output and the machine.
// Their help has the paper's symbols in brackets.
type Planned struct {
	Pages        Count    `group:"what" common:"" placeholder:"N" default:"1e9"`
	LinksPerPage Fraction `group:"what" common:"" placeholder:"N" default:"59"`
	Unique       Fraction `group:"what" common:"" placeholder:"SHARE" default:"1/9"`
	URLBytes     Size     `group:"what" name:"url-bytes" placeholder:"SIZE" default:"110B"`
	TextRatio    Fraction `group:"what" placeholder:"N" default:"4"`
	Misses       Fraction `group:"what" placeholder:"SHARE" default:"0"`
	Store        Store    `group:"what" common:"" type:"parts" placeholder:"KIND"`
	PageBytes    Size     `group:"what" common:"" placeholder:"SIZE" default:"6kB"`
	CrawlLog     string   `group:"what" enum:"off,errors,all" default:"errors"`

	Nodes           int      `group:"cluster" common:"" placeholder:"N" default:"1"`
	Cluster         []string `group:"cluster" placeholder:"URL"`
	ClusterStream   Size     `group:"cluster" placeholder:"SIZE" default:"1GiB"`
	ClusterLeases   Size     `group:"cluster" placeholder:"SIZE" default:"512MiB"`
	ClusterReplicas int      `group:"cluster" placeholder:"N" default:"1"`
	LinksAway       Fraction `group:"cluster" placeholder:"SHARE" default:"0.52"`

	Dir         []string     `group:"machine" common:"" short:"d" placeholder:"DIR" default:"${defaultDir}"`
	Out         []string     `group:"machine" placeholder:"DIR"`
	RAM         *Size        `group:"machine" common:"" name:"ram" placeholder:"SIZE"`
	Disk        *Size        `group:"machine" common:"" placeholder:"SIZE"`
	KeepFree    *Size        `group:"machine" common:"" placeholder:"SIZE"`
	Connections *Connections `group:"machine" placeholder:"N"`
	DiskRate    *Size        `group:"machine" common:"" placeholder:"SIZE"`
	MaxRate     *Count       `group:"machine" common:"" placeholder:"N"`
	Drum
}

// Store says what is stored of the responses, and of what else.
type Store struct {
	Kind   string `part:"" enum:"warc,none" default:"warc"`
	Robots bool   `part:"robots" default:"on"`
	DNS    bool   `part:"dns" default:"on"`
}

// Load returns the properties of the web and the machine that the flags set, for the largest node of several.
func (p *Planned) Load() plan.Load {
	pages := float64(p.Pages)
	if p.Nodes > 1 {
		pages *= cluster.LargestShare(p.Nodes)
	}
	return plan.Load{Pages: pages, LinksPerPage: float64(p.LinksPerPage), UniqueFraction: float64(p.Unique),
		URLBytes: float64(p.URLBytes), TextRatio: float64(p.TextRatio), Misses: float64(p.Misses),
		PageBytes: float64(p.PageBytes), DiskRate: float64(OrZero(p.DiskRate)), MaxRate: float64(OrZero(p.MaxRate))}
}

// Check returns the first fault that can be seen in the flags alone.
func (p *Planned) Check() error {
	for _, f := range []struct {
		flag string
		zero bool
	}{{"pages", p.Pages == 0}, {"links-per-page", p.LinksPerPage == 0}, {"unique", p.Unique == 0},
		{"url-bytes", p.URLBytes == 0}, {"text-ratio", p.TextRatio == 0}, {"page-bytes", p.PageBytes == 0},
		{"disk-rate", p.DiskRate != nil && *p.DiskRate == 0},
		{"max-rate", p.MaxRate != nil && *p.MaxRate == 0}, {"ram", p.RAM != nil && *p.RAM == 0},
		{"disk", p.Disk != nil && *p.Disk == 0}} {
		if f.zero {
			return fmt.Errorf("--%s can't be 0", f.flag)
		}
	}
	if p.Nodes < 1 || p.Nodes > cluster.MaxNodes {
		return fmt.Errorf("--nodes %d: must be between 1 and %d", p.Nodes, cluster.MaxNodes)
	}
	if p.Nodes == 1 && len(p.Cluster) > 0 {
		return errors.New("--cluster needs --nodes of 2 or more")
	}
	switch {
	case p.LinksAway == 0 || p.LinksAway > 1:
		return fmt.Errorf("--links-away %v: must be above 0 and at most 1", p.LinksAway)
	case p.Unique > 1:
		return fmt.Errorf("--unique %v: a share is at most 1", p.Unique)
	case p.Misses > 1:
		return fmt.Errorf("--misses %v: a share is at most 1", p.Misses)
	case p.TextRatio < 1:
		return fmt.Errorf("--text-ratio %v: must be at least 1, that of texts that do not compress", p.TextRatio)
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
	o := crawl.Options{Disk: crawl.DiskOptions{Dirs: Clean(p.Dir), Out: Clean(Directories(p.Out)),
		KeepFree: int64(OrZero(p.KeepFree))},
		Limits:  crawl.LimitsOptions{RAMBytes: int64(*p.RAM), DiskBytes: int64(*p.Disk)},
		Network: crawl.NetworkOptions{Connections: int(p.Connections.Most())},
		Output:  crawl.OutputOptions{Store: p.Store.Kind == "warc", CrawlLog: state.LogLevel(p.CrawlLog)}}
	p.Drum.Apply(&o.Drum)
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
	if store > o.Limits.DiskBytes/2 {
		return term.Usage(fmt.Errorf("--cluster-stream %v for each of %s is %v, more than half of --disk %v",
			human.Bytes(stream), human.Counted(nodes, "node", "nodes"), human.Bytes(store),
			human.Bytes(o.Limits.DiskBytes)))
	}
	o.Limits.BrokerRAM = cluster.BrokerRAM + cluster.LeaseIndexRAM(nodes, o.Limits.RAMBytes, int64(leases))
	o.Limits.DiskBytes -= store
	return nil
}
