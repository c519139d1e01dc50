// Package robots implements the robots exclusion protocol: the parser and matcher of robots.txt, the value
// that the disk table RobotsCache keeps for each origin, and the rules that derive a new value from the
// outcome of a robots request.
//
// The parser and matcher are the project's own because github.com/temoto/robotstxt, the usual library,
// deviates from the standard in the 20 ways listed below and fails much of Google's test suite. Nor can
// RobotsCache store its parsed form: it would have to be rebuilt for each URL, at 75 µs and 18 KB for 30
// rules, against about 100 ns for a match on the stored bytes. temoto still serves as a second opinion.
//
// All code here is stateless. Package crawl connects it to the tables and queues of the paper's section IV.C
// (RobotsCache, RobotsRequested, QR, QD).
//
// The paper only says that robots.txt is obeyed. The semantics are those of RFC 9309 and, where it is silent,
// of Google's published parser: parse.go has lines and groups, pattern.go comparison, outcome.go failures.
//
// # Spelling
//
// Rules and URLs are normalized before comparison (RFC 9309, 2.2.2): octets that a URL may not contain raw
// are percent-encoded, encoded unreserved characters (A-Z a-z 0-9 - . _ ~) are decoded, and other escapes
// get upper-case digits. Reserved characters stay as spelled, as in Google's parser, so "%2F" is not "/".
// Three more escapes are decoded: "%2A" and "%24", which a rule uses for a literal star or dollar (2.2.3),
// and "%27", because the WHATWG serialization of a query encodes the apostrophe. A rule's length is that of
// its normalized form.
//
// In the query of a URL the delimiters : / ? [ ] @ have no meaning, and the RFC's table has them encoded
// where the site wrote them raw. So a rule with such a delimiter after a "?" is compared with these
// delimiters decoded on both sides. Other rules are not: "/*%" matches escapes as spelled, "/*//" two raw
// slashes. Nor are the delimiters of the query itself (& = + ;) decoded, because they differ in meaning from
// their escapes.
//
// # Differences from Google's parser
//
// The RFC takes precedence: escaped unreserved characters are decoded (2.2.2; Google compares them as
// spelled), a URL that is not encoded is encoded (Google leaves this to the caller), and delimiters in a
// query may have either spelling. UTF-16 files with a byte order mark are read. The agent may be followed by
// "/" and a version. An agent that is not a product token because of digits or other letters ("bot2", "Löwe")
// is compared with the first word of a User-agent line, not with the token at the beginning of that word.
//
// # Differences from public suites
//
// Where test suites of other parsers contradict the RFC or Google's parser, this package follows the latter
// two. A User-agent line names one agent (crawler-commons and Nutch read all its words). A name must match
// whole, not as a prefix or substring (temoto, protego, old Heritrix). Lines that are not rules never end a
// group, whether Crawl-delay, Noindex or unknown (crawler-commons, protego, reppy and Nutch let them). Rules
// before the first User-agent line are ignored (not by reppy). A missing colon is tolerated (not by reppy).
// HTML around the lines is not removed (crawler-commons removes it). A large Crawl-delay is kept and is not
// a reason to avoid the site (crawler-commons). A final "$" and "*" do not also match literally, and a rule
// that begins with "http:" matches nothing (protego).
//
// # Limits
//
// A file is cut at MaxInput, a line at 16,663 bytes as in Google's parser, a pattern at MaxPattern, and a
// list at MaxRules and MaxEncoded bytes. Cutting a pattern or a list never allows more: Allow rules are
// dropped, and Disallow rules are shortened or replaced by one that covers them all. What a cut removes from
// a file or line does not exist, as in the RFC and Google's parser, except that an Allow rule with a
// wildcard in a cut line is dropped. Rules.Cut counts the cuts.
//
// # Signals
//
// Parse also keeps what the file says about the use of pages (Signals): Content-Signal, Content-Usage and License
// lines of the group in force, by the group rules of Crawl-delay, and the rules of AI bots that have groups of their
// own. A file without such lines costs no more than before. A Statement is what all of that means for one URL; the
// Summary of the URL carries it, so it survives crashes and needs no table of origins in RAM. It takes 28 bytes there
// for most URLs.
//
// # Reservations
//
// A tdmrep.json (Reservations) is requested after robots.txt if the crawl wants it (WantsReservations). It is part of
// the HostData, so it lasts as long as the answer about robots.txt, and a Statement has what it says about a URL.
//
// # github.com/temoto/robotstxt
//
// For a group without wildcards, passed as a clean file with Allow lines first, the library is right;
// SecondOpinion asks it. `explain robots` prints both verdicts, and a test compares them on random rules.
// Each of its deviations has a case in temoto_test.go: 1 a bad line invalidates the whole file; 2 wildcard
// patterns are not anchored at the start; 3 "#" without a space before it is not a comment; 4 a space before
// the colon loses the rule; 5 a group is chosen by prefix of the agent's name; 6 at equal length the first
// rule wins, not Allow; 7 the length of a wildcard rule is that of its regular expression; 8 spellings are
// not normalized; 9 "*" alone is ignored; 10 "$" inside a rule is an anchor; 11 Crawl-delay splits a group,
// misspelled names are unknown, a value ends at its first space; 12 429 allows everything; 13 the cost is
// unbounded: a 500 KiB file of wildcards takes seconds for each test; 14 the rules are not accessible; 15
// robots.txt itself is not always allowed; 16 a group without rules at the end of the file is ignored, so
// that the group for "*" applies; 17 a path without a leading slash gets one; 18 a NUL does not end a line,
// a partial byte order mark invalidates the file, UTF-16 is not read; 19 an allowed index.html does not
// allow its directory; 20 more than two words without a colon count as a record.
//
// # Concurrency, memory
//
// All functions are pure and safe for concurrent use. Match and Decode usually allocate nothing. An encoded
// rule list has at most MaxEncoded bytes, a HostData at most MaxMore more, a Summary at most MaxSummary; see
// docs/reference/files/robots.md. A verdict takes about 0.2 µs of CPU for 10 to 1,000 rules without wildcards, 0.6
// µs if 100 of 1,000 have wildcards, and 2 ms for the worst group within the limits and the longest URL
// (BenchmarkMatchRules, BenchmarkMatchHostile). A statement takes 0.2 µs, and 0.5 µs of a file with signals
// (BenchmarkStatement).
package robots
