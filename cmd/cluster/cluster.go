// Package cluster is the command cluster, which prepares a crawl of several nodes, and divides it again.
//
// cluster init makes the file that all nodes share (cluster.File): who owns which PLDs, and the secret of the
// crawl. It is copied to each node. cluster show prints what is in it, but for the secret.
//
// cluster move gives slots of some nodes to another (package state/move), with all nodes stopped, and replaces the file.
//
// The file has mode 0600, and nothing else replaces it: a crawl whose nodes have different tables would
// fetch URLs twice or not at all, and one whose nodes have different secrets could not compare keys. A node
// refuses directories of another file, and stops when another node's mark has another table.
//
// Nodes are for life: their number cannot change. With more nodes than machines, a machine runs several, each
// with directories and a share of RAM of its own, and a node moves to another machine with its directories.
//
// The flags of a node are those of crawl (--cluster, --cluster-file, --node and others). cluster status connects to the broker,
// changes nothing there, and prints what the nodes say of themselves (cluster.Status). cluster seed makes a file. cluster permissions prints what the broker
// must allow. The others connect to nothing. The package starts no goroutine.
//
// cluster audit compares the accounts of the stopped nodes (package state/audit), from their directories, which it
// locks, or from what audit --json has written of each.
//
// Exit codes: 0; term.ExitUsage (2) for bad flags, or a file that is none; of audit and move also
// term.ExitDirectory (4) if a node runs, or the directories are not those of the nodes of one crawl, or something cannot be
// moved, and term.ExitDamage (5) for damage and a node that was set back; 1 for everything else, such as accounts that do not
// balance.
package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
	"drumbeat/disk"
)

// Command is the table of cluster's commands.
type Command struct {
	Init        initCmd        `cmd:"" help:"Make the file that all nodes of a crawl share. Copy it to each node; it is secret."`
	Seed        seedCmd        `cmd:"" help:"Make an NKey seed for --cluster-seed, which nodes need for an embedded broker beyond loopback. Copy it to each node; it is secret."`
	Show        showCmd        `cmd:"" help:"Print what a file of a cluster says: the crawl, its nodes, and the part of the web that each owns."`
	Status      statusCmd      `cmd:"" help:"Print a table of all nodes, by what they say of themselves every 10 seconds, and of the broker's streams."`
	Permissions permissionsCmd `cmd:"" help:"Print the permissions that a user of the NATS account needs for a crawl, as configuration of the server."`
	Audit       auditCmd       `cmd:"" help:"Compare the accounts of all stopped nodes of a crawl: what each has sent is what the others have taken or will get. Exit code 5 if a node was set back to an older copy."`
	Move        moveCmd        `cmd:"" help:"Move slots, with their PLDs, between stopped nodes. All nodes must be stopped in order, and all their directories be at hand. If it is interrupted, run it again."`
}

type initCmd struct {
	File   string    `arg:"" name:"file" help:"File to make."`
	Nodes  int       `required:"" placeholder:"N" help:"Number of nodes, 1 to 4096. It cannot be changed later: take more nodes than machines, if machines may be added; one machine can run several."`
	Weight []float64 `placeholder:"W" help:"Weights of the nodes, the first of node 0, such as 2,1,1: their shares of the web. Default: equal shares."`
	Keep   bool      `help:"Leave FILE as it is if it exists and is the file of a cluster with this number of nodes, for a service that makes it at each start."`
}

// Run makes the file.
func (c *initCmd) Run(a *term.App) error {
	if c.Nodes < 1 || c.Nodes > cluster.MaxNodes {
		return term.Usage(fmt.Errorf("--nodes %d: must be between 1 and %d", c.Nodes, cluster.MaxNodes))
	}
	weights := c.Weight
	if len(weights) == 0 {
		for range c.Nodes {
			weights = append(weights, 1)
		}
	}
	if len(weights) != c.Nodes {
		return term.Usage(fmt.Errorf("--weight has %d weights for %d nodes", len(weights), c.Nodes))
	}
	if _, err := os.Lstat(c.File); c.Keep && err == nil {
		return c.keep(a)
	}
	f, err := cluster.NewFile(weights)
	if err != nil {
		return term.Usage(err)
	}
	data, err := f.Encode()
	if err != nil {
		return err
	}
	if err := create(c.File, data); errors.Is(err, fs.ErrExist) {
		return term.Usage(fmt.Errorf("%s exists: the nodes of a crawl keep one file for ever", c.File))
	} else if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s: crawl %s of %d nodes; copy it to each of them, and keep it secret\n", c.File, f.Crawl, c.Nodes)
	return nil
}

// create writes a file that must not exist, whole or not at all.
func create(name string, data []byte) error {
	w, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(w.Name())
	_, err = w.Write(data)
	if err = errors.Join(err, w.Sync(), w.Close()); err != nil {
		return err
	}
	if err := os.Link(w.Name(), name); err != nil {
		return err
	}
	return disk.OS().SyncDir(filepath.Dir(name))
}

// keep checks the file that exists.
func (c *initCmd) keep(a *term.App) error {
	f, err := read(c.File)
	if err != nil {
		return err
	}
	if n := f.Table.Nodes(); n != c.Nodes {
		return term.Usage(fmt.Errorf("%s is of %d nodes, not of --nodes %d", c.File, n, c.Nodes))
	}
	fmt.Fprintf(a.Stdout, "%s: crawl %s of %d nodes, kept\n", c.File, f.Crawl, c.Nodes)
	return nil
}

type showCmd struct {
	File string `arg:"" name:"file" help:"File of a cluster."`
}

// Run prints what the file says.
func (c *showCmd) Run(a *term.App) error {
	f, err := read(c.File)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "crawl %s, %d nodes\n", f.Crawl, f.Table.Nodes())
	for node := range f.Table.Nodes() {
		fmt.Fprintf(a.Stdout, "node %d: %d of %d slots, %.1f %%\n", node, f.Table.Share(node), cluster.Slots,
			100*float64(f.Table.Share(node))/cluster.Slots)
	}
	return nil
}

// read reads a file of a cluster.
func read(name string) (*cluster.File, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, term.Usage(err)
	}
	f, err := cluster.DecodeFile(data)
	if err != nil {
		return nil, term.Usage(fmt.Errorf("%s: %w", name, err))
	}
	return f, nil
}
