// Package parse finds what a crawler wants of an HTML page: its links, its base, its directives for robots
// and its encoding. An Extractor goes on to canonical URLs.
//
// The paper says nothing of its parser but what it yields: 59 links a page on average, from pages of 25 kB
// (§VIII). Building tokens or a tree costs more than all else that is done with a page, so this is a scanner
// over the bytes: it hops from '<' to '<', looks at attributes only of the few elements that matter, and
// copies a value only where a character reference, NUL, CR or the encoding asks for it. It is our own because it is 12 to 17 times as
// fast as the tokenizer of golang.org/x/net/html on documentation pages, and finds the same links (docs/BENCHMARKS.md). On processors with
// AVX2 it passes over all other tags 64 bytes at a time (wide.go); tests hold that against the scanner alone.
//
// # What is a link
//
// href of <a> and <area>, src of <frame> and <iframe>, the target of <meta http-equiv=refresh>, and href of
// <link> with one of Options.Rels: by default next, prev and canonical, which lead to pages of the site;
// alternate (feeds, other languages) and the rest (stylesheets, icons) by option. With Options.Forms, the action of a form whose method
// is get, to which nothing is added. In SVG, <a> with href or
// xlink:href. As in a browser without scripting, the content of <noscript> counts; as in any browser, that of
// <script>, <style>, <title>, <textarea>, <iframe>, <noembed>, <noframes>, <xmp>, comments and whatever
// follows <plaintext> doesn't. In a page of frames only <frame> is one; outside of it, it is none. The content of <template> counts too. The first <base href> is in force for
// the whole page, also before it.
//
// Of headers there are Link (EachLink), Refresh (ParseRefresh) and X-Robots-Tag (ParseRobotsTag). Of the types in rel, nofollow alone asks not to
// be followed: that a link is sponsored or by a user (ugc) says what it is worth, as Google documents the three.
//
// # Parts of a page
//
// With Options.Assets Link.Asset marks what a page consists of: src and srcset of <img> and <source>, src of <script>, <audio>, <video>
// (with its poster), <track>, <embed> and <input type=image>, data of <object>, <link> of a type like stylesheet, icon, preload or manifest,
// background of <body>, <table> and its parts, href of <image>, <feImage>, <use> and <script> in SVG, and url() and @import in <style>, in
// style attributes and in style sheets (ParseCSS). Then the scanner looks at every attribute of every tag. Neither an empty
// reference nor one of a fragment alone is a part. Of elements that the tree builder drops for their place (<td> in no table, a form in
// a form) the parts are found too. In style sheets, strings that are no url() aren't looked at, such as those of image-set().
//
// # Contract
//
// Links come in the order of the source, repeated ones too. They are the links that the HTML standard's tree
// builder finds; golang.org/x/net/html is what we compare with (Reference, FuzzScanAgainstReference, and
// 112,624 of 112,628 HTML files of a machine's documentation, the other four having over 50,000 links). The
// differences that are left, with a test each in TestDifferences:
//   - The tree holds a link twice if <a> isn't closed where HTML closes and reopens it; a link or a base that
//     stands in a table but in no cell comes before the table in the tree.
//   - Of <frameset>, text in a <template> before it forbids it here, as in the standard, and not in x/net/html; white space behind
//     </html> brings an unclosed <a> of the lost body back in the tree. Of <template>, a <style> before <col> hides that <col>
//     from the scanner, which then keeps links that the tree drops.
//   - In SVG and MathML, an HTML end tag (</div>) is taken for the end of an element around them, and so for
//     theirs; without such an element the tree builder ignores it. </a> and </tr> are not. </svg> and </foreignObject> count
//     where an HTML element inside is still open; a <td> in them doesn't end the cell around them.
//   - In a script's comment, "<" before anything but a letter or '/' ends the comment, as in x/net/html; the
//     standard goes on.
//   - x/net/html refuses pages nested deeper than 512 elements; the scanner keeps no stack but one of 32 for
//     SVG and MathML.
//
// # Encoding
//
// Byte order mark, then the Content-Type header, then <meta> within the first 1024 bytes (the standard's prescan), then UTF-8 if those
// bytes are such text, else windows-1252. A <meta> further down has the page read once more if it names another encoding and none of
// the first three had one. In all encodings of the web but UTF-16 and ISO-2022-JP markup is
// ASCII, so only attribute values are decoded; those two are transcoded before the scan. Page.Encoding is
// what a query with non-ASCII characters is encoded in by weburl.
//
// # Concurrency, memory, time
//
// A Parser or Extractor belongs to one goroutine. It owns none and writes no files. In steady state it
// allocates nothing, but some 100 bytes for a decoder where the encoding changes from page to page. It holds
// MaxLinks * 32 bytes at most, plus 4 MiB of decoded links and what robots metas decode to (with Assets also style attributes, once each), plus
// the text if the page had to be transcoded, one and a half times the page; a Page keeps some 2 MiB of it. Time is linear in the page, whatever the page.
package parse
