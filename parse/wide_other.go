//go:build !amd64

package parse

// hasWide: there is no skipWide but for amd64.
func hasWide() bool { return false }

// skipWide goes nowhere: the scanner looks at every tag.
func skipWide(_ []byte, i int, _ *wideTables) int { return i }

// quoteWide finds nothing: its caller looks at every byte.
func quoteWide(_ []byte, i int) (end int, special, high uint32) { return i, 0, 0 }
