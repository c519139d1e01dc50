// Package simhash computes hashes of texts that differ in few bits if the texts differ in few words. The crawl
// keeps one with each page, and the export near-duplicates finds the pages whose hashes are close.
//
// The method is Charikar's (Similarity Estimation Techniques from Rounding Algorithms, STOC 2002), used for
// web pages by Manku, Jain and Das Sarma (Detecting Near-Duplicates for Web Crawling, WWW 2007), who take
// pages within 3 of 64 bits as near-duplicates: each feature of a text has a hash of 64 bits, and bit i of the
// text's hash is set if it is set in more than half of the features.
//
// # Features
//
// A feature is a pair of consecutive words, with its repetitions. A word is a sequence of ASCII letters, digits
// and bytes from 0x80 on, without regard to case. Each kana or ideograph of UTF-8 (U+3000 to U+9FFF) is a word
// of its own, because these scripts have no spaces. Words without letters and character references do not
// count: pages that differ in dates and numbers alone have the same hash. Their Counts tell them apart. The bytes
// are taken as they are, so the same text in another charset has another hash, and there the bytes 0xE3 to 0xE9
// begin a new word.
//
// If a share s of the features differs, the hashes are expected to differ in about 64/pi*acos(1-s) bits: in 3
// if one word in 200 differs, in 4 for one in 100, in 9 for one in 20 (TestDistances). A text of less than
// LeastFeatures features has no hash.
//
// The hashes are stored, so the features must not change: TestGolden has values. They need no key. Whoever
// builds a page like another has no use for a page that only looks like it.
//
// # Cost
//
// Counting is bit-sliced: eight features take seven carry-save adders and a short carry for all 64 counters.
// BenchmarkPage has the cost of a page. A Sketch has 350 bytes and allocates nothing.
package simhash
