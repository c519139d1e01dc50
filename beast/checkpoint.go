package beast

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"drumbeat/disk"
	"drumbeat/queue"
)

// Versions of State: of one Beast, of several lanes, which an older program must not take for one, and of unsifted
// records, which it must not read as those of the crawl.
const (
	stateVersion = 1
	lanesVersion = 2
	// unsiftedVersion is that of one Beast with unsifted records (State.Sift).
	unsiftedVersion = 3
	// unsiftedLanesVersion is that of several lanes with unsifted records.
	unsiftedLanesVersion = 4
)

// State is the state of a Beast, or of Lanes, in a manifest.
type State struct {
	V        int
	Current  Number
	Horizon  Number
	LastScan Number
	Scans    int64
	Epoch    uint32       `json:",omitempty"`
	Scanning bool         `json:",omitempty"` // the first of Failed is being scanned
	Floor    Number       `json:",omitempty"` // new URLs get higher numbers
	Queues   []QueueState `json:",omitempty"` // by number
	Moved    []QueueState `json:",omitempty"` // queues that Replace took out of use, by number
	Failed   []QueueState // generations of QF in use, oldest first
	// In version 2: the lanes after the first, whose state the other fields are.
	More  []State     `json:",omitempty"`
	Turns *TurnsState `json:",omitempty"` // in version 2: whose turn it is
}

// maxStateNumber bounds the numbers in a state so that sums cannot overflow.
const maxStateNumber = 1 << 56

// QueueState is one queue of a State.
type QueueState struct {
	N        int64 // number, or generation of QF
	State    *queue.State
	Unsifted int64 `json:"Marked,omitempty"` // records at its head that Sift has not looked at
}

func (st *State) check() error {
	switch {
	case st.V != stateVersion && st.V != unsiftedVersion:
		return fmt.Errorf("state has version %d, want %d or %d", st.V, stateVersion, unsiftedVersion)
	case len(st.More) > 0 || st.Turns != nil:
		return errors.New("state of one BEAST has lanes")
	case st.Horizon < 1 || st.Horizon > maxStateNumber || st.Current < 0 || st.Current > maxStateNumber ||
		st.LastScan < 0 || st.LastScan > st.Current || st.Scans < 0:
		return fmt.Errorf("state has s %d, h %d, last scan at %d", st.Current, st.Horizon, st.LastScan)
	case st.Scanning && len(st.Failed) != 2 || !st.Scanning && len(st.Failed) != 1:
		return fmt.Errorf("state has %d generations of QF, scanning %t", len(st.Failed), st.Scanning)
	}
	if st.Floor < 0 || st.Floor > maxStateNumber || len(st.Moved) > 0 && st.Moved[len(st.Moved)-1].N > int64(st.Floor) {
		return fmt.Errorf("state has floor %d and %d moved queues", st.Floor, len(st.Moved))
	}
	for _, list := range [][]QueueState{st.Queues, st.Moved, st.Failed} {
		for i, qs := range list {
			if qs.N < 1 || qs.N > 2*maxStateNumber || qs.State == nil || qs.Unsifted < 0 ||
				i > 0 && qs.N <= list[i-1].N {
				return fmt.Errorf("state has an invalid queue %d", qs.N)
			}
		}
	}
	return nil
}

func queueName(name string, n Number) string { return fmt.Sprintf("%s/q%d", name, n) }

func overBudgetName(name string, gen uint64) string { return fmt.Sprintf("%s/failed%d", name, gen) }

// Open opens the queues that st names, or a new Beast if st is nil. It deletes the files of other queues.
func Open(opt Options, st *State) (*Beast, error) {
	if err := opt.complete(); err != nil {
		return nil, fmt.Errorf("beast: open: %w", err)
	}
	b := &Beast{opt: opt, queues: map[Number]*queue.Queue{}, overBudgetGen: 1}
	if err := b.restore(st); err != nil {
		return nil, errors.Join(fmt.Errorf("beast: open %s: %w", opt.Name, err), b.Close())
	}
	return b, nil
}

func (b *Beast) restore(st *State) error {
	named := map[string]bool{}
	open := func(name string, qs QueueState) (*queue.Queue, error) {
		named[name] = true
		q, err := queue.Open(b.opt.queue(name), qs.State)
		if err == nil {
			b.unsifted.set(q, qs.Unsifted)
		}
		return q, err
	}
	if st == nil {
		st = &State{V: stateVersion, Horizon: 1, Failed: []QueueState{{N: 1}}}
	} else if err := st.check(); err != nil {
		return err
	}
	b.current.store(st.Current)
	b.horizon.store(st.Horizon)
	b.lastScan, b.scans = st.LastScan, st.Scans
	b.epoch.Store(st.Epoch)
	b.floor.store(st.Floor)
	for _, qs := range st.Queues {
		q, err := open(queueName(b.opt.Name, Number(qs.N)), qs)
		if err != nil {
			return err
		}
		b.queues[Number(qs.N)] = q
	}
	for _, qs := range st.Moved {
		q, err := open(queueName(b.opt.Name, Number(qs.N)), qs)
		if err != nil {
			return err
		}
		b.moved = append(b.moved, movedQueue{Number(qs.N), q})
	}
	for i, qs := range st.Failed {
		q, err := open(overBudgetName(b.opt.Name, uint64(qs.N)), qs)
		if err != nil {
			return err
		}
		if st.Scanning && i == 0 {
			b.old, b.oldGen = q, uint64(qs.N)
		} else {
			b.overBudget, b.overBudgetGen = q, uint64(qs.N)
		}
	}
	return b.removeUnnamed(named)
}

// removeUnnamed deletes the queues that a crash left: created after, or retired before, the checkpoint.
func (b *Beast) removeUnnamed(named map[string]bool) error {
	names, err := queue.Names(b.opt.Set, b.opt.Name)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !named[name] {
			if err := queue.Remove(b.opt.Set, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Frozen is the state of a Beast at one moment.
type Frozen struct {
	b        *Beast
	state    State
	queues   []*queue.Frozen // in the order of state.Queues, state.Moved, state.Failed
	unsifted []int64         // records of each of them
	retired  []*queue.Queue
}

// Freeze captures the current state, in memory only. No Append, Advance or scan may be running.
func (b *Beast) Freeze() *Frozen {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &Frozen{b: b, retired: b.retired, state: State{V: stateVersion,
		Current: b.current.load(), Horizon: b.horizon.load(), LastScan: b.lastScan, Scans: b.scans,
		Epoch: b.epoch.Load(), Floor: b.floor.load(), Scanning: b.old != nil}}
	b.retired = nil
	if b.Sifting() {
		f.state.V = unsiftedVersion
	}
	freeze := func(q *queue.Queue) {
		f.queues = append(f.queues, q.Freeze())
		f.unsifted = append(f.unsifted, b.unsifted.left(q))
	}
	for n := range b.queues {
		f.state.Queues = append(f.state.Queues, QueueState{N: int64(n)})
	}
	slices.SortFunc(f.state.Queues, func(x, y QueueState) int { return cmp.Compare(x.N, y.N) })
	for _, qs := range f.state.Queues {
		freeze(b.queues[Number(qs.N)])
	}
	for _, m := range b.moved {
		f.state.Moved = append(f.state.Moved, QueueState{N: int64(m.n)})
		freeze(m.q)
	}
	if b.old != nil {
		f.state.Failed = append(f.state.Failed, QueueState{N: int64(b.oldGen)})
		freeze(b.old)
	}
	f.state.Failed = append(f.state.Failed, QueueState{N: int64(b.overBudgetGen)})
	freeze(b.overBudget)
	return f
}

// Save writes the data in RAM to the tails and returns the state for the manifest. Call it once.
func (f *Frozen) Save(tails *disk.Tails) (*State, error) {
	st := f.state
	i := 0
	for _, list := range [][]QueueState{st.Queues, st.Moved, st.Failed} {
		for j := range list {
			var err error
			if list[j].State, err = f.queues[i].Save(tails); err != nil {
				return nil, fmt.Errorf("beast: save %s: %w", f.b.opt.Name, err)
			}
			list[j].Unsifted = f.unsifted[i]
			i++
		}
	}
	return &st, nil
}

// Commit deletes the files that no manifest names any more, including queues read to the end. Call it once
// the manifest with the saved state is durable.
func (f *Frozen) Commit() error {
	for _, q := range f.queues {
		if err := q.Commit(); err != nil {
			return fmt.Errorf("beast: commit %s: %w", f.b.opt.Name, err)
		}
	}
	for _, q := range f.retired {
		if err := q.Destroy(); err != nil {
			return fmt.Errorf("beast: commit %s: %w", f.b.opt.Name, err)
		}
	}
	f.retired = nil
	return nil
}

// Close frees memory and descriptors. Data that no checkpoint has saved is lost.
func (b *Beast) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := append(b.retired, b.overBudget, b.old)
	for _, q := range b.queues {
		all = append(all, q)
	}
	for _, m := range b.moved {
		all = append(all, m.q)
	}
	var errs []error
	for _, q := range all {
		if q != nil {
			errs = append(errs, q.Close())
		}
	}
	b.retired, b.overBudget, b.old, b.queues, b.moved = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}
