// Package links provides streams of links for benchmarks: generated from a seed, or read from a file.
//
// # The generator
//
// A URL is a number, its id. Its key is a bijective mix of the id, so no two URLs share a key. Its text is
// a pure function of the id and the options, and no two ids share a text. URLs with ids below Options.Known
// are known before the first link; a new URL takes the next id of its lane.
//
// Pages have 59 links on average, the paper's l. A lane is a host that is being crawled: pages come from
// all lanes in round robin, as under politeness, and a lane keeps a host for 64 new URLs. A link is new
// with probability UniqueShare (p). Other links repeat a URL: the share Recent repeats one of the last URLs
// of the lane, or of another lane; the rest repeats any older URL of the same host, or any URL. LocalShare
// of them stay on the host.
//
// Hosts are in classes: class c has 2^c hosts and as many URLs as any other class, so the number of hosts
// with more than x URLs falls as 1/x. Each host has one of eight path templates, a few sections, and a
// unique name. Words come from a dictionary of 2048 words with a skewed distribution, made of syllables.
// Numbers are the URL's rank in its host, dates, or hexadecimal digits of entropy, as in session ids. The
// mean length is 111 bytes. In order of arrival s2 compresses the text 3.6:1 in blocks of 256 KiB and 3.8:1
// in blocks of 1 MiB (TestText measures it), and less in order of a hash.
//
// # Contract
//
// The same options give the same stream on every machine. Batch.Fresh is exact: it marks the first link to
// a URL.
//
// # Concurrency and memory
//
// A Stream, a Reader and a Batch are for one goroutine each; KnownKeys uses several while it runs. A Stream
// takes 50 KB. A Batch keeps its memory, so Next allocates nothing once the Batch is large enough. A Reader
// holds one line of at most 64 KiB.
package links
