package star

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBudgetsOfShares: Stars that share the PLDs of a crawl give each PLD about the budget of one Star that
// has them all, whether the number of PLDs, the most ranks or the largest budget decides.
//
// The bound: of the r-1 PLDs above one of rank r, a Star with share p has Binomial(r-1, p), so the budget's
// distance from the top one, as a part of the range from top to default, has the standard deviation
// √((r-1)p(1-p))/(pK), at most √((1-p)/(pK)). The largest of all deviations is that of a random walk of K
// steps: above 4.5 standard deviations of its end with a probability of 1.4e-5. The number of a Star's PLDs
// varies, too, by √((1-p)/(pV)), a tenth of that, and ranks are whole numbers: 1/(pK).
func TestBudgetsOfShares(t *testing.T) {
	for _, tc := range []struct {
		name   string
		plds   int
		b      Budgets
		shares []int // number of Stars
	}{
		{"PLDs decide", 40_000, Budgets{}, []int{4}},
		{"largest budget", 1_000_000, Budgets{Max: 1000}, []int{4, 16, 64}},
		{"ranks", 1_000_000, Budgets{Ranks: 1000, Max: 1000}, []int{4}},
	} {
		b := completed(t, tc.b)
		rng := rand.New(rand.NewPCG(1, uint64(tc.plds)))
		degrees := make([]uint32, tc.plds)
		for i := range degrees { // a power law, as of the web
			degrees[i] = uint32(math.Min(math.Pow(1-rng.Float64(), -1/1.1)-1, 1e6))
		}
		whole := curveOf(b, degrees)
		for _, n := range tc.shares {
			parts, owner := make([][]uint32, n), make([]int, len(degrees))
			for i, d := range degrees {
				owner[i] = rng.IntN(n)
				parts[owner[i]] = append(parts[owner[i]], d)
			}
			b.Share = 1 / float64(n)
			curves := make([]*curve, n)
			for i := range parts {
				curves[i] = curveOf(b, parts[i])
			}
			p, k := b.Share, float64(whole.k)
			bound := 4.5*math.Sqrt((1-p)/(p*k))*1.1 + 1/(p*k)
			most, squares, ranked := 0., 0., 0.
			var sum, sumWhole float64
			for i, d := range degrees {
				one, _ := whole.budgets(d)
				got, _ := curves[owner[i]].budgets(d)
				sum, sumWhole = sum+float64(got)-float64(b.Default), sumWhole+float64(one)-float64(b.Default)
				if one == b.Default && got == b.Default {
					continue
				}
				ranked++
				off := math.Abs(float64(got)-float64(one)) / (whole.top - float64(b.Default))
				most, squares = max(most, off), squares+off*off
			}
			t.Logf("%s, %d PLDs, %d ranks, top budget %.0f, %d Stars: mean square deviation %.3f of the range, "+
				"largest %.3f, bound %.3f; budgets above the default add up to %.3f of those of one",
				tc.name, tc.plds, whole.k, whole.top, n, math.Sqrt(squares/ranked), most, bound, sum/sumWhole)
			if most > bound || math.Abs(sum/sumWhole-1) > bound {
				t.Errorf("%s, %d Stars: budgets deviate by up to %.3f of the range, want at most %.3f; sum %.3f",
					tc.name, n, most, bound, sum/sumWhole)
			}
		}
	}
}

// curveOf returns the budget function of a Star that has PLDs with these in-degrees.
func curveOf(b Budgets, degrees []uint32) *curve {
	sorted := slices.Clone(degrees)
	slices.Sort(sorted)
	slices.Reverse(sorted)
	return newCurve(b, int64(len(degrees)), sorted[:min(len(sorted), b.Ranks+1)])
}
