package contents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"drumbeat/drum"
	"drumbeat/internal/bug"
	"drumbeat/internal/human"
	"drumbeat/state"
)

// The filter in front of the store of contents is filled when a run starts, from the whole store: 85 bytes a body.

const (
	// leastFilterBits is the least size of the filter at the start of a run, in bits a key. Eight of them are set
	// for each key, so a filter of b bits a key takes (1-e^(-8/b))^8 of the new bodies for known: 9 % at 6, 16 % at
	// 5, 31 % at 4, 54 % at 3, 86 % at 2. Those pages are written twice more. With less the crawl does without:
	// to read 85 bytes of each body would take longer than it saves.
	leastFilterBits = 4
	// recentShare is the part of the RAM in front of the store that recentBodies has.
	recentShare = 4
	// fillReaders is the number of directories that are read at once. Each takes drum's buffer of 1 MiB.
	fillReaders = 32
	// fillTold is the interval of the log lines while the filter is filled.
	fillTold = 10 * time.Second
	// fillStep is the number of entries that a reader counts together.
	fillStep = 1 << 12
)

// Filter is the filter across the rounds of a run. A round that returns to the last checkpoint finds all keys
// of that in it: each key was there when the first round began, or was added to the filter before it was
// added to the store. Keys that were added since only make some pages wait.
type Filter struct {
	filter *drum.KeyFilter
	crawl  string // its ID; "" if the filter is not filled
	size   int64
}

// Close frees the memory of the filter.
func (f *Filter) Close() {
	if f.filter != nil {
		f.filter.Close()
	}
	*f = Filter{}
}

// fill makes the filter, and adds the keys of the store to it unless an earlier round has. If the filter is too small
// to tell many new keys apart, the crawl does without, rather than read the whole store.
func (c *Store) fill(m *state.Manifest) error {
	st, err := state.Part[drum.State](m, state.NameContent)
	if err != nil {
		return err
	}
	if c.opt.Seen == state.ContentOff {
		return c.checkForm(st)
	}
	c.recent = newRecentBodies(c.opt.Plan.ContentFilterBytes / recentShare)
	size := c.opt.Plan.ContentFilterBytes - c.opt.Plan.ContentFilterBytes/recentShare
	if c.opt.Filter == nil {
		c.opt.Filter, c.ownsFilter = new(Filter), true
	}
	kept := c.opt.Filter
	waiting, _ := c.Drum.Pending() // most are keys of their own
	bodies := c.Drum.Keys() + waiting
	keys := bodies
	if c.opt.Near.KeepOne { // at most: some bodies are of no text
		keys += bodies * int64(c.opt.Near.Bits+1)
	}
	switch {
	case keys > size*8/leastFilterBits:
		kept.Close()
		c.opt.Log.Info("comparing bodies on disk only: the filter in RAM would be too small", "bodies", bodies,
			"filter", human.Bytes(size))
		return c.checkForm(st)
	case kept.crawl == c.saved.CrawlID && kept.size == size:
		c.filter = kept.filter
		return nil
	}
	kept.Close()
	kept.filter = drum.NewKeyFilter(size)
	c.filter = kept.filter
	if st != nil {
		if err := c.readKeys(st); err != nil {
			return err
		}
	}
	kept.crawl, kept.size = c.saved.CrawlID, size
	return nil
}

// errFormKnown ends a scan once the form of the pages that wait is known.
var errFormKnown = errors.New("form is known")

// checkForm checks the form of the pages that wait, by the first that has records: they have one form, as no run
// accepts pages of another. It reads nothing else of the store.
func (c *Store) checkForm(st *drum.State) error {
	if st == nil {
		return nil
	}
	_, err := drum.ScanState(c.saved.Set, state.NameContent, st.Waiting(), drum.Scan{Tuple: func(t drum.Tuple) error {
		known, err := c.checkWaiting(&t)
		if err == nil && known {
			err = errFormKnown
		}
		return err
	}})
	if err != nil && !errors.Is(err, errFormKnown) {
		return fmt.Errorf("crawl: open the store of contents: %w", err)
	}
	return nil
}

// checkWaiting checks a page that waits. known means that it has records, in the form of the run.
func (c *Store) checkWaiting(t *drum.Tuple) (known bool, _ error) {
	if t.Op != drum.CheckUpdate {
		return false, nil
	}
	var wait state.Waiting
	if err := wait.Decode(t.Aux); err != nil {
		return false, err
	}
	if len(wait.Capture) == 0 {
		return false, nil
	}
	if wait.Form != c.output.Form() {
		return false, errContentForm
	}
	return true, nil
}

// readKeys adds the keys of the store to the filter, from all directories at once.
func (c *Store) readKeys(st *drum.State) error {
	bytes, keys, began := st.Bytes(), st.Keys(), time.Now()
	for i := range st.Inputs {
		bytes += st.Inputs[i].Bytes
	}
	if bytes == 0 {
		return nil
	}
	c.opt.Log.Debug("reading the store of contents", "bodies", keys, "bytes", human.Bytes(bytes),
		"directories", c.saved.Set.Len())
	var done atomic.Int64
	ended, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer bug.Fatal()
		defer close(told)
		every := time.NewTicker(fillTold)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				c.opt.Log.Info("reading the store of contents", "done", done.Load(), "bodies", keys)
			case <-ended:
				return
			}
		}
	}()
	errs := make([]error, c.saved.Set.Len())
	var readers sync.WaitGroup
	slots := make(chan struct{}, fillReaders)
	for dir := range errs {
		slots <- struct{}{}
		readers.Go(func() {
			defer bug.Fatal()
			errs[dir] = c.readDirectory(st.InDirectory(dir), &done)
			<-slots
		})
	}
	readers.Wait()
	close(ended)
	<-told
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("crawl: open the store of contents: %w", err)
	}
	took, level := time.Since(began), slog.LevelDebug
	if took >= fillTold { // the log has said that it lasts
		level = slog.LevelInfo
	}
	c.opt.Log.Log(context.Background(), level, "read the store of contents", "bodies", keys,
		"took", took.Round(time.Millisecond), "rate", human.Bytes(int64(float64(bytes)/max(took.Seconds(), 1e-3)))+"/s")
	return nil
}

// readDirectory adds the keys of one directory, and counts them in done.
func (c *Store) readDirectory(st *drum.State, done *atomic.Int64) error {
	c.run.Hook("fill")
	n := 0
	_, err := drum.ScanState(c.saved.Set, state.NameContent, st, drum.Scan{
		Entry: func(key drum.Key, value []byte) error {
			c.filter.Add(key)
			c.filterList(key, value)
			if n++; n%fillStep == 0 {
				done.Add(fillStep)
			}
			return nil
		},
		Tuple: func(t drum.Tuple) error {
			c.filter.Add(t.Key)
			c.filterList(t.Key, t.Value)
			_, err := c.checkWaiting(&t)
			return err
		},
	})
	done.Add(int64(n % fillStep))
	return err
}

// Close frees the memory in front of the store, but for a filter that Run keeps.
func (c *Store) Close() {
	if c.ownsFilter {
		c.opt.Filter.Close()
	}
	if c.recent != nil {
		c.recent.close()
	}
}
