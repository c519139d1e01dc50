package beast

import (
	"fmt"
	"slices"
	"strings"

	"drumbeat/disk"
	"drumbeat/queue"
)

// Scan calls fn for every unread record that st names, with its lane and its queue's number or Failed. It changes
// nothing. It passes damage to damaged and continues after it. If damaged is nil, the first damage ends the
// scan (see queue.Scan). Scan returns the number of unreadable records of numbered queues and of QF.
func Scan(
	set disk.Set, name string, st *State, fn func(lane int, n Number, rec []byte) error, damaged func(error) error,
) (lost, lostFailed int64, err error) {
	if st == nil {
		return 0, 0, nil
	}
	lanes, err := st.Lanes()
	if err != nil {
		return 0, 0, fmt.Errorf("beast: scan %s: %w", name, err)
	}
	for lane, st := range lanes {
		name := LaneName(name, lane)
		scan := func(qname string, n Number, st *queue.State) (int64, error) {
			return queue.Scan(set, qname, st, func(rec []byte) error { return fn(lane, n, rec) }, damaged)
		}
		for _, qs := range slices.Concat(st.Queues, st.Moved) {
			n, err := scan(queueName(name, Number(qs.N)), Number(qs.N), qs.State)
			if err != nil {
				return lost, lostFailed, err
			}
			lost += n
		}
		for _, qs := range st.Failed {
			n, err := scan(overBudgetName(name, uint64(qs.N)), OverBudget, qs.State)
			if err != nil {
				return lost, lostFailed, err
			}
			lostFailed += n
		}
	}
	return lost, lostFailed, nil
}

// Files returns the paths of the segments that st names, of all lanes.
func Files(set disk.Set, name string, st *State) []string {
	if st == nil {
		return nil
	}
	var names []string
	for lane, st := range st.split() {
		name := LaneName(name, lane)
		for _, qs := range slices.Concat(st.Queues, st.Moved) {
			names = append(names, queue.Files(set, queueName(name, Number(qs.N)), qs.State)...)
		}
		for _, qs := range st.Failed {
			names = append(names, queue.Files(set, overBudgetName(name, uint64(qs.N)), qs.State)...)
		}
	}
	return names
}

// EachQueue calls fn with the name and state of every queue of st, of all lanes, and stores the result in st.
// Generations of QF have the number Failed. It serves to rebuild queues from their readable records.
func EachQueue(name string, st *State, fn func(qname string, n Number, q *queue.State) (*queue.State, error)) error {
	each := func(list []QueueState, qname func(n int64) string, failed bool) error {
		for i := range list {
			qs := &list[i]
			n := Number(qs.N)
			if failed {
				n = OverBudget
			}
			q, err := fn(qname(qs.N), n, qs.State)
			if err != nil {
				return err
			}
			qs.State = q
		}
		return nil
	}
	for lane, st := range st.split() { // the lists are those of st, not copies
		name := LaneName(name, lane)
		numbered := func(n int64) string { return queueName(name, Number(n)) }
		for _, list := range [][]QueueState{st.Queues, st.Moved} {
			if err := each(list, numbered, false); err != nil {
				return err
			}
		}
		if err := each(st.Failed, func(n int64) string { return overBudgetName(name, uint64(n)) }, true); err != nil {
			return err
		}
	}
	return nil
}

// LaneOf returns the lane of a queue of EachQueue.
func LaneOf(name, qname string) int {
	for lane := 1; lane < MaxLanes; lane++ {
		if strings.HasPrefix(qname, LaneName(name, lane)+"/") {
			return lane
		}
	}
	return 0
}
