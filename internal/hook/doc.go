// Package hook runs programs that other people wrote and asks them about pages: whether to keep a page, which
// links to add, and what to store beside it. The paper has no such thing; focused crawls (Chakrabarti, van den
// Berg, Dom: "Focused Crawling", WWW 1999) are built on it.
//
// A Pool runs several processes of one command. Each gets a line of JSON a page on standard input and answers
// with a line on standard output; docs/reference/files/hook.md is the protocol, protocol.go its coding. A
// process has one request at a time. It begins with a greeting, in which it says which parts of a page it
// wants.
//
// Everything is bounded, because the programs are not ours. A line has at most MaxLine bytes, an answer at most
// MaxLinks links and MaxFields bytes of fields. A process that does not answer within Options.Timeout, that ends,
// or that does not keep to the protocol is killed with its process group, and another is started: at once if it
// has answered before, otherwise after a back-off that doubles up to maxRest. Lines on standard error go to the
// log, a few a second.
//
// The caller never depends on an answer. Ask returns within twice Options.Timeout: it waits at most so long for
// a process that is free, and at most so long for the answer. It does not wait at all while every process rests
// after failures. In each of these cases the caller continues as without a hook, and the Outcome says why.
//
// Processes end with this one, whatever ends it: standard input ends, and Linux kills them (Pdeathsig). Close
// closes their standard input, waits endGrace, and kills the rest. The package keeps no files. Its memory is one
// request and one answer a process, and a request for each caller that waits.
//
// All methods are safe for concurrent use. Each process has a goroutine that supervises it and two that read
// its output; one more goroutine starts all processes, because Linux ties Pdeathsig to the starting thread.
package hook
