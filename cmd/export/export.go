// Package export has the commands export and index. export writes what a crawl found as a table, in Parquet, CSV
// or JSON lines; index writes the indexes of all WARC files as one, for replay tools.
//
// Command and Index are their flags, run.go is what they share. Package state/export reads the last
// checkpoint of the crawl, which may be running, and package internal/tabular writes the parts of the table.
// Nothing in the directories of the crawl is locked or changed. A repeated command continues after finished
// parts if the checkpoint is still the same, and otherwise replaces the table; it says which. An index or
// WACZ is always made again, and replaces the earlier one when it is complete.
//
// Files have the permissions that the umask leaves (disk.Shared), since they are to be shared.
//
// What it does, notes and progress go to standard error; the result goes to standard output, or with -o - to
// standard error, since standard output then has the rows.
//
// Exit codes: 0; term.ExitUsage (2) for flags that do not fit together; term.ExitDiskFull (3);
// term.ExitDirectory (4) if the directories hold no crawl with a checkpoint, if the target holds something
// else, or if another export writes there; term.ExitDamage (5) if files that the table needs are damaged;
// term.ExitSignal (11) after a signal, with the finished parts kept; term.ExitFailure (1) otherwise.
//
// The command runs in the caller's goroutine; progress comes from one of state/export.
package export

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/internal/tabular"
	"drumbeat/state/export"
	"drumbeat/state/extract"
)

// Command is the table of export's flags.
type Command struct {
	Kind string `arg:"" enum:"${tables}"`

	flags.CrawlDirs
	Out         []string   `placeholder:"DIR"`
	Format      string     `enum:"parquet,csv,jsonl,arc" default:"parquet"`
	Output      string     `short:"o" required:"" placeholder:"DIR"`
	Compression string     `enum:"zstd,snappy,uncompressed" default:"zstd"`
	PartSize    flags.Size `placeholder:"SIZE" default:"128MiB"`
	RAM         flags.Size `name:"ram" placeholder:"SIZE" default:"256MiB"`
	Tmp         string     `placeholder:"DIR"`
	Queued      bool
	CountLinks  bool
	Languages   bool
	Since       *since `placeholder:"TIME|TOKEN"`
	Texts       bool
	Unchanged   bool
	Follow      bool     `short:"f"`
	Dedup       *dedup   `placeholder:"HOW"` // nil: not given
	Fields      []string `placeholder:"LIST"`
	flags.About
}

// arcKinds are the tables of a graph.
var arcKinds = []export.Kind{export.PLDEdges, export.HostEdges, export.Links}

// since is where the feed of changes begins: after a token, or at a time.
type since struct {
	token string
	flags.Moment
}

// UnmarshalText reads a token, or what Moment reads.
func (s *since) UnmarshalText(text []byte) error {
	if export.IsToken(string(text)) {
		*s = since{token: string(text)}
		return nil
	}
	if err := s.Moment.UnmarshalText(text); err != nil {
		return fmt.Errorf("%w, nor a whole token of a row", err)
	}
	return nil
}

// String returns text that UnmarshalText reads.
func (s since) String() string { return s.token + s.Moment.String() }

// dedup says which pages are copies; least is the least similarity of near ones, 0 for the default.
type dedup struct {
	how   export.Dedup
	least float64
}

// UnmarshalText reads exact, near, or near=SHARE.
func (d *dedup) UnmarshalText(text []byte) error {
	how, share, given := strings.Cut(string(text), "=")
	*d = dedup{how: export.Dedup(how)}
	ok := d.how == export.DedupExact && !given || d.how == export.DedupNear
	if given {
		var err error
		d.least, err = strconv.ParseFloat(share, 64)
		ok = ok && err == nil && d.least >= export.LeastSimilarity && d.least <= 1
	}
	if !ok {
		return fmt.Errorf("%q is not exact, near or near=SHARE, with a share of %g to 1", text, export.LeastSimilarity)
	}
	return nil
}

// String returns text that UnmarshalText reads.
func (d dedup) String() string {
	if d.least > 0 {
		return fmt.Sprintf("%s=%g", d.how, d.least)
	}
	return string(d.how)
}

// leastPart is the least value of --part-size.
const leastPart = 1 << 10

// check returns an error for flags that do not fit together.
func (c *Command) check() error {
	arc := tabular.Format(c.Format) == export.Arc
	switch {
	case c.RAM < leastRAM:
		return fmt.Errorf("--ram %s: want at least 32 MiB", human.Bytes(c.RAM))
	case c.Kind == string(export.WACZ) && (c.Output == "-" || c.Format != "parquet"):
		return errors.New("wacz is one file in its own format: give -o FILE, and no --format")
	case c.PartSize < leastPart:
		return fmt.Errorf("--part-size %s: want at least 1 KiB", human.Bytes(c.PartSize))
	case c.Compression != "zstd" && tabular.Format(c.Format) != tabular.Parquet:
		return fmt.Errorf("--compression %s: only for --format parquet, not for %s", c.Compression, c.Format)
	case arc && !slices.Contains(arcKinds, export.Kind(c.Kind)):
		return fmt.Errorf("--format arc: only for pld-edges, host-edges and links, not for %s", c.Kind)
	case c.Output == "-" && (arc || tabular.Format(c.Format) == tabular.Parquet):
		return fmt.Errorf("-o -: only for --format csv and jsonl, not for %s", c.Format)
	case c.Queued && c.Kind != string(export.PLDs):
		return fmt.Errorf("--queued: only for plds, not for %s", c.Kind)
	case c.CountLinks && (c.Kind != string(export.PLDEdges) && c.Kind != string(export.URLs) || arc):
		return errors.New("--count-links: only for pld-edges and state, and not with --format arc")
	case c.About != (flags.About{}) && c.Kind != string(export.WACZ):
		return fmt.Errorf("--title, --description and --operator: only for wacz, not for %s", c.Kind)
	case (c.Since != nil || c.Texts || c.Unchanged) && c.Kind != string(export.Changes):
		return fmt.Errorf("--since, --texts and --unchanged: only for changes, not for %s", c.Kind)
	case c.Follow && (c.Kind != string(export.Changes) || c.Output != "-" || c.Format != "jsonl"):
		return errors.New("--follow: only for changes, with --format jsonl -o -")
	case c.Languages && c.Kind != string(export.Pages):
		return fmt.Errorf("--languages: only for pages, not for %s", c.Kind)
	case c.Kind != string(export.Texts) && (c.Dedup != nil || len(c.Fields) > 0):
		return fmt.Errorf("--dedup and --fields: only for texts, not for %s", c.Kind)
	case c.Kind != string(export.Texts):
		return nil
	case c.Dedup == nil:
		return errors.New("texts needs --dedup exact or near; the command extract writes all texts")
	case c.Output == "-":
		return errors.New("texts writes two tables: -o must name a directory")
	}
	if _, err := extract.ParseFields(tabular.Format(c.Format), c.Fields); err != nil {
		return fmt.Errorf("--fields %w", err)
	}
	return nil
}

// Run writes the table.
func (c *Command) Run(a *term.App) error {
	about, err := c.About.Texts()
	if err = errors.Join(c.check(), err); err != nil {
		return term.Usage(err)
	}
	r := run{app: a, command: "export", kind: c.Kind, stopped: "the same command continues after the finished parts",
		opt: export.Options{FS: disk.Shared(), Dirs: flags.Clean(c.Dir), Out: flags.Clean(flags.Directories(c.Out)),
			Kind: export.Kind(c.Kind), Format: tabular.Format(c.Format), Compression: c.Compression,
			PartBytes: int64(c.PartSize), RAMBytes: int64(c.RAM), Queued: c.Queued, CountLinks: c.CountLinks,
			Languages: c.Languages, Texts: c.Texts, Unchanged: c.Unchanged, About: about}}
	if c.Since != nil && c.Since.token != "" {
		r.opt.Token = c.Since.token
	} else if c.Since != nil {
		r.opt.Since = c.Since.Time(time.Now())
	}
	if c.Dedup != nil {
		r.opt.Dedup, r.opt.Similarity = c.Dedup.how, c.Dedup.least
	}
	r.opt.Fields, _ = extract.ParseFields(r.opt.Format, c.Fields) // checked
	r.to(c.Output, c.Tmp)
	if c.Follow {
		return r.follow()
	}
	r.begin = func(rep *export.Report, say func(string, ...any)) {
		switch {
		case rep.Replaced > 0 || rep.ReplacedSource != "":
			say("%s had %s of %s; the export starts over", c.Output,
				human.Counted(int64(rep.Replaced), "part", "parts"), rep.ReplacedSource)
		case rep.Complete:
			say("%s is complete", c.Output)
		case rep.KeptParts > 0:
			say("%s continues after %s with %s", c.Output,
				human.Counted(int64(rep.KeptParts), "finished part", "finished parts"),
				human.Counted(rep.Kept, "row", "rows"))
		}
	}
	r.end = func(rep *export.Report, say func(string, ...any)) {
		if rep.Token != "" {
			say("later changes follow with --since %s", rep.Token)
		}
	}
	unit := "rows"
	if r.opt.Kind == export.WACZ {
		unit, r.stopped = "pages", "no new file was written"
	}
	err = r.do(unit)
	if errors.Is(err, tabular.ErrNotEmpty) {
		return &term.Ended{Code: term.ExitDirectory, Why: err.Error()}
	}
	return err
}
