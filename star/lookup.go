package star

import (
	"fmt"

	"drumbeat/disk"
	"drumbeat/drum"
)

// Known is what a state has of one PLD.
type Known struct {
	// Found is false for a PLD that no merge has met yet.
	Found  bool
	Record PLD
	// Waiting: updates of the PLD that wait for the next merge, Merged what Record will be after it. Checks are URLs that wait for
	// their budget.
	Waiting, Checks int64
	Merged          PLD
}

// LookUp returns what st knows of a PLD. check gets the Aux of its checks that wait, valid during the call; an error of it ends the
// lookup. With check nil what waits in the PLD's bucket isn't read: Waiting and Checks are 0, Merged is Record. It changes nothing.
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
		if len(value) != RecordBytes {
			return fail(fmt.Errorf("record of %d bytes, want %d", len(value), RecordBytes))
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

// BudgetNow is what the budget function in force in a state gives a PLD.
type BudgetNow struct {
	Nominal uint32 // by the function; it scales delays
	Pages   uint32 // a queue; more than Nominal in small crawls
	Rank    int    // among the PLDs that may be top ranks, from 1; 0: below
	Ranks   int    // K, the top ranks that there are
	PLDs    int64  // known when the function came into force
}

// BudgetOf returns the budget of a PLD with an in-degree; b are the budgets that the crawl runs with.
func BudgetOf(set disk.Set, st *State, b Budgets, indegree uint32) (BudgetNow, error) {
	fail := func(err error) (BudgetNow, error) { return BudgetNow{}, fmt.Errorf("star: budget: %w", err) }
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
	c := newCurve(b, st.PLDs, degrees)
	now := BudgetNow{Ranks: c.k, PLDs: c.plds}
	now.Nominal, now.Pages = c.budgets(indegree)
	if r := c.rank(indegree); r <= len(c.degrees) {
		now.Rank = r
	}
	return now, nil
}
