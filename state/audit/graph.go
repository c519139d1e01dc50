package audit

import (
	"errors"
	"fmt"

	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/weburl"
)

// auditNames sums the keys of the store of names and verifies each name.
func auditNames(r *state.Saved, m *state.Manifest) (sum weburl.Sum, err error) {
	st, err := state.Part[drum.State](m, state.NameNames)
	if err != nil || st == nil {
		return sum, err
	}
	entry := func(key drum.Key, value []byte) error {
		sum.Add(uint64(key))
		_, _, err := state.CheckName(r.Hasher, key, value)
		return err
	}
	_, err = drum.ScanState(r.Set, state.NameNames, st.Cache(), drum.Scan{Entry: entry})
	return sum, err
}

// Graph receives a crawl's hosts, PLDs and edges. ReadGraph skips nil functions. Byte slices are valid during
// the call. An error stops the reading and is returned.
type Graph struct {
	// PLD and Host get each name at least once: merged names in key order, then waiting ones.
	PLD  func(key uint64, name []byte) error
	Host func(key, pld uint64, name []byte) error
	// Edge gets each edge between two PLDs at least once, as keys. Both PLDs have names.
	Edge func(from, to uint64) error
}

// ReadGraph reads and verifies the names and edges of a stopped crawl in sequence. It uses little memory
// besides the buffers in the last checkpoint. It locks the directories and changes nothing.
func ReadGraph(opt Options, g Graph) (err error) {
	r, m, err := Open(&opt)
	if r != nil {
		defer func() { err = errors.Join(err, r.Unlock()) }()
	}
	if err != nil {
		return err
	}
	names, err := state.Part[drum.State](m, state.NameNames)
	if err != nil {
		return err
	}
	name := func(key drum.Key, value []byte) error {
		pld, host, err := state.CheckName(r.Hasher, key, value)
		switch {
		case err != nil:
			return fmt.Errorf("crawl: %s: %w", state.NameNames, err)
		case host == nil && g.PLD != nil:
			return g.PLD(uint64(key), pld)
		case host != nil && g.Host != nil:
			return g.Host(uint64(key), r.Hasher.PLDKey(pld), host)
		}
		return nil
	}
	_, err = drum.ScanState(r.Set, state.NameNames, names, drum.Scan{
		Entry: name, Tuple: func(t drum.Tuple) error { return name(t.Key, t.Value) },
	})
	if err != nil || g.Edge == nil {
		return err
	}
	st, err := state.Part[star.State](m, state.NameStar)
	if err != nil {
		return err
	}
	return star.WalkEdges(r.Set, state.NameStar, st, func(e star.Edge) error { return g.Edge(e.From, e.To) })
}
