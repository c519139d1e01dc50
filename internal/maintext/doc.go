// Package maintext makes of an HTML page what an index of texts needs: its title, its visible text and of that the
// main text, and what its markup says about it (canonical URL, description, author, date, JSON-LD).
//
// # Main text
//
// The method is that of Kohlschütter, Fankhauser and Nejdl, "Boilerplate Detection using Shallow Text Features" (WSDM
// 2010): a page is a sequence of blocks, and the decision tree of their Algorithm 2 tells text from boilerplate by
// the number of words and the share of words in links, of a block and its two neighbours (boilerplate.go). It needs
// no tree, no styles and no training, and does not depend on the language.
//
// Departures: pages of today say more than those of 2009, so the content of nav, footer, aside, dialog, buttons
// and menus is boilerplate whatever its words are, and so is an element whose role, id or class is that of a
// navigation, an advertisement or a cookie banner (marks.go). A <br> does not end a block. A heading goes
// with what follows. A paragraph behind links resumes the text before them. In scripts without
// spaces between words, such as Chinese, Japanese and Thai, a word is taken to have 2 or 4 characters. Blocks
// known to be boilerplate are nobody's neighbours. If no block that is left has more than 16 words, the page has no
// text that stands out; then the main text is the whole text, and Doc.Whole says so.
//
// # Bounds
//
// Every sequence of bytes is a page; there are no errors but those of the reader, and a text node of 16 MiB. HTML
// reads MaxPage bytes, and takes up to four times the size of the page. Time is linear. Values of the head are cut
// at MaxValue bytes; JSON-LD that is not valid JSON or too large is dropped and counted. Its functions are safe for
// concurrent use, start no goroutines and keep no files. The paper has no counterpart.
package maintext
