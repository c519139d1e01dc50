// Package bench answers what a machine's RAM and disks can sustain, and what the paper's formulas promise
// for them. Command drumbeat bench prints what it returns; lines of measurements have the form of Go
// benchmarks, which benchstat reads.
//
// Model computes Tables II, III, V, VI and VII of the paper, equation (17), the best cache of Figure 3, the
// examples of Theorem 3 and those of Theorems 6 and 7 with the formulas of packages drum and beast (sections IV.D to F, V and VII.B),
// and puts the printed numbers beside them. Where the paper's text doesn't give its own table, both are
// shown and the difference is named.
//
// RunDisk measures W, the bandwidth of Theorem 3, as a pass of DRUM uses a disk: one file written and read in
// sequence by chunks of several sizes, and read while another is written; k files written in turns, a block
// each, and read one after the other; through the page cache and past it (O_DIRECT); with and without space
// reserved before; each directory alone and all of them at once. With Disk.Fio the program fio does each
// measurement too, right after ours or before it, and the ratio of each pair is checked.
//
// RunCheckpoint fills the bucket buffers of a store and measures checkpoints while tuples come in: how long
// nothing can be added, and how much is written for how much that came in.
//
// RunDrum measures check+update (section IV) by DRUM in the paper's form and with one addition after the other, and by the
// methods of package rivals, each in a process of its own whose memory, page cache included, is limited to 1.25 R + 64 MiB:
// speed, bytes on disk beside Theorems 1 and 2 at the k, r and M that were used, bits of a key, RAM, open files, and whether
// the answers are right. What the generator of links takes is left out: links are made in lots of a few pages, added by all
// goroutines at once, and the clock runs from the start of adding until the last has ended, and during passes; adding and
// passes take turns. The known keys are loaded before, at most with a time limit; the sync at the end counts.
//
// RunQueue measures package queue: appending, reading and both at once beside the bare disk's speed in the same run; many
// appenders, many queues and a calendar; bytes on disk of a queued URL. Every record read is compared with the one
// appended.
//
// RunCache measures the RAM cache in front of URLseen (section V): hit rates against size beside those of exact LRU,
// CLOCK and random replacement, by the method of Table IV, with the links of CacheStream or of a crawl's trace; keys per
// second and bytes per entry; and the structures of Table V, written for it.
//
// RunDecode measures the decoders of content codings on real pages: CPU of a page and allocations, ours beside
// klauspost's and the standard library's in turns; every page that comes out is compared with the one packed.
//
// RunStar sends links between PLDs and budget checks through package star in four cases of skew, and compares every in-degree
// on disk with what its generator counted, every budget with F.
//
// RunBeast crawls a virtual web, in virtual time, with STAR and BEAST on disk and with the two queues of section VII.A, and
// puts the bytes that a page takes beside Theorems 6 and 7; and measures the CPU of a URL from STAR's check to its queue.
//
// RunFetch measures package fetch beside net/http, fasthttp's client and a bare loop on connections, against FetchServer in a
// process of its own, so that getrusage counts the client alone; clients take turns. Or it opens thousands of slow exchanges at
// once and looks at what they take and leave behind.
//
// RunDNS looks up names through package dnscache and by other clients against a server in another process, whose names say
// what becomes of a question: an address at once, late or after a loss, aliases, no such name, a cut reply.
//
// RunURL makes canonical URLs of references, made ones by kind and those of real pages, with package weburl, net/url and a
// library of the URL standard in turns, compares the results, and measures the rest of a link's way to its tuple.
//
// RunStore puts pages of four kinds into WARC files by package warc, as a crawl does, beside gzip of level 6, and verifies all.
//
// RunParse finds the links of pages by package parse and by golang.org/x/net/html's tokenizer and tree in the same run, in CPU time of
// the one thread that parses, for corpora of real pages, generated ones and hostile shapes; and compares the links of every file with the tree's.
//
// # Departures from the paper
//
// The paper takes W as the mean of the read and the write speed of its RAID. So do we, and print the mixed
// speed beside it, which a disk with heads or with a shared channel doesn't reach by that mean.
// The paper reserves the space of all buckets before they are used; we measure with and without, and drum
// reserves some blocks at a time as files grow.
//
// The proofs of Theorems 6 and 7 let every PLD use up its budget in every queue. So does RunBeast's web: the first queue is
// full, and most links go to PLDs in proportion to their budgets; the rest goes to spammers. A stage is measured from one
// scan of QF to the next, as the proofs do.
//
// # Contract
//
// Disk.Bytes bounds what one measurement moves in a directory, and 1.5 times as much lies there at most, or
// twice as much with fio. Disk.Budget bounds the time, but for the start of fio.
// Files have names that nobody else has and are removed before RunDisk returns, also after an error and
// after a cancelled context; a killed process leaves files named drumbeat-bench-*. Speeds include the sync
// at the end. What is read through the page cache has been thrown out of it before; every block of 4 KiB is
// unlike all others, and when read is checked for being the one that was written there. The caches of a
// disk, of its controller, or of the host of a virtual machine can't be seen from here: a size well above
// theirs is the remedy.
//
// # Concurrency
//
// RunParse keeps its goroutine on one thread while it runs.
// RunDisk owns one goroutine for each directory of the group it measures, two while it reads and writes at
// once, and a process of fio where that is asked for; RunCheckpoint owns four that add; RunDrum
// one that reads what its child process says, and in the child as many as add; RunFetch those that fetch, and in the
// server's process one for each listener and connection; RunDNS one for each lookup in flight. All wait for them but that server, which ends with its process. Everything else is pure.
//
// # Memory
//
// RunDisk: two chunks for each directory, outside of the Go heap. RunDrum: little; its children R and the links of a lot. RunCheckpoint: BufferBytes. RunCache: 32 bytes an entry
// and CPU for hit rates, 200 an entry of Table V. RunParse: the samples, and one file. RunStar: Star.RAMBytes, and 20 bytes a PLD for the generator.
package bench
