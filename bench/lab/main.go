// Command lab is drumbeat bench with Pebble, an LSM store of today, among its methods, for those who work
// on drumbeat: the crawler links none of it.
//
//	go run ./bench/lab bench drum --dir D --forms ours,cached --against pebble,pebble-seek
//
// The tests of this package compare parts of drumbeat with libraries that do the same, as Go benchmarks
// whose lines benchstat reads:
//
//	go test ./bench/lab -bench Decode -corpus DIR,DIR -count 5
//
// Decode unpacks pages (fetch/inflate), Links finds links (parse), URL makes canonical URLs (weburl), Fetch
// fetches (fetch) and Lookup asks for names (dnscache). cpu-ns/op is CPU of this process, in which nothing
// else runs; servers are processes of their own. -corpus takes directories of HTML files in place of made
// pages; with it the tests also compare all links and URLs of those files with what the libraries make of
// them.
//
// Command bench/lab/plot draws the figures of the reports that drumbeat bench --out saves.
package main

import (
	"os"

	"drumbeat/bench/lab/pebble"
	"drumbeat/cmd/bench"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

func main() {
	var table struct {
		Bench bench.Command `cmd:"" help:"Measure this machine, as drumbeat bench does, and Pebble."`
	}
	table.Bench.Use(pebble.Methods())
	os.Exit(flags.Run(term.Process(), &table, os.Args[1:]))
}
