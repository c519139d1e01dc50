//go:build !drumsafe

package disk

import "unsafe"

// aligned tells whether p, which isn't empty, begins at a multiple of DirectAlign in memory.
func aligned(p []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(p)))%DirectAlign == 0 }
