// Package cluster is the command cluster, which prepares a crawl of several nodes, and divides it again.
//
// cluster init makes the file that all nodes share (cluster.File): who owns which PLDs, and the secret of the
// crawl. It is copied to each node. cluster show prints what is in it, but for the secret.
//
// cluster move gives slots of some nodes to another (package state/move), with all nodes stopped, and replaces the
// file.
//
// cluster replace restores the backup of a lost node, and takes its place while the others run (repair.Replace).
//
// The file has mode 0600, and nothing else replaces it: a crawl whose nodes have different tables would
// fetch URLs twice or not at all, and one whose nodes have different secrets could not compare keys. A node
// refuses directories of another file, and stops when another node's mark has another table.
//
// cluster join, leave, divide, forget and balance --apply change the table while the nodes run: they write one change
// after another to the broker (cluster.TableChange), and the nodes carry them out. The file follows.
//
// The flags of a node are those of crawl (--cluster, --cluster-file, --node and others). cluster status connects to
// the broker, changes nothing there, and prints what the nodes say of themselves (cluster.Status). cluster top shows
// that on the full screen, with the speeds since its start. cluster balance reads the loads of all nodes there
// (cluster.NodeLoads), and proposes moves of slots. cluster seed makes a file, cluster secrets a CA, certificates and
// the users of NATS servers. cluster permissions prints what the broker must allow. The others connect to nothing.
// The package starts no goroutine of its own.
//
// cluster audit compares the accounts of the stopped nodes (package state/audit), from their directories, which it
// locks, or from what audit --json has written of each.
//
// Exit codes: 0; term.ExitUsage (2) for bad flags, or a file that is none; of audit, move and replace
// also term.ExitDirectory (4) if a node runs, or the directories are not those of the nodes of one crawl, or something
// cannot be moved, and term.ExitDamage (5) for damage and a node that was set back; 1 for everything else, such as
// accounts that do not balance, and of status for a cluster whose condition is bad.
package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
)

// Command is the table of cluster's commands.
type Command struct {
	Init        initCmd        `cmd:""`
	Seed        seedCmd        `cmd:""`
	Secrets     secretsCmd     `cmd:""`
	Show        showCmd        `cmd:""`
	Status      statusCmd      `cmd:""`
	Top         topCmd         `cmd:""`
	Balance     balanceCmd     `cmd:""`
	Join        joinCmd        `cmd:""`
	Leave       leaveCmd       `cmd:""`
	Divide      divideCmd      `cmd:""`
	Forget      forgetCmd      `cmd:""`
	Permissions permissionsCmd `cmd:""`
	Audit       auditCmd       `cmd:""`
	Move        moveCmd        `cmd:""`
	Replace     replaceCmd     `cmd:""`
}

type initCmd struct {
	File   string    `arg:"" name:"file"`
	Nodes  int       `required:"" placeholder:"N"`
	Weight []float64 `placeholder:"W"`
	Keep   bool
}

// Run makes the file.
func (c *initCmd) Run(a *term.App) error {
	if c.Nodes < 1 || c.Nodes > cluster.MaxNodes {
		return term.Usage(fmt.Errorf("--nodes %d: must be between 1 and %d", c.Nodes, cluster.MaxNodes))
	}
	weights, err := weightsOf(c.Weight, c.Nodes)
	if err != nil {
		return err
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
		return term.Usage(fmt.Errorf("%s exists: the nodes of a crawl use one file for its whole life", c.File))
	} else if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s: crawl %s of %s; copy it to each of them, and keep it secret\n",
		c.File, f.Crawl, human.Counted(c.Nodes, "node", "nodes"))
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
		return term.Usage(fmt.Errorf("%s belongs to a cluster of %s, not of --nodes %d", c.File,
			human.Counted(n, "node", "nodes"), c.Nodes))
	}
	fmt.Fprintf(a.Stdout, "%s: crawl %s of %s, kept\n", c.File, f.Crawl,
		human.Counted(c.Nodes, "node", "nodes"))
	return nil
}

type showCmd struct {
	File string `arg:"" name:"file"`
}

// Run prints what the file says.
func (c *showCmd) Run(a *term.App) error {
	f, err := read(c.File)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "crawl %s, %s\n", f.Crawl, human.Counted(f.Table.Nodes(), "node", "nodes"))
	for node := range f.Table.Nodes() {
		fmt.Fprintf(a.Stdout, "node %d: %d of %d slots, %.1f %%\n", node, f.Table.Share(node), cluster.Slots,
			100*float64(f.Table.Share(node))/cluster.Slots)
	}
	for _, d := range f.Table.Divisions() {
		var parts []string
		for _, node := range d.Parts.Nodes() {
			parts = append(parts, fmt.Sprintf("node %d %.1f %%", node, 100*d.Parts.Share(node)))
		}
		fmt.Fprintf(a.Stdout, "%s of slot %d (node %d) is divided: %s of the hosts\n", d.PLD, d.Slot,
			f.Table.OwnerOf(d.Slot), strings.Join(parts, ", "))
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
