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
// # Differences from Google's parser
//
// Escaped unreserved characters are decoded (RFC 9309's table; Google compares them as spelled). UTF-16
// files with a byte order mark are read. A rule longer than MaxPattern is cut and keeps its weight, Google
// cuts lines at 16 KB.
//
// # Cutting
//
// Input is cut at MaxInput, a pattern at MaxPattern, a list at MaxRules and MaxEncoded bytes. Nothing that
// is cut ever allows more: Allow rules are dropped, Disallow rules shortened or replaced by one that covers
// them all. The input limit alone is different, as in the RFC: what lies beyond it does not exist.
// Rules.Cut counts each kind.
//
// # github.com/temoto/robotstxt
//
// That library is the project's robots parser by choice of its users, but its raw verdict is wrong on much
// of Google's test suite, and its form can't be stored in RobotsCache: it would have to be built anew for
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
// of it.
//
// # Concurrency, memory
//
// All functions are pure and safe for concurrent use. Match and Decode allocate nothing. An encoded rule
// list has at most MaxEncoded bytes, a HostData at most MaxHostData, a Summary at most MaxSummary. See
// docs/formats/robots.md.
package robots
