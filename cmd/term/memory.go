package term

import "runtime/debug"

// LimitMemory has the runtime hold the heap, garbage included, below a size until restore is called. By default
// it would let the heap grow to twice of what is in use. The program itself takes some 25 MB more. A lower limit
// of the environment (GOMEMLIMIT) stays.
func LimitMemory(bytes int64) (restore func()) {
	before := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(before, bytes))
	return func() { debug.SetMemoryLimit(before) }
}
