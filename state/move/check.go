package move

import (
	"fmt"
	"strings"

	"drumbeat/cluster"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/queue"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// belongs returns an error if the directories are not those of this node of the cluster, at a table.
func (n *node) belongs(f *cluster.File, table *cluster.Table) error {
	fr := &n.m.Frozen
	switch {
	case fr.Nodes != table.Nodes() || fr.Node != n.number:
		return fmt.Errorf("%s holds node %d of %d (0 of 0: no cluster): %w", n.saved.Set.Path(0), fr.Node, fr.Nodes,
			state.ErrIncompatible)
	case fr.Table != table.Sum() || fr.Slots != state.SlotsOf(table, n.number):
		return fmt.Errorf("%s has a table of owners that differs from the cluster's file: %w", n.saved.Set.Path(0),
			state.ErrIncompatible)
	}
	secret, err := n.saved.OpenSecret(n.m)
	if err == nil && secret != f.Secret {
		err = fmt.Errorf("%s has a secret that differs from the cluster's: %w", n.saved.Set.Path(0),
			state.ErrIncompatible)
	}
	return err
}

// check finds the nodes that give and get slots, and refuses unmovable ones.
func (m *mover) check() error {
	for _, n := range m.nodes {
		n.owns = state.SlotsOf(m.next.Table, n.number)
		n.loads = map[int]bool{}
	}
	if m.file.Table.Divided() {
		return fmt.Errorf("move: a PLD is divided among nodes: move slots while the nodes run (cluster join, leave, "+
			"balance): %w", state.ErrIncompatible)
	}
	for slot := range cluster.Slots {
		if from, to := m.file.Table.OwnerOf(slot), m.next.Table.OwnerOf(slot); from != to {
			m.nodes[from].gives, m.nodes[to].gets = true, true
			m.nodes[to].loads[from] = true
		}
	}
	var moved weburl.Sum
	for _, n := range m.nodes {
		moved.Merge(n.m.Accounts.Moved)
	}
	if moved != (weburl.Sum{}) {
		return fmt.Errorf("move: repairs have lost URLs that moved between nodes: their accounts add up to "+
			"%d, not 0. If slots returned to their former node, its audit would fail, so no slot can move "+
			"any more: %w", moved.N, state.ErrIncompatible)
	}
	for _, n := range m.nodes {
		if !n.gives && !n.gets {
			continue
		}
		if err := n.check(m.file.Table, false); err != nil {
			return fmt.Errorf("move: node %d: %w", n.number, err)
		}
		for from := range n.loads {
			if was := m.nodes[from].m.Frozen.Lanes; was != n.m.Frozen.Lanes { // the records of PLDs have their ledgers
				return fmt.Errorf("move: node %d has %s, node %d has %d: %w", n.number,
					human.Counted(max(1, n.m.Frozen.Lanes), "lane", "lanes"), from, max(1, was), state.ErrIncompatible)
			}
		}
	}
	return nil
}

// check refuses a node that cannot give or get slots. The table is that before the move. begun says that other nodes
// may have given their slots: then nothing that stays so may hold this one up.
func (n *node) check(table *cluster.Table, begun bool) error {
	m, a := n.m, &n.m.Accounts
	refuse := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, state.ErrIncompatible)...)
	}
	stars, err := state.Part[star.State](m, state.NameStar)
	if err != nil {
		return err
	}
	quarantine, err := state.Part[queue.State](m, state.NameQuarantine)
	if err != nil {
		return err
	}
	for other := range m.Frozen.Nodes {
		st, err := state.Part[cluster.OutboxState](m, state.OutboxName(other))
		if err == nil && st != nil && st.Abandoned && !table.HasDeparted(other) && !begun {
			return refuse("it has abandoned node %d, whose slots are lost", other)
		}
	}
	switch {
	case quarantine != nil && quarantine.Records > 0 && !begun: // their links are passed on when they can be read
		return refuse("%s in its quarantine: start a version that reads them, and stop it",
			human.Counted(quarantine.Records, "message of another node is", "messages of other nodes are"))
	case len(m.Next) > 0 || m.Leaving != nil:
		return refuse("slots are on their way to it, or from it: start the nodes until they have come")
	case m.Done != "":
		return refuse("its crawl is over")
	case m.Frozen.Walk:
		return refuse("slots of random walks cannot move")
	case stars == nil:
		return refuse("its manifest has no STAR")
	case a.Places[state.PlaceContent].N > 0:
		return refuse("%s in the store of contents: start the node and stop it again",
			human.Counted(a.Places[state.PlaceContent].N, "page waits", "pages wait"))
	case m.Intake == nil || len(m.Intake.Taken) != m.Frozen.Nodes:
		return refuse("its manifest has no intake")
	}
	if !n.gives {
		return nil
	}
	return n.checkChanges(refuse)
}

// checkChanges refuses a node that gives slots while it alone has settings of the operator.
func (n *node) checkChanges(refuse func(format string, args ...any) error) error {
	set, err := changes.Read(n.saved.Set.FS, n.saved.Set.Path(0, state.ChangesName))
	if err != nil {
		return err
	}
	alone := 0 // rules of a blacklist that this node alone has: all others have those of orders, or get them
	for _, rule := range set.Blocked {
		if set.Orders[rule].Stamp == 0 {
			alone++
		}
	}
	if len(set.HostDelays)+len(set.Budgets)+alone > 0 {
		return refuse("the operator has set host delays, budgets of PLDs or a blacklist on this node alone, " +
			"and these do not move: remove them, and set them again after the move")
	}
	return nil
}

// audit compares the files of all nodes with their accounts, and their accounts with each other, like
// drumbeat cluster audit without --deep. It reads keys and URLs of all nodes once.
func (m *mover) audit() error {
	var nodes []audit.Opened
	for _, n := range m.nodes {
		nodes = append(nodes, audit.Opened{Saved: n.saved, Manifest: n.m})
	}
	rep, err := audit.AuditOpened(nodes)
	switch {
	case err != nil:
		return err
	case rep.Balanced():
		return nil
	case rep.Back != nil:
		return rep.Back
	}
	more := ""
	if n := rep.BadCount - min(len(rep.Bad), auditExamples); n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	err = fmt.Errorf("%s%s; run drumbeat cluster audit",
		strings.Join(rep.Bad[:min(len(rep.Bad), auditExamples)], "; "), more)
	if rep.Damaged {
		err = fmt.Errorf("%w: %w", err,
			&disk.CorruptError{Path: m.opt.File, Want: "undamaged nodes", Got: "a damaged one"})
	}
	return err
}

// auditExamples bounds the discrepancies in an error.
const auditExamples = 3

// reread reads the new manifests after a move.
func (m *mover) reread() error {
	for _, n := range m.nodes {
		is, _, err := state.ReadManifest(n.saved.Set)
		switch {
		case err != nil:
			return err
		case is == nil:
			return state.NoCrawl(n.saved.Set.Path(0))
		}
		n.m = is
	}
	return nil
}

// checkSums compares the files with the accounts, as an audit does.
func (n *node) checkSums() error {
	if len(n.orders.leaving) > 0 {
		return fmt.Errorf("move: node %d: %s no record; run drumbeat audit: %w", n.number,
			human.Counted(len(n.orders.leaving), "enqueued URL has", "enqueued URLs have"),
			&disk.CorruptError{Path: n.saved.Set.Path(0), Want: "a balanced crawl", Got: "one that is not"})
	}
	for p := range state.NumPlaces {
		switch p {
		case state.PlaceFetched, state.PlaceRefused, state.PlaceUnstreamed:
		default:
			if n.before[p] != n.m.Accounts.Places[p] {
				return fmt.Errorf("move: node %d: %s holds %s, the account says %d; run drumbeat audit: %w",
					n.number, p, human.Counted(n.before[p].N, "URL", "URLs"), n.m.Accounts.Places[p].N,
					&disk.CorruptError{Path: n.saved.Set.Path(0),
						Want: "a balanced crawl", Got: "one that is not"})
			}
		}
	}
	return nil
}
