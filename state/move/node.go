package move

import (
	"errors"
	"fmt"

	"drumbeat/cluster"
	"drumbeat/drum"
	"drumbeat/internal/health"
	"drumbeat/robots"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/repair"
	"drumbeat/weburl"
)

// node is a node of the cluster, and its next state.
type node struct {
	number int
	saved  *state.Saved
	m      *state.Manifest
	owns   state.Slots // by the next table
	// visits has the keys of divided PLDs with hosts that the node visits by the next table, visitSlots their slots.
	visits     map[uint64]bool
	visitSlots state.Slots
	hostsCome  state.Slots       // those of PLDs with hosts that the node gets now
	gifts      map[uint64][]gift // hosts that the node gives, by keys of PLDs
	keptJobs   map[uint64]bool   // of origins of slots with hosts that move: with a request for robots.txt that stays
	gives      bool
	gets       bool
	loads      map[int]bool // nodes that give slots to this one
	shadow     *repair.Shadow

	stores        [numStores]*drum.Drum // of the next state; nil: as before
	remote        *remote               // a node that this one gives slots to while others run; nil: a node of Run
	checks        int64                 // that wait in the indegree store
	before, after [state.NumPlaces]weburl.Sum
	unique, names weburl.Sum              // of the next state
	passedOn      weburl.Sum              // keys that came with a slot, and count as come from now on
	deferred      [state.NumReasons]int64 // of the next state
	left          [state.NumReasons]int64 // reasons of held URLs that left
	waiting       int64                   // URLs that left

	health        []health.Entry // of the next state, like the two below
	delays, traps []byte         // coded
	orders        orders
	parts         map[uint64]uint8 // of the budget, by traps of this node before
	counted       *cluster.Loads   // of the slots, of the next state
	lane          uint8            // of the queue of BEAST that is being divided; else 0

	scopes   []uint64 // keys of sites from messages
	taken    map[int]cluster.Taken
	messages int64
	links    int64 // records of these messages
	lent     int64 // pages that they lend
	edges    int64
}

// The rewritten stores.
const (
	storeSeen = iota
	storeEdges
	storeIndegree
	storeNames
	storeRobots
	numStores
)

// storeOptions are the names and fixed options of the stores.
func storeOptions() [numStores]drum.Options {
	edges, indegree := star.Stores(state.NameStar)
	return [numStores]drum.Options{
		storeSeen:     {Name: state.NameURLSeen, Codec: drum.Rice},
		storeEdges:    {Name: edges, Codec: drum.Rice},
		storeIndegree: {Name: indegree, Codec: drum.Rice, Each: true},
		storeNames:    {Name: state.NameNames, MaxValueBytes: state.MaxNameBytes, Codec: drum.Rice},
		storeRobots:   {Name: state.NameRobotsCache, MaxValueBytes: robots.MaxValueBytes, Each: true},
	}
}

// old returns the states of the stores before.
func (n *node) old() (all [numStores]*drum.State, err error) {
	stars, err := state.Part[star.State](n.m, state.NameStar)
	if err != nil {
		return all, err
	}
	all[storeEdges], all[storeIndegree] = stars.Edges, stars.Indegree
	for i, name := range map[int]string{storeSeen: state.NameURLSeen, storeNames: state.NameNames,
		storeRobots: state.NameRobotsCache} {
		if all[i], err = state.Part[drum.State](n.m, name); err != nil {
			return all, err
		}
	}
	for i, st := range all {
		if st == nil {
			return all, fmt.Errorf("the manifest has no state of %s", storeOptions()[i].Name)
		}
	}
	return all, nil
}

// closeStores closes unsaved stores.
func (n *node) closeStores() error {
	var errs []error
	for i, d := range n.stores {
		if d != nil {
			errs = append(errs, d.Close())
			n.stores[i] = nil
		}
	}
	return errors.Join(errs...)
}

// add adds a tuple to a store of the next state.
func (n *node) add(store int, t drum.Tuple) error {
	if n.remote != nil {
		return n.remote.add(store, t)
	}
	return n.stores[store].Add([]drum.Tuple{t})
}

// ownsKey reports whether the node owns the slot of a key of a URL, a host or an origin.
func (n *node) ownsKey(key uint64) bool { return n.owns.HasKey(key) }

// arrive passes a URL to the check of STAR. check has the part of its host, the lane, and whether it had a queue.
func (n *node) arrive(key uint64, rec *weburl.Record, check star.CheckTuple) error {
	rec.Extra, rec.Reason = nil, 0
	if n.remote != nil {
		return n.remote.url(key, rec, check.Again)
	}
	check.PLD, check.Aux = n.saved.PLDKey(weburl.Split(rec.URL).Host), rec.Append(nil)
	n.checks++
	n.after[state.PlaceStar].Add(key)
	return n.add(storeIndegree, check.Tuple())
}
