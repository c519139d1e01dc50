// Package urlrule rewrites and filters canonical URLs by rules of the operator. It removes session and
// tracking parameters, and refuses files that are not HTML by their name and URLs that look like a trap, a
// site that generates URLs without end.
//
// The paper uses URLseen for uniqueness (§IV) and budgets against traps (§VI, §VII.B); so does the crawler.
// These rules handle the cases that a single URL shows, and spare URLseen and the budgets that work.
//
// # Rewriting
//
// The steps are, in this order: remove parameters of the path (";jsessionid=…") and of the query by name,
// replace runs of slashes in the path by one slash, sort the parameters of the query by name. The rest
// keeps its bytes and, unless sorted, its order. A query that becomes empty loses its '?'. The result is
// canonical (package weburl), has the same origin and is not longer; rewriting it again changes nothing. A
// parameter stays if its removal would leave a "." or ".." segment.
//
// Rewriting happens before URLseen, so the rules define which URLs are the same. If the rules change
// between runs, a URL that was stored in another form may be fetched once more in the new form.
//
// # Judging
//
// A URL is refused for the extension of its last path segment, for the number of its path segments, for a
// segment that occurs too often in the path (a cycle repeats each of its segments), or for the number of its
// parameters. The command line has the defaults. They are based on the paths of 204,968 files of one machine:
// the deepest had 18 segments, 33 had a segment three times, none had one four times. Heritrix refuses two
// immediate repetitions and more than 20 segments; Nutch refuses the third occurrence of a segment.
//
// # Concurrency, memory
//
// Rules are immutable and safe for concurrent use. They take at most 16 KiB. Judge does not allocate;
// AppendRewritten does not if dst is large enough. The time is linear in the URL, sorting takes n log n.
// The package starts no goroutines and reads no files.
package urlrule
