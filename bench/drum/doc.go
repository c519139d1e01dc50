// Package drum measures check+update of links (section IV) by DRUM in the paper's form and with one
// addition after the other, and by the methods of package baselines.
//
// Each runs in a process of its own (Child) whose memory, page cache included, is limited to 1.25 R + 64
// MiB: speed, bytes on disk beside Theorems 1 and 2 at the k, r and M that were used, bits of a key, RAM,
// open files, and whether the answers are right. Who has methods besides, as bench/lab has Pebble, names
// them in Options.Others and gives them to Child.
//
// What the generator of links takes is left out: links are made in lots of a few pages, added by all
// goroutines at once, and the clock runs from the start of adding until the last has ended, and during
// passes; adding and passes take turns. The known keys are loaded before, at most with a time limit; the
// sync at the end counts.
//
// # Concurrency
//
// One goroutine reads what the child process says; in the child as many add as Options.Adders says. All are
// waited for.
//
// # Memory
//
// Little; the children have R and the links of a lot.
package drum
