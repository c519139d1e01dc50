package crawl

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/dirs"
	"drumbeat/crawl/sitemaps"
	"drumbeat/disk"
	"drumbeat/dnscache"
	"drumbeat/fetch"
	"drumbeat/internal/human"
	"drumbeat/state/history"
)

// resolvConf is the file with this machine's DNS servers.
const resolvConf = "/etc/resolv.conf"

// check returns the first fault that can be seen in the flags alone.
func (c *Command) check() error {
	for _, f := range []func() error{c.Who.Check, c.checkAbout, c.checkDelays, c.checkReferences, c.checkNumbers,
		c.URLRules.Check, c.Bodies.Check,
		c.checkSeeds, c.checkDirs, c.hookFlags.check, c.checkSign, c.renderFlags.check, c.recrawlFlags.check,
		c.priorityFlags.check, c.clusterFlags.check, c.checkExtract, c.checkStore, c.checkBackup,
		c.checkNear} {
		if err := f(); err != nil {
			return term.Usage(err)
		}
	}
	return nil
}

func (c *Command) checkAbout() error {
	_, err := c.About.Texts()
	return err
}

func (c *Command) checkDelays() error {
	for _, d := range []struct {
		flag    string
		v       *time.Duration
		nonzero bool
	}{{"robots-wait", &c.RobotsWait, false},
		{"max-crawl-delay", &c.MaxCrawlDelay, true}, {"max-time", &c.MaxTime, false},
		{"outage-patience", &c.OutagePatience, false}, {"linger", &c.Linger, false},
		{"checkpoint-every", &c.CheckpointEvery, true}, {"roll-every", &c.RollEvery, false},
	} {
		switch {
		case d.v == nil:
		case *d.v == 0 && d.nonzero:
			return fmt.Errorf("--%s can't be 0", d.flag)
		case *d.v > 0 && *d.v < time.Millisecond:
			return fmt.Errorf("--%s %v: must be 0 or at least 1ms", d.flag, human.Exact(*d.v))
		}
	}
	return nil
}

func (c *Command) checkNumbers() error {
	for _, n := range []struct {
		flag        string
		v           flags.Count
		least, most int64
	}{{"retries", c.Retries, 0, 200},
		{"dns-rate", c.DNSRate, 0, 1e7},
		{"max-depth", flags.OrZero(c.MaxDepth), 0, math.MaxUint16 - 1}} {
		if int64(n.v) < n.least || int64(n.v) > n.most {
			return fmt.Errorf("--%s %d: must be between %d and %d", n.flag, n.v, n.least, n.most)
		}
	}
	switch {
	case c.Watch != "" && c.Node != nil:
		return errors.New("--watch is not for a node of a cluster")
	case len(c.Since) == 0 && c.SinceKnown != string(crawl.KnownAll):
		return fmt.Errorf("--since-known %s needs --since", c.SinceKnown)
	case len(c.Since) == 0:
	case c.Known != "" && c.Recrawl && c.SinceKnown == string(crawl.KnownDue):
		return errors.New("--since-known due with --recrawl is not for --known: visits would not keep to the list")
	case c.Store.Kind != "warc" || c.ContentSeen != "record":
		return errors.New("--since is for --store warc with --content-seen record")
	case c.Node != nil:
		return errors.New("--since is not for a node of a cluster")
	}
	if b := &c.Budget; b.Max < b.Default {
		return fmt.Errorf("--budget: max=%d is less than default=%d", b.Max, b.Default)
	}
	for _, s := range []struct {
		flag string
		v    *flags.Size
	}{{"ram", c.RAM}, {"disk", c.Disk}} {
		if s.v != nil && *s.v == 0 {
			return fmt.Errorf("--%s can't be 0", s.flag)
		}
	}
	if c.HistoryBytes != 0 && c.HistoryBytes < history.MinBytes {
		return fmt.Errorf("--history-bytes %v: must be 0 or at least %v", human.Bytes(c.HistoryBytes),
			human.Bytes(int64(history.MinBytes)))
	}
	if err := errors.Join(c.Delays.CheckRates(), c.Health.Check()); err != nil {
		return err
	}
	if err := c.Links.Check(); err != nil {
		return err
	}
	return c.Drum.Check()
}

func (c *Command) checkDirs() error {
	all := slices.Concat(c.dirs(), c.outs())
	if len(c.dirs()) == 0 {
		return errors.New("--dir is empty; leave it out for the default")
	}
	for i, dir := range all {
		if dir == "" {
			return errors.New("a directory of --dir, --add-dir, --out or --add-out is empty")
		}
		if slices.Contains(all[:i], dir) && !slices.Equal(c.dirs(), c.outs()) {
			return fmt.Errorf("directory %s is given twice", dir)
		}
	}
	if c.Summary != "" { // checked now, since it is written hours later
		if info, err := os.Stat(filepath.Dir(c.Summary)); err != nil {
			return fmt.Errorf("--summary: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("--summary %s: %s is not a directory", c.Summary, filepath.Dir(c.Summary))
		}
	}
	return nil
}

// dirs returns all directories of the crawl.
func (c *Command) dirs() []string { return withAdded(c.Dir, c.AddDir) }

// outs returns all directories for output; none if output goes to those of the crawl.
func (c *Command) outs() []string { return withAdded(flags.Directories(c.Out), c.AddOut) }

func withAdded(dirs, added []string) []string {
	dirs = slices.Clone(dirs)
	for _, d := range added {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// Complete computes defaults from the machine, and returns messages about them.
func (c *Command) Complete(m term.Machine) (notes []string, err error) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if who := c.Who.Complete(); who != "" {
		note("WARNING: %s", who)
	}
	if c.HostDelay.Usual == nil {
		c.HostDelay.Usual = new(flags.DefaultHostDelay)
		if c.Scope != "all" {
			*c.HostDelay.Usual = 2 * time.Second
		}
	}
	if c.Scope != "all" {
		note("scope %s: budgets are off, the delay between requests to a host is %s", c.Scope,
			human.Duration(*c.HostDelay.Usual))
	}
	if err := c.Delays.Complete(); err != nil {
		return nil, term.Usage(err)
	}
	if rude := c.Delays.Rude(); rude != "" {
		note("WARNING: %s: use this only on your own servers", rude)
	}
	if c.Connections == nil {
		c.Connections = new(flags.Connections)
	}
	n, why := c.reserve(m).Connections(c.Connections.Most())
	if why != "" {
		note("%s", why)
	}
	c.Connections.Lower(n)
	if c.RAM == nil {
		var why string
		ram := flags.Size(c.ramFor(m.RAMBytes/2, &why))
		c.RAM = &ram
		if why == "" {
			why = "half of " + m.RAMFrom
		}
		note("--ram is %s, %s", human.Bytes(*c.RAM), why)
	}
	if c.Disk == nil {
		n, err := term.DiskBytes(disk.OS(), slices.Concat(c.dirs(), c.outs()))
		if err != nil {
			return nil, term.Usage(err)
		}
		c.Disk = new(flags.Size(n))
	}
	if len(c.Resolver) == 0 {
		servers, err := dnscache.ReadResolvConf(resolvConf)
		if err != nil {
			return nil, term.Usage(fmt.Errorf("find a DNS server (or give --resolver): %w", err))
		}
		c.found = true
		for _, s := range servers {
			c.Resolver = append(c.Resolver, flags.ServerAddr{AddrPort: s})
		}
	}
	return notes, nil
}

// reserve returns m with descriptors reserved for the crawl's files.
func (c *Command) reserve(m term.Machine) term.Machine {
	m.Descriptors -= int64(c.procs() * hookFiles)
	return c.Drum.Reserve(m, len(c.dirs()), len(c.outs()), c.DirectIO)
}

// Parts of the default of --ram for a crawl of some sites, or of some pages.
const (
	modestRAM  = 1 << 30
	ramBodies  = 16       // bodies of the maximum size
	ramBody    = 64 << 20 // the maximum size that counts; larger bodies are spooled
	ramPerPage = 256      // bytes; from some hundred million pages on this exceeds the general default
)

// ramFor returns the default of --ram, at most most. A crawl of some sites gets RAM for the URLs that it knew
// at its last checkpoint, one with --max-pages for these pages; only others are planned for a billion pages.
func (c *Command) ramFor(most int64, why *string) int64 {
	pages := float64(c.MaxPages.All)
	if c.Scope != "all" {
		pages = float64(dirs.KnownURLs(disk.OS(), flags.Clean(c.dirs())))
	} else if pages == 0 {
		return most
	}
	ram := modestRAM + ramBodies*float64(min(ramBody, c.MaxBody.Most())) + ramPerPage*pages
	if ram >= float64(most) {
		return most
	}
	*why = fmt.Sprintf("for --scope %s; --ram gives more", c.Scope)
	if c.Scope == "all" {
		*why = fmt.Sprintf("for --max-pages %d; --ram gives more", c.MaxPages.All)
	}
	return int64(ram) >> 20 << 20
}

// defaultSitemapBody is the default of the part sitemap of --max-body if RAM suffices. 50,000 URLs, the limit of a
// sitemap, take half of it.
const defaultSitemapBody = 10 << 20

// maxSitemapBody bounds this part, in bytes: RAM holds a sitemap as a whole.
const maxSitemapBody = 1 << 30

// sitemapBytes returns the maximum size of a sitemap. It must fit into the part of the bodies' RAM that a
// single request may use: as much as a page, or a quarter of all.
func (c *Command) sitemapBytes(limits fetch.Limits, bodies int64) (int, error) {
	room := max(limits.MemoryBytes(), bodies/4)
	fits := func(n int64) bool {
		l := sitemaps.Limits(limits, int(n))
		return l.MemoryBytes() <= room
	}
	if c.MaxBody.Sitemap != nil {
		if n := int64(*c.MaxBody.Sitemap); n <= maxSitemapBody && fits(n) {
			return int(n), nil
		}
		return 0,
			fmt.Errorf("--max-body: sitemap=%v is too large for --ram: one body may take %v; raise --ram or lower it",
				human.Bytes(*c.MaxBody.Sitemap), human.Bytes(room))
	}
	n := int64(defaultSitemapBody)
	held := int64(limits.HeldBytes)
	for n > held && !fits(n) {
		n /= 2
	}
	return int(max(n, held)), nil
}
