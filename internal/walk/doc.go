// Package walk samples the pages of a web by a random walk with jumps, and says how many pages each page of the sample
// stands for. It follows Henzinger, Heydon, Mitzenmacher and Najork, "On Near-Uniform URL Sampling" (WWW 2000).
//
// # The walk
//
// Many walkers walk at once. In each step a walker jumps with probability Options.Jump, otherwise it follows a link of
// its page, each with the same probability. A jump leads to a host, each with the same probability, and to a page with
// links of that host, again each with the same probability; only hosts and pages that have been visited count. A
// walker at a page without links jumps. All walkers start with a jump.
//
// A page is visited, and so fetched, once: its links are kept, and later steps from it need no request. The walk ends
// when so many URLs are visited as Options say, or after StepsPerURL times as many steps, or when its memory is full.
//
// # The correction
//
// A walk visits pages with many links to them more often, so its pages are no uniform sample. Henzinger's correction
// samples visited pages by the inverse of their PageRank, which stands for the probability of a visit; it holds for
// walks that are short beside the web, and their PageRank comes from the few pages visited. Here the probability is
// computed from what the walk did. If u has n links, one of them to v, and the walk followed links of u m times, then
// none of these steps led to v with probability (1-1/n)^m. So v is visited with
//
//	chance(v) = 1 - product over all visited u with a link to v of (1-1/n_u)^m_u
//
// as jumps lead to visited pages only. Weights of 1/chance make the pages a sample of all URLs seen (Horvitz and
// Thompson, 1952). What is left is that pages with few links are not even seen. How many these are is estimated from
// the pages with one link and with two links from visited pages (Chao, 1984), and the former stand for them:
// their weights grow by 1 + f1/(2 f2), f1 and f2 being the weights of all pages of either kind.
//
// TestUniform compares this with Henzinger's and other corrections, in docs/BENCHMARKS.md; the remaining error shrinks
// as the walk sees more of the web. On a web of which it sees a small part, pages with few links stay too rare.
//
// # Contract, memory, files
//
// A Walk does no I/O and starts no goroutine; it is for one goroutine at a time. The same calls with the same Options
// give the same walk. Its size is about 150 bytes and the URL for each URL seen, and 4 bytes for each link of a visited
// page; it stays within Options.Bytes and one page.
//
// What changes goes to a log, whose records TakeLog hands out (docs/formats/walk.md): a URL that is seen takes 17 bytes
// and its text, once; a visit about 8 bytes, and one to four for each link, once; a step two to six bytes. So the log grows
// with what was seen and with the steps, of which there are at most StepsPerURL for each URL to be visited, and no part of it
// is ever written again. Freeze copies what it does not have: the walkers, 8 bytes each, some 80 KB at most. A Loader
// makes the walk of both again, in memory: what comes then is what would have come after Freeze.
package walk
