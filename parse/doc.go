// Package parse extracts from an HTML page what a crawler needs: its links, its base, its directives for
// robots and its encoding. An Extractor also turns the links into canonical URLs.
//
// The package has a scanner of its own because it is 12 to 17 times as fast as the tokenizer of
// golang.org/x/net/html on documentation pages and finds the same links (docs/how-it-works/benchmarks.md). Building
// tokens or a tree would cost more than all other work on a page. The scanner jumps from '<' to '<', reads
// attributes only of the few elements that matter, and copies a value only if it has a character reference,
// NUL or CR, or needs decoding. On processors with AVX2 it skips all other tags 64 bytes at a time
// (wide.go); tests compare both ways.
//
// The paper reports only the yield of its parser: 59 links per page on average, from pages of 25 kB (§VIII).
//
// # Links
//
// Links are href of <a> and <area>, src of <frame> and <iframe>, the target of <meta http-equiv=refresh>,
// and href of <link> with one of Options.Rels. The default types next, prev and canonical lead to pages of
// the site; alternate (feeds, other languages) and the rest (style sheets, icons) are optional. With
// Options.Forms, the action of a form with method get is a link, without any fields. In SVG, <a> with href
// or xlink:href is one.
//
// As in a browser without scripting, the content of <noscript> counts. The content of <template> counts too.
// As in any browser, the content of <script>, <style>, <title>, <textarea>, <iframe>, <noembed>, <noframes>,
// <xmp> and comments does not count, nor what follows <plaintext>. In a page of frames only <frame> is a
// link; in other pages it is not. The first <base href> applies to the whole page, including what precedes
// it.
//
// Of the response headers, EachLink reads Link, ParseRefresh reads Refresh, and ParseRobotsTag reads
// X-Robots-Tag. Of the types in rel, only nofollow asks robots not to follow a link. sponsored and ugc
// describe what a link is worth, as Google documents the three.
//
// # Parts of a page
//
// With Options.Assets, Link.Asset marks the parts of a page: src and srcset of <img> and <source>, src of
// <script>, <audio>, <video> (and poster), <track>, <embed> and <input type=image>, data of <object>, <link>
// of a type such as stylesheet, icon, preload or manifest, background of <body>, <table> and its parts, href
// of <image>, <feImage>, <use> and <script> in SVG, and url() and @import in <style>, style attributes and
// style sheets (ParseCSS). The scanner then reads every attribute of every tag. An empty reference or a mere
// fragment is not a part. Parts are also found on elements that the tree builder drops because of their
// position (<td> outside a table, a form within a form). In style sheets, strings outside url() and @import
// are ignored, for instance in image-set().
//
// # Contract
//
// Links come in source order, with repetitions. They are the links that the HTML standard's tree builder
// finds. Tests compare with golang.org/x/net/html (Reference, FuzzScanAgainstReference): 112,624 of 112,628
// HTML files of a machine's documentation agree, and the other four have over 50,000 links. Each remaining
// difference has a test in TestDifferences:
//   - The tree has a link twice if <a> is not closed where HTML closes and reopens it. A link or base in a
//     table but outside a cell precedes the table in the tree.
//   - Text in a <template> before <frameset> makes the scanner ignore the <frameset>, as in the standard but
//     not in x/net/html. White space after </html> restores an unclosed <a> of the dropped body in the tree.
//     A <style> before <col> in a <template> hides that <col> from the scanner, which then keeps links that
//     the tree drops.
//   - In SVG and MathML the scanner assumes that an HTML end tag (</div>) closes an element around them and
//     thus ends them; if there is no such element, the tree builder ignores the tag. </a> and </tr> are
//     exempt. </svg> and </foreignObject> count even if an HTML element inside is still open, and a <td>
//     inside them does not end the cell around them.
//   - In a script's comment, "<" before anything but a letter or '/' ends the comment, as in x/net/html; the
//     standard continues it.
//   - x/net/html rejects pages nested deeper than 512 elements. The scanner keeps only a stack of 32
//     elements for SVG and MathML.
//
// # Encoding
//
// The sources are, in order: the byte order mark, the Content-Type header, an XML declaration or tag in UTF-16 at
// the beginning, <meta> within the first 1024 bytes (the standard's prescan), an XML declaration, UTF-8 if the
// first 64 KiB are non-ASCII UTF-8, and windows-1252. Of a page with an XML type no <meta> counts, and it is UTF-8
// by default. If nothing named an encoding and a later <meta> does, the page is scanned again. In all
// encodings of the web except UTF-16 and ISO-2022-JP, markup is ASCII, so only attribute values are decoded;
// pages in these two are transcoded first. Page.Encoding is the encoding in which weburl encodes non-ASCII
// characters of queries.
//
// # Concurrency, memory, time
//
// A Parser or Extractor belongs to one goroutine. It starts no goroutines and writes no files. In the steady
// state it allocates nothing, except about 100 bytes for a decoder when the encoding changes from page to
// page. It holds at most MaxLinks * 32 bytes of links, 4 MiB of decoded links, the decoded robots metas
// (with Assets also the decoded style attributes) and, if the page had to be transcoded, its text, one and a
// half times the page. A Page retains about 2 MiB of this for the next page. Time is linear in the size of
// the page, whatever its content.
package parse
