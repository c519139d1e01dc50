package crawl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"drumbeat/admit"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/internal/scope"
	"drumbeat/internal/sites"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Options returns the crawl's options without resolver and fetcher. Each group of flags sets its group of options.
func (c *Command) Options() crawl.Options {
	o := crawl.Options{Hook: c.hookFlags.options(), Render: c.renderFlags.options(), Recrawl: c.recrawlFlags.policy()}
	if o.Recrawl != nil && c.NearDuplicates.on() {
		o.Recrawl.Copies = int(c.NearDuplicates.Visits)
	}
	c.applyDirs(&o.Disk)
	c.applyAdmission(&o.Admission)
	c.RuleFiles.Apply(&o.Admission)
	c.URLRules.Apply(&o.Admission)
	c.Who.Apply(&o.Identity)
	o.Identity.About, _ = c.About.Texts() // checked by check
	c.Delays.Apply(&o.Politeness)
	c.Health.Apply(&o.Health)
	c.Links.Apply(&o.Links)
	c.Bodies.Apply(&o.Network)
	c.netFlags.apply(&o.Network)
	c.limitFlags.apply(&o.Limits)
	c.budgetFlags.apply(&o.Budgets)
	c.priorityFlags.apply(&o.Order)
	c.resourceFlags.apply(&o.Limits, &o.Disk)
	c.Drum.Apply(&o.Drum)
	c.outputFlags.apply(&o.Output)
	meta := &c.RobotsMeta.RobotsMeta
	o.Output.NoArchive, o.Output.NoIndex = state.Archive(meta.NoArchive), state.Archive(meta.NoIndex)
	o.Observe = crawl.ObserveOptions{HistoryBytes: int64(c.HistoryBytes), TraceLinks: c.TraceLinks,
		TimeZone: c.TimeZone.Location}
	o.Admission.MaxPagesPerPLD, o.Health.MaxPagesPerHost = uint32(c.MaxPages.PLD), int64(c.MaxPages.Host)
	o.Health.Retries, o.Links.Sitemaps, o.Identity.Host = int(c.Retries), c.Sitemaps, HostName()
	o.Extract = c.extractFlags.options(&o.Disk)
	return o
}

// applyDirs sets the directories and their use.
func (c *Command) applyDirs(o *crawl.DiskOptions) {
	o.Dirs, o.AddDirs, o.Out, o.AddOut = flags.Clean(c.dirs()), flags.Clean(c.AddDir), flags.Clean(c.outs()),
		flags.Clean(c.AddOut)
	o.New, o.CheckpointEvery = c.New, c.CheckpointEvery
}

// applyAdmission sets the seeds and the scope.
func (c *Command) applyAdmission(o *crawl.AdmissionOptions) {
	o.Seeds, o.Scope, o.Drain, o.PrivateSuffixes = c.Seeds, state.Scope(c.Scope), c.Drain, c.PrivateSuffixes
}

// readRules reads the files of rules, of sites' settings, of trusted PLDs and of ranks, so a fault in them ends the
// command before it writes anything.
func (c *Command) readRules(env func(string) (string, bool)) (flags.Scoping, error) {
	scoping, err1 := c.RuleFiles.Read(c.PrivateSuffixes, c.Canonical.Keep())
	settings, err2 := c.RuleFiles.ReadSites(sites.Options{Suffixes: weburl.NewSuffixes(c.PrivateSuffixes),
		KeepEscapes: c.Canonical.Keep(), Agent: c.Agent, Contact: c.Contact, Env: env})
	scoping.Sites = settings
	_, err3 := admit.ReadRules(disk.OS(), scope.Rules, weburl.NewSuffixes(c.PrivateSuffixes),
		c.RenderRules, c.Canonical.Keep())
	suffixes := weburl.NewSuffixes(c.PrivateSuffixes)
	key := func(host []byte) uint64 { return xxhash.Sum64(suffixes.PLDBytes(host)) }
	_, err4 := admit.ReadTrusted(disk.OS(), c.Budget.Trusted, key)
	_, _, err5 := admit.ReadRanks(disk.OS(), c.Ranks, key)
	if err5 != nil {
		err5 = term.Usage(fmt.Errorf("--ranks %s: %w", c.Ranks, errors.Unwrap(err5)))
	}
	return scoping, errors.Join(err1, err2, err3, err4, err5)
}

// readDict reads the file of the dictionary, before the command writes anything.
func (c *outputFlags) readDict() ([]byte, error) {
	switch {
	case c.WARC.Dict == "":
		return nil, nil
	case c.WARC.Format != "zst":
		return nil, fmt.Errorf("--warc: dict=%s is for zst", c.WARC.Dict)
	}
	dict, err := warc.ReadDict(disk.OS(), c.WARC.Dict)
	if err != nil {
		return nil, fmt.Errorf("--warc: dict: %w", err)
	}
	return dict, nil
}

// HostName returns the machine's name, which is part of WARC file names so that those of two machines differ.
func HostName() string {
	name, _ := os.Hostname() // "" if there is none
	return name
}

// wideDirectories returns warnings about existing directories that other users can read or change. The crawl
// creates directories with mode 0700 and files with 0600, but does not change the mode of existing ones.
// Access that outMode grants is no cause for a warning; outMode 0 grants none.
func wideDirectories(paths []string, outMode fs.FileMode) (notes []string) {
	meant := outMode | outMode&0o444>>2
	for _, p := range paths {
		for _, sub := range [...]string{"", "state", "warc", "log"} {
			name := filepath.Join(p, sub)
			info, err := os.Stat(name)
			if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 == 0 ||
				sub != "state" && info.Mode().Perm()&0o077&^meant == 0 {
				continue
			}
			what := "read"
			if info.Mode().Perm()&0o022 != 0 {
				what = "changed"
			}
			notes = append(notes,
				fmt.Sprintf("WARNING: directory %s can be %s by others (mode %04o); run chmod 700 to close it",
					name, what, info.Mode().Perm()))
		}
	}
	return notes
}

// MakePlan divides RAM and disk. Too little of either is a fault of the flags.
func MakePlan(opt *crawl.Options) (crawl.Plan, error) {
	o := *opt // MakePlan sets defaults in it
	plan, err := crawl.MakePlan(&o)
	if err == nil {
		err = o.CheckStores(&plan)
	}
	if err != nil {
		return plan, term.Usage(err)
	}
	return plan, nil
}

// printPlan prints the plan as comments.
func printPlan(out io.Writer, plan crawl.Plan, opt *crawl.Options) error {
	for _, line := range planLines(plan, opt) {
		if _, err := fmt.Fprintln(out, "# "+line); err != nil {
			return err
		}
	}
	return nil
}

// planLines returns the plan and its forecast for --max-pages, or for a billion pages.
func planLines(p crawl.Plan, opt *crawl.Options) []string {
	lines := p.Lines()
	if f, err := p.Forecast(plan.Load{Pages: float64(opt.Limits.MaxPages)}); err == nil {
		lines = append(lines, f.Lines()...)
	}
	return lines
}
