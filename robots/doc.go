// Package robots holds what drumbeat knows of a site's wishes: the parser and matcher of robots.txt, the
// value that the disk table RobotsCache keeps for each origin, and the rule which says what the outcome of
// a robots request means. Everything here is stateless: bytes in, bytes or a verdict out. The tables and
// queues of the paper's section VI-C (RobotsCache, RobotsRequested, QR, QD) are wired by package crawl.
//
// The paper only says that robots.txt is obeyed; the semantics are those of RFC 9309 and, where it is
// silent, of Google's published parser: see parse.go for lines and groups, pattern.go for comparison,
// outcome.go for failures.
//
// # Spelling
//
// Rule and URL are brought to one spelling before they are compared (RFC 9309, 2.2.2): octets that may not
// stand raw in a URL are percent-encoded, an encoded unreserved character (A-Z a-z 0-9 - . _ ~) is decoded,
// other escapes get upper-case digits. Reserved characters stay as they are spelled, as in Google's parser,
// so "%2F" is not "/"; three are decoded: "%2A" and "%24", which is how a rule names a literal star or
// dollar (2.2.3), and "%27", since the WHATWG serialisation of a query encodes the apostrophe. A rule's
// length is counted after this.
//
// In the query of a URL the delimiters of URLs (: / ? [ ] @) mean nothing, and the RFC's table has them encoded
// where the site wrote them raw. So a rule that names one behind a "?" is compared with both sides' decoded. Other rules
// aren't ("/*%" means what has an escape as it stands, "/*//" two raw slashes), nor are delimiters of the query itself
// (& = + ;), which differ from their escapes.
//
// # Differences from Google's parser
//
// The RFC comes first: escaped unreserved characters are decoded (2.2.2; Google compares them as spelled), a URL
// that isn't encoded yet is encoded (Google leaves that to the caller), the delimiters that a rule
// names in a query may be spelled either way.
// UTF-16 files with a byte order mark are read. The agent may be followed by "/" and a version; one that is no
// product token because of digits or other letters ("bot2", "Löwe") is compared with the first word of a
// User-agent line, not with the beginning of that word that could be a token.
//
// # Differences from public suites
//
// Where test suites of other parsers contradict the RFC or Google's parser, those two are followed: one User-agent line
// names one agent (crawler-commons and Nutch read all words of it); a name is matched whole, not as a prefix or a part of
// it (temoto, protego, old Heritrix); records that are no rules never end a group, be it Crawl-delay, Noindex or an unknown
// one (crawler-commons, protego, reppy and Nutch let them end it); rules before the first User-agent line don't count
// (reppy); a missing colon is forgiven (not by reppy); HTML around the lines isn't removed (crawler-commons); a large
// Crawl-delay is kept, not a reason to leave the site alone (crawler-commons); "$" at the end and "*" don't stand for
// themselves as well, and a rule that begins with "http:" matches nothing (protego).
//
// # Cutting
//
// Input is cut at MaxInput, a line at 16,663 bytes as in Google's parser, a pattern at MaxPattern, a list at MaxRules
// and MaxEncoded bytes. Nothing that is cut in the last two ever allows more: Allow rules are dropped, Disallow rules
// shortened or replaced by one that covers them all. The first two are as in the RFC and in Google's parser: what lies
// beyond them does not exist; but an Allow rule with a wildcard in a line that is cut is dropped. Rules.Cut counts.
//
// # github.com/temoto/robotstxt
//
// That library is the project's robots parser by choice of its users, but parser and matcher are our own: its raw verdict deviates in
// 20 ways, is wrong on much of Google's test suite, and its form can't be stored in RobotsCache: it would have to be built anew for
// each URL (75 µs and 18 KB for 30 rules, against some 100 ns for a match on the stored bytes). So it is
// the second opinion: on a group without wildcards, handed over as a clean file with Allow lines first, it
// is right, and SecondOpinion asks it. `explain robots` prints both, and a test holds them equal on random
// rules. Its deviations, each with a case in temoto_test.go: 1 a bad line fails the whole file; 2 wildcard
// patterns aren't anchored at the start; 3 "#" without a space before it is no comment; 4 a space before
// the colon loses the rule; 5 a group is chosen by prefix of the agent's name; 6 at equal length the first
// rule wins, not Allow; 7 the length of a wildcard rule is that of its regular expression; 8 spellings
// aren't normalised; 9 "*" alone is ignored; 10 "$" inside a rule is an anchor; 11 Crawl-delay splits a
// group, typing errors of names are not known, a value ends at its first space; 12 429 means allow all; 13
// cost isn't bounded: a 500 KiB file of wildcards takes seconds for each test; 14 rules can't be taken out
// of it; 15 robots.txt itself isn't always allowed; 16 a group without rules at the end of the file is none, so that
// the one for "*" counts; 17 a path without a slash at its beginning gets one; 18 a NUL ends no line, part of a byte order
// mark fails the file, UTF-16 isn't read; 19 an allowed index.html doesn't allow its directory; 20 more than two words without
// a colon are taken for a record.
//
// # Concurrency, memory
//
// All functions are pure and safe for concurrent use. Match and Decode allocate nothing as a rule. An encoded rule
// list has at most MaxEncoded bytes, a HostData at most 256 more, a Summary at most MaxSummary. See
// docs/formats/robots.md. A verdict costs some 0.2 µs of CPU for 10 to 1,000 rules without wildcards, 0.6 µs if 100 of
// 1,000 have them; the worst group within the limits and the longest URL, 2 ms (BenchmarkMatchRules, BenchmarkMatchHostile).
package robots
