// Package sitemap reads sitemaps, in the forms of the sitemaps.org protocol: urlset and sitemapindex, plain
// lists, RSS (0.9x, 1.0, 2.0) and Atom feeds, plain or compressed with gzip. It returns the URLs; the crawl
// applies its rules of scope, ports, depth and budget to them as to any link.
//
// # Accepted input
//
// Read returns the loc of each url and sitemap, the link of each RSS item or else its guid, the alternate
// link of each Atom entry, and each line of a list that starts with http:// or https://. A guid counts if it
// is a URL and its isPermaLink is not false (RSS 2.0). Links in feeds may be relative, to xml:base and the
// feed (RFC 4287, 2). Elements are matched by local name and parent, whatever their namespace: the loc of an
// image or a video is ignored. If Options.Translations is set, an entry has the alternate links with hreflang of
// its url. In a list, other lines count as faults; a list whose first line is not a URL
// is no sitemap. Text follows XML: predefined and numeric references, CDATA, no comments. Blanks at both ends
// are trimmed.
//
// # Rejected input
//
// A document type with declarations ends the reading: the only entities are the five of XML, so none can
// expand. A document type without declarations is skipped. Nothing outside the document is ever read. A loc
// with an unknown reference, or longer than MaxLoc, is a fault. Elements deeper than maxDepth and tags
// longer than maxTag end the reading. End tags that don't match are tolerated.
//
// # Bounds
//
// The limits are 50,000 URLs and 50 MiB uncompressed, from the protocol; Options may lower them. The rest
// is not read; the URLs before it stay valid. At most two layers of gzip are accepted, both streamed.
// Memory is about 100 KB for any input. Time is linear in the uncompressed size, at 100 MB/s or more.
//
// # Encodings
//
// The encoding is, in this order: that of a byte order mark, of the charset in the Content-Type, of the XML
// declaration, UTF-8. UTF-16 is also detected by its zero bytes. If another encoding is declared, malformed
// bytes become U+FFFD. In UTF-8 they stay as they are: the URL standard percent-encodes them.
//
// The package has its own tokenizer: encoding/xml takes 10 to 20 times as long and allocates for each token
// (BenchmarkRead).
//
// All functions are safe for concurrent use.
package sitemap
