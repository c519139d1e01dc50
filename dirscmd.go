package main

import (
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"

	"drumbeat/crawl"
	"drumbeat/disk"
)

// Run prints what each directory is.
func (c *dirsListCmd) Run(a *app) error {
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "directory\tnumber\tof\tfor\tbytes\tcrawl\n")
	known := 0
	for _, dir := range clean(c.Dir) {
		id, err := disk.ReadIdentity(disk.OS(), dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			fmt.Fprintf(t, "%s\t-\t-\t-\t%s\tof no crawl\n", dir, bytesOf(treeBytes(dir)))
			continue
		case err != nil:
			return err
		}
		known++
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", dir, id.Number, id.Count, id.Kind, bytesOf(treeBytes(dir)), id.Crawl)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if known == 0 {
		return &ended{code: exitDirectory, why: "no directory of a crawl"}
	}
	return nil
}

// Run lets directories go that hold nothing.
func (c *dirsForgetCmd) Run(a *app) error {
	left, gone, err := crawl.ForgetMissing(crawl.AuditOptions{FS: disk.OS(), Dirs: clean(c.Dir), Out: clean(c.Out)})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "directories let go: %d; the crawl has %d\n", gone, left)
	return err
}
