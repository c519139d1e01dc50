// Package result holds and shows the results of benchmarks: lines for benchstat, tables for people, and
// checks against stated targets. Benchmarks fill in a Report. Write prints it; Save stores it in a directory
// as text and as JSON.
//
// # Form of the lines
//
// Each repeat of a measurement is one Line in the format of package testing: name with key=value parts
// between slashes, count, then pairs of value and unit. Tables show the median and spread of the repeats;
// Sample computes both.
//
// # Checks
//
// A Check is a figure with its stated target. Write marks a missed one, and Err returns all of them for the
// exit code of a command.
//
// # Concurrency and memory
//
// This package starts no goroutines and keeps no state; a Report is for one goroutine. Its size is that of
// its lines.
package result
