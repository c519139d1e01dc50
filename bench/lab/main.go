// Command lab is drumbeat bench with two more methods: Mercator-A, which seeks on disk, and Pebble, an LSM store.
// It is for developers; the crawler doesn't link Pebble.
//
//	go run ./bench/lab bench drum --dir D --forms ours,cached --against mercator-a,pebble,pebble-seek
//
// The tests of this package are Go benchmarks that compare parts of drumbeat with equivalent libraries.
// benchstat reads their output:
//
//	go test ./bench/lab -bench Decode -corpus DIR,DIR -count 5
//
// Decode decompresses pages (fetch/inflate), Encode compresses them (warc/deflate), Links finds links
// (parse), URL makes canonical URLs (weburl), Fetch fetches (fetch), Lookup looks up names (dnscache), and Nodes
// sends links from one node to another (exchange).
// cpu-ns/op is the CPU time of this process; servers are separate processes. -corpus takes directories of
// HTML files instead of generated pages; then a test also compares all URLs of those files with
// the results of libraries.
package main

import (
	"os"

	"drumbeat/bench/lab/mercator"
	"drumbeat/bench/lab/pebble"
	"drumbeat/cmd/bench"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

func main() {
	var table struct {
		Bench bench.Command `cmd:"" help:"Measure this machine, as drumbeat bench does, and Mercator-A and Pebble."`
	}
	table.Bench.Use(append(pebble.Methods(), mercator.Method()))
	os.Exit(flags.Run(term.Process(), &table, os.Args[1:]))
}
