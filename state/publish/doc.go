// Package publish writes the data of a crawl in the layout of Common Crawl, whose tools then work on it.
//
// # Layout
//
// Below Options.Target, NAME being the name of the crawl:
//
//	crawl-data/NAME/segments/SEGMENT/warc/              responses with status 200
//	crawl-data/NAME/segments/SEGMENT/crawldiagnostics/  other responses, revisits, and metadata without a response
//	crawl-data/NAME/segments/SEGMENT/robotstxt/         exchanges of robots.txt
//	crawl-data/NAME/segments/SEGMENT/wet/               texts of the pages in warc/
//	crawl-data/NAME/segments/SEGMENT/wat/               heads and links of the responses in warc/, as JSON
//	crawl-data/NAME/*.paths.gz                          the files of each kind
//	crawl-data/NAME/SHA256SUMS                          checksums of all other files, as sha256sum -c reads them
//	cc-index/collections/NAME/indexes/                  CDXJ in blocks (ZipNum), with cluster.idx
//	cc-index/table/cc-main/warc/crawl=NAME/subset=*/    the columnar index, Parquet
//	host-index/crawl=NAME/                              the host index, Parquet
//
// A WARC file of the crawl becomes a file of the same name in each subset that has records of it, or several if that
// would be longer than maxFileBytes; a segment has segmentVolumes of them. Request and metadata records follow their
// response. Records are copied as they are, with their compression, after they were read to their end: checksums and
// payload digests are verified. Zstandard frames become gzip members, which all tools of Common Crawl read.
//
// # Contract
//
// Run reads one checkpoint of a crawl, which may be running (state.Reader), takes no lock of it and changes nothing in
// its directories. Target is complete or absent: all is written to Options.TempDir, beside it, and gets its name in one
// step at the end. Equal checkpoints and options give equal bytes. Damage ends Run with a *disk.CorruptError.
//
// A repeated Run with the same checkpoint and options keeps the files of each WARC file that is complete; with
// others it starts over. TempDir has publish.json, which names them; volumes/, which has for each complete WARC file
// its files with their checksums, and the lines of the indexes; and tree/, which becomes Target.
//
// # Memory, disk, concurrency
//
// A worker for each CPU reads WARC files and takes up to 96 MiB, so RAMBytes bounds their number. Sorting the index
// takes a quarter of RAMBytes, the tables as much. TempDir takes beside the tree some 500 bytes a response, and 150 for
// sorting. A file takes some 200 bytes in RAM. All goroutines end before Run returns.
package publish
