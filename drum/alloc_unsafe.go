//go:build !drumsafe

package drum

import (
	"unsafe"

	"drumbeat/disk"
)

// This file keeps numbers in memory outside the Go heap. alloc_safe.go is its portable form (build tag
// drumsafe).

// plain is the set of types that may live outside the heap: none contains pointers.
type plain interface {
	entry | uint64 | uint32 | uint16
}

// allocate returns n zero values, page aligned. free releases them.
func allocate[T plain](n int) []T {
	if n == 0 {
		return nil
	}
	var zero T
	b := disk.Alloc(n * int(unsafe.Sizeof(zero)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

func free[T plain](s []T) {
	if cap(s) == 0 {
		return
	}
	var zero T
	n := cap(s) * int(unsafe.Sizeof(zero))
	disk.Free(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s[:cap(s)]))), n))
}

// atomicBuckets returns b, page-aligned memory, as the buckets of a RAMCache.
func atomicBuckets(b []byte) []cuckooBucket {
	return unsafe.Slice((*cuckooBucket)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/cuckooBucketBytes)
}
