// Package walk samples the pages of a web by a random walk with jumps, and weights each page of the sample by
// the number of pages that it represents. It follows Henzinger, Heydon, Mitzenmacher and Najork, "On
// Near-Uniform URL Sampling" (WWW 2000).
//
// # The walk
//
// Many walkers walk at once. In each step a walker jumps with probability Options.Jump, otherwise it follows
// a random link of its page. A jump leads to a random visited host, and there to a random visited page with
// links. All choices are uniform. A walker at a page without links jumps. All walkers start with a jump.
//
// A page is visited, and so fetched, once: its links are kept, and later steps from it need no request. The
// walk ends after Options.URLs visited URLs, or after StepsPerURL times as many steps, or when its memory is
// full.
//
// # The correction
//
// A walk visits pages with many links to them more often, so its pages are no uniform sample. Henzinger's
// correction samples visited pages by the inverse of their PageRank, which stands for the probability of a
// visit; it holds for walks that are short relative to the web, and their PageRank comes from the few visited
// pages. Here the probability is computed from the steps of the walk. If u has n links, one of them to v, and
// the walk followed links of u m times, then none of these steps led to v with probability (1-1/n)^m. So v is
// visited with
//
//	chance(v) = 1 - product over all visited u with a link to v of (1-1/n_u)^m_u
//
// as jumps lead to visited pages only. Weights of 1/chance make the pages a sample of all URLs seen (Horvitz
// and Thompson, 1952). Pages with few links may remain unseen. Their number is estimated from the pages with
// one link and with two links from visited pages (Chao, 1984), and the former represent them: their weights
// grow by 1 + f1/(2 f2), where f1 and f2 are the weights of all pages of either kind.
//
// TestUniform compares this with Henzinger's and other corrections, in docs/how-it-works/benchmarks.md; the remaining
// error shrinks as the walk sees more of the web. If it sees only a small part of the web, pages with few
// links stay too rare.
//
// # Several nodes
//
// A walk may have a part at each of several nodes; walkers go from one to another (nodes.go).
//
// # Contract, memory, files
//
// A Walk does no I/O and starts no goroutine; it is for one goroutine at a time. The same calls with the same Options
// give the same walk. Its size is about 150 bytes and the URL for each URL seen, and 4 bytes for each link of a visited
// page; it stays within Options.Bytes and one page.
//
// Changes go to a log, whose records TakeLog returns (docs/reference/files/walk.md): 17 bytes and the text for each
// seen URL, once; about 8 bytes for a visit, and one to four for each link, once; two to six bytes for a
// step. So the log grows with the seen URLs and with the steps, at most StepsPerURL for each URL to be
// visited. No part of it is ever rewritten. Freeze copies the rest of the state: the walkers, 8 bytes each,
// some 80 KB at most. A Loader rebuilds the walk from both, in memory; it continues exactly as after Freeze.
package walk
