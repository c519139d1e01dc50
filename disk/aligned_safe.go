//go:build drumsafe

package disk

// aligned always returns false, since safe Go cannot see addresses: Direct then uses the page cache.
func aligned([]byte) bool { return false }
