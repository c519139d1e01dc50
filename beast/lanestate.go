package beast

import (
	"errors"
	"fmt"

	"drumbeat/disk"
)

// TurnsState is the part of a State that says whose turn it is among lanes.
type TurnsState struct {
	Round   Number
	Open    []bool  // by lane: it may move to another queue in this round
	Credits []int64 // by lane
}

// Lanes returns the state of each lane. The first one shares its lists with st. The error says what is invalid.
func (st *State) Lanes() ([]*State, error) {
	lanes := st.split()
	switch t := st.Turns; {
	case len(st.More) == 0:
		return lanes, st.check()
	case st.V != lanesVersion && st.V != unsiftedLanesVersion:
		return nil, fmt.Errorf("state has version %d and %d lanes, want %d or %d", st.V, len(lanes), lanesVersion,
			unsiftedLanesVersion)
	case len(lanes) > MaxLanes:
		return nil, fmt.Errorf("state has %d lanes: want at most %d", len(lanes), MaxLanes)
	case t == nil || t.Round < 0 || t.Round > maxStateNumber || len(t.Open) != len(lanes) ||
		len(t.Credits) != len(lanes):
		return nil, errors.New("state has no valid turns of its lanes")
	}
	for i, lane := range lanes {
		if err := lane.check(); err != nil {
			return nil, fmt.Errorf("lane %d: %w", i, err)
		}
		if lane.Epoch != st.Epoch {
			return nil, fmt.Errorf("lane %d has epoch %d, lane 0 %d", i, lane.Epoch, st.Epoch)
		}
		if c := st.Turns.Credits[i]; c < -MaxLanes*MaxWeight || c > MaxLanes*MaxWeight {
			return nil, fmt.Errorf("lane %d has %d credits", i, c)
		}
	}
	return lanes, nil
}

// split returns the state of each lane, unchecked.
func (st *State) split() []*State {
	if len(st.More) == 0 {
		return []*State{st}
	}
	first := *st
	first.More, first.Turns = nil, nil
	switch st.V {
	case lanesVersion:
		first.V = stateVersion
	case unsiftedLanesVersion:
		first.V = unsiftedVersion
	}
	lanes := []*State{&first}
	for i := range st.More {
		lanes = append(lanes, &st.More[i])
	}
	return lanes
}

func (l *Lanes) restore(t *TurnsState) {
	if t == nil {
		return
	}
	l.round = t.Round
	copy(l.open[:], t.Open)
	copy(l.credits[:], t.Credits)
}

// LanesFrozen is the state of Lanes at one moment.
type LanesFrozen struct {
	lanes []*Frozen
	turns *TurnsState // nil for one lane
}

// Freeze captures the current state, in memory only. No Append, Advance or scan may be running.
func (l *Lanes) Freeze() *LanesFrozen {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := new(LanesFrozen)
	for _, b := range l.lanes {
		f.lanes = append(f.lanes, b.Freeze())
	}
	if n := len(l.lanes); n > 1 {
		f.turns = &TurnsState{Round: l.round, Open: append([]bool(nil), l.open[:n]...),
			Credits: append([]int64(nil), l.credits[:n]...)}
	}
	return f
}

// Save writes the data in RAM to the tails and returns the state for the manifest. Call it once. The state of one
// lane is that of a Beast.
func (f *LanesFrozen) Save(tails *disk.Tails) (*State, error) {
	st, err := f.lanes[0].Save(tails)
	if err != nil || f.turns == nil {
		return st, err
	}
	unsifted := st.V == unsiftedVersion
	st.V, st.Turns = lanesVersion, f.turns
	for _, lane := range f.lanes[1:] {
		more, err := lane.Save(tails)
		if err != nil {
			return nil, err
		}
		unsifted = unsifted || more.V == unsiftedVersion
		st.More = append(st.More, *more)
	}
	if unsifted {
		st.V = unsiftedLanesVersion
	}
	return st, nil
}

// Commit deletes the files that no manifest names any more. Call it once the manifest with the saved state is
// durable.
func (f *LanesFrozen) Commit() error {
	for _, lane := range f.lanes {
		if err := lane.Commit(); err != nil {
			return err
		}
	}
	return nil
}
