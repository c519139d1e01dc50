// Package maintext makes of an HTML page what an index of texts needs: its title, its visible text and of that the
// main text, and what its markup says about it (canonical URL, description, author, date, JSON-LD).
//
// # Main text
//
// A page becomes a tree of elements and texts (tree.go), without the rules that HTML has for browsers where they do
// not matter here. Its text is a sequence of blocks, pieces between two tags that break lines (passage.go). A block is
// described by features of four kinds (choose.go): its own words, links and punctuation; the text and link density of
// the elements around it, as in Kohlschütter, Fankhauser and Nejdl, "Boilerplate Detection using Shallow Text
// Features" (WSDM 2010); the group of similar elements in which it stands, such as the posts of a forum; and the
// element with the most prose, as in Readability. The names, roles, ids and classes of elements add hints (marks.go).
// A logistic regression makes of these the probability that the block is main text, as in Peters and Lecocq, "Content
// Extraction Using Diverse Feature Sets" (WWW 2013). Its weights do not depend on the language.
//
// A page has one text, such as an article, or many, such as the items of a shop: the share of the likely text that is
// in the element with the most prose tells it. On a page with one text what is inside that element is more likely, and
// what is outside it less, teasers of other pages above all. Small tables of data and code are more likely than their
// short pieces look, and a copy of a longer text is left out.
//
// Main text is the most likely blocks, as many as give the highest F1 that the probabilities let expect: few on a page
// with an article, nearly all on a page of short items. A heading belongs to the main text behind it. Menus and cookie
// banners are left out in any case. If no block looks like main text, it is all but the title, and Doc.Whole says so.
//
// Pages that scripts make often have their text in <noscript>. It counts if it is longer than the rest.
//
// In scripts without spaces between words, such as Chinese, Japanese and Thai, a word is taken to have 2 or 4
// characters. bench/extract measures the result.
//
// # Markdown
//
// Doc.Markdown writes the main text with its structure (markdown.go). Its form does not depend on how the page is
// written, and what Markdown would interpret is escaped: a fuzz test reads it with another parser, which finds the
// words of the main text and no HTML.
//
// # Bounds
//
// Every sequence of bytes is a page; there are no errors but those of the reader, and a text node of 16 MiB. HTML
// reads MaxPage bytes and 2^19 elements and texts, which take 50 MiB. Time is linear. Values of the head are cut
// at MaxValue bytes; JSON-LD that is not valid JSON or too large is dropped and counted. Its functions are safe for
// concurrent use, start no goroutines and keep no files. The paper has no counterpart.
package maintext
