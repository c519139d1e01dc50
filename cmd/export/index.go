package export

import (
	"errors"
	"fmt"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
)

// Index is the table of index's flags.
type Index struct {
	Dir    []string   `required:"" placeholder:"DIR" help:"All directories of the crawl. It may be running."`
	Out    []string   `placeholder:"DIR" help:"Output directories: needed if the crawl has --out."`
	Format string     `enum:"cdxj,zipnum,cdx" default:"cdxj" help:"cdxj: one sorted file, index.cdxj. zipnum: index.cdxj.gz in blocks of 3,000 lines, with index.idx and index.loc. cdx: one sorted file of 11 fields, index.cdx, for OutbackCDX."`
	Output string     `short:"o" required:"" placeholder:"DIR" help:"Directory for the index, which replaces an earlier one of the same format. \"-\" writes CDXJ or CDX to standard output."`
	RAM    flags.Size `name:"ram" placeholder:"SIZE" default:"256MiB" help:"RAM of the process. At least 32MiB; with less than 128MiB the process may take more."`
	Tmp    string     `placeholder:"DIR" help:"Sort what does not fit into --ram in DIR/index-tmp, removed at the end. Default: the name of -o with .tmp; with -o - the system's directory for temporary files."`
}

// Help returns examples.
func (*Index) Help() string {
	return `Examples:
  drumbeat index --dir drumbeat-crawl -o index
  drumbeat index --dir /d1/crawl --dir /d2/crawl --format zipnum -o index
  drumbeat index --dir drumbeat-crawl -o - | gzip > index.cdxj.gz
  drumbeat index --dir drumbeat-crawl --format cdx -o index`
}

// check returns an error for flags that do not fit together.
func (c *Index) check() error {
	switch {
	case c.RAM < leastRAM:
		return fmt.Errorf("--ram %s: want at least 32MiB", c.RAM)
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
	r := run{app: a, command: "index", kind: "index", stopped: "there is no new index", opt: export.Options{FS: disk.OS(),
		Dirs: flags.Clean(c.Dir), Out: flags.Clean(flags.Directories(c.Out)), Kind: export.Index, Format: tabular.Format(c.Format),
		RAMBytes: int64(c.RAM)}}
	r.to(c.Output, c.Tmp)
	return r.do("lines")
}
