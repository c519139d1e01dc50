// Package testworld has the world of a crawl under test, for tests: webs in the process, flags, bubbles of virtual
// time, and checks of what a crawl leaves in its directories. It does not import package crawl, so that the tests
// inside crawl use it as well as those of the tools for a crawl at rest.
//
// Web is a web whose answers come from a function of the test: for one page, one header, one fault. SmallWeb returns
// a synthetic web (internal/simweb) that knows which URLs a correct crawl fetches. Both look up their own names and
// take connections without a network, so a crawl of them runs in a bubble: InBubble.
//
// The checks read the directories of a crawl that does not run: CheckBalanced audits the sum of all places,
// CheckStored compares the output with the web, Deep follows each key.
//
// Package crawl/crawltest, above crawl, has the options of crawls of these webs, and runs them.
//
// # Flags
//
// A test binary that imports this package has -long, -seed and -crawl.v. NotShort leaves a test out with -short;
// .ci/run finds the tests that call it, and runs them in a step of their own.
//
// # Resources
//
// A Web serves each connection in a goroutine of its own until the reply is written, and keeps every request that it
// received. No test of it needs more than some thousand. Its fields are set before the first connection.
package testworld
