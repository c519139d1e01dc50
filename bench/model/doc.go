// Package model computes what the paper's formulas promise: Tables II, III, V, VI and VII, equation (17),
// the best cache of Figure 3, the examples of Theorem 3 and those of Theorems 6 and 7.
//
// The formulas are those of packages drum and beast (sections IV.D to F, V and VII.B). The printed numbers
// stand beside them where the parameters are the paper's. Where the paper's text doesn't give its own
// table, both are shown and the difference is named.
//
// # Checks
//
// Each printed number that the formulas don't give, beyond those known not to come out.
//
// # Use
//
// Paper returns the paper's parameters; a Model's Validate says what can't be computed, its Report has
// tables and figures.
//
// # Concurrency and memory
//
// Everything is pure. A report is some hundred lines.
package model
