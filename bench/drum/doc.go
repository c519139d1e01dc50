// Package drum measures check+update of links (section IV) by DRUM, in the paper's form and with one
// addition after the other, and by the methods of package baselines.
//
// Each method runs in a process of its own (Child) with memory, page cache included, limited to 1.25 R + 64
// MiB. The report has speed, bytes on disk compared with Theorems 1 and 2 at the actual k, r and M, bits
// per key, RAM, open files, and whether the answers are right.
//
// The times exclude the generator. It makes links in lots of a few pages; then all goroutines add them at
// once. The clock runs from the start of adding to the end of the last goroutine, and during passes, which
// alternate with adding. The known keys are loaded in advance, with an optional time limit. The final sync
// counts.
//
// # Concurrency
//
// One goroutine reads the output of the child process. In the child Options.Adders goroutines add. Measure
// waits for all of them.
//
// # Memory
//
// The parent needs little; each child needs R and the links of one lot.
package drum
