// Package measure has what benchmarks share: clocks, the RAM of this process, directories of their own, and
// child processes, with a limit on their memory where it is asked for.
//
// # Child processes
//
// What is measured, or what serves it, often lies in a process of its own, so that getrusage counts it
// alone. Parent and child speak lines of JSON. Run gives a child a job and gets progress and a result (its
// other end is Child); Start gives it options, gets an answer when it serves, and may ask for its state
// until Close (its other end is Serve). A server ends when its input does, so it never outlives its parent.
//
// # Memory groups
//
// Limited runs a child with a limit on its memory that counts the page cache: a memory cgroup of its own.
// Benchmarks of stores need it, as a machine's free RAM would else hold their files.
//
// The group is made below the one that this process is in, so that limits that hold for us hold for the
// child too; its name is drumbeat-<pid>-<number>. With cgroup v1 that needs the right to write there, as
// root has it. With v2 a group that has processes can't hand its controllers down (but for the root), so
// the group is made beside our own then, and only if our own has no limit that the child would escape.
// Where neither works, Limited says why in an *UnavailableError and has started nothing: the caller decides
// whether to go on without.
//
// The limit is for anonymous memory, page cache and the kernel's own together. Swap is limited to the same
// sum with v1 and forbidden with v2; where the kernel doesn't account for swap, Usage says so.
//
// The child is in the group from its first instruction. It is killed when the goroutine's process dies.
// When Limited returns, the child has ended, what else was in the group has been killed, and the group is
// gone; groups that killed processes left behind are removed by the next call.
//
// # Concurrency and memory
//
// Limited may be called by several goroutines at once, each with a Cmd of its own; it has a goroutine and a
// thread while the child lives, since with v1 a thread enters the group for the moment of the fork, and the
// signal that kills an orphan is bound to the thread that has forked. A Server is for one goroutine. Of
// what a child complains of 4 KiB are kept.
package measure
