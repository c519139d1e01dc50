package export

import (
	"errors"
	"fmt"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// Index is the table of index's flags.
type Index struct {
	flags.CrawlDirs
	Out    []string   `placeholder:"DIR"`
	Format string     `enum:"cdxj,zipnum,cdx" default:"cdxj"`
	Output string     `short:"o" required:"" placeholder:"DIR"`
	RAM    flags.Size `name:"ram" placeholder:"SIZE" default:"256MiB"`
	Tmp    string     `placeholder:"DIR"`
}

// check returns an error for flags that do not fit together.
func (c *Index) check() error {
	switch {
	case c.RAM < leastRAM:
		return fmt.Errorf("--ram %s: want at least 32 MiB", human.Bytes(c.RAM))
	case c.Output == "-" && tabular.Format(c.Format) == export.ZipNum:
		return errors.New("-o -: only for --format cdxj and cdx, not for zipnum")
	}
	return nil
}

// Run writes the index.
func (c *Index) Run(a *term.App) error {
	if err := c.check(); err != nil {
		return term.Usage(err)
	}
	r := run{app: a, command: "index", kind: "index", stopped: "no new index was written",
		opt: export.Options{FS: disk.Shared(),
			Dirs: flags.Clean(c.Dir), Out: flags.Clean(flags.Directories(c.Out)), Kind: export.Index,
			Format: tabular.Format(c.Format), RAMBytes: int64(c.RAM)}}
	r.to(c.Output, c.Tmp)
	return r.do("lines")
}
