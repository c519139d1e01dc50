package crawl

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/lease"
	"drumbeat/cluster/nats"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/internal/human"
)

// clusterFlags make the crawl one node of several.
type clusterFlags struct {
	Cluster            []string      `group:"cluster" placeholder:"URL"`
	ClusterFile        string        `group:"cluster" placeholder:"FILE"`
	Node               *int          `group:"cluster" placeholder:"N"`
	ClusterDir         string        `group:"cluster" placeholder:"DIR"`
	ClusterListen      string        `group:"cluster" placeholder:"HOST:PORT"`
	ClusterRoutes      []string      `group:"cluster" placeholder:"HOST:PORT"`
	ClusterRouteListen string        `group:"cluster" placeholder:"HOST:PORT"`
	ClusterCA          string        `group:"cluster" name:"cluster-ca" placeholder:"FILE"`
	ClusterCert        string        `group:"cluster" placeholder:"FILE"`
	ClusterKey         string        `group:"cluster" placeholder:"FILE"`
	ClusterCreds       string        `group:"cluster" placeholder:"FILE"`
	ClusterSeed        string        `group:"cluster" placeholder:"FILE"`
	ClusterStream      flags.Size    `group:"cluster" placeholder:"SIZE" default:"1GiB"`
	ClusterLeases      flags.Size    `group:"cluster" placeholder:"SIZE" default:"512MiB"`
	ClusterReplicas    int           `group:"cluster" placeholder:"N" default:"1"`
	ClusterLease       time.Duration `group:"cluster" placeholder:"DURATION" default:"10m"`
	ClusterSync        time.Duration `group:"cluster" placeholder:"DURATION" default:"0s"`
	ClusterReconfigure bool          `group:"cluster"`
	GiveUpNode         []string      `group:"cluster" placeholder:"NODE"`

	crawl   string // id, of the file
	listens string // address of the embedded broker; "": it has none
}

// check returns the first fault of the flags.
func (c *clusterFlags) check() error {
	if len(c.Cluster) == 0 {
		if c.ClusterFile != "" || c.Node != nil || c.ClusterListen != "" || c.routes() || c.ClusterReconfigure ||
			len(c.GiveUpNode) > 0 {
			return errors.New("--cluster-file, --node, --cluster-listen, --cluster-routes, --cluster-route-listen, " +
				"--cluster-reconfigure and --give-up-node need --cluster")
		}
		return nil
	}
	switch {
	case c.ClusterFile == "" || c.Node == nil:
		return errors.New("--cluster needs --cluster-file and --node")
	case c.ClusterListen != "" && !c.embeds():
		return errors.New("--cluster-listen is for --cluster embed")
	case c.routes() && !c.embeds():
		return errors.New("--cluster-routes and --cluster-route-listen are for --cluster embed")
	case c.routes() && (len(c.ClusterRoutes) == 0 || c.ClusterRouteListen == ""):
		return errors.New("--cluster-routes and --cluster-route-listen need each other")
	case c.routes() && c.ClusterReplicas < nats.MinRoutes:
		return fmt.Errorf(
			"--cluster-routes needs --cluster-replicas %d: a stream with one copy is away with its server",
			nats.MinRoutes)
	case c.embeds() && len(c.Cluster) > 1:
		return errors.New("--cluster embed accepts no other servers")
	case c.ClusterLeases < cluster.LeastLeasesBytes:
		return fmt.Errorf("--cluster-leases %v is less than %v", human.Bytes(c.ClusterLeases),
			human.Bytes(int64(cluster.LeastLeasesBytes)))
	case c.ClusterLease < lease.LeastTTL || c.ClusterLease > lease.MostTTL:
		return fmt.Errorf("--cluster-lease %v is not in %v to %v", human.Exact(c.ClusterLease),
			human.Exact(lease.LeastTTL), human.Exact(lease.MostTTL))
	}
	return nil
}

// routes reports whether the embedded server is one of several.
func (c *clusterFlags) routes() bool { return len(c.ClusterRoutes) > 0 || c.ClusterRouteListen != "" }

func (c *clusterFlags) embeds() bool { return len(c.Cluster) > 0 && c.Cluster[0] == "embed" }

// absoluteFile returns the path of the cluster's file from the root, so that explain finds it.
func (c *clusterFlags) absoluteFile() string {
	if path, err := filepath.Abs(c.ClusterFile); err == nil {
		return path
	}
	return c.ClusterFile
}

// ReadCluster reads the file of the cluster into o, without an engine, and sets RAM and disk aside for the broker.
func (c *clusterFlags) ReadCluster(o *crawl.Options) error {
	if len(c.Cluster) == 0 {
		return nil
	}
	data, err := os.ReadFile(c.ClusterFile)
	if err != nil {
		return term.Usage(err)
	}
	f, err := cluster.DecodeFile(data)
	if err != nil {
		return term.Usage(fmt.Errorf("%s: %w", c.ClusterFile, err))
	}
	if *c.Node < 0 || *c.Node >= f.Table.Nodes() {
		return term.Usage(fmt.Errorf("--node %d: %s has nodes 0 to %d", *c.Node, c.ClusterFile, f.Table.Nodes()-1))
	}
	if f.Table.HasDeparted(*c.Node) {
		return term.Usage(fmt.Errorf("--node %d: it takes part in the cluster of %s no more (cluster leave, forget)",
			*c.Node, c.ClusterFile))
	}
	givenUp := make([]int, len(c.GiveUpNode))
	for i, text := range c.GiveUpNode {
		if givenUp[i], err = strconv.Atoi(text); err != nil {
			return term.Usage(fmt.Errorf("--give-up-node: %q is not the number of a node", text))
		}
	}
	o.Cluster = &crawl.Cluster{Node: *c.Node, Table: f.Table, Crawl: f.Key(), Secret: f.Secret,
		LeaseTTL: c.ClusterLease, Clock: sleeplessClock, File: c.absoluteFile(),
		Reconfigure: c.ClusterReconfigure, Abandoned: givenUp, Broker: c.embeds()}
	if err := o.Cluster.ValidateAbandoned(); err != nil {
		return term.Usage(fmt.Errorf("--give-up-node: %w", err))
	}
	c.crawl = f.Crawl
	if c.embeds() {
		return flags.SetBroker(o, c.ClusterStream, c.ClusterLeases)
	}
	return nil
}

// openCluster connects to the other nodes of the cluster that ReadCluster has read. No exchange with a site takes
// longer than longest. stop ends the connection.
func (c *clusterFlags) openCluster(o *crawl.Options, longest time.Duration, warn func(text string)) (stop func() error,
	err error) {
	if o.Cluster == nil {
		return func() error { return nil }, nil
	}
	opt := nats.Options{Crawl: c.crawl, Secret: o.Cluster.Secret[:], Node: *c.Node, CA: c.ClusterCA,
		Creds: c.ClusterCreds, Seed: c.ClusterSeed, StreamBytes: int64(c.ClusterStream),
		LeasesBytes: int64(c.ClusterLeases), Replicas: c.ClusterReplicas, Warn: warn}
	if c.embeds() {
		opt.Embed = &nats.Embed{Dir: cmp.Or(c.ClusterDir, filepath.Clean(o.Disk.Dirs[0])+"-nats"),
			Listen: c.ClusterListen, Cert: c.ClusterCert, Key: c.ClusterKey, Sync: c.ClusterSync,
			StoreBytes: cluster.BrokerDisk(o.Cluster.Table.Nodes()+cluster.JoinRoom, int64(c.ClusterStream),
				int64(c.ClusterLeases)),
			Routes: c.ClusterRoutes, RouteListen: c.ClusterRouteListen}
	} else {
		opt.URLs, opt.Cert, opt.Key = c.Cluster, c.ClusterCert, c.ClusterKey
	}
	if err := opt.Validate(); err != nil {
		return nil, term.Usage(err)
	}
	e, err := nats.Open(opt)
	if err != nil {
		return nil, err
	}
	o.Cluster.Transport, o.Cluster.Longest = e, longest
	if addr := e.Addr(); addr != nil {
		c.listens = addr.String()
	}
	return e.Close, nil
}
