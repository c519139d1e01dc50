// Package hook is a room of the running crawl: it asks a program of the operator (package internal/hook)
// about each page, and applies the answer to the links of the page. The paper has no hook;
// docs/reference/files/hook.md has the protocol.
//
// # Contract
//
// The room asks the hook about a page between parsing and storing, before the page's transaction. The answer is part
// of that transaction, so a checkpoint has all of it or nothing. After a crash, the crawl fetches an unfinished page
// again and repeats the question.
//
// # Concurrency
//
// A page that waits for the hook keeps its reader. Beside the readers for parsing there is one for each process of the
// hook, so a slow hook does not stop parsing. Further pages wait for a reader and keep their connections, as they do
// without a hook; this slows the fetchers down.
//
// # Memory and disk
//
// The function RAM returns the bound of the heap for requests, answers and readers. The room touches no disk.
//
// # Files
//
// hook.go: Open starts the program, Ask asks it, RAM and Procs bound it.
package hook
