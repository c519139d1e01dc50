package main

import (
	"fmt"
	"sort"

	"github.com/dustin/go-humanize"

	"drumbeat/crawl"
	"drumbeat/disk"
)

// Run reads a stopped crawl and prints the balance.
func (c *auditCmd) Run(a *app) error {
	rep, err := crawl.Audit(disk.OS(), clean(c.Dir))
	if err != nil {
		return err
	}
	if err := rep.Write(a.stdout); err != nil {
		return err
	}
	names := make([]string, 0, len(rep.Refused))
	for name := range rep.Refused {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(a.stdout, "refused %s: %s\n", name, humanize.Comma(rep.Refused[name]))
	}
	if !rep.Balanced() {
		return &ended{code: exitFailure, why: "the crawl does not balance", quiet: true}
	}
	return nil
}
