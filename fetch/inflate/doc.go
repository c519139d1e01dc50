// Package inflate decodes deflate streams (RFC 1951), bare or in gzip members (RFC 1952), that lie in memory as a whole,
// into memory.
//
// That is how a crawler has them, and it makes the decoder simple and fast: no window besides the output, no reader to ask
// for a byte, and edges that can be kept away from. Package fetch uses it for what nearly all sites send. The paper, of
// 2007, has nothing of the kind.
//
// # How
//
// The means are those of the literature on fast inflating (zlib's tables of two levels, libdeflate's notes): bits are kept
// in a word of 64, filled by one load of 8 bytes; a table entry says all about a symbol, so that literals,
// lengths and distances take a lookup, a shift or two and an addition; up to three literals are decoded per fill; matches
// are copied by 16 bytes, beyond their end if need be; tables are built by counting, each symbol once, and grow by
// being copied. All that needs room before the edges of input and output. There, and where output comes to the end of what
// it has been given, a second loop goes symbol by symbol; it is also what the first is compared with in tests.
//
// It is our own because it is 2.6 to 2.7 times as fast as the best library: of 1998 pages of documentation, 27 KB on average, a page takes 27 us of CPU, 69 with the decoder of klauspost/compress and
// 85 with the standard library's in the same run, without allocations (go run ./bench/lab decode; docs/BENCHMARKS.md).
//
// There is no unsafe code. Slices of constant length and capacity, arrays and masks leave few checks: the same
// loop on bare pointers gained less than 5 %.
//
// # Contract
//
// Everything that could be decoded before a fault is delivered; the verdict is that of Go's standard library, except that
// reserved flags of a gzip header are a fault, as in github.com/klauspost/compress. Codes of symbols must be complete; one of
// a single symbol with one bit, and an empty one that isn't used, pass. Names and comments in gzip headers are at
// most 511 bytes long. Behind the last member nothing may follow.
//
// A zlib header isn't read here: it is two bytes, and fetch doesn't verify its checksum.
//
// # Hostile input
//
// The caller says how much is decoded at most, and there is no other memory. Time is linear in input and output: the
// most that input can do without giving output is begin blocks. The smallest block with codes of its own has 12 bytes, and its
// tables take 1.3 us: 2 MiB of such blocks took 0.22 s, 8 MiB of zeros from 8 KiB 2 ms. Decode never panics.
//
// # Concurrency and memory
//
// A Decoder belongs to one goroutine at a time and holds 42 KiB; nothing is allocated while it is used.
package inflate
