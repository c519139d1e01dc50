// Package bug ends the process with the command's exit code for a bug where a goroutine panics that nobody looks after.
//
// Go ends it with status 2, which means a bad flag to who runs the command. Goroutines of crawl and dnscache end it by way of
// their Options.Panicked. This package is for the few goroutines and callbacks that have no such option at hand: those that read
// a log of drum's ahead, that write a trace, that end an exchange when its context does, that sweep idle connections, that take
// signals.
//
// # Contract
//
// The command sets once, before it starts a goroutine, what ends the process. A goroutine that nobody else looks after defers
// Fatal first, or behind what must not run when it panics. A panic whose place is the caller's, as that of a worker of drum, is
// handed to the caller instead, and one over bytes that a site sent is contained where they are read.
//
// # Concurrency
//
// Both functions may be called by any goroutine. Several may panic at once: what ends the process has to bear that.
//
// # Cost
//
// A deferred call; nothing is allocated.
package bug

import (
	"runtime/debug"
	"sync/atomic"
)

var end atomic.Pointer[func(value any, stack []byte)]

// EndBy sets what ends the process. Without it, as in tests, a panic goes on as it does in Go.
func EndBy(f func(value any, stack []byte)) { end.Store(&f) }

// Fatal is deferred first by a goroutine or a callback: its panic ends the process. Nothing is undone: to the files it is a
// kill -9.
func Fatal() {
	if p := recover(); p != nil {
		if f := end.Load(); f != nil {
			(*f)(p, debug.Stack())
		}
		panic(p)
	}
}
