package crawl

import (
	"context"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/drum"
)

// The store of names says what the keys of hosts and PLDs stand for, which nobody could tell later without reading all output.
// It has every host of a URL that was taken, and every PLD of one or at an end of an edge. A name is sent in the transaction that sends
// the URL or edge, so that no checkpoint has one without the other (docs/formats/names.md).

// namesShape is the shape of the store of names.
func namesShape() drum.Options {
	return drum.Options{Op: drum.CheckUpdate, ValueBytes: -1, MaxValueBytes: state.MaxNameBytes, Codec: drum.Rice}
}

// namesStore wires the store of names: what is new is counted.
func (s *seenStage) namesStore() drum.Options {
	o := s.plan.Names.shaped(namesShape())
	o.Set, o.Name, o.Reserve = s.Set, state.NameNames, s.space.reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, s.emitNames
	return o
}

// emitNames adds to the account that an audit compares the store with.
func (s *seenStage) emitNames(results []drum.Result) error {
	return s.transact(func(tx *transaction) error {
		for i := range results {
			tx.named.Add(uint64(results[i].Key))
		}
		return nil
	})
}

// leastNames is how many names are worth a merge before the store is full.
const leastNames = 64

// mergeNames merges by size, and whenever the store has doubled: some 30 small passes in a crawl's life. Nobody waits for it.
func (s *seenStage) mergeNames(ctx context.Context) error {
	pending := pendingTuples(s.names)
	return s.passes.run(ctx, merger{
		name:     state.NameNames,
		pass:     s.names.Pass,
		full:     s.names.Full,
		pending:  pending,
		keys:     s.names.Keys,
		cost:     func() time.Duration { return s.names.Stats().PredictedEarly },
		early:    func() bool { return pending() >= s.names.Keys()+leastNames },
		starving: func() bool { return false },
		wake:     s.wakeNames,
	})
}
