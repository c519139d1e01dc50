// Package deflate compresses buffers into deflate streams (RFC 1951). Package warc uses it at its default
// level for bodies that came uncompressed.
//
// Such a body is the largest cost of storing a page. It is our own code because it takes 0.6 of the CPU of
// the fastest level of the best library: for 30 KB of HTML 48 µs, against 80 with level 1 of
// klauspost/compress, at ratios of 5.60 and 5.46. Two forms of that library promise less CPU or memory.
// Huffman codes without matches (level -2) take 51 µs at a ratio of 1.60, the stateless form 93 µs at 5.32.
// The standard library's level 1 takes 142 µs at 5.42
// (docs/how-it-works/benchmarks.md). The paper has no counterpart.
//
// # Method
//
// A body is complete in memory. So the encoder needs no window besides the input, and no state between
// calls. It encodes blocks of 65,535 bytes in three steps.
//
// Matches (match.go): a hash of 6 bytes finds their most recent occurrence. The table has 8,192 positions, so
// that it stays in the first-level cache. A match has 4 bytes or more and is taken at once; there are no
// chains and no lazy matches. After 128 bytes without a match the search begins to skip positions.
//
// Tokens: a token is two halves of 32 bits, either a length and a distance, or two literals. A half is an
// index into one table of codes, plus the extra bits of a distance. The loop that writes them has no
// branches besides its end.
//
// Codes (huffman.go, table.go): Huffman codes of limited length from the frequencies in the block. The sizes
// of the dynamic, fixed and stored form are computed before a bit is written, and the smallest is written.
//
// The package has no unsafe code.
//
// # Contract
//
// The output depends only on the input. Every output is a valid stream whose Huffman codes are complete,
// because some decoders reject others. Incompressible input grows by 5 bytes for each block, and 1. The
// input may have any length; no match crosses a multiple of 16,776,960 bytes.
//
// There are no levels, no dictionaries, no writer for input in parts (Blocks joins texts, without matches
// between them), and no checksums.
//
// # Hostile input
//
// Each position is compared with one other, so time is linear in the input. The most expensive inputs found
// are random sequences of words of 4 and 6 bytes, at 310 MB/s. Random bytes take 1,030 MB/s, and zeros 6,160.
//
// # Concurrency and memory
//
// An Encoder belongs to one goroutine at a time. It holds 305 KiB and allocates nothing besides the output.
package deflate
