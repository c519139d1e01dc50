// Package extract measures the extraction of main text and Markdown (internal/maintext) with a corpus: pages and the
// text that a person takes for their content.
//
// # Corpora
//
// A corpus is a directory in one of two layouts, as published:
//
//   - truth.jsonl and html/ID.html or ID.html.gz, a line a page: id, type, main, with, without and markdown, as in
//     WCXB (Web Content Extraction Benchmark). The score is that of its evaluate.py: precision, recall and F1 of a
//     page's words, as multisets of lower-case runs of letters, digits and underscores; then the mean over the pages.
//   - ground-truth.json and html/ID.html.gz, as in the article-extraction-benchmark of scrapinghub. The score is that
//     of its evaluate.py: precision and recall of a page's shingles of four words; the mean of each over the pages
//     with any, and F1 of the two means.
//
// testdata/corpus is a small corpus of the first layout, written for this package; the floors of its scores are a test.
//
// Where the corpus has Markdown, the words of headings, lists, tables and code are compared with those of ours.
//
// The pages are divided into two halves by a hash of their ids, so that a method can be adjusted by one of them and
// judged by the other.
//
// # Concurrency and memory
//
// One goroutine extracts page after page. It holds one page of at most maintext.MaxPage bytes and the truth of all,
// maxTruth bytes at most.
package extract
