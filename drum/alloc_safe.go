//go:build drumsafe

package drum

import "sync/atomic"

// plain are the types that allocate takes.
type plain interface {
	entry | uint64 | uint32 | uint16
}

// allocate returns n zero values of the Go heap.
func allocate[T plain](n int) []T { return make([]T, n) }

func free[T plain](_ []T) {}

// atomicWords returns words of the Go heap, as many as b has room for.
func atomicWords(b []byte) []atomic.Uint64 { return make([]atomic.Uint64, len(b)/8) }
