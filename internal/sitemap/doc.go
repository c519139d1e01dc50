// Package sitemap reads sitemaps: the URLs that a site wants to be crawled, in the forms of the sitemaps.org protocol: urlset
// and sitemapindex, plain lists, RSS (0.9x, 1.0, 2.0) and Atom feeds, each as it is or packed by gzip. Bytes in, URLs out: what
// becomes of them is the crawl's business, whose rules of scope, ports, depth and budget hold for them as for any link.
//
// # What is taken
//
// The loc of each url and sitemap, the link of each item of RSS, the alternate link of each entry of Atom, each line of a list
// that begins with http:// or https://. Elements are known by their local names and their parents, whatever their namespace: the
// loc of an image or a video is none of ours. A list's lines that are no URLs are counted; a list that begins with
// one is no sitemap. Text is what XML says it is: predefined and numeric references, CDATA, comments left out, blanks
// at the ends trimmed.
//
// # What is refused
//
// A document type with declarations in it ends the reading: no entity but XML's own five is known, so none can grow. A document
// type without them is passed over; nothing outside of the document is ever read. A loc with an unknown reference
// is a fault, as is one longer than MaxLoc. Elements deeper than maxDepth, and a tag longer than maxTag, end the reading. Tags
// that don't match are forgiven.
//
// # Bounds
//
// 50,000 URLs and 50 MiB when unpacked, as the protocol says (Options may say less). What lies beyond isn't read; what was
// found before stands. At most two layers of gzip, each streamed: memory is some 100 KB, whatever comes. Time is linear in
// what is unpacked, 100 MB/s and more.
//
// # Encodings
//
// A byte order mark, then the Content-Type's charset, then the XML declaration, then UTF-8. UTF-16 is also known by its zeros.
// What isn't UTF-8 becomes U+FFFD where the encoding is known, and is left as it is in UTF-8: the URL standard percent-encodes it.
//
// The tokenizer is our own: encoding/xml takes ten to twenty times as long and allocates for each token (BenchmarkRead).
//
// All functions are safe for concurrent use.
package sitemap
