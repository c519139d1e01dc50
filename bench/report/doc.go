// Package report is what a benchmark returns and how it is shown: lines that benchstat reads, tables for
// people, checks against stated targets, and figures. Benchmarks fill in a Report; Write prints it, Save
// puts it into a directory as text and as JSON, from which the command bench/lab draws the figures.
//
// # Form of the lines
//
// Each repeat of a measurement is one Line, printed as package testing prints benchmarks: name with
// key=value parts between slashes, count, then pairs of value and unit. Tables show the medians of repeats
// and their spread; Sample computes both.
//
// # Checks
//
// A Check is a figure with the target that is stated for it. A missed one is printed as such, and Err
// returns them all, for the exit code of a command.
//
// # Concurrency and memory
//
// Nothing here starts goroutines or keeps state; a Report belongs to one goroutine. Its size is that of its
// lines.
package report
