// Package mutate holds no code but a test, which proves that the crash simulation of package crawl bites (TestCutsInTurn,
// TestCutsAtRandom): it makes one small change to the real source at a time, one that loses or doubles URLs when the
// machine stops at the wrong moment, and expects the simulation to fail. The changed file stands in for the real one by
// `go test -overlay`; nothing in the tree is touched, and the program has no knobs for it.
//
// A mutant that nothing notices is a hole in the simulation, or a change that changes nothing. A mutant whose text is no
// longer in the source is an error: whoever rewrites these lines says anew what would be wrong there.
//
// How a mutant is noticed differs: most by the audit of what a cut has left, or by the output or the requests of the crawl
// that went on from there; some by a file that a run can't open; those that break an invariant by a panic that begins with
// BUG. The table that TestMutants prints gives the first words of each.
//
//	go test ./internal/mutate                                  every mutant's text is in the source; three are tried
//	go test ./internal/mutate -timeout 3h -args -mutants all   all are tried (make mutations); a table is printed
//	go test ./internal/mutate -args -mutants name              those whose names match it
package mutate
