// Package budget measures how budgets are enforced: package star, which counts in-degrees, and package
// beast, which spreads URLs over queues.
//
// Star sends links between PLDs and budget checks through package star in four cases of skew, and compares
// every in-degree on disk with what its generator counted, every budget with F.
//
// Beast crawls a virtual web, in virtual time, with STAR and BEAST on disk and with the two queues of
// section VII.A, and puts the bytes that a page takes beside Theorems 6 and 7.
//
// # Departures from the paper
//
// The proofs of Theorems 6 and 7 let every PLD use up its budget in every queue. So does Beast's web: the
// first queue is full, and most links go to PLDs in proportion to their budgets; the rest goes to spammers.
// A stage is measured from one scan of QF to the next, as the proofs do.
//
// # Contract
//
// Files lie in directories of their own, which are removed at the end, also after an error and after a
// cancelled context.
//
// # Concurrency and memory
//
// Nothing here starts goroutines; those of the stores end with them. Star: Star.RAMBytes, and 20 bytes a
// PLD for the generator.
package budget
