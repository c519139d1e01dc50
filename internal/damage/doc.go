// Package damage is the harness of the fuzz tests of all that is on disk. It changes states as a bug or a forger could, and
// bytes as a dying disk does, in a way that a byte script describes, so that the fuzzer has something to learn and a
// failing input is a test case from then on.
//
// The property that its users test: damage is found, with an error that names it, or it makes no difference. It never leads
// to a panic, to more memory than the size of the files explains, or to other records than were written. Damage of a state
// is another matter: the manifest's checksum stands for that, so a changed state that makes sense may yield other records,
// and the property is that it yields no panic, no giant allocation and no endless loop.
//
//	Edit       steps of 11 bytes on a state: which field, what to do, a number. Extremes (0, -1, 2^63, …), small
//	           differences, single bits; lists lose, repeat and swap elements, or take over another list's
//	Flip       steps of 6 bytes on the files of a file system: which file, where, what to xor; or the end is lost
//	Sweep      a script of Edit for each single step on a state
//	Allocated  bytes taken from the Go heap by a function, to be compared with a bound
//
// Read, Write and Files copy a file system, so that each input begins with a sound one. A structure with one state does
// all that with a Case:
//
//	NewCase    keeps sound files and their state
//	Case.Use   damages a copy and has it used, within a bound of memory; Verdict and Named judge what was read of it
//	Case.Sweep does so for each script of Sweep; Fuzz is the fuzz test, which begins with Seeds
//
// StoreManifest and LoadManifest keep the state in tests that stop a structure at any operation.
//
// Nothing here is safe for concurrent use, and nothing but tests imports it.
package damage
