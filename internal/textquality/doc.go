// Package textquality measures a text by the heuristics with which corpora for language models are filtered. It
// decides nothing: the numbers are columns of extract, and who makes a corpus sets the limits.
//
// # Sources
//
// "Gopher" is Rae et al., Scaling Language Models: Methods, Analysis & Insights from Training Gopher (2021), appendix
// A1: words, their mean length, symbols, bullets, ellipses, alphabetic words, stop words, and the repetition of lines
// and n-grams. "C4" is Raffel et al., Exploring the Limits of Transfer Learning (2020), section 2.2: lines that end
// with punctuation, curly brackets, lorem ipsum. "FineWeb" is Penedo et al., The FineWeb Datasets (2024), section 3.5:
// shares of lines that end with punctuation, are short or are repeated. The fields of Stats name theirs.
//
// # Definitions
//
// A word is what stands between spaces, with its punctuation; in scripts without spaces (pagetext.Unspaced) each
// character is one. A line is not empty. In the texts of extract each line is a paragraph, so the rules of Gopher for
// lines and paragraphs are the same ones. Lengths are in characters, and those of n-grams are without spaces, as a
// share of the characters of all words. Lists of stop words are those of Snowball, for the thirteen languages in
// stopwords.txt.
//
// # Cost
//
// BenchmarkMeasure has the cost of a page. A Meter keeps tables of at most 8 MiB for the largest text that it
// measured: n-grams are those of the first maxWords words.
package textquality
