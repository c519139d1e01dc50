package crawl

import (
	"encoding/json"
	"fmt"
	"slices"

	"drumbeat/cluster"
	"drumbeat/crawl/account"
	"drumbeat/state"
)

// Abandoned nodes are lost for good. All nodes must agree on them, so they are a line of the configuration.
// The manifest keeps them, too: an outbox has dropped their records, so an abandoned node cannot return.

// ValidateAbandoned returns the first fault of Abandoned.
func (c *Cluster) ValidateAbandoned() error {
	for _, node := range c.Abandoned {
		switch {
		case node < 0 || node >= c.Table.Nodes():
			return fmt.Errorf("crawl: node %d cannot be abandoned: the nodes are 0 to %d", node, c.Table.Nodes()-1)
		case node == c.Node:
			return fmt.Errorf("crawl: node %d cannot abandon itself", node)
		}
	}
	return nil
}

// openAbandoned notes the abandoned nodes, of the options and of the manifest. The outboxes must be open.
func (s *clusterStage) openAbandoned() {
	s.abandoned = make([]bool, s.nodes)
	for _, node := range s.opt.Cluster.Abandoned {
		s.abandoned[node] = true
	}
	for node, o := range s.outboxes {
		if o != nil && o.Abandoned() {
			s.abandoned[node] = true
		}
	}
	of := *s.opt.Cluster // the caller's
	of.Abandoned = s.abandonedNodes()
	s.opt.Cluster = &of
}

// abandonedNodes lists the abandoned nodes.
func (s *clusterStage) abandonedNodes() (list []int) {
	for node, gone := range s.abandoned {
		if gone {
			list = append(list, node)
		}
	}
	return list
}

// abandonedLine returns the line of the configuration, if a node was abandoned.
func (s *clusterStage) abandonedLine() []string {
	list := s.abandonedNodes()
	if len(list) == 0 {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic("BUG: crawl: numbers cannot be encoded: " + err.Error())
	}
	return []string{cluster.AbandonedName + ": " + string(text)}
}

// dropAbandoned empties the outboxes for abandoned nodes. No other goroutine of the stage runs yet.
func (s *clusterStage) dropAbandoned() error {
	for _, node := range s.abandonedNodes() {
		o := s.outboxes[node]
		if o.Abandoned() {
			continue
		}
		if err := s.Transact(func(tx *account.Tx) error {
			dropped := o.Abandon()
			tx.Count(state.CountLinksAbandoned, dropped.Links.N)
			tx.Count(state.CountEdgesAbandoned, dropped.Edges.N)
			tx.Late.Add(s.opt.Observe.Log.Warn, "a node was abandoned: waiting records for it are dropped, and so "+
				"are all further links to its sites", "node", node, "links", dropped.Links.N, "edges", dropped.Edges.N)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// errAbandoned is the error of a node that another one has abandoned.
func (s *clusterStage) errAbandoned() error {
	return fmt.Errorf(
		"crawl: the other nodes have abandoned node %d (--give-up-node): they have dropped its records, so it cannot "+
			"continue with this cluster: %w", s.node, state.ErrIncompatible)
}

// noteDisowned notes whether the last mark of another node abandons this one. While a mark does, nothing is
// fetched: if the mark is true, this node must end (doubted), and its sites are lost to the crawl. It belongs
// to the goroutine that reads marks.
func (s *clusterStage) noteDisowned(node int, says bool) {
	if s.disowns[node] == says {
		return
	}
	if s.disowns[node] = says; says {
		s.disowners.Add(1)
	} else if s.disowners.Add(-1) == 0 {
		s.dispatcher.morePages()
	}
}

// disowned reports whether the mark of a node abandons this one.
func (s *clusterStage) disowned() bool { return s.disowners.Load() > 0 }

// checkAbandoned compares the abandoned nodes of the cluster's configuration with those of this node. missed:
// the cluster has abandoned nodes that this one awaits. ahead: this one has abandoned more, and the broker
// has lost that configuration, or an abandoned node has written its own; then this node replaces it.
func (s *clusterStage) checkAbandoned(other *cluster.Config) (missed, ahead bool, _ error) {
	theirs := other.Abandoned()
	if slices.Contains(theirs, s.node) {
		return false, false, s.errAbandoned()
	}
	for node, gone := range s.abandoned {
		in := slices.Contains(theirs, node)
		missed, ahead = missed || in && !gone, ahead || gone && !in && s.outboxes[node].Abandoned()
	}
	return missed, ahead && (s.agreed || other.SameBut(s.config, cluster.AbandonedName)), nil
}

// spentHere reports whether this node has used its allowance of pages, and none of its loans is in flight.
func (s *clusterStage) spentHere(left int64) bool {
	if left > 0 {
		return false
	}
	for node := range s.marks {
		if node == s.node || s.abandoned[node] {
			continue
		}
		if m := s.marks[node].Load(); m == nil || m.Taken[s.node].Number < s.lent[node] {
			return false
		}
	}
	return true
}

// allSpent reports whether a node was given up, whose part of Options.Limits.MaxPages nobody knows, and all
// others have fetched theirs.
func (s *clusterStage) allSpent() bool {
	if !slices.Contains(s.abandoned, true) {
		return false
	}
	for node := range s.marks {
		if m := s.marks[node].Load(); !s.abandoned[node] && (m == nil || !m.Spent) {
			return false
		}
	}
	return true
}
