// Package measure has the common parts of the benchmarks: clocks, the RAM of this process, temporary
// directories, and child processes, with an optional limit on their memory.
//
// # Child processes
//
// The measured code, or a server for it, often runs in a process of its own, so that getrusage counts it
// alone. Parent and child exchange lines of JSON. Run gives a child a job and gets progress and a result
// (the counterpart is Child). Start gives a child options, gets an answer when it serves, and may ask for
// its state until Close (the counterpart is Serve). A server ends when its input does, so it never outlives
// its parent.
//
// # Memory groups
//
// Limited runs a child in a memory cgroup of its own, whose limit includes the page cache. Benchmarks of
// stores need it, because otherwise the machine's free RAM would hold their files.
//
// The group is a child of this process's group, so that our limits hold for it too; its name is
// drumbeat-<pid>-<number>. With cgroup v1 this needs permission to write there, usually root. With v2 a group
// that has processes can't delegate controllers (except the root). Then the new group is a sibling of our
// own, but only if our own has no limit that the child would escape. If neither works, Limited starts nothing
// and returns an *UnavailableError with the reason; the caller decides whether to continue without a limit.
//
// The limit applies to the sum of anonymous memory, page cache and kernel memory. v1 limits the sum with
// swap to the same value, v2 forbids swap. If the kernel doesn't account for swap, Usage says so.
//
// The child is in the group from its first instruction. It is killed when our process dies. When Limited
// returns, the child has ended, all other processes of the group have been killed, and the group is
// removed. The next call removes groups that killed processes left behind.
//
// # Concurrency and memory
//
// Several goroutines may call Limited at the same time, each with its own Cmd. It occupies a goroutine and
// a thread for the life of the child: with v1 a thread enters the group during the fork, and the signal
// that kills an orphan is bound to the forking thread. A Server is for one goroutine. It keeps the last 4
// KiB of a child's stderr.
package measure
