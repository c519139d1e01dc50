// Package crawltest runs crawls for the tests of other packages: those of the tools for a crawl at rest need
// crawls that have ended, stopped, or broken off.
//
// SimOptions and WebOptions return the options of a small crawl of a web of package crawl/testworld; a test changes
// what matters to it, and runs the crawl with MustRun inside a bubble (testworld.InBubble). StoppedCrawl returns
// directories with URLs in many places.
//
// Tests inside package crawl cannot import this package, because it imports crawl. They have the same functions: the
// external tests of crawl hand them over, by crawl.SetHarness.
//
// # Contract
//
// A crawl's file system is the test's own, usually memfs, so directories are read, copied and damaged without files.
// The options name directories d0 and d1 in it. No test asserts wall-clock times: in a bubble, time is virtual.
//
// # Resources
//
// The options bound a crawl to 128 MiB of RAM and 64 or 200 connections; a crawl of SmallWeb takes some 0.3 s of CPU.
package crawltest
