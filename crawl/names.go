package crawl

import (
	"context"
	"time"

	"drumbeat/crawl/state"
	"drumbeat/drum"
)

// The store of names says what the keys of hosts and PLDs stand for, which nobody could tell later without reading all output.
// It has every host of a URL that was taken, and every PLD of one or at an end of an edge. A name is sent in the step that sends
// the URL or edge, so that no checkpoint has one without the other (docs/formats/names.md).

// namesShape is the shape of the store of names.
func namesShape() drum.Options {
	return drum.Options{Op: drum.CheckUpdate, ValueBytes: -1, MaxValueBytes: state.MaxNameBytes, Codec: drum.Rice}
}

// namesStore wires the store of names: what is new is counted.
func (r *ring) namesStore() drum.Options {
	o := r.plan.Names.shaped(namesShape())
	o.Set, o.Name, o.Reserve = r.Set, state.NameNames, r.reserve
	o.Wanted, o.Emit = func(res *drum.Result) bool { return res.New }, r.emitNames
	return o
}

// emitNames adds to the account that an audit compares the store with.
func (r *ring) emitNames(results []drum.Result) error {
	return r.inStep(func(d *delta) error {
		for i := range results {
			d.named.Add(uint64(results[i].Key))
		}
		return nil
	})
}

// leastNames is how many names are worth a merge before the store is full.
const leastNames = 64

// mergeNames merges by size, and whenever the store has doubled: some 30 small passes in a crawl's life. Nobody waits for it.
func (r *ring) mergeNames(ctx context.Context) error {
	pending := pendingTuples(r.names)
	return r.run(ctx, merger{
		name:     state.NameNames,
		pass:     r.names.Pass,
		full:     r.names.Full,
		pending:  pending,
		keys:     r.names.Keys,
		cost:     func() time.Duration { return r.names.Stats().PredictedDry },
		dry:      func() bool { return pending() >= r.names.Keys()+leastNames },
		starving: func() bool { return false },
		wake:     r.wakeNames,
	})
}
