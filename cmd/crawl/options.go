package crawl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cespare/xxhash/v2"

	"drumbeat/admit"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/options"
	"drumbeat/crawl/plan"
	"drumbeat/disk"
	"drumbeat/internal/pace"
	"drumbeat/internal/scope"
	"drumbeat/internal/sites"
	"drumbeat/state"
	"drumbeat/warc"
	"drumbeat/weburl"
)

// Options returns the crawl's options without resolver and fetcher.
func (c *Command) Options() crawl.Options {
	o := crawl.Options{
		Disk: crawl.DiskOptions{FS: disk.OS(), Dirs: flags.Clean(c.dirs()), AddDirs: flags.Clean(c.AddDir),
			Out: flags.Clean(c.outs()), AddOut: flags.Clean(c.AddOut), New: c.New, CheckpointEvery: c.CheckpointEvery,
			WhenFull: options.WhenFull(c.WhenFull), KeepFree: int64(flags.OrZero(c.KeepFree))},
		Admission: crawl.AdmissionOptions{Seeds: c.Seeds, Scope: state.Scope(c.Scope), PrivateSuffixes: c.PrivateSuffixes,
			Drain: c.Drain, Rules: c.Rules, Blacklist: c.Blacklist, Sites: c.Sites},
		Identity: crawl.IdentityOptions{Agent: c.Agent, Contact: c.Contact, Version: term.Version(), Host: HostName()},
		Limits: crawl.LimitsOptions{RAMBytes: int64(*c.RAM), DiskBytes: int64(*c.Disk), Linger: c.Linger,
			MaxPages: int64(c.MaxPages), MaxTime: c.MaxTime, OutagePatience: c.OutagePatience, References: c.references(),
			MaxDepth: crawl.Unlimited},
		Network: crawl.NetworkOptions{Connections: int(c.Connections.Most()), KeepAlive: c.KeepAlive,
			Flags: c.netFlags.digest(), Rate: c.Rate.Schedule.In(c.TimeZone.Location),
			ConnectionSchedule: c.Connections.Hours().In(c.TimeZone.Location),
			Bandwidth:          pace.AdjustableBandwidth(c.Bandwidth.Schedule.In(c.TimeZone.Location), time.Now())},
		Health: crawl.HealthOptions{Retries: int(c.Retries)},
		Budgets: crawl.BudgetsOptions{Policy: crawl.BudgetPolicy(c.Budget), Default: uint32(c.BudgetDefault),
			Max: uint32(c.BudgetMax), Ranks: int(c.BudgetRanks), QueuesMax: int(c.QueuesMax), TrapScore: c.TrapScore == "on",
			Trusted: c.Trusted},
		Observe: crawl.ObserveOptions{HistoryBytes: int64(c.HistoryBytes), TraceLinks: c.TraceLinks,
			TraceLimit: int64(c.TraceLimit), TimeZone: c.TimeZone.Location},
		Output: crawl.OutputOptions{RollEvery: c.RollEvery, ArchiveRobots: c.ArchiveRobots, ArchiveDNS: c.ArchiveDNS,
			OutMode: c.OutMode.Wide(), Store: c.Store == "warc", ContentSeen: state.ContentSeen(c.ContentSeen),
			NoArchive: state.Archive(c.NoArchive), NoIndex: state.Archive(c.NoIndex), Simhash: c.Simhash,
			WARCFormat: c.warcFormat(), WARCLevel: warcLevel(c.WARCLevel), CrawlLog: state.LogLevel(c.CrawlLog)},
		Links: crawl.LinksOptions{Sitemaps: c.Sitemaps},
	}
	o.Network.NAT64 = flags.NAT64Prefixes(c.NAT64Prefix)
	if o.Budgets.QueuePages = int64(c.BudgetQueue); o.Budgets.QueuePages == 0 {
		o.Budgets.QueuePages = crawl.Unlimited
	}
	if c.MaxDepth != nil {
		o.Limits.MaxDepth = int(*c.MaxDepth)
	}
	if c.DirectIO {
		o.Disk.FS = disk.Direct()
	}
	c.Health.Apply(&o)
	c.Drum.Apply(&o)
	c.Delays.Apply(&o)
	c.Links.Apply(&o)
	c.URLRules.Apply(&o)
	c.Bodies.Apply(&o)
	c.hookFlags.apply(&o)
	c.renderFlags.apply(&o)
	c.recrawlFlags.apply(&o)
	c.extractFlags.apply(&o)
	c.priorityFlags.apply(&o)
	return o
}

// readRules reads the files of rules, of sites' settings and of trusted PLDs, so a fault in them ends the command before it writes
// anything.
func (c *Command) readRules(env func(string) (string, bool)) (flags.Scoping, error) {
	scoping, err1 := c.RuleFiles.Read(c.PrivateSuffixes, c.Escapes == "keep")
	settings, err2 := c.RuleFiles.ReadSites(sites.Options{Suffixes: weburl.NewSuffixes(c.PrivateSuffixes), KeepEscapes: c.Escapes == "keep",
		Agent: c.Agent, Contact: c.Contact, Env: env})
	scoping.Sites = settings
	_, err3 := admit.ReadRules(disk.OS(), scope.Rules, weburl.NewSuffixes(c.PrivateSuffixes), c.RenderRules, c.Escapes == "keep")
	suffixes := weburl.NewSuffixes(c.PrivateSuffixes)
	_, err4 := admit.ReadTrusted(disk.OS(), c.Trusted, func(host []byte) uint64 { return xxhash.Sum64(suffixes.PLDBytes(host)) })
	return scoping, errors.Join(err1, err2, err3, err4)
}

func (c *Command) warcFormat() warc.Format {
	if c.WARCFormat == "zst" {
		return warc.Zstd
	}
	return warc.Gzip
}

// readDict reads the file of --warc-dict, before the command writes anything.
func (c *Command) readDict() ([]byte, error) {
	switch {
	case c.WARCDict == "none":
		return nil, nil
	case c.WARCFormat != "zst":
		return nil, fmt.Errorf("--warc-dict is for --warc-format zst")
	}
	dict, err := warc.ReadDict(disk.OS(), c.WARCDict)
	if err != nil {
		return nil, fmt.Errorf("--warc-dict: %w", err)
	}
	return dict, nil
}

// warcLevel returns the value of --warc-level, which Kong has checked.
func warcLevel(s string) int {
	if s == "fast" {
		return warc.LevelFast
	}
	return int(s[0] - '0')
}

// HostName returns the machine's name, which is part of WARC file names so that those of two machines
// differ.
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
			notes = append(notes, fmt.Sprintf("WARNING: directory %s can be %s by others (mode %04o); run chmod 700 to close it",
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
