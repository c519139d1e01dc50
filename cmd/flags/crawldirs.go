package flags

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// CrawlDirs names the crawl that a command works on: its directories, as arguments or by --dir. After the parser
// has run, Dir has them in either case.
type CrawlDirs struct {
	Dir []string `short:"d" placeholder:"DIR" default:"${defaultDir}"`
	At  []string `arg:"" optional:"" name:"dir"`
}

// AfterApply moves the arguments into Dir. They take precedence over the environment, and contradict another --dir.
func (c *CrawlDirs) AfterApply(ctx *kong.Context) error {
	named, err := OneCrawl(ctx, c.Dir, c.At)
	c.Dir = named
	return err
}

// OneCrawl returns the directories of a crawl: those of the arguments, or else those of --dir. Arguments and a
// --dir of the command line that name different directories are an error.
func OneCrawl(ctx *kong.Context, dir, args []string) ([]string, error) {
	if len(args) == 0 {
		return dir, nil
	}
	if GivenHere(ctx, "dir") && !sameDirs(dir, args) {
		return nil, fmt.Errorf("--dir names %s, but the arguments name %s: give the directories of one crawl, once",
			strings.Join(dir, ", "), strings.Join(args, ", "))
	}
	return args, nil
}

// sameDirs reports whether two lists name the same directories, in any order.
func sameDirs(a, b []string) bool {
	clean := func(list []string) (out []string) {
		for _, dir := range list {
			if abs, err := filepath.Abs(dir); err == nil {
				dir = abs
			}
			out = append(out, filepath.Clean(dir))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return slices.Equal(clean(a), clean(b))
}

// GivenHere reports whether the command line sets a flag, rather than the environment or a default.
func GivenHere(ctx *kong.Context, name string) bool {
	return slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool {
		return p.Flag != nil && !p.Resolved && p.Flag.Name == name
	})
}
