// Package inflate decodes deflate streams (RFC 1951), raw or in gzip members (RFC 1952), from memory to
// memory.
//
// It replaces a library because it is 2.6 to 2.7 times as fast as the best one. A page of documentation
// (1998 pages, 27 KB on average) takes 27 µs of CPU, against 69 with klauspost/compress and 85 with the
// standard library in the same run, without allocations (docs/how-it-works/benchmarks.md).
// Gunzip was the largest single cost of a page.
//
// A crawler holds the whole compressed body and wants the whole page, so the decoder needs no window besides
// the output and no reader to fetch single bytes, and its fast loop can stay away from the ends of both
// buffers. Package fetch uses it for gzip, zlib and raw deflate. The paper, from 2007, has no counterpart.
//
// # Method
//
// The package has no unsafe code. Slices of constant length and capacity, arrays and masks leave few bounds
// checks: the same loop with unsafe pointers was less than 5 % faster.
//
// # Contract
//
// Decode delivers everything before a fault. It accepts what Go's standard library accepts, except that
// reserved flags in a gzip header are an error, as in github.com/klauspost/compress. A Huffman code must be
// complete; the exceptions are a single symbol with one bit, and an empty code that is not used. Names and
// comments in gzip headers have at most 511 bytes. No bytes may follow the last member.
//
// The package does not read zlib headers. They have two bytes, and fetch does not verify the checksum.
//
// # Hostile input
//
// The caller limits the size of the output, and there is no other memory. Time is linear in input and
// output. The most expensive input without output is a sequence of block headers: the smallest block with
// its own codes has 12 bytes, and its tables take 1.3 µs. 2 MiB of such blocks took 0.22 s; 8 MiB of zeros
// from 8 KiB took 2 ms. Decode never panics.
//
// # Concurrency and memory
//
// A Decoder belongs to one goroutine at a time. It holds 42 KiB and allocates nothing after that.
package inflate
