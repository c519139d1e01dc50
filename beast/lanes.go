package beast

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// MaxLanes is the largest number of lanes. STAR's answer to a check has 3 bits for one.
const MaxLanes = 8

// MaxWeight is the largest weight of a lane.
const MaxWeight = 1 << 16

// Unbounded is a budget of which every lane has all, because no queue can hold that many URLs of a PLD.
const Unbounded = math.MaxUint32

// Turns say how lanes take turns. They are immutable.
type Turns struct {
	// Weights has the weight of each lane, from 1 to MaxWeight: its share of the records read while all lanes have
	// some, and of each PLD's budget. nil is one lane.
	Weights []uint32
	// Free lets each lane move to its next queue as soon as it has read one. Otherwise a lane that has read its
	// queue waits until the others have read theirs, so that a PLD gets no more than its budget in a round of all
	// lanes. Without that, a PLD alone in a lane would get the lane's whole share. Free is for crawls without
	// budgets.
	Free bool
}

// Validate returns why weights cannot be used.
func (t *Turns) Validate() error {
	if len(t.Weights) > MaxLanes {
		return fmt.Errorf("%d lanes: want at most %d", len(t.Weights), MaxLanes)
	}
	for _, w := range t.Weights {
		if w < 1 || w > MaxWeight {
			return fmt.Errorf("weight %d of a lane: want 1 to %d", w, MaxWeight)
		}
	}
	return nil
}

func (t *Turns) lanes() int { return max(1, len(t.Weights)) }

// Share returns a lane's share of a budget. The shares add up to the budget, and to one page more for each lane whose
// share would be less than a page, since every lane gets at least 1 page of a budget that is not 0.
func (t *Turns) Share(lane int, budget uint32) uint32 {
	if len(t.Weights) < 2 || budget == 0 || budget == Unbounded {
		return budget
	}
	var before, sum uint64
	for i, w := range t.Weights {
		if i < lane {
			before += uint64(w)
		}
		sum += uint64(w)
	}
	upTo := func(weight uint64) uint64 { return uint64(budget) * weight / sum }
	return uint32(max(1, upTo(before+uint64(t.Weights[lane]))-upTo(before)))
}

// Lanes are several Beasts that share the PLDs' budgets, such that URLs in the first are read before those in the
// others. With one lane they are that Beast. See the package comment. The rules for concurrent calls are those of
// Beast.
type Lanes struct {
	lanes []*Beast
	turns atomic.Pointer[Turns]

	// pinMu makes a pin of all lanes, its release, and Replace one step each.
	pinMu sync.Mutex

	// mu guards the fields below.
	mu      sync.Mutex
	round   Number          // rounds begun; with Free, moves of a lane
	open    [MaxLanes]bool  // the lane may move to another queue in this round
	credits [MaxLanes]int64 // smooth weighted round robin: the readable lane with the most is read next
	reading int             // lane of the record that Peek returned; -1 after Advance

	together [MaxLanes]together // for the goroutine of the placements

	scan int // lane of the record that ScanPeek returned; for the goroutine of the scan
}

// LaneName returns the name of a lane, for Options.Name of lane 0.
func LaneName(name string, lane int) string {
	if lane == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, lane)
}

// OpenLanes opens the lanes in the state st, or new ones if st is nil. The number of lanes cannot change; their
// weights can.
func OpenLanes(opt Options, turns Turns, st *State) (*Lanes, error) {
	if err := turns.Validate(); err != nil {
		return nil, fmt.Errorf("beast: open: %w", err)
	}
	l := &Lanes{reading: -1}
	l.turns.Store(&turns)
	states := make([]*State, turns.lanes())
	if st != nil {
		had, err := st.Lanes()
		if err == nil && len(had) != len(states) {
			err = fmt.Errorf("state has %d lanes, want %d", len(had), len(states))
		}
		if err != nil {
			return nil, fmt.Errorf("beast: open %s: %w", opt.Name, err)
		}
		states = had
		l.restore(st.Turns)
	}
	if err := opt.complete(); err != nil {
		return nil, fmt.Errorf("beast: open: %w", err)
	}
	name := opt.Name
	for i := range states {
		opt.Name = LaneName(name, i)
		b, err := Open(opt, states[i])
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.lanes = append(l.lanes, b)
	}
	return l, nil
}

// Len returns the number of lanes.
func (l *Lanes) Len() int { return len(l.lanes) }

// Turns returns how the lanes take turns.
func (l *Lanes) Turns() Turns { return *l.turns.Load() }

// SetTurns changes how the lanes take turns, for records that are read, and URLs that are placed, from now on. The
// number of lanes must be the same.
func (l *Lanes) SetTurns(t Turns) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("beast: %w", err)
	}
	if t.lanes() != len(l.lanes) {
		return fmt.Errorf("beast: weights of %d lanes, there are %d", t.lanes(), len(l.lanes))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns.Store(&t)
	l.credits = [MaxLanes]int64{}
	return nil
}

// Place decides where the next URL of a PLD goes in a lane, and updates the ledger that the PLD has in that lane. The
// lane has its share of the budget. See Beast.Place.
func (l *Lanes) Place(lane int, ledger *Ledger, budget uint32) Number {
	return l.lanes[lane].Place(ledger, l.turns.Load().Share(lane, budget))
}

// PlacePart is Place for a URL that may use only a part of its PLD's budget. See Beast.PlacePart.
func (l *Lanes) PlacePart(lane int, ledger *Ledger, part uint32) Number {
	return l.lanes[lane].PlacePart(ledger, l.turns.Load().Share(lane, part))
}

// Append appends a record to a queue of a lane. See Beast.Append.
func (l *Lanes) Append(lane int, n Number, rec []byte) error { return l.lanes[lane].Append(n, rec) }

// Pin pins all lanes. See Beast.Pin.
func (l *Lanes) Pin() (release func()) {
	l.pinMu.Lock()
	defer l.pinMu.Unlock()
	var releases [MaxLanes]func()
	for i, b := range l.lanes {
		releases[i] = b.Pin()
	}
	return func() {
		l.pinMu.Lock()
		defer l.pinMu.Unlock()
		for _, release := range releases[:len(l.lanes)] {
			release()
		}
	}
}

// Peek returns the oldest unread record of the lane whose turn it is, valid until Advance. It moves lanes to their
// next queues. ok is false if there is no record now in any lane; Waiting returns the reason.
func (l *Lanes) Peek() (rec []byte, ok bool, err error) {
	if len(l.lanes) == 1 {
		return l.lanes[0].Peek()
	}
	for {
		lane, moves := l.next()
		if lane < 0 {
			return nil, false, nil
		}
		rec, ok, err := l.lanes[lane].Peek()
		if err != nil {
			return nil, false, fmt.Errorf("beast: lane %d: %w", lane, err)
		}
		if ok {
			return rec, true, nil
		}
		// A round of placements has pinned the lane meanwhile.
		l.mu.Lock()
		l.reading, l.open[lane] = -1, l.open[lane] || moves
		l.mu.Unlock()
	}
}

// Advance moves past the record that Peek returned.
func (l *Lanes) Advance() {
	if len(l.lanes) == 1 {
		l.lanes[0].Advance()
		return
	}
	l.mu.Lock()
	lane := l.reading
	l.reading = -1
	l.mu.Unlock()
	l.lanes[lane].Advance()
}

// next returns the lane to read, -1 if none has a record. moves is true if the lane has to move to another queue. A
// checkpoint before the move counts it as done, so that a lane never moves twice in a round.
func (l *Lanes) next() (lane int, moves bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reading >= 0 {
		return l.reading, false
	}
	turns := l.turns.Load()
	lane = l.pick(turns)
	if lane < 0 && l.beginRound() {
		lane = l.pick(turns)
	}
	if lane < 0 {
		return -1, false
	}
	if moves = l.lanes[lane].AtEnd(); moves {
		l.open[lane] = false
		if turns.Free {
			l.round++
		}
	}
	l.reading = lane
	return lane, moves
}

// pick returns the readable lane whose turn it is, -1 if none is readable. Lanes without records give their turns to
// the others and have no claim to them later.
func (l *Lanes) pick(turns *Turns) int {
	lane, sum := -1, int64(0)
	for i := range l.lanes {
		if !l.readable(i, turns) {
			l.credits[i] = 0
			continue
		}
		l.credits[i] += int64(turns.Weights[i])
		sum += int64(turns.Weights[i])
		if lane < 0 || l.credits[i] > l.credits[lane] {
			lane = i
		}
	}
	if lane >= 0 {
		l.credits[lane] -= sum
	}
	return lane
}

// readable reports whether a lane has a record that may be read in this round.
func (l *Lanes) readable(lane int, turns *Turns) bool {
	b := l.lanes[lane]
	return !b.AtEnd() || (turns.Free || l.open[lane]) && b.Waiting() == Ready
}

// beginRound begins a round if a lane can move to another queue. Otherwise it ends the round, so that the next one
// begins when its owner asks for it (AtEnd).
func (l *Lanes) beginRound() bool {
	ready := l.waiting() == Ready
	for i := range l.lanes {
		l.open[i] = ready
	}
	if ready {
		l.round++
	}
	return ready
}

// AtEnd reports whether no record is left in the round: the next Peek may begin another one.
func (l *Lanes) AtEnd() bool {
	if len(l.lanes) == 1 {
		return l.lanes[0].AtEnd()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	turns := Turns{Free: false} // with Free, the end of all queues is that of the round
	for i := range l.lanes {
		if l.readable(i, &turns) {
			return false
		}
	}
	return true
}

// Waiting returns the state in which a Peek would find the reader now.
func (l *Lanes) Waiting() Wait {
	if len(l.lanes) == 1 {
		return l.lanes[0].Waiting()
	}
	return l.waiting()
}

func (l *Lanes) waiting() Wait {
	w := Empty
	for _, b := range l.lanes {
		w = min(w, b.Waiting()) // Ready, Pinned, Empty
	}
	return w
}

// Round returns a number that rises with each round of the lanes. With one lane it is the current queue's.
func (l *Lanes) Round() Number {
	if len(l.lanes) == 1 {
		return l.lanes[0].Current()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.round
}

// Epoch returns the epoch of the ledgers.
func (l *Lanes) Epoch() uint32 { return l.lanes[0].Epoch() }

// Replace begins to place all URLs of all lanes again. See Beast.Replace.
func (l *Lanes) Replace(epoch uint32) (moved int64, ok bool) {
	l.pinMu.Lock()
	defer l.pinMu.Unlock()
	for i, b := range l.lanes {
		n, ok := b.Replace(epoch)
		if !ok && i > 0 {
			panic("BUG: beast: a lane is pinned alone")
		}
		if !ok {
			return 0, false
		}
		moved += n
	}
	return moved, true
}

// MovedPeek returns the oldest unread record of the moved queues of the first lane that has some. See
// Beast.MovedPeek.
func (l *Lanes) MovedPeek() (rec []byte, ok bool, err error) {
	for i, b := range l.lanes {
		if rec, ok, err = b.MovedPeek(); ok || err != nil {
			l.scan = i
			return rec, ok, err
		}
	}
	return nil, false, nil
}

// MovedAdvance moves past the record that MovedPeek returned.
func (l *Lanes) MovedAdvance() { l.lanes[l.scan].MovedAdvance() }

// Moving reports whether moved queues are left.
func (l *Lanes) Moving() bool { return l.any((*Beast).Moving) }

func (l *Lanes) any(is func(*Beast) bool) bool {
	for _, b := range l.lanes {
		if is(b) {
			return true
		}
	}
	return false
}

// Close frees memory and descriptors. Data that no checkpoint has saved is lost.
func (l *Lanes) Close() error {
	var errs []error
	for _, b := range l.lanes {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
