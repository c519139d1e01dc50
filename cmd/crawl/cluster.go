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
)

// clusterFlags make the crawl one node of several.
type clusterFlags struct {
	Cluster            []string      `group:"cluster" placeholder:"URL" help:"Crawl as one node of several that exchange links over these NATS servers with JetStream, such as tls://nats1:4222. embed: run the server in this process. Needs --cluster-file and --node."`
	ClusterFile        string        `group:"cluster" placeholder:"FILE" help:"File of the cluster, made by drumbeat cluster init, the same for all nodes. It says who owns which PLDs."`
	Node               *int          `group:"cluster" placeholder:"N" help:"Number of this node, from 0."`
	ClusterDir         string        `group:"cluster" placeholder:"DIR" help:"With --cluster embed, keep the broker's files in DIR. Default: the first --dir with -nats after its name."`
	ClusterListen      string        `group:"cluster" placeholder:"HOST:PORT" help:"With --cluster embed, listen here for the other nodes. Anything but loopback requires --cluster-cert, --cluster-key and --cluster-seed."`
	ClusterRoutes      []string      `group:"cluster" placeholder:"HOST:PORT" help:"With --cluster embed on three or five nodes, the addresses at which their servers reach each other, this node's included: the crawl then goes on while more than half of them live. Needs --cluster-route-listen, --cluster-listen and --cluster-replicas. Anything but loopback requires --cluster-ca, --cluster-cert and --cluster-key, with certificates for both servers and clients."`
	ClusterRouteListen string        `group:"cluster" placeholder:"HOST:PORT" help:"That of --cluster-routes which is this node's."`
	ClusterCA          string        `group:"cluster" name:"cluster-ca" placeholder:"FILE" help:"Trust servers with certificates signed by those in FILE (PEM). With --cluster embed, require client certificates signed by them. Default: the system's."`
	ClusterCert        string        `group:"cluster" placeholder:"FILE" help:"Certificate of this node, or of its embedded server (PEM)."`
	ClusterKey         string        `group:"cluster" placeholder:"FILE" help:"Key of --cluster-cert."`
	ClusterCreds       string        `group:"cluster" placeholder:"FILE" help:"NATS credentials (JWT and seed) for external servers."`
	ClusterSeed        string        `group:"cluster" placeholder:"FILE" help:"NKey seed that all nodes share, for the embedded server and its clients."`
	ClusterStream      flags.Size    `group:"cluster" placeholder:"SIZE" default:"1GiB" help:"Let the broker hold at most this much for this node. More waits on the disks of the senders. With an embedded broker, give all nodes the same."`
	ClusterLeases      flags.Size    `group:"cluster" placeholder:"SIZE" default:"512MiB" help:"Let the broker hold at most this much for leases of networks, 180 bytes each, 4MiB or more; plan says how many there can be. When 7/8 are in use, further networks wait. A broker that has less room for them gets as much; none is taken back."`
	ClusterReplicas    int           `group:"cluster" placeholder:"N" default:"1" help:"Let several servers keep this many copies of streams and values, 1 to 5; with three servers, 3. Give all nodes the same: streams and values with fewer copies get more at the next start of a node, and a node with a lower number is warned."`
	ClusterPoliteness  string        `group:"cluster" enum:"lease,share" default:"lease" help:"How nodes share the networks (IPv4 /24, IPv6 /48) that several of them visit. lease: one node at a time, so all delays and limits hold over all nodes. share: each node at its share of the rates, so two nodes may visit an address at one instant."`
	ClusterLease       time.Duration `group:"cluster" placeholder:"DURATION" default:"10m" help:"Take the networks of a node that was silent for this long; a node rests after nine tenths of it. The same for all nodes."`
	ClusterSync        time.Duration `group:"cluster" placeholder:"DURATION" default:"0s" help:"With --cluster embed, sync the broker's files this often. 0: before each acknowledgement. A broker that loses what it acknowledged costs time, never a link."`
	ClusterReconfigure bool          `group:"cluster" help:"Replace the configuration that nodes compare when they start (seeds, scope, rules, limits, delays) by that of this node. Without it, a node with another configuration is refused."`
	GiveUpNode         []string      `group:"cluster" placeholder:"NODE" help:"Go on without this node, which is lost for good: drop what waits for it and all further links to its sites, and end without it. Cannot be taken back, and the node is refused from then on. Give it to all nodes, with --cluster-reconfigure to the first. Can be repeated."`

	crawl   string // id, of the file
	listens string // address of the embedded broker; "": it has none
}

// check returns the first fault of the flags.
func (c *clusterFlags) check() error {
	if len(c.Cluster) == 0 {
		if c.ClusterFile != "" || c.Node != nil || c.ClusterListen != "" || c.routes() || c.ClusterReconfigure || len(c.GiveUpNode) > 0 {
			return errors.New("--cluster-file, --node, --cluster-listen, --cluster-routes, --cluster-reconfigure and --give-up-node need --cluster")
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
		return fmt.Errorf("--cluster-routes needs --cluster-replicas %d: a stream with one copy is away with its server", nats.MinRoutes)
	case c.embeds() && len(c.Cluster) > 1:
		return errors.New("--cluster embed takes no other servers")
	case c.ClusterSync < 0:
		return fmt.Errorf("--cluster-sync %v is negative", c.ClusterSync)
	case c.ClusterLeases < cluster.LeastLeasesBytes:
		return fmt.Errorf("--cluster-leases %v is less than %v", c.ClusterLeases, flags.Size(cluster.LeastLeasesBytes))
	case c.ClusterLease < lease.LeastTTL || c.ClusterLease > lease.MostTTL:
		return fmt.Errorf("--cluster-lease %v is not in %v to %v", c.ClusterLease, lease.LeastTTL, lease.MostTTL)
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
	givenUp := make([]int, len(c.GiveUpNode))
	for i, text := range c.GiveUpNode {
		if givenUp[i], err = strconv.Atoi(text); err != nil {
			return term.Usage(fmt.Errorf("--give-up-node: %q is not the number of a node", text))
		}
	}
	o.Cluster = &crawl.Cluster{Node: *c.Node, Table: f.Table, Crawl: f.Key(), Secret: f.Secret,
		Politeness: c.ClusterPoliteness, LeaseTTL: c.ClusterLease, Clock: sleeplessClock, File: c.absoluteFile(),
		Reconfigure: c.ClusterReconfigure, Abandoned: givenUp}
	if err := o.Cluster.ValidateAbandoned(); err != nil {
		return term.Usage(fmt.Errorf("--give-up-node: %w", err))
	}
	c.crawl = f.Crawl
	if c.embeds() {
		return flags.SetBroker(o, c.ClusterStream, c.ClusterLeases)
	}
	return nil
}

// openCluster connects to the other nodes of the cluster that ReadCluster has read. No exchange with a site takes longer
// than longest. stop ends the connection.
func (c *clusterFlags) openCluster(o *crawl.Options, longest time.Duration, warn func(text string)) (stop func() error, err error) {
	if o.Cluster == nil {
		return func() error { return nil }, nil
	}
	opt := nats.Options{Crawl: c.crawl, Secret: o.Cluster.Secret[:], Node: *c.Node, CA: c.ClusterCA, Creds: c.ClusterCreds, Seed: c.ClusterSeed,
		StreamBytes: int64(c.ClusterStream), LeasesBytes: int64(c.ClusterLeases), Replicas: c.ClusterReplicas, Warn: warn}
	if c.embeds() {
		opt.Embed = &nats.Embed{Dir: cmp.Or(c.ClusterDir, filepath.Clean(o.Dirs[0])+"-nats"), Listen: c.ClusterListen, Cert: c.ClusterCert,
			Key: c.ClusterKey, Sync: c.ClusterSync,
			StoreBytes: cluster.BrokerDisk(o.Cluster.Table.Nodes(), int64(c.ClusterStream), int64(c.ClusterLeases)),
			Routes:     c.ClusterRoutes, RouteListen: c.ClusterRouteListen}
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
