package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state/export"
	"drumbeat/state/report"
	"drumbeat/state/sitereport"
)

// hostName is the value of --site. It is not empty: a script whose variable is unset shall not get another report.
type hostName string

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *hostName) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("it is empty: name a host or a PLD")
	}
	*h = hostName(text)
	return nil
}

// siteFlags are for the report of a site.
type siteFlags struct {
	Site    hostName    `placeholder:"HOST"`
	Compare string      `placeholder:"FILE"`
	Rows    flags.Count `placeholder:"N" default:"100"`
	Out     []string    `placeholder:"DIR"`
	CSV     bool        `name:"csv"`
	RAM     flags.Size  `name:"ram" placeholder:"SIZE" default:"256MiB"`

	CheckOutside bool
	OutsideLinks flags.Count `placeholder:"N" default:"1000"`
	outsideMore  []string    // more flags of the crawl that checks; tests have shorter delays
}

const (
	defaultRows = 100
	maxRows     = 10_000
	leastRAM    = 32 << 20
	defaultRAM  = 256 << 20
)

// SiteReport says how WriteSite makes a report.
type SiteReport struct {
	Dirs, Out    []string
	File         string
	CheckOutside bool
	OutsideMore  []string // more flags of the crawl that checks; tests have shorter delays
	Sites        []string // names of the site: the first one with a page counts
}

// WriteSite writes the report of a site into a file.
func WriteSite(a *term.App, r *SiteReport) error {
	var err error
	for _, site := range r.Sites {
		c := Command{CrawlDirs: flags.CrawlDirs{Dir: r.Dirs}, Output: r.File,
			siteFlags: siteFlags{Site: hostName(site), Rows: defaultRows, Out: r.Out, RAM: defaultRAM,
				CheckOutside: r.CheckOutside, OutsideLinks: defaultOutside, outsideMore: r.OutsideMore}}
		if err = c.ofSite(a); !errors.Is(err, export.ErrNoSite) {
			return err
		}
	}
	return err
}

// ofSite writes the report of a site.
func (c *Command) ofSite(a *term.App) error {
	switch {
	case c.Rows < 1 || c.Rows > maxRows:
		return term.Usage(fmt.Errorf("--rows %d: want 1 to %d", c.Rows, maxRows))
	case c.RAM < leastRAM:
		return term.Usage(fmt.Errorf("--ram %s: want at least 32 MiB", human.Bytes(c.RAM)))
	case c.OutsideLinks != defaultOutside && !c.CheckOutside:
		return term.Usage(errors.New("--outside-links: only with --check-outside"))
	case c.OutsideLinks < 1 || c.OutsideLinks > maxOutside:
		return term.Usage(fmt.Errorf("--outside-links %d: want 1 to %d", c.OutsideLinks, maxOutside))
	case c.CSV && c.JSON:
		return term.Usage(errors.New("--csv and --json: give one of them"))
	case c.Compare != "" && c.form() != "html":
		return term.Usage(errors.New("--compare: only a report in HTML shows changes"))
	}
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	defer term.LimitMemory(int64(c.RAM))()
	r, err := c.scan(ctx, a)
	switch {
	case errors.Is(err, term.ErrSignal):
		return &term.Ended{Code: term.ExitSignal, Why: "stopped by a signal; no report was written"}
	case err != nil:
		return err
	}
	opt := report.SiteOptions{By: made(), Now: time.Now()}
	if c.Compare != "" {
		if opt.Old, err = readReport(c.Compare, r.Site); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	switch c.form() {
	case "csv":
		err = report.WriteSiteCSV(&b, r)
	case "json":
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", " ")
		err = enc.Encode(r)
	default:
		err = report.WriteSiteHTML(&b, r, opt)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(a.Stderr, "report: "+term.PlainText(note))
	}
	if err = c.put(a, &b); err == nil && c.Output != "-" {
		fmt.Fprintln(a.Stdout, r.Verdict)
		if opt.Old != nil {
			fmt.Fprintln(a.Stdout, sitereport.Compare(opt.Old, r).Text())
		}
		for _, f := range r.Findings {
			if f.Total > 0 {
				fmt.Fprintf(a.Stdout, "  %-7s  %6s  %s\n", f.Severity, humanize.Comma(f.Total), f.Title)
			}
		}
	}
	if err == nil && r.Damaged > 0 {
		return &term.Ended{Code: term.ExitDamage, Why: "files of the crawl are damaged", Quiet: true}
	}
	return err
}

// scan makes the report, with --check-outside twice: the first one knows what to check.
func (c *Command) scan(ctx context.Context, a *term.App) (*sitereport.Report, error) {
	p := term.NewProgress(a.Stderr)
	opt := export.Options{FS: disk.Shared(), Dirs: flags.Clean(c.Dir), Out: flags.Clean(flags.Directories(c.Out)),
		RAMBytes: int64(c.RAM), TempDir: filepath.Join(os.TempDir(), fmt.Sprintf("drumbeat-report-%d", os.Getpid())),
		Progress: p.Show}
	if c.Output != "-" {
		opt.TempDir = filepath.Clean(c.Output) + ".tmp"
	}
	site := export.SiteOptions{Rows: int(c.Rows)}
	if c.CheckOutside {
		site.Outside = int(c.OutsideLinks)
	}
	r, targets, err := export.Site(ctx, opt, string(c.Site), site)
	p.Clear()
	if err != nil || !c.CheckOutside {
		return r, err
	}
	checked, notes, err := c.checkOutside(ctx, a, p, targets)
	if err != nil {
		return nil, err
	}
	r, _, err = export.Site(ctx, opt, string(c.Site), export.SiteOptions{Rows: int(c.Rows), Checked: checked})
	p.Clear()
	if err != nil {
		return nil, err
	}
	r.Notes = append(r.Notes, notes...)
	return r, nil
}

// form returns the form of the report: csv, json or html.
func (c *Command) form() string {
	switch {
	case c.CSV || !c.JSON && strings.HasSuffix(c.Output, ".csv"):
		return "csv"
	case c.JSON || strings.HasSuffix(c.Output, ".json"):
		return "json"
	}
	return "html"
}

// readReport reads an earlier report of the site.
func readReport(name, site string) (*sitereport.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--compare: %w", err)
	}
	defer func() { _ = f.Close() }() // it was read
	old, err := sitereport.Read(f, site)
	if err != nil {
		return nil, fmt.Errorf("--compare %s: %w", name, err)
	}
	return old, nil
}
