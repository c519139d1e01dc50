//go:build drumsafe

package drum

// plain are the types that allocate takes.
type plain interface {
	entry | uint64 | uint32 | uint16
}

// allocate returns n zero values of the Go heap.
func allocate[T plain](n int) []T { return make([]T, n) }

func free[T plain](_ []T) {}

// atomicNests returns buckets of the Go heap, as many as b has room for.
func atomicNests(b []byte) []nest { return make([]nest, len(b)/nestBytes) }
