//go:build drumsafe

package disk

// aligned is the twin of that in aligned_unsafe.go: addresses can't be seen, so that Direct uses the page cache.
func aligned([]byte) bool { return false }
