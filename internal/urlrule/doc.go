// Package urlrule rewrites and judges canonical URLs by rules of the operator's: parameters of sessions and of advertising
// are taken off, files that are no HTML by their names are left out, and so is what looks like a trap, a site that makes
// new URLs without end.
//
// The paper relies on URLseen for uniqueness (§IV) and on budgets against traps (§VI, §VII.B); both stay. The rules spare
// URLseen and the budgets what can be told from the bytes of one URL.
//
// # Rewriting
//
// In this order: parameters of the path (";jsessionid=…") and of the query are removed by name, runs of slashes in the path
// become one, the query's parameters are sorted by name. What stays keeps its bytes and, but for sorting, its order. A
// query that is empty afterwards loses its '?'. The result is canonical (package weburl), never longer, has the same origin, and
// is its own rewriting. A parameter stays where its removal would leave a "." or ".." segment.
//
// Rewriting comes before URLseen, so it is part of what a crawl takes for the same URL. Rules may change from one run to the
// next: URLs known under another spelling stay known under it, and may be fetched once more under the new one.
//
// # Judging
//
// A URL is refused for the extension of its last path segment, for its number of path segments, for a segment that
// the path has more than so many times (a cycle of segments repeats each of its own), or for its number of parameters.
// Defaults are the command line's. Of 204,968 files on a machine, their paths taken for URLs', the deepest had 18 segments, 33 had
// one three times, none four times. Heritrix refuses two immediate repetitions and 20 segments, Nutch a segment's third one.
//
// # Concurrency, memory
//
// Rules are immutable and may be shared. They take 16 KiB at most. Neither Judge nor AppendRewritten allocates, the latter
// once dst is large enough; they take linear time, sorting n log n. No goroutines, no files.
package urlrule
