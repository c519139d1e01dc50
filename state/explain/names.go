package explain

import (
	"fmt"

	"drumbeat/drum"
	"drumbeat/state"
)

// Names returns the names of PLD and host keys that the drum of names held at the last checkpoint. Keys
// without a name are missing.
func (e *Explainer) Names(keys []uint64) (names map[uint64]string, err error) {
	var st *drum.State
	wanted := make([]drum.Key, len(keys))
	for i, k := range keys {
		wanted[i] = drum.Key(k)
	}
	need := func(v *view) []string {
		if st, err = state.Part[drum.State](v.m, state.NameNames); err != nil || st == nil {
			return nil
		}
		return drum.KeyFiles(v.r.Set, state.NameNames, st, wanted)
	}
	use := func(v *view) error {
		names = make(map[uint64]string, len(keys))
		if err != nil || st == nil {
			return err
		}
		for _, k := range wanted {
			value, found, err := v.lookUpName(st, k)
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			pld, host, err := state.DecodeName(value)
			if err != nil {
				return err
			}
			if host != nil {
				pld = host
			}
			names[uint64(k)] = string(pld)
		}
		return nil
	}
	return names, e.with(need, use)
}

// lookUpName returns the value of a name. It may wait for a merge, as the last names of a crawl do.
func (v *view) lookUpName(st *drum.State, key drum.Key) (value []byte, found bool, err error) {
	value, found, err = drum.Lookup(v.r.Set, state.NameNames, st, key)
	if err == nil && !found {
		err = drum.WalkKey(v.r.Set, state.NameNames, st, key, func(t drum.Tuple) error {
			value, found = append(value[:0], t.Value...), true
			return nil
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("crawl: look up a name: %w", err)
	}
	return value, found, nil
}

// PLDs reports what STAR and BEAST knew about PLDs at the last checkpoint.
func (e *Explainer) PLDs(plds []string) (reports []*PLDReport, asOf AsOf, err error) {
	need := func(v *view) []string {
		var keys []drum.Key
		for _, p := range plds {
			keys = append(keys, drum.Key(v.r.Hasher.PLDKey([]byte(p))))
		}
		return v.keyFiles(nil, nil, keys)
	}
	use := func(v *view) error {
		reports, asOf = nil, v.asOf
		var damage []string
		for _, p := range plds {
			reports = append(reports, v.site(p, nil, v.damaged(&damage)))
		}
		return nil
	}
	return reports, asOf, e.with(need, use)
}
