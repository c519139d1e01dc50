package star

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Function is a budget function, the paper's F(dx).
type Function uint8

// The budget functions of section VI.
const (
	Paper   Function = iota // the top K ranks get from Max down to Default, linearly; all others get Default
	Equal                   // every PLD gets Default
	Popular                 // the top K ranks get Max, others 0; every PLD gets Default while no ranks stand out
	Inverse                 // Max divided by one more than the in-degree, at least 1
	// Proportional gives the top budget to the largest in-degree and to others their share of it, at least Default.
	Proportional
	// Supporters is Paper by the rank of Support instead of the in-degree, and less than Default for PLDs without
	// standing. Before the first computation of supporters it is Paper.
	Supporters
)

// ParseFunction parses a function's name: paper, equal, popular, inverse, proportional or supporters.
func ParseFunction(name string) (Function, error) {
	for _, f := range []Function{Paper, Equal, Popular, Inverse, Proportional, Supporters} {
		if f.String() == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("star: budget function %q: want paper, equal, popular, inverse, proportional or supporters",
		name)
}

func (f Function) String() string {
	if f <= Supporters {
		return [...]string{"paper", "equal", "popular", "inverse", "proportional", "supporters"}[f]
	}
	return fmt.Sprintf("function(%d)", uint8(f))
}

// Unscaled as QueuePages disables the scaling of budgets in small crawls.
const Unscaled = -1

// MaxBudget is the maximum budget after scaling, in pages per queue.
const MaxBudget = 1<<24 - 1

// Budgets describes the budget function. Zero fields mean the default.
type Budgets struct {
	Function Function
	Default  uint32 // B0, pages; default 10
	Max      uint32 // maximum of the top budget, pages; default 10,000
	Ranks    int    // maximum of K, PLDs; default 10,000
	// QueuePages is the target for the sum of budgets: if Default for all known PLDs adds up to less, all
	// budgets are scaled up to reach it. Default 10,000; Unscaled disables this.
	QueuePages int64
	// Share is this Star's share of all PLDs, if several Stars divide a crawl; 0 means 1. Its PLDs are a
	// sample, so their ranks are about Share times their ranks among all PLDs. Budgets are so about those of
	// one Star with all PLDs.
	Share float64
}

func (b *Budgets) complete() error {
	if b.Default == 0 {
		b.Default = 10
	}
	if b.Max == 0 {
		b.Max = 10_000
	}
	if b.Ranks == 0 {
		b.Ranks = 10_000
	}
	if b.QueuePages == 0 {
		b.QueuePages = 10_000
	}
	return b.Validate()
}

// Validate returns all errors, joined. Zero fields are valid.
func (b *Budgets) Validate() error {
	var errs []error
	if b.Function > Supporters {
		errs = append(errs, fmt.Errorf("budget function %d", b.Function))
	}
	if b.Default > MaxBudget || b.Max > MaxBudget {
		errs = append(errs, fmt.Errorf("budgets of %d and %d pages: want at most %d", b.Default, b.Max, MaxBudget))
	}
	if b.Max != 0 && b.Max < b.Default {
		errs = append(errs, fmt.Errorf("largest budget %d: want at least the default %d", b.Max, b.Default))
	}
	if b.Ranks < 0 || b.Ranks > 1<<20 {
		errs = append(errs, fmt.Errorf("%d ranks: want at most 2^20", b.Ranks))
	}
	if !(b.Share >= 0 && b.Share <= 1) {
		errs = append(errs, fmt.Errorf("a share of %g of all PLDs: want 0 to 1", b.Share))
	}
	if b.QueuePages < Unscaled {
		errs = append(errs, fmt.Errorf("QueuePages is %d: want %d or more", b.QueuePages, Unscaled))
	}
	return errors.Join(errs...)
}

// curve is a budget function with its parameters. It is immutable.
type curve struct {
	Budgets
	plds    int64    // V, the number of PLDs known at its creation
	k       int      // K
	top     float64  // budget of rank 1
	scale   float64  // for small crawls
	degrees []uint32 // the K+1 largest in-degrees, descending, without zeros
	codes   []uint32 // the K+1 largest Supports, descending; nil before the first computation

	// In-degrees up to low get the budgets of in-degree 0. This covers nearly all PLDs, without a search.
	low                  uint32
	lowNominal, lowPages uint32
}

// newCurve computes the parameters for plds known PLDs. degrees are the largest in-degrees, descending.
func newCurve(b Budgets, plds int64, degrees []uint32) *curve {
	c := &curve{Budgets: b, plds: plds, scale: 1}
	pages, share := float64(plds)*float64(b.Default), cmp.Or(b.Share, 1)
	c.k = int(math.Min(float64(b.Ranks)*share, float64(plds)/100))
	c.top = math.Min(math.Max(pages/share/100, float64(b.Default)), float64(b.Max))
	if b.QueuePages > 0 {
		c.scale = math.Max(1, float64(b.QueuePages)/math.Max(pages, float64(b.Default)))
	}
	n, _ := slices.BinarySearchFunc(degrees, 0, func(d uint32, _ int) int {
		if d > 0 {
			return -1
		}
		return 1
	})
	c.degrees = degrees[:min(n, c.k+1)]
	c.lowNominal, c.lowPages = c.compute(0)
	switch {
	case c.Function == Equal:
		c.low = math.MaxUint32
	case c.Function == Proportional && len(c.degrees) > 0: // PLDs whose share is below Default
		c.low = uint32(float64(c.Default) * float64(c.degrees[0]) / c.top)
	case c.Function != Inverse && c.Function != Proportional && len(c.degrees) > c.k:
		c.low = c.degrees[c.k] // that of rank K+1 and of PLDs tied with it
	}
	return c
}

// largest returns the largest in-degree, 0 if it is not known.
func (c *curve) largest() uint32 {
	if len(c.degrees) == 0 {
		return 0
	}
	return c.degrees[0]
}

// rank returns the number of PLDs with an in-degree of at least d, counting the PLD itself. It is exact up
// to K+1.
func (c *curve) rank(d uint32) int { return rankIn(c.degrees, d) }

func rankIn(values []uint32, v uint32) int {
	if v == 0 {
		return math.MaxInt
	}
	i := sort.Search(len(values), func(i int) bool { return values[i] < v })
	if i > 0 && values[i-1] == v {
		return i
	}
	return i + 1
}

// budgets returns the nominal budget, which scales delays, and the pages per queue, which are more in small
// crawls.
func (c *curve) budgets(d uint32) (nominal, pages uint32) {
	if d <= c.low {
		return c.lowNominal, c.lowPages
	}
	return c.compute(d)
}

func (c *curve) compute(d uint32) (nominal, pages uint32) { return c.rounded(c.nominal(d)) }

// rounded returns a budget and the pages per queue, in whole pages.
func (c *curve) rounded(f float64) (nominal, pages uint32) {
	pages = uint32(math.Min(math.Round(f*c.scale), MaxBudget))
	nominal = uint32(math.Min(math.Round(f), MaxBudget))
	if f > 0 {
		nominal, pages = max(nominal, 1), max(pages, 1)
	}
	return nominal, pages
}

func (c *curve) nominal(d uint32) float64 {
	b0 := float64(c.Default)
	switch c.Function {
	case Paper, Supporters:
		return c.byRank(c.rank(d))
	case Popular:
		if len(c.degrees) == 0 || c.rank(c.degrees[0]) > c.k {
			return b0 // no PLD stands out, and a budget of 0 for all would end the crawl
		}
		if c.rank(d) <= c.k {
			return c.top
		}
		return 0
	case Inverse:
		return math.Max(1, c.top/(1+float64(d)))
	case Proportional:
		if len(c.degrees) > 0 {
			return math.Max(b0, c.top*math.Min(1, float64(d)/float64(c.degrees[0])))
		}
	}
	return b0
}

// byRank is the paper's F: from top down to Default, linearly, in the first K ranks.
func (c *curve) byRank(r int) float64 {
	b0 := float64(c.Default)
	if r > c.k {
		return b0
	}
	return b0 + (c.top-b0)*float64(c.k+1-r)/float64(c.k)
}
