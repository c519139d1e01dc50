package move

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// Options describe a move.
type Options struct {
	FS    disk.FS // of File; nil means the machine's
	File  string  // the file of the cluster
	Nodes []Node  // all nodes, by number
	// Slots First to Last go to node To; unless From is -1, only those of node From.
	First, Last, From, To int
	RAMBytes              int64 // for all nodes; 0 means 256 MiB
}

// Node names the directories of a node.
type Node struct {
	FS   disk.FS // nil means the machine's
	Dirs []string
}

// Report is the result of Run.
type Report struct {
	Finished bool // an earlier move was finished; nothing else was done
	Table    *cluster.Table
	Nodes    []NodeReport
}

// NodeReport describes a node that gave or got slots.
type NodeReport struct {
	Node                 int
	Unique, UniqueBefore int64 // keys of URLseen
	Waiting              int64 // URLs that had not ended and moved to other nodes
	Ended                int64 // URLs that had ended and moved to other nodes, minus those that moved here
	Messages             int64 // for this node, taken from the outboxes of others
}

const defaultRAM = 256 << 20

// nextSuffix ends the name of the next file of a cluster.
const nextSuffix = ".next"

// Run moves slots, or finishes an interrupted move. It audits the nodes before and after; a finished move
// only after. An error with a report means that the slots have moved, and that the audit found a discrepancy.
func Run(opt Options) (rep *Report, err error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	if opt.RAMBytes == 0 {
		opt.RAMBytes = defaultRAM
	}
	f, err := readFile(opt.FS, opt.File)
	if err != nil {
		return nil, err
	}
	next, err := readFile(opt.FS, opt.File+nextSuffix)
	committed := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// A Run that was killed may have given one of these files its name, but not durably. A node must not change before.
	if err := opt.FS.SyncDir(path.Dir(opt.File)); err != nil {
		return nil, fmt.Errorf("move: %w", err)
	}
	if n := f.Table.Nodes(); len(opt.Nodes) != n {
		return nil, fmt.Errorf("move: directories of %s given, the cluster has %d: %w",
			human.Counted(len(opt.Nodes), "node is", "nodes are"), n,
			state.ErrIncompatible)
	}
	if !committed {
		table, err := f.Table.Move(opt.First, opt.Last, opt.From, opt.To)
		if err != nil {
			return nil, err
		}
		next = &cluster.File{Crawl: f.Crawl, Secret: f.Secret, Table: table}
	}
	m := &mover{opt: &opt, file: f, next: next, rep: &Report{Finished: committed, Table: next.Table}}
	defer func() { err = errors.Join(err, m.close()) }()
	if err := m.open(committed); err != nil {
		return nil, err
	}
	if !committed {
		if err := m.prepare(); err != nil {
			return nil, errors.Join(err, m.abandon(err))
		}
	}
	if err := m.carryOut(); err != nil {
		return nil, err
	}
	if err := m.reread(); err != nil {
		return m.rep, fmt.Errorf("move: the slots have moved; the audit after the move: %w", err)
	}
	if err := m.audit(); err != nil {
		return m.rep, fmt.Errorf("move: the slots have moved; the audit after the move: %w", err)
	}
	return m.rep, nil
}

// readFile reads the file of a cluster.
func readFile(fsys disk.FS, name string) (*cluster.File, error) {
	data, err := disk.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("move: read %s: %w", name, err)
	}
	f, err := cluster.DecodeFile(data)
	if err != nil {
		return nil, fmt.Errorf("move: %s: %w", name, err)
	}
	return f, nil
}

// mover is the state of one Run.
type mover struct {
	opt   *Options
	file  *cluster.File
	next  *cluster.File
	nodes []*node
	rep   *Report
	sifts bool // the queues of BEAST are sifted later
	// each is called for each entry of the stores, when they are filled; nil: nothing is.
	each func(store int, key drum.Key, value []byte) error
}

// open locks and opens all nodes. It finishes or abandons an earlier Run's changes in them.
func (m *mover) open(committed bool) error {
	for i := range m.opt.Nodes {
		n, err := m.openNode(i, committed)
		if n != nil {
			m.nodes = append(m.nodes, n)
		}
		if err != nil {
			return fmt.Errorf("move: node %d: %w", i, err)
		}
	}
	return nil
}

func (m *mover) openNode(i int, committed bool) (*node, error) {
	at := m.opt.Nodes[i]
	opt := audit.Options{FS: at.FS, Dirs: at.Dirs, Repairing: true}
	r, man, err := audit.Open(&opt)
	if r == nil {
		return nil, err
	}
	n := &node{number: i, saved: r, m: man, counted: new(cluster.Loads)}
	if len(r.Locks) < len(at.Dirs) || r.Set.Len() == 0 {
		return n, err
	}
	if !committed {
		if refused := r.RefuseRepairing(); errors.Is(refused, state.ErrRepairing) {
			return n, refused
		}
		if err != nil {
			return n, err
		}
		if err := n.belongs(m.file, m.file.Table); err != nil {
			return n, err
		}
		return n, repair.Abandon(r)
	}
	// During a commit, the manifest may name missing files.
	if err := repair.Commit(r); err != nil {
		return n, err
	}
	if n.m, _, err = state.ReadManifest(r.Set); err != nil {
		return n, err
	}
	if n.m == nil {
		return n, state.NoCrawl(at.Dirs[0])
	}
	return n, n.belongs(m.file, m.next.Table)
}

// prepare writes the next state of all nodes, and the next file of the cluster.
func (m *mover) prepare() error {
	if err := m.check(); err != nil {
		return err
	}
	if err := m.audit(); err != nil {
		return fmt.Errorf("move: the audit before the move; nothing has changed: %w", err)
	}
	if err := m.build(); err != nil {
		return err
	}
	if err := m.conserved(); err != nil {
		return err
	}
	for _, n := range m.nodes {
		if err := n.shadow.Prepare(); err != nil {
			return fmt.Errorf("move: node %d: %w", n.number, err)
		}
	}
	data, err := m.next.Encode()
	if err != nil {
		return err
	}
	if err := disk.WriteFileAtomic(m.opt.FS, m.opt.File+nextSuffix, data); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	return nil
}

// abandon undoes an uncommitted move, unless the error stands for the death of the process.
func (m *mover) abandon(why error) error {
	if errors.Is(why, disk.ErrCrashed) {
		return nil
	}
	if _, err := m.opt.FS.Size(m.opt.File + nextSuffix); !errors.Is(err, fs.ErrNotExist) {
		return nil // it may be committed; the next Run decides
	}
	var errs []error
	for _, n := range m.nodes {
		errs = append(errs, n.closeStores())
		if n.shadow != nil {
			errs = append(errs, repair.Abandon(n.saved))
		}
	}
	return errors.Join(errs...)
}

// carryOut changes the nodes and publishes the next file of the cluster.
func (m *mover) carryOut() error {
	for _, n := range m.nodes {
		if err := repair.Commit(n.saved); err != nil {
			return fmt.Errorf("move: node %d: %w", n.number, err)
		}
	}
	if err := m.opt.FS.Rename(m.opt.File+nextSuffix, m.opt.File); err != nil {
		return fmt.Errorf("move: publish %s: %w", m.opt.File, err)
	}
	if err := m.opt.FS.SyncDir(path.Dir(m.opt.File)); err != nil {
		return fmt.Errorf("move: publish %s: %w", m.opt.File, err)
	}
	return nil
}

// close unlocks the nodes.
func (m *mover) close() error {
	var errs []error
	for _, n := range m.nodes {
		errs = append(errs, n.closeStores(), n.saved.Unlock())
	}
	return errors.Join(errs...)
}

// conserved compares the sums of all nodes before and after.
func (m *mover) conserved() error {
	var unique, ended [2]weburl.Sum
	for _, n := range m.nodes {
		before, after := &n.m.Accounts, &n.shadow.Next.Accounts
		unique[0].Merge(before.Unique)
		unique[0].Merge(n.before[state.PlaceUnstreamed])
		unique[1].Merge(after.Unique)
		ended[0].Merge(before.Moved)
		ended[1].Merge(after.Moved)
	}
	switch {
	case unique[0] != unique[1]:
		return fmt.Errorf("BUG: move: %s before, %d after",
			human.Counted(unique[0].N, "unique URL", "unique URLs"), unique[1].N)
	case ended[0] != ended[1] || ended[0] != (weburl.Sum{}):
		return fmt.Errorf("BUG: move: the sum of moved URLs is %d before, %d after", ended[0].N, ended[1].N)
	}
	return nil
}
