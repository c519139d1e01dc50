// Package minhash computes MinHash signatures of texts, by which near-duplicates in a corpus are found.
//
// The method is Broder's (On the resemblance and containment of documents, 1997): the share of equal values in the
// signatures of two texts estimates the Jaccard similarity of their sets of shingles. Two texts are candidates if one
// of their bands is equal (Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3.4). Shingles, bands
// and rows are those of FineWeb (Penedo et al., 2024): five words, 14 bands of 8 rows. The probability that two texts
// with similarity s are candidates is 1-(1-s^8)^14: 0.05 for 0.5, 0.36 for 0.65, 0.77 for 0.75, 0.92 for 0.8, 0.9996
// for 0.9.
//
// # Shingles
//
// A shingle is five consecutive words. A word is a sequence of letters, digits and marks without regard to case; each
// digit counts as 0. Each character of a script without spaces between words (pagetext.Unspaced) is a word of its own.
// So texts that differ in punctuation, line breaks and figures alone have equal signatures.
//
// A value is the low 16 bits of the least of 32 bits: b-bit minwise hashing (Li and König, 2010), with an error of
// 2^-16. Signatures are written to tables, so none of this may change: TestGolden has values.
//
// # Cost
//
// BenchmarkSum has the cost of a page. A Sketch has 1 KiB and allocates nothing.
package minhash
