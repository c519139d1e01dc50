package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/state"
	"drumbeat/weburl"
)

// ClusterOptions say which nodes AuditDirs audits, and how.
type ClusterOptions struct {
	// Options holds for all nodes. Its Dirs are the directories of all nodes, for state and output, in any
	// order.
	Options
	// Others are nodes whose audits were read from files.
	Others []Node
	// Deep audits each node as Deep does, and compares URLs and keys. It takes no Others.
	Deep bool
	// Table maps PLDs to their owners, for Deep.
	Table *cluster.Table
}

// ClusterDeep is the part of a deep audit that only clusters have.
type ClusterDeep struct {
	Own, Foreign int64 // URLs in records, responses and logs of their owner, and of other nodes
	History      int64 // responses and lines of logs from before their slots moved to other nodes
	Leaving      int64 // URLs in BEAST on their way to other nodes
	Keys, Twice  int64 // keys of URLseen of all nodes, and keys on two nodes
}

// AuditDirs audits the nodes of a cluster from their directories. It locks all of them until it ends, so that
// no node can start, and audits one after the other.
func AuditDirs(opt ClusterOptions) (rep *ClusterReport, err error) {
	if opt.FS == nil {
		opt.FS = disk.OS()
	}
	groups, err := opt.groups()
	if err != nil {
		return nil, err
	}
	var all []*openNode
	defer func() {
		for _, n := range all {
			err = errors.Join(err, n.close())
		}
	}()
	for _, g := range groups {
		n := &openNode{opt: g}
		all = append(all, n)
		if err := n.open(); err != nil {
			return nil, err
		}
	}
	if opt.Deep {
		for _, n := range all {
			departed := opt.Table.HasDeparted(n.cluster.Node)
			if departed && !n.m.Frozen.Slots.IsZero() {
				return nil, state.Incompatible("crawl: node %d was forgotten, and others have begun with its slots: "+
					"leave %s out", n.cluster.Node, n.name())
			}
			if n.cluster.Table != opt.Table.Sum() && !departed {
				return nil, state.Incompatible(
					"crawl: node %d (%s) has a table of owners that differs from the file of the cluster",
					n.cluster.Node, n.name())
			}
		}
	}
	deep := &ClusterDeep{}
	found := &ClusterReport{} // collects discrepancies before the comparison of nodes
	nodes := slices.Clone(opt.Others)
	for _, n := range all {
		node, err := n.audit(&opt, deep, found)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	if opt.Deep {
		if err := compareSeen(all, deep, found); err != nil {
			return nil, err
		}
	}
	if rep, err = compare(nodes, found); err != nil {
		return nil, err
	}
	if opt.Deep {
		rep.Deep = deep
	}
	return rep, nil
}

// Opened is a node whose directories the caller has locked: Open returned it.
type Opened struct {
	Saved    *state.Saved
	Manifest *state.Manifest
}

// AuditOpened audits the nodes of a cluster as AuditDirs does without Deep.
func AuditOpened(nodes []Opened) (*ClusterReport, error) {
	found := &ClusterReport{}
	var list []Node
	for _, o := range nodes {
		m := *o.Manifest // an audit adds to its accounts
		n := &openNode{opt: Options{Dirs: o.Saved.Set.Paths}, saved: o.Saved, m: &m}
		var err error
		if n.cluster, err = clusterOf(n.m); err == nil && n.cluster == nil {
			err = state.Incompatible("crawl: %s does not belong to a node of a cluster", n.name())
		}
		if err != nil {
			return nil, err
		}
		node, err := n.audit(&ClusterOptions{}, nil, found)
		if err != nil {
			return nil, err
		}
		list = append(list, node)
	}
	return compare(list, found)
}

// compare compares the audits of nodes, and adds the earlier findings.
func compare(nodes []Node, found *ClusterReport) (*ClusterReport, error) {
	rep, err := CompareNodes(nodes)
	if err != nil {
		return nil, err
	}
	rep.Bad, rep.BadCount = append(found.Bad, rep.Bad...), found.BadCount+rep.BadCount
	rep.Damaged = found.Damaged
	return rep, nil
}

// groups sorts the directories by node.
func (o *ClusterOptions) groups() ([]Options, error) {
	byCrawl := map[string]int{}
	var groups []Options
	for _, dir := range o.Dirs {
		id, err := disk.ReadIdentity(o.FS, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, state.NoCrawl(dir)
		}
		if err != nil {
			return nil, err
		}
		i, ok := byCrawl[id.Crawl]
		if !ok {
			i = len(groups)
			byCrawl[id.Crawl] = i
			g := o.Options
			g.Dirs, g.Out = nil, nil
			groups = append(groups, g)
		}
		if id.Kind == state.KindOutput {
			groups[i].Out = append(groups[i].Out, dir)
		} else {
			groups[i].Dirs = append(groups[i].Dirs, dir)
		}
	}
	for i := range groups {
		if len(groups[i].Dirs) == 0 {
			return nil, state.Incompatible(
				"crawl: %s holds output, and no directory with the state of its node was given", groups[i].Out[0])
		}
	}
	return groups, nil
}

// openNode is a node whose directories are locked.
type openNode struct {
	opt     Options
	saved   *state.Saved
	m       *state.Manifest
	cluster *Cluster
}

func (n *openNode) name() string { return strings.Join(n.opt.Dirs, " ") }

func (n *openNode) open() (err error) {
	if n.saved, n.m, err = Open(&n.opt); err != nil {
		return err
	}
	if n.cluster, err = clusterOf(n.m); err == nil && n.cluster == nil {
		err = state.Incompatible("crawl: %s does not belong to a node of a cluster", n.name())
	}
	return err
}

func (n *openNode) close() error {
	if n.saved == nil {
		return nil
	}
	return n.saved.Unlock()
}

// audit audits a node. Damage goes into found.
func (n *openNode) audit(opt *ClusterOptions, deep *ClusterDeep, found *ClusterReport) (Node, error) {
	node := Node{Name: n.name(), Checkpoint: n.m.Gen, Cluster: n.cluster}
	if opt.Deep {
		rep, err := n.deep(opt.Table, deep, found)
		if err != nil {
			return node, err
		}
		node.Balanced, node.Cluster = rep.Balanced(), rep.Cluster
		n.tell(rep.Report.Bad, found)
		return node, nil
	}
	p := n.saved.StartProgress(opt.Progress, opt.ProgressEvery, "state")
	defer p.End()
	rep, err := BalanceSaved(n.saved, n.m)
	var damage *disk.CorruptError
	if errors.As(err, &damage) {
		found.Damaged = true
		found.bad("node %d (%s): %v", n.cluster.Node, n.name(), err)
		for i := range n.cluster.Pairs { // discrepancies of the readable parts of the outboxes
			if _, err := n.cluster.Pairs[i].scan(n.saved, n.m, func(error) error { return nil }); err != nil {
				return node, err
			}
		}
		return node, nil
	}
	if err != nil {
		return node, err
	}
	node.Balanced, node.Cluster = rep.Balanced(), rep.Cluster
	n.tell(rep.Bad, found)
	return node, nil
}

// tell adds the discrepancies of a node's own audit.
func (n *openNode) tell(bad []string, found *ClusterReport) {
	for _, why := range bad {
		found.bad("node %d (%s): %s", n.cluster.Node, n.name(), why)
	}
}

// deep runs Deep and checks the owners of all URLs. Ended URLs stay on their node when slots move; the audit
// of each node compares their number with state.Accounts.Moved.
func (n *openNode) deep(table *cluster.Table, deep *ClusterDeep, found *ClusterReport) (_ *DeepReport, err error) {
	x, err := NewScanner(n.saved, n.m, &n.opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	var last []byte // host of the last URL that the node owns
	x.URL = func(url []byte, at state.Place) error {
		host := weburl.Split(url).Host
		if len(last) > 0 && bytes.Equal(host, last) {
			deep.Own++
			return nil
		}
		if owner := table.Visitor(n.saved.Hasher, n.saved.Suffixes, host); owner != n.cluster.Node {
			divided := table.PartsOf(n.saved.Suffixes.PLDBytes(host)) != nil
			switch {
			case divided && at != state.PlaceFetched && table.Owner(n.saved.PLDKey(host)) == n.cluster.Node:
				deep.Leaving++ // it sends them when it comes to them
				return nil
			case at == state.PlaceFetched && table.Moves() > 0:
				deep.History++
				return nil
			case inBeast(at) && n.m.Leaving != nil && n.m.Leaving.Slots.HasPLD(n.saved.PLDKey(host)):
				deep.Leaving++
				return nil
			}
			deep.Foreign++
			found.bad("node %d (%s) has a URL of node %d: %.200q", n.cluster.Node, n.name(), owner, url)
			return nil
		}
		deep.Own++
		last = append(last[:0], host...)
		return nil
	}
	if err := x.Run(); err != nil {
		return nil, err
	}
	for i := range x.Report.Damages {
		found.Damaged = true
		found.bad("node %d (%s): %s", n.cluster.Node, n.name(), x.Report.Damages[i].String())
	}
	return x.Report, nil
}

// compareSeen counts the keys of URLseen on two nodes. The stores are sorted, so it reads all of them once,
// side by side. It takes the read buffers of one store for each node.
func compareSeen(all []*openNode, deep *ClusterDeep, found *ClusterReport) error {
	var heads []*seenKeys
	defer func() {
		for _, h := range heads {
			h.stop()
		}
	}()
	for _, n := range all {
		h, err := n.seenKeys()
		if err != nil {
			return err
		}
		heads = append(heads, h)
	}
	for {
		var least *seenKeys
		for _, h := range heads {
			if h.more && (least == nil || h.key < least.key) {
				least = h
			}
		}
		if least == nil {
			return nil
		}
		deep.Keys++
		key := least.key
		for _, h := range heads {
			if !h.more || h.key != key {
				continue
			}
			if h != least {
				deep.Twice++
				found.bad("node %d (%s) and node %d (%s) both have the key %016x in URLseen: its URL counts on both",
					least.node.cluster.Node, least.node.name(), h.node.cluster.Node, h.node.name(), uint64(key))
			}
			if err := h.advance(); err != nil {
				return err
			}
		}
	}
}

// seenKeys are the keys of a node's URLseen, in order.
type seenKeys struct {
	node *openNode
	next func() (drum.Key, error, bool)
	stop func()
	key  drum.Key
	more bool
}

// errStopped ends a scan early.
var errStopped = errors.New("stopped")

func (n *openNode) seenKeys() (*seenKeys, error) {
	st, err := state.Part[drum.State](n.m, state.NameURLSeen)
	if err != nil {
		return nil, err
	}
	h := &seenKeys{node: n}
	h.next, h.stop = iter.Pull2(func(yield func(drum.Key, error) bool) {
		if st == nil {
			return
		}
		_, err := drum.ScanState(n.saved.Set, state.NameURLSeen, st.Cache(), drum.Scan{
			Damaged: func(error) error { return nil }, // the deep audit has reported it
			Entry: func(key drum.Key, _ []byte) error {
				if !yield(key, nil) {
					return errStopped
				}
				return nil
			}})
		if err != nil && !errors.Is(err, errStopped) {
			yield(0, fmt.Errorf("crawl: keys of node %d: %w", n.cluster.Node, err))
		}
	})
	return h, h.advance()
}

// advance moves to the next key.
func (h *seenKeys) advance() (err error) {
	h.key, err, h.more = h.next()
	return err
}
