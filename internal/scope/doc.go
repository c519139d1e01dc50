// Package scope says which URLs a crawl may ask for: rules by host, pay-level domain (PLD), URL prefix, SURT prefix and
// regular expression, of which the first that matches wins; and blacklists of hosts, PLDs and networks. docs/RULES.md has
// the syntax for the person who writes the files.
//
// The IRLbot paper has none of this; Polybot's operators added sites that complained to a blacklist in the running crawl
// (Shkapenyuk and Suel, section 4), and Heritrix's SURT prefixes are what archives write their scopes in.
//
// # Matching
//
// A Set is compiled from all files of one kind. Rules are numbered in the order of the files and lines; a lookup returns
// the least number that matches. Names of hosts and PLDs lie in hash tables, prefixes in sorted lists, where each one knows
// the best rule of all that begin it, so that one binary search and a walk to the longest match answer for all of them;
// expressions are tried one by one, in order, and only those whose number could still win. A host with a dot at its end is
// the host without. What is the same for all URLs of an origin is in a Site, so that a caller who keeps it pays for a URL
// only where prefixes go on behind this origin's authority, or expressions are left.
//
// SURT (sort-friendly URI reordering transform) writes the labels of a host from the right: http://(org,example,www,)/path.
// The forms are Heritrix's: addresses aren't turned around, a port stands behind the last comma, "http://(" in a rule means
// https as well, a rule of this kind takes no notice of case, and it may end anywhere: "(org,example," is the host and all
// below it. Beyond Heritrix, "https://(" means https alone.
//
// A blacklist has host, pld and net rules. Names and addresses are judged apart: a "+ host" above doesn't open an address
// that a net rule below closes.
//
// # Bounds
//
// MaxBytes of text, MaxRules rules, MaxLineBytes a line, MaxRegexes expressions of MaxRegexBytes each. Expressions are RE2's
// (package regexp): time is linear in the URL, whatever the expression. Faults are reported all together, MaxFaults of them
// by line.
//
// # Concurrency, memory
//
// A Set is immutable and may be shared; a Site belongs to whoever keeps it, and to the Set that made it. No lookup allocates
// (regexp keeps machines of its own). A host or PLD rule takes 16 bytes, its name, and 11 to 21 bytes of hash table: some 50
// bytes of 10⁶ ordinary names; a prefix some 90 and its text twice; a network some 60. Stats.Bytes says what a Set takes.
// No goroutines, no files: the caller reads them.
package scope
