// Package mutate holds only a test, which checks the crash simulation of package crawl (TestCutsInTurn,
// TestCutsAtRandom): it makes one small change of the real source at a time, one that loses or duplicates
// URLs if the machine stops at the wrong moment, and expects the simulation to fail. `go test -overlay`
// replaces the real file by the changed one; the test does not touch the tree, and the program has no
// switches for it.
//
// A mutant that survives is a gap in the simulation, or a change without effect. A mutant whose text is no
// longer in the source is an error: whoever rewrites these lines must write a new mutant for them.
//
// Most mutants are caught by the audit after a cut, or by the output or the requests of the resumed crawl;
// some by a file that a run cannot open; those that break an invariant by a panic that begins with BUG.
// TestMutants prints a table with the first words of each failure.
//
//	go test ./internal/mutate                                  check all mutants' texts, and try one mutant
//	go test ./internal/mutate -timeout 3h -args -mutants all   try all (make mutations) and print a table
//	go test ./internal/mutate -args -mutants name              try the mutants whose names match
package mutate
