// Package weburl handles URLs as byte strings: their canonical form, the resolution of references on a page,
// host and pay-level domain (PLD), the keys in the repositories, and the record that carries a URL through
// the disk queues.
//
// The resolver has a fast path of its own because it takes 40 ns for a link of a page, against 677 ns with
// net/url (17 times as long) and 3.2 µs with nlnwa/whatwg-url (docs/how-it-works/benchmarks.md). It handles
// plain ASCII references, nearly all of the web's, byte by byte and without allocation. The rest goes through
// a full implementation of the standard, with x/net/idna for domain names. Both give the same bytes for what
// the fast path accepts; FuzzStandard compares them with nlnwa/whatwg-url.
//
// # Canonical form
//
// A canonical URL is the href that the WHATWG URL standard defines for an http or https reference, without
// fragment, user name and password. So it starts with "http://" or "https://", its host is in lower case and
// either in punycode or a bracketed or dotted address, the default port is absent, the path is not empty,
// and every byte is in 0x21..0x7E. Two references name the same URL if and only if these bytes are equal:
// URLseen (§IV of the paper) compares nothing else.
//
// With Options.Fold, the default for crawls, the canonical URL is the result of FoldEscapes, which
// normalizes percent-escapes (RFC 3986, 6.2.2.1 and 6.2.2.2).
//
// # Conformance
//
// "drumbeat explain url" passes every case of the web platform tests' urltestdata, toascii and
// percent-encoding files whose result is http or https, and of Unicode's IdnaTestV2, with these exceptions:
//   - A host over 255 bytes is ErrTooLong as a URL to crawl, because the DNS has no such name. WHATWG gives
//     an href.
//   - Punycode in an all-ASCII name is not validated (xn--a stays xn--a), as in the standard since June
//     2026. Older copies of the test files expect a failure.
//   - x/net/idna has the characters of Unicode 15.0. mapNewer adds the new mappings of older characters up
//     to 17.0. Names with characters added since 15.0 are ErrParse.
//   - In other schemes, blanks before '?' or '#' at the end of an opaque path stay unchanged in the result
//     of WHATWG.
//
// Queries are in the page's encoding, encoded as the Encoding standard specifies (transcode.go), which
// differs from x/text. With its private section (NewSuffixes) the public suffix list passes its own tests;
// without it, uk.com and the like are ordinary names.
//
// # Keys
//
// A Hasher maps URLs, hosts, origins and PLDs to 64-bit keys by SipHash-2-4 under a 128-bit secret of the
// crawl, with a derived key for each kind. So a web page cannot provoke collisions, and a URL's key reveals
// nothing about a host's. The paper uses a plain 64-bit hash. n keys have n²/2⁶⁵ expected colliding pairs
// (0.03 at 1e9, 47 at 41e9).
//
// # PLD
//
// Suffixes determines the PLD of a host, the unit of budgets (§V). It uses the public suffix list in
// weppos/publicsuffix-go, by default only the ICANN section: with the private section, every user page of a
// hosting service would have its own budget. PLD keys are stored, so a crawl freezes the list: it keeps a
// copy (WriteTo, LoadSuffixes) and compares Digest.
//
// # Concurrency, memory, files
//
// Hasher and Suffixes are immutable and may be shared. A Resolver, Base or Record belongs to one goroutine
// at a time. A Resolver holds buffers of a few times its length limit, a Suffixes about 2 MB. The package
// has no goroutines and no files. format.go has the coding of Record, which the queues keep on disk.
package weburl
