// Package weburl is everything drumbeat knows about a URL as a string of bytes: its one canonical spelling,
// how a reference on a page becomes one, its host and pay-level domain (PLD), its keys in the repositories,
// and the record in which it travels through the disk queues.
//
// # Canonical form
//
// A canonical URL is the href that the WHATWG URL standard gives for an http or https reference, without
// fragment, user name and password. So it starts with "http://" or "https://", the host is lower case, in
// punycode or a bracketed or dotted address, the default port is absent, the path is never empty, and every
// byte is in 0x21..0x7E. Two references name the same URL if and only if these bytes are equal: URLseen (§IV
// of the paper) compares nothing else.
//
// With Options.Fold, which a crawl has unless it is told to keep escapes, the canonical URL is that after FoldEscapes: percent-escapes
// have one spelling (RFC 3986, 6.2.2.1 and 6.2.2.2).
//
// A Resolver makes canonical URLs. Plain ASCII references, nearly all of the web's, take a path over bytes
// that allocates nothing; the rest goes through a full parser of the standard (nlnwa/whatwg-url, with
// x/net/idna for domain names). The fast path is our own because it takes 40 ns for a link of a page where net/url takes 677 (17
// times as long) and whatwg-url 3.2 us (docs/BENCHMARKS.md). Both give the same bytes for what the fast path accepts: FuzzStandard holds
// them against each other.
//
// # Conformance
//
// Every case of the web platform tests' urltestdata, toascii and percent-encoding files whose result is http or https, and
// of Unicode's IdnaTestV2, comes out of "drumbeat explain url" as they want it, but for these:
//   - A host over 255 bytes is ErrTooLong as a URL to be crawled (WHATWG has its href): the DNS carries no such name.
//   - Punycode in a name that is all ASCII isn't checked (xn--a stays xn--a), as the standard has had it since June 2026.
//     Copies of those files from before that want a failure.
//   - x/net/idna has the characters of Unicode 15.0. mapNewer adds what the mapping of older characters has gained up to
//     17.0; names with characters that are new since are ErrParse.
//   - Of other schemes, trailing blanks of an opaque path before '?' or '#' stay as they are in WHATWG's answer.
//
// Queries are in the page's encoding, by the encoders of the Encoding standard (transcode.go), which aren't x/text's.
// The public suffix list's own tests hold with its private section (NewSuffixes); without it, uk.com and the like are
// ordinary names.
//
// # Keys
//
// A Hasher turns URLs, hosts, origins and PLDs into 64-bit keys with SipHash-2-4 under a 128-bit secret of
// the crawl, one derived key per kind, so that a web page cannot aim at collisions and a URL's key says
// nothing about a host's. The paper uses a plain 64-bit hash. "Exact" means: n keys have n²/2⁶⁵ expected
// colliding pairs (0.03 at 1e9, 47 at 41e9).
//
// # PLD
//
// Suffixes answers "which PLD does this host belong to", the unit of budgets (§V). It is built from the
// public suffix list inside weppos/publicsuffix-go, ICANN section only unless asked, since the private
// section would give every user page of a hosting service its own budget. PLD keys are stored, so a crawl
// freezes the list: it keeps a copy (WriteTo, LoadSuffixes) and compares Digest.
//
// # Concurrency, memory, files
//
// Hasher and Suffixes are immutable and may be shared. Resolver, Base and Record belong to one goroutine at a
// time. A Resolver holds buffers of a few times its length limit; a Suffixes some 2 MB; the rest holds
// nothing. No goroutines, no files: the coding of Record is in format.go, as it is part of what the queues
// keep on disk.
package weburl
