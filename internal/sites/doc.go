// Package sites has settings that apply to some sites only: request headers, credentials, delays and the
// like. A rule names a site by a SURT prefix, a pay-level domain (PLD) or a host. docs/reference/sites.md describes
// the file for operators.
//
// The IRLbot paper treats all sites alike. Heritrix has sheets: sets of settings that override the crawl's,
// associated with SURT prefixes. This package has the same overlays, in one TOML file.
//
// # Matching
//
// Every rule is a SURT prefix that ends where a label, the authority, or the path's text ends. A PLD is the
// prefix "(org,example,": the domain and all below it. A host is "(org,example,www," and the end of the
// authority: every port. The rules that match a URL form a chain, each longer than the next. Each setting
// comes from the longest rule that has it. Parse resolves the chains, so a look-up finds one Site with all
// settings that apply.
//
// A look-up is one access to a hash table of hosts. If the host has no rule of its own, one access for each
// label follows, from the longest domain to the shortest. Rules with a path are in a sorted list for each
// host and port, and one binary search finds the longest. Rules for https alone make a second table.
//
// Settings that concern the connection, such as the delay, are refused in rules with a scheme, a port or a
// path, so all URLs of a host have the same.
//
// # Secrets
//
// The file contains no secrets. Where one is needed, the value is env:NAME or file:PATH, and Parse asks the
// caller for what it stands for. Errors, Describe and Site.String never contain a secret.
//
// # Bounds
//
// A file has at most MaxBytes and MaxRules rules; a rule has at most MaxHeaders headers of MaxHeaderBytes
// together. Parse reports all faults, the first MaxFaults with their lines. A fault of TOML's syntax ends
// the parsing.
//
// # Concurrency, memory
//
// A Set is immutable and safe for concurrent use. Look-ups do not allocate. A rule takes about 600 bytes
// and its texts, twice that if a rule is for https alone. Stats.Bytes has the size of a Set. The package
// starts no goroutines and reads no files.
package sites
