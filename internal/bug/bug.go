// Package bug ends the process with the exit code for a bug when a goroutine panics and no other code
// handles the panic.
//
// By default Go exits with status 2, which the command uses for wrong flags. Most goroutines of crawl and
// dnscache use their Options.Panicked. This package is for the few goroutines and callbacks without such an
// option, for example the read-ahead of a drum's log, the writer of a link trace and the signal handler.
//
// # Contract
//
// The command calls EndBy once, before it starts a goroutine. A goroutine that needs this package defers
// Fatal first, or after deferred calls that must not run on a panic. A worker whose panic belongs to its
// caller, such as a worker of drum, passes it to the caller instead. A panic over bytes from a site is
// contained by their reader; see Contained.
//
// # Concurrency
//
// All functions are safe for concurrent use. Several goroutines may panic at once, so the function of EndBy
// must accept concurrent calls.
//
// # Cost
//
// A deferred call; no allocation.
package bug

import (
	"runtime/debug"
	"sync/atomic"
)

var end atomic.Pointer[func(value any, stack []byte)]

// EndBy sets the function that ends the process. Without it, as in tests, a panic continues as usual.
func EndBy(f func(value any, stack []byte)) { end.Store(&f) }

// Fatal ends the process on a panic; a goroutine or a callback defers it. Nothing is cleaned up: for the
// files it equals kill -9.
func Fatal() {
	if p := recover(); p != nil {
		if f := end.Load(); f != nil {
			(*f)(p, debug.Stack())
		}
		panic(p)
	}
}
