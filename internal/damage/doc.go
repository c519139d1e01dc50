// Package damage is the harness of the fuzz tests of everything on disk. It changes states as a bug or a
// forger could, and bytes as a failing disk does. A byte script describes the changes, so the fuzzer can
// mutate it, and a failing input becomes a test case.
//
// The property under test: damage is found, with an error that names it, or makes no difference. It never
// leads to a panic, to more memory than the size of the files explains, or to records that were not written.
// A damaged state is different, since the manifest's checksum protects it: a changed state that is plausible
// may yield other records. There the property is: no panic, no huge allocation and no endless loop.
//
//	Edit       steps of 11 bytes on a state: field, operation, number. Extremes (0, -1, 2^63, …), small
//	           differences, single bits; lists lose, repeat and swap elements, or take those of another list
//	Flip       steps of 6 bytes on the files of a file system: file, offset, mask to xor; or truncation
//	Sweep      a script of Edit for each single step on a state
//	Allocated  bytes that a function takes from the Go heap, to be compared with a bound
//
// Read, Write and Files copy a file system, so each input begins with sound files. A Case does all this for
// a structure with one state:
//
//	NewCase    keeps sound files and their state
//	Case.Use   damages a copy and uses it within a memory bound; Verdict and Named check what was read
//	Case.Sweep does so for each script of Sweep; Fuzz is the fuzz test, which begins with Seeds
//
// StoreManifest and LoadManifest keep the state in tests that stop a structure at any operation.
//
// Nothing here is safe for concurrent use, and only tests import it.
package damage
