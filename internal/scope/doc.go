// Package scope decides which URLs a crawl may request. A rule matches a host, a pay-level domain (PLD), a
// URL prefix, a SURT prefix or a regular expression; the first matching rule decides. A blacklist has rules
// for hosts, PLDs and networks. docs/reference/rules.md describes the syntax for operators.
//
// The IRLbot paper has none of this. Polybot's operators blacklisted sites that complained while the crawl
// was running (Shkapenyuk and Suel, section 4). Archives write their scopes as Heritrix's SURT prefixes.
//
// # Matching
//
// A Set is compiled from all files of one kind. Rules are numbered in the order of the files and lines. A
// lookup returns the smallest number that matches.
//
// Hosts and PLDs are in hash tables. Prefixes are in sorted lists; each prefix stores the best rule of all
// prefixes that it extends, so that one binary search and a walk to the longest match cover them all.
// Expressions are tried in order, and only those whose number is smaller than the best match so far. A host
// with a trailing dot equals the host without it.
//
// A Site holds what is the same for all URLs of an origin. With a cached Site, a URL costs a lookup only if
// prefixes extend the authority of the origin, or if expressions remain.
//
// SURT (sort-friendly URI reordering transform) reverses the labels of a host:
// http://(org,example,www,)/path. The forms are Heritrix's: an address is not reversed, a port follows the
// last comma, "http://(" in a rule also covers https, SURT rules ignore case, and a rule may end anywhere:
// "(org,example," is the host and all hosts below it. Beyond Heritrix, "https://(" covers https only.
//
// A blacklist has host, pld and net rules. Names and addresses are looked up separately: a "+ host" rule
// does not override a later net rule for an address of the host.
//
// # Bounds
//
// The limits are MaxBytes of text, MaxRules rules, MaxLineBytes a line, and MaxRegexes expressions of
// MaxRegexBytes each. Expressions use RE2 (package regexp): the time is linear in the length of the URL.
// Parse reports all faults, the first MaxFaults with their lines.
//
// # Concurrency, memory
//
// A Set is immutable and safe for concurrent use. A Site belongs to its holder, and is valid only for the
// Set that made it. Lookups do not allocate, except for the internal state of regexp. A host or PLD rule
// takes 16 bytes, its name, and 11 to 21 bytes of hash table: about 50 bytes with 10⁶ ordinary names. A
// prefix takes about 90 bytes plus its text twice; a network about 60. Stats.Bytes has the size of a Set.
// The package starts no goroutines and reads no files.
package scope
