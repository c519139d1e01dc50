//go:build !amd64

package parse

// hasWide returns false: skipWide exists only on amd64.
func hasWide() bool { return false }

// skipWide skips nothing, so the scanner examines every tag.
func skipWide(_ []byte, i int, _ *wideTables) int { return i }

// quoteWide finds nothing, so its caller examines every byte.
func quoteWide(_ []byte, i int) (end int, special, high uint32) { return i, 0, 0 }
