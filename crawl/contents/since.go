package contents

import (
	"context"
	"fmt"

	"drumbeat/disk"
	"drumbeat/drum"
	"drumbeat/state"
)

// Earlier is the store of contents of an earlier crawl with the same secret, which does not change meanwhile.
type Earlier struct {
	Set    disk.Set
	State  *drum.State // nil: nothing is stored
	Bodies int64       // that a new crawl has taken
}

// sinceLot is the number of tuples that are added at once.
const sinceLot = 256

// takeEarlier copies the bodies of earlier crawls into the store of a new crawl: the pages that refer to them become
// revisit records. A body of several crawls keeps the capture that comes first. It takes the RAM of the drum. Bodies
// that were not stored, and pages that still wait for their verdict, are left out.
func (c *Store) takeEarlier(all []Earlier) error {
	var tuples []drum.Tuple
	add := func() error {
		if err := c.Drum.Add(tuples); err != nil {
			return err
		}
		tuples = tuples[:0]
		if !c.Drum.Full() {
			return nil
		}
		_, err := c.Drum.Pass(context.Background(), false)
		return err
	}
	took := int64(0)
	c.opt.Log.Info("taking the bodies that earlier crawls have stored")
	for i := range all {
		e := &all[i]
		err := e.each(func(key drum.Key, value []byte) error {
			e.Bodies++
			tuples = append(tuples, drum.Tuple{Key: key, Op: drum.Update, Value: append([]byte(nil), value...)})
			if len(tuples) < sinceLot {
				return nil
			}
			return add()
		})
		if err == nil && len(tuples) > 0 {
			err = add()
		}
		if err != nil {
			return fmt.Errorf("crawl: take the bodies of an earlier crawl: %w", err)
		}
		took += e.Bodies
	}
	c.opt.Log.Info("took the bodies that earlier crawls have stored", "bodies", took)
	return nil
}

// each calls fn with each body that is stored.
func (e *Earlier) each(fn func(key drum.Key, value []byte) error) error {
	if e.State == nil {
		return nil
	}
	stored := func(key drum.Key, value []byte) error {
		if state.OfNearList(value) {
			return nil
		}
		var v bodyValue
		if err := v.decode(value); err != nil {
			return err
		}
		if v.digest == ([20]byte{}) {
			return nil
		}
		return fn(key, value)
	}
	_, err := drum.ScanState(e.Set, state.NameContent, e.State, drum.Scan{Entry: stored,
		Tuple: func(t drum.Tuple) error {
			if t.Op != drum.Update {
				return nil
			}
			return stored(t.Key, t.Value)
		}})
	return err
}

// filterEarlier adds the bodies of earlier crawls to the filter.
func (c *Store) filterEarlier(all []Earlier) error {
	if c.filter == nil {
		return nil
	}
	for _, e := range all {
		if err := e.each(func(key drum.Key, _ []byte) error {
			c.filter.Add(key)
			return nil
		}); err != nil {
			return fmt.Errorf("crawl: read the bodies of an earlier crawl: %w", err)
		}
	}
	return nil
}
