// Package soak holds one test, TestSoak: it builds the command, crawls a synthetic web with it over sockets, and does to it
// what happens to a crawl that runs for months. It has no code of its own.
//
// In random turns the process is killed, stopped and frozen; descriptors, memory and disk run short; directories are
// missing, left out, moved, swapped or another crawl's; the network fails. After each turn the directories are audited, and
// at each crawl's end its output is compared with what the web's link graph says: each URL once. At last one process runs
// undisturbed, and must not grow.
//
// By default that takes 6 s, each turn once; -soak gives another length, and from 1 min on, as root, file systems of a given
// size are mounted, filled up and taken away. The order of turns follows from -seed, which is printed:
//
//	go test ./internal/soak -v -soak 30m
//
// One goroutine runs the turns; each process has one that waits for it and one that samples its memory, descriptors and
// goroutines. It needs the go command, and of our packages only those that serve the web and name the exit codes: what it
// checks it sees from outside.
package soak
