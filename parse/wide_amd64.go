package parse

import "golang.org/x/sys/cpu"

// hasWide reports whether the processor supports skipWide.
func hasWide() bool {
	return cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPCLMULQDQ
}

// skipWide returns how far the scanner may advance from i, which is in HTML text, without missing a relevant
// tag. The result is the start of a tag, or an index in text less than wideBlock bytes before the end.
// wide.go explains the method. skipWide only reads b and t.
//
//go:noescape
func skipWide(b []byte, i int, t *wideTables) int

// quoteWide searches b from i for a quotation mark. It returns its index, or an index less than 32 bytes
// before the end of b. special is non-zero if a byte before that index is '&', NUL or CR, high if one is
// above 0x7F. wide_other.go has the fallback. quoteWide only reads b.
//
//go:noescape
func quoteWide(b []byte, i int) (end int, special, high uint32)
