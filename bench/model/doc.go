// Package model computes the results of the paper's formulas: Tables II, III, V, VI and VII, equation (17),
// the best cache of Figure 3, and the examples of Theorems 3, 6 and 7.
//
// The formulas are those of packages drum and beast (sections IV.D to F, V and VII.B). For the paper's
// parameters the report also shows the printed numbers. Where the paper's text and table disagree, it shows
// both and names the difference.
//
// # Checks
//
// A check fails if a printed number differs from the formulas and the difference is not a known one.
//
// # Use
//
// Paper returns the paper's parameters. A Model's Validate returns what can't be computed; its Report
// returns tables.
//
// # Concurrency and memory
//
// All functions are pure. A report has a few hundred lines.
package model
