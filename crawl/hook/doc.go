// Package hook is a room of the running crawl: it asks a program of the operator (package internal/hook) about
// each page, and applies to the links of the page what the program says.
//
// # Contract
//
// A hook is asked about a page between parsing and storing, before the page's transaction: what it answers is part
// of that transaction, so a checkpoint has all of it or nothing, and a page that a crash interrupts is fetched and
// asked about again.
//
// # Concurrency
//
// A page that waits keeps its reader. There is one for each process of the hook besides those for parsing, so that a
// hook that thinks long does not keep pages from being parsed. All others wait for a reader as without a hook, with
// their connections, which slows the fetchers down.
//
// # Memory and disk
//
// RAM bounds what requests and answers take. The room touches no disk.
package hook
