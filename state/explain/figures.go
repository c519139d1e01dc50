package explain

import (
	"math/bits"
	"time"

	"drumbeat/drum"
	"drumbeat/star"
	"drumbeat/state"
)

// Figures are what the last checkpoint tells about the crawl as a whole.
type Figures struct {
	AsOf     AsOf
	Accounts state.Accounts
	Active   time.Duration // of all runs
	Runs     int
	Run      *state.LastRun // options of the last run
	// PLDs and Edges are the sizes of the PLD graph, URLSeenKeys that of URLseen.
	PLDs, Edges, URLSeenKeys int64
	// URLSeenBytes is the size of URLseen's keys on disk, without links that wait for a pass.
	URLSeenBytes int64
	Top          []TopPLD // by descending in-degree
	// Degrees has the PLDs by in-degree: 0, 1, 2 and 3, 4 to 7, and so on; Pages[i] is the number of PLDs
	// with fewer than 2^i fetched responses. Both are empty with Options.Fast.
	Degrees []DegreeClass
	Pages   [33]int64
	Queues  []QueueFigure // of BEAST, by lane, from the current one on
}

// TopPLD is a PLD with a large in-degree.
type TopPLD struct {
	PLD      string `json:"pld"` // "" if its name is not known
	Indegree uint32 `json:"indegree"`
	Fetched  uint32 `json:"fetched"` // responses
	Bytes    uint64 `json:"bytes"`
}

// DegreeClass sums up the PLDs whose in-degree is at least From and less than the next class's.
type DegreeClass struct {
	From    uint32 `json:"from"`
	PLDs    int64  `json:"plds"`
	Visited int64  `json:"visited"` // with at least one response
	Fetched int64  `json:"fetched"`
}

// QueueFigure is a queue of BEAST.
type QueueFigure struct {
	Lane   int   `json:"lane,omitempty"`
	Number int64 `json:"number"` // in its lane
	URLs   int64 `json:"urls"`
}

// Figures reads the figures of the crawl with the top PLDs. Unless Options.Fast is set, it reads the records
// of all PLDs, 20 to 40 bytes each.
func (e *Explainer) Figures(top int) (f *Figures, err error) {
	var ranked []star.Ranked
	var names *drum.State
	var keys []drum.Key
	need := func(v *view) (files []string) {
		if names, err = state.Part[drum.State](v.m, state.NameNames); err != nil {
			return nil
		}
		v.Pin(nil)
		if ranked, err = star.TopOf(v.r.Set, v.star, top); err != nil {
			return nil
		}
		keys = keys[:0]
		for _, r := range ranked {
			keys = append(keys, drum.Key(r.PLD))
		}
		if names != nil {
			files = drum.KeyFiles(v.r.Set, state.NameNames, names, keys)
		}
		_, indegree := star.Stores(state.NameStar)
		if e.Opt.Fast {
			return append(files, drum.KeyFiles(v.r.Set, indegree, v.star.Indegree, keys)...)
		}
		return append(files, drum.Files(v.r.Set, indegree, v.star.Indegree)...)
	}
	use := func(v *view) error {
		if err != nil {
			return err
		}
		f = v.figures(ranked)
		if err := v.nameTop(f, names, keys); err != nil {
			return err
		}
		if e.Opt.Fast {
			return v.lookUpTop(f, ranked)
		}
		return v.walkPLDs(f, ranked)
	}
	return f, e.with(need, use)
}

// figures returns what the manifest has.
func (v *view) figures(ranked []star.Ranked) *Figures {
	f := &Figures{AsOf: v.asOf, Accounts: v.m.Accounts, Active: time.Duration(v.m.Active) * time.Millisecond,
		Runs: v.m.Runs, Run: v.run, PLDs: v.star.Indegree.Keys(), Edges: v.star.Edges.Keys(),
		URLSeenKeys: v.seen.Keys(), URLSeenBytes: v.seen.Bytes()}
	for _, r := range ranked {
		f.Top = append(f.Top, TopPLD{Indegree: uint32(r.Value)})
	}
	for lane := range v.lanes() {
		for _, q := range v.laneState(lane).Queues {
			f.Queues = append(f.Queues, QueueFigure{Lane: lane, Number: q.N, URLs: q.State.Records})
		}
	}
	return f
}

// nameTop looks up the names of the top PLDs.
func (v *view) nameTop(f *Figures, names *drum.State, keys []drum.Key) error {
	if names == nil {
		return nil
	}
	for i, k := range keys {
		value, found, err := v.lookUpName(names, k)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		pld, _, err := state.DecodeName(value)
		if err != nil {
			return err
		}
		f.Top[i].PLD = string(pld)
	}
	return nil
}

// lookUpTop looks up the records of the top PLDs.
func (v *view) lookUpTop(f *Figures, ranked []star.Ranked) error {
	for i, r := range ranked {
		k, err := star.LookUp(v.r.Set, state.NameStar, v.star, r.PLD, nil)
		if err != nil {
			return err
		}
		f.Top[i].Fetched, f.Top[i].Bytes = k.Record.Fetched, k.Record.Bytes
	}
	return nil
}

// walkPLDs sums up the records of all PLDs.
func (v *view) walkPLDs(f *Figures, ranked []star.Ranked) error {
	top := make(map[uint64]int, len(ranked))
	for i, r := range ranked {
		top[r.PLD] = i
	}
	var classes [33]DegreeClass
	err := star.WalkPLDs(v.r.Set, state.NameStar, v.star, func(pld uint64, p star.PLD) error {
		if i, ok := top[pld]; ok {
			f.Top[i].Fetched, f.Top[i].Bytes = p.Fetched, p.Bytes
		}
		c := &classes[bits.Len32(p.Indegree)]
		c.PLDs++
		if p.Fetched > 0 {
			c.Visited++
			c.Fetched += int64(p.Fetched)
			f.Pages[bits.Len32(p.Fetched)]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := 1; i < len(f.Pages); i++ {
		f.Pages[i] += f.Pages[i-1]
	}
	for i, c := range classes {
		if c.PLDs > 0 {
			if i > 0 {
				c.From = 1 << (i - 1)
			}
			f.Degrees = append(f.Degrees, c)
		}
	}
	return nil
}
