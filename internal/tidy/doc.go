// Package tidy holds the tests that enforce the structure in docs/how-it-works/architecture.md: the table of layers,
// package comments, what only the command may do, formatting, sizes. It has no code of its own.
//
// No line has more than 120 columns, no function more than 70 lines, no file more than 600 (TestSizes).
// A hot loop in a file of its own that begins with //tidy:long and the reason may be longer.
package tidy
