// Package tidy holds the tests that keep the repository in the shape that docs/ARCHITECTURE.md promises: the table of
// layers, package comments, what only the command may do, formatting. It has no code of its own.
//
// Sizes of functions, files and lines are advice: `go test -v ./internal/tidy` lists what exceeds them, and fails for
// none. A file that starts with a line //tidy:long and a reason isn't listed.
package tidy
