// Package links makes streams of links for benchmarks: one like a crawl's from a seed, or the lines of a
// file.
//
// # The generator
//
// A URL is a number, its id. Its key is a bijective mix of the id, so no two URLs share a key and whoever
// knows the id knows the truth; its text is a pure function of the id and the options, and no two ids share
// a text either. URLs with the ids below Options.Known are known before the first link; a new URL takes the
// next id of its lane.
//
// Pages have 59 links on average, the paper's l. A lane is a host being crawled: pages come from the lanes
// in turn, as politeness has it, and a lane stays with a host for 64 new URLs. A link is new with
// probability UniqueShare (p). Others repeat a URL: Recent of them one of the last few that the lane, or
// another lane, has issued; the rest any URL of the same host's earlier times, or any URL at all.
// LocalShare of them stay on the host.
//
// Hosts are in classes: class c has 2^c hosts and as many URLs as any other class, so the number of hosts
// with more than x URLs falls as 1/x. Each host has one of eight templates of paths, a few sections, and a
// name of its own; words come from a dictionary of 2048 with a skewed distribution, made of syllables;
// numbers are the URL's rank in its host, dates, or hexadecimal digits of entropy, as in session ids. Mean
// length is 111 bytes; s2 compresses blocks of 256 KiB of the text 3.6:1 in order of arrival, of 1 MiB
// 3.8:1 (TestText measures it), and less when a hash has scattered it.
//
// # Contract
//
// The same options give the same stream, on every machine. Batch.Fresh is the truth: the link is the first
// to its URL.
//
// # Concurrency and memory
//
// A Stream, a Reader and a Batch belong to one goroutine each; KnownKeys has several of its own while it
// runs. A Stream has 50 KB; a Batch what its links take, which is kept: Next allocates nothing once the
// Batch has had its size. A Reader holds a line of at most 64 KiB.
package links
