package star

import (
	"fmt"

	"drumbeat/disk"
	"drumbeat/drum"
)

// Known is what a state holds about a PLD.
type Known struct {
	// Found is false for a PLD that has not been in a merge yet.
	Found  bool
	Record PLD
	// Waiting is the number of updates that wait for the next merge, and Merged the record after it. Checks
	// is the number of URLs that wait for their budget.
	Waiting, Checks int64
	Merged          PLD
}

// LookUp returns what st holds about a PLD. It calls check with the Aux of each waiting check, valid during
// the call. An error of check ends the lookup. If check is nil, LookUp does not read what waits in the
// PLD's bucket: Waiting and Checks are 0, and Merged is Record. It changes nothing.
func LookUp(set disk.Set, name string, st *State, pld uint64, check func(aux []byte) error) (Known, error) {
	var k Known
	fail := func(err error) (Known, error) {
		return Known{}, fmt.Errorf("star: look up PLD %x in %s: %w", pld, name, err)
	}
	if err := st.check(); err != nil {
		return fail(err)
	}
	value, found, err := drum.Lookup(set, indegreeName(name), st.Indegree, drum.Key(pld))
	if err != nil {
		return fail(err)
	}
	if found {
		if len(value) != st.recordBytes() {
			return fail(fmt.Errorf("record of %d bytes, want %d", len(value), st.recordBytes()))
		}
		k.Found = true
		k.Record.Decode(value)
	}
	if k.Merged = k.Record; check == nil {
		return k, nil
	}
	err = drum.WalkKey(set, indegreeName(name), st.Indegree, drum.Key(pld), func(t drum.Tuple) error {
		if t.Op&drum.Check == 0 {
			k.Waiting++
			k.Merged.apply(t.Value)
			return nil
		}
		k.Checks++
		return check(t.Aux)
	})
	if err != nil {
		return fail(err)
	}
	return k, nil
}

// BudgetNow is the budget of a PLD by the current budget function of a state.
type BudgetNow struct {
	Nominal uint32 // budget by the function; it scales delays
	Pages   uint32 // pages per queue; more than Nominal in small crawls
	Rank    int    // rank among the candidates for top ranks, from 1; 0 = below them
	Ranks   int    // K, the number of top ranks
	PLDs    int64  // number of PLDs known when the function took effect
	Prior   uint32 // prior in-degree; the budget is by it if it is larger than the in-degree
	// Supporters says that the budget and the rank are by PLD.Support. A budget below a page is rounded up here: the
	// PLD gets a page in some of the queues.
	Supporters bool
}

// BudgetOf returns the budget of a PLD with this key and record. b are the budgets of the crawl.
func BudgetOf(set disk.Set, st *State, b Budgets, pld uint64, p *PLD) (BudgetNow, error) {
	of, err := BudgetsOf(set, st, b)
	if err != nil {
		return BudgetNow{}, err
	}
	return of(pld, p), nil
}

// BudgetsOf returns the budget function of a state, by the key and the record of a PLD. b are the budgets of the crawl.
func BudgetsOf(set disk.Set, st *State, b Budgets) (func(pld uint64, p *PLD) BudgetNow, error) {
	fail := func(err error) (func(uint64, *PLD) BudgetNow, error) { return nil, fmt.Errorf("star: budget: %w", err) }
	if err := b.complete(); err != nil {
		return fail(err)
	}
	data, err := disk.ReadTail(set, st.Ranking)
	if err != nil {
		return fail(err)
	}
	_, degrees, err := decodeRanking(data)
	if err != nil {
		return fail(err)
	}
	codes, err := codesOf(set, st)
	if err != nil {
		return fail(err)
	}
	priors, err := priorsOf(set, st)
	if err != nil {
		return fail(err)
	}
	c := newCurve(b, st.PLDs, degrees).by(codes)
	return func(pld uint64, p *PLD) BudgetNow {
		now := BudgetNow{Ranks: c.k, PLDs: c.plds, Prior: priors.links(pld)}
		values, v := c.degrees, max(p.Indegree, now.Prior)
		if c.codes != nil {
			now.Nominal, now.Pages = c.rounded(c.share(p.Support))
			now.Supporters = true
			values, v = c.codes, uint32(p.Support)
		} else {
			now.Nominal, now.Pages = c.budgets(v)
		}
		if r := rankIn(values, v); r <= len(values) {
			now.Rank = r
		}
		return now
	}, nil
}

// WalkUpdates calls fn for every update of a PLD that waits in st for its merge, in unspecified order. value
// is for PLD.Update. It changes nothing.
func WalkUpdates(set disk.Set, name string, st *State, fn func(pld uint64, value []byte) error) error {
	if st == nil {
		return nil
	}
	if err := st.check(); err != nil {
		return fmt.Errorf("star: walk %s: %w", name, err)
	}
	scan := drum.Scan{Tuple: func(t drum.Tuple) error {
		if t.Op&drum.Check != 0 {
			return nil
		}
		return fn(uint64(t.Key), t.Value)
	}}
	_, err := drum.ScanState(set, indegreeName(name), st.Indegree.Waiting(), scan)
	return err
}

// Update adds an update of WalkUpdates to the record.
func (p *PLD) Update(value []byte) { p.apply(value) }

// TopOf returns the PLDs with the largest in-degrees in a state, at most n, by descending in-degree.
func TopOf(set disk.Set, st *State, n int) ([]Ranked, error) {
	data, err := disk.ReadTail(set, st.Ranking)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	ranked, _, err := decodeRanking(data)
	if err != nil {
		return nil, fmt.Errorf("star: top PLDs: %w", err)
	}
	return ranked[:min(n, len(ranked))], nil
}
