// Package budget measures budget enforcement: package star, which counts in-degrees, and package beast,
// which spreads URLs over queues.
//
// Star sends links between PLDs and budget checks through package star in four cases of skew. It compares
// every in-degree on disk with the generator's count, and every budget with F.
//
// Beast crawls a virtual web in virtual time with STAR and BEAST on disk, and with the two queues of
// section VII.A. It compares the bytes per page with Theorems 6 and 7.
//
// # Departures from the paper
//
// The proofs of Theorems 6 and 7 let every PLD use its whole budget in every queue. Beast's web does the
// same: the first queue is full, and most links go to PLDs in proportion to their budgets; the rest go to
// spammers. Like the proofs, Beast measures a stage from one scan of QF to the next.
//
// # Contract
//
// The files are in directories of their own, which are removed at the end, also after an error or a
// cancelled context.
//
// # Concurrency and memory
//
// This package starts no goroutines; the goroutines of the stores end with the stores. Star uses
// Star.RAMBytes, and 20 bytes per PLD for the generator.
package budget
