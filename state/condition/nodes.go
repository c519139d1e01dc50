package condition

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"drumbeat/cluster"
	"drumbeat/internal/human"
)

// OfNodes returns the condition of a cluster by the statuses of its nodes, by number; nil for a node that has not
// reported. Only fields that all versions have decide, and the node's own condition if it has one.
func OfNodes(list []*cluster.Status, now time.Time) Condition {
	v := Condition{State: Complete, Level: OK, Next: "drumbeat cluster status"}
	over := cluster.Summarize(list, now)
	add := func(level Level, state State, what, format string, args ...any) {
		v.Problems = append(v.Problems, Problem{Level: level, What: what, state: state,
			Text: sentence(fmt.Sprintf(format, args...))})
	}
	for _, node := range over.Missing {
		if st := list[node]; st != nil {
			add(Bad, Slow, "cluster", "Node %d has not reported for %s", node, human.Duration(now.Sub(st.Time)))
			continue
		}
		add(Bad, Slow, "cluster", "Node %d has never reported", node)
	}
	working := 0
	for node, st := range list {
		if st == nil || !st.Heard(now) || slices.Contains(over.Abandoned, node) {
			continue
		}
		state, level := State(st.State), Level(st.Level)
		switch {
		case st.Ended != "":
			continue
		case state == "": // of an older version
			state, level = Working, OK
		}
		if working++; working == 1 || rank(state) < rank(v.State) {
			v.State = state
		}
		if level == Warn || level == Bad {
			add(level, state, "cluster", "Node %d: %s", node, st.Text)
		}
	}
	sortProblems(v.Problems)
	v.Text = fmt.Sprintf("%s of %d work: %s.", human.Counted(int64(working), "node", "nodes"),
		len(list)-len(over.Departed), Rate(over.PagesPerSecond))
	if v.State == Waiting {
		v.Text = "All nodes wait: " + firstText(list, now)
	}
	if working == 0 {
		v.Text = fmt.Sprintf("All %s ended.", human.Counted(len(list), "node has", "nodes have"))
	}
	for _, node := range over.Abandoned {
		if slices.Contains(over.Departed, node) {
			continue // others have its slots: nothing is missing
		}
		add(Warn, Working, "cluster", "Node %d was abandoned: the others continue without it", node)
	}
	if over.Configs > 1 {
		add(Warn, Working, "cluster", "The nodes have %d different configurations", over.Configs)
	}
	if len(v.Problems) > 0 {
		p := &v.Problems[0]
		v.Level, v.Text = p.Level, p.Text
		if v.State == Complete {
			v.State = Left
		} else if rank(p.state) > rank(v.State) && rank(v.State) < rank(Slow) {
			v.State = Slow // another node works
		}
	}
	return v
}

// LevelOf returns the level of a node by its status, nil if it has never reported. A node that is silent is Bad; one
// that has ended, or is of a version that does not say, is OK.
func LevelOf(st *cluster.Status, now time.Time) Level {
	switch {
	case st == nil || !st.Heard(now):
		return Bad
	case st.Ended != "" || Level(st.Level) != Warn && Level(st.Level) != Bad:
		return OK
	}
	return Level(st.Level)
}

// firstText returns the sentence of the first node that says one.
func firstText(list []*cluster.Status, now time.Time) string {
	for _, st := range list {
		if st != nil && st.Heard(now) && st.Text != "" {
			return strings.TrimSpace(st.Text)
		}
	}
	return "they have not reported why."
}
