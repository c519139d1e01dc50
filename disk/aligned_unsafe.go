//go:build !drumsafe

package disk

import "unsafe"

// aligned reports whether p, which must not be empty, starts at a multiple of DirectAlign in memory.
func aligned(p []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(p)))%DirectAlign == 0 }
