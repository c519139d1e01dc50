//go:build drumsafe

package drum

// plain are the types that allocate takes.
type plain interface {
	entry | uint64 | uint32 | uint16
}

// allocate returns n zero values of the Go heap.
func allocate[T plain](n int) []T { return make([]T, n) }

func free[T plain](_ []T) {}

// atomicSets returns sets of the Go heap, as many as b has room for.
func atomicSets(b []byte) []slotSet { return make([]slotSet, len(b)/(8*setSlots)) }
