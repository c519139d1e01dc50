// Command drumbeat is a web crawler for one machine: the IRLbot paper's DRUM, STAR and BEAST on disk, end
// to end.
//
// Package cmd has the table of its commands and flags; package crawl is the crawler, and crawl/crawler.go
// is where to start reading it.
package main

import (
	"os"

	"drumbeat/cmd"
)

func main() { os.Exit(cmd.Main(os.Args[1:])) }
