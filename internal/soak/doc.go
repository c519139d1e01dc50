// Package soak holds one test, TestSoak: it builds the command, crawls a synthetic web with it over sockets,
// and injects the faults that a crawl of months meets. It has no code of its own.
//
// Faults in random order kill, stop and suspend the process; exhaust descriptors, memory and disk space;
// remove, omit, move, swap or replace directories; and cut the network. After each fault an audit checks the
// directories, and at the end of each crawl its output is compared with the web's link graph: each URL once.
// Finally one process runs for long, and must not grow.
//
// The default length is 6 s, with each fault once; -soak sets another. From 1 min on, as root, the test
// mounts file systems of a given size, fills them up and unmounts them. The order of faults follows from
// -seed, which is printed:
//
//	go test ./internal/soak -v -soak 30m
//
// One goroutine injects the faults; each process has one that waits for it and one that samples its memory,
// descriptors and goroutines. The test needs the go command. Of our packages it imports those that serve the
// web, read WARC files and name the exit codes: it checks a crawl only from outside.
package soak
