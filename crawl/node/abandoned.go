package node

import (
	"encoding/json"
	"fmt"
	"slices"

	"drumbeat/cluster"
	"drumbeat/state"
)

// abandoned says which nodes are lost for good. All nodes must agree on them, so they are a line of the
// configuration. The manifest keeps them, too: an outbox has dropped their records, so an abandoned node cannot
// return. It is fixed before the goroutines start, and safe for concurrent use after that.
type abandoned struct {
	self int
	gone []bool // by node
	left []bool // of them, those that have departed by the table of owners; nil: none
}

// restore notes the abandoned nodes, of the options and of the outboxes.
func (a *abandoned) restore(list []int, table *cluster.Table, outboxes []*cluster.Outbox) {
	a.left = table.Gone()
	for _, node := range append(table.Departed(), list...) {
		a.gone[node] = true
	}
	for node, o := range outboxes {
		if o != nil && o.Abandoned() {
			a.gone[node] = true
		}
	}
}

// nodes lists the abandoned nodes.
func (a *abandoned) nodes() (list []int) {
	for node, gone := range a.gone {
		if gone {
			list = append(list, node)
		}
	}
	return list
}

// has reports whether a node was abandoned.
func (a *abandoned) has(node int) bool { return node < len(a.gone) && a.gone[node] }

// hasLeft reports whether a node takes part no more by the table of owners.
func (a *abandoned) hasLeft(node int) bool { return node < len(a.left) && a.left[node] }

// flags reports for each node whether it was abandoned. The caller does not change it.
func (a *abandoned) flags() []bool { return a.gone }

// any reports whether a node was abandoned.
func (a *abandoned) any() bool { return slices.Contains(a.gone, true) }

// line returns the line of the configuration, if a node was abandoned.
func (a *abandoned) line() []string {
	list := slices.DeleteFunc(a.nodes(), func(node int) bool { return a.left[node] })
	if len(list) == 0 {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic("BUG: crawl: numbers cannot be encoded: " + err.Error())
	}
	return []string{cluster.AbandonedName + ": " + string(text)}
}

// err is the error of a node that another one has abandoned.
func (a *abandoned) err() error {
	return fmt.Errorf(
		"crawl: the other nodes have abandoned node %d (--give-up-node): they have dropped its records, so it cannot "+
			"continue with this cluster: %w", a.self, state.ErrIncompatible)
}
