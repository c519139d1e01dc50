//go:build drumsafe

package drum

// plain is the set of element types of allocate.
type plain interface {
	entry | uint64 | uint32 | uint16
}

// allocate returns n zero values on the Go heap.
func allocate[T plain](n int) []T { return make([]T, n) }

func free[T plain](_ []T) {}

// atomicBuckets returns the buckets of a RAMCache on the Go heap, as many as fit into b.
func atomicBuckets(b []byte) []cuckooBucket { return make([]cuckooBucket, len(b)/cuckooBucketBytes) }
