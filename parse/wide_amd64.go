package parse

import "golang.org/x/sys/cpu"

// hasWide reports whether this processor has what skipWide needs.
func hasWide() bool {
	return cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPCLMULQDQ
}

// skipWide returns how far one can go from i, which is in text of HTML, without meeting anything that matters. It is the
// start of a tag, or in text less than wideBlock bytes before the end. wide.go says how. b and t are only looked at.
//
//go:noescape
func skipWide(b []byte, i int, t *wideTables) int

// quoteWide looks for a quotation mark from i on and returns where it stands, or a place less than 32 bytes before the end of b.
// special tells whether a byte before it is '&', NUL or CR, high whether one is above 0x7F. wide_other.go is its
// twin. b is only looked at.
//
//go:noescape
func quoteWide(b []byte, i int) (end int, special, high uint32)
