package term

import "runtime/debug"

// LimitMemory has the runtime hold the heap, garbage included, below a size until restore is called. By default
// it would let the heap grow to twice of what is in use. HeapBytes returns what --ram leaves for it. A lower
// limit of the environment (GOMEMLIMIT) stays.
func LimitMemory(bytes int64) (restore func()) {
	before := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(before, bytes))
	return func() { debug.SetMemoryLimit(before) }
}

// programBytes is what the process takes beside the heap (26 MB of its own code), and by how much the heap passes its
// limit before the garbage collector is done (up to 20 MB while two workers read pages with 50,000 links).
const programBytes = 48 << 20

// HeapBytes returns how much of --ram is for the heap. Below twice programBytes it is half: then the process may
// take more than --ram.
func HeapBytes(ram int64) int64 { return max(ram-programBytes, ram/2) }
