// Package extract writes the texts of a crawl's HTML pages for indexers: as WET (conversion records of WARC
// 1.1), or as tables with title, main text, language, description, canonical URL and JSON-LD of each page.
// The paper's crawler leaves that to others. This package works from the WARC files: Run when the crawl has
// stored them, Live while it runs.
//
// # Contract
//
// Run reads one checkpoint of a crawl, which may be running (state.Reader), and makes one part for each WARC file.
// It has a row or record for each stored response with a status of 200 to 299 that is HTML, in the order of the
// file. Package internal/maintext says what is in it. Of the others the report has counts: revisits (their text is
// that of the record to which they refer), other statuses, and other types. A record that is damaged is counted,
// named in Report.Damage and left out. WARC files without an index, and those moved away, are left out, with a note.
//
// # Parts
//
// The part of NAME.warc.gz is NAME.parquet, .csv, .jsonl or .warc.wet.gz. It has this name only when it is complete
// and durable; _NAME.json beside it says what it is made of (part.go). So a second Run makes only parts that are
// missing, that were made of a WARC file that has grown since, or that lack damaged records. The file _extract.json
// names the crawl and the options; a Run with others is refused (ErrOther). Run locks the directory of the parts. It
// takes no lock of the crawl and changes nothing in its directories.
//
// A Live makes the same parts of the WARC files with final names, which it finds by name, without a
// checkpoint. It locks the directory of the parts from OpenLive to Close. It keeps the name of each WARC file
// in RAM, some 100 bytes a file.
//
// # Concurrency and memory
//
// Run's goroutine reads the indexes; one worker for each part does the rest. They end before Run returns. A worker
// takes up to 64 MiB, so Options.RAMBytes bounds their number: a page has at most extract.MaxPage bytes and its text
// as many, a row group 8 MiB, and the entries of an index some 30 MiB for the largest. A panic over the bytes of a
// page is contained: the page counts as Failed.
package extract
