// Package tidy holds the tests that enforce the structure in docs/ARCHITECTURE.md: the table of layers,
// package comments, what only the command may do, formatting. It has no code of its own.
//
// Limits for the sizes of functions, files and lines are advice: `go test -v ./internal/tidy` lists what
// exceeds them, but does not fail. A file that starts with a line //tidy:long and a reason is not listed.
package tidy
