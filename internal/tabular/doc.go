// Package tabular writes rows with named, typed columns as Parquet, CSV or JSON lines, for programs that
// analyse a crawl. The paper has no counterpart.
//
// # Files
//
// A table is a directory of parts: part-00000.parquet, part-00001.parquet and so on, at most
// Options.PartBytes each unless a single row group or row is larger. A part has its final name only when it is
// complete and durable: Writer writes it under a name that begins with a dot and ends with .tmp, syncs it, renames it
// and syncs the directory. The file _progress.json describes the table: source, columns, finished parts, and whether
// the table is complete. Tools that read directories skip names that begin with a dot or _, or read only names that
// end as the format does, such as DuckDB, whose '*.csv' matches a dot.
// All formats can also go to a stream without parts, such as standard output or a file of the caller (NewStream).
//
// # Resuming
//
// Create continues a table of the same source, format and columns: Writer drops as many rows as its finished
// parts have, so the caller makes the same rows in the same order again. A table of another source is replaced,
// and Resumed says so. Any other content of the directory is an error. Source names what the rows are made of,
// such as a checkpoint; equal sources must give equal rows.
//
// # Values
//
//	type      Parquet                        CSV                        JSON
//	String    BYTE_ARRAY, STRING             text                       string
//	Int64     INT64                          decimal                    number
//	Float64   DOUBLE                         shortest form              number; NaN and ±Inf are null
//	Bool      BOOLEAN                        true, false                true, false
//	Time      INT64, TIMESTAMP(MILLIS, UTC)  2026-11-21T22:43:05.678Z   string, as CSV
//	Binary    BYTE_ARRAY                     hexadecimal                    string, as CSV
//	null      null                           empty; "" is empty text    null
//
// Text is UTF-8 (other bytes become U+FFFD). CSV is that of RFC 4180 with a header and LF as line end.
//
// # Concurrency and memory
//
// A Writer is not safe for concurrent use and has no goroutine. It holds one row group (Options.GroupBytes,
// compressed by and by), 1 MiB of buffer, some 600 KiB a column of Parquet, and one row of at most
// MaxRowBytes. Two Writers must not use one directory at the same time.
package tabular
