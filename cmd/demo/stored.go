package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	crawlcmd "drumbeat/cmd/crawl"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/human"
	"drumbeat/internal/storedweb"
	"drumbeat/state"
)

// sortRAM bounds the memory in which the table of a stored crawl is sorted, in bytes. It is free again when
// the crawl begins.
const sortRAM = 64 << 20

// runStored serves the stored crawl of --warc, crawls it, and prints the summary.
func (c *Command) runStored(a *term.App) error {
	if err := c.apart(); err != nil {
		return err
	}
	view := crawlcmd.NewView(a.Stderr, &c.Logging)
	view.RAM = int64(c.RAM)
	defer view.Close()
	free, err := freeDescriptors()
	if err != nil {
		return err
	}
	if perConnection*int64(c.Connections) > free {
		c.Connections = flags.Count(max(1, free/(2*perConnection)))
		view.Note(fmt.Sprintf("lowered to %s: %d file descriptors are free (ulimit -n)",
			human.Counted(c.Connections, "connection", "connections"), free))
	}
	scratch, err := os.MkdirTemp("", "drumbeat-demo-web-")
	if err != nil {
		return fmt.Errorf("demo: make a directory: %w", err)
	}
	defer os.RemoveAll(scratch) // what remains is in the directory for temporary files
	requests, err := openServerLog(c.ServerLog)
	if err != nil {
		return err
	}
	o := storedweb.Options{FS: disk.OS(), Dirs: flags.Clean(c.Warc), Scratch: scratch,
		RAMBytes: sortRAM, Seeds: c.Seeds == "", Delays: c.Delays, DNSServers: 2}
	if c.Serve > 0 {
		o.Port, o.DNSPort, o.DNSServers = c.Serve, c.Serve+2, 1
	}
	if requests != nil {
		o.Requests = requests
	}
	view.Say(fmt.Sprintf("Reading the indexes of the stored crawl in %s …\n", strings.Join(o.Dirs, ", ")))
	ctx, release := a.StopOnSignal(context.Background())
	web, err := storedweb.Open(ctx, o)
	release()
	if err != nil {
		err = storedError(err)
	} else {
		work := c.crawlStored
		if c.Serve > 0 {
			work = c.serveStored
		}
		err = errors.Join(work(a, view, web), web.Close())
	}
	return errors.Join(err, requests.close())
}

// apart refuses a --dir that a directory of --warc contains or is in, since the crawl would write into the stored one.
func (c *Command) apart() error {
	if c.Dir == "" {
		return nil
	}
	dir, err := resolve(c.Dir)
	if err != nil {
		return err
	}
	for _, warc := range c.Warc {
		stored, err := resolve(warc)
		if err != nil {
			return err
		}
		var how string
		switch {
		case dir == stored:
			how = "is"
		case within(dir, stored):
			how = "is in"
		case within(stored, dir):
			how = "contains"
		default:
			continue
		}
		return term.Usage(
			fmt.Errorf("demo: --dir %s %s the stored crawl %s, which demo only reads: name another directory",
				c.Dir, how, warc))
	}
	return nil
}

// within reports whether a path is below dir. Both are absolute and clean.
func within(path, dir string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }

// resolve returns the absolute path that a name leads to, without symbolic links. Its last parts may be missing.
func resolve(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("demo: %s: %w", name, err)
	}
	missing := ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, missing), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || path == "/" {
			return "", fmt.Errorf("demo: %s: %w", name, err)
		}
		path, missing = filepath.Dir(path), filepath.Join(filepath.Base(path), missing)
	}
}

// storedError gives errors of the stored crawl their exit code.
func storedError(err error) error {
	if errors.Is(err, term.ErrSignal) {
		return &term.Ended{Code: term.ExitSignal, Why: "stopped while the indexes were read; nothing was crawled"}
	}
	if errors.Is(err, storedweb.ErrNoFiles) || errors.Is(err, storedweb.ErrRunning) || errors.Is(err, os.ErrNotExist) {
		return &term.Ended{Code: term.ExitDirectory, Why: err.Error()}
	}
	return err
}

// crawlStored crawls a stored crawl.
func (c *Command) crawlStored(a *term.App, view *crawlcmd.View, web *storedweb.Web) error {
	found := web.Found()
	seeds, err := c.storedSeeds(web)
	if err != nil {
		return err
	}
	dir, remove, err := c.Directory()
	if err != nil {
		return err
	}
	opt, err := c.storedOptions(a, dir, seeds)
	if err != nil {
		return errors.Join(err, remove())
	}
	plan, err := crawlcmd.MakePlan(&opt)
	if err != nil {
		return errors.Join(err, remove())
	}
	c.introduceStored(view, &found, &opt, plan)
	if err := web.Start(context.Background()); err != nil {
		return errors.Join(err, remove())
	}
	var res *crawl.Result
	err = c.network(&opt, &plan, web.DNSAddrs(), fetch.Options{
		Ports: web.Ports(), Dial: web.Dial, TLS: fetch.TLSOptions{Roots: web.Authority().Pool()},
	}, func() (err error) {
		res, err = crawlcmd.Execute(a, &opt, plan, view, c.Admin)
		return err
	})
	finished := errors.Is(err, state.ErrFinished)
	if err != nil && !finished {
		return errors.Join(err, remove())
	}
	counts, err := web.Counts()
	if err != nil {
		return errors.Join(err, remove())
	}
	bounds := crawlcmd.WithinBounds(opt.Limits.RAMBytes + webRAM)
	sum := crawlcmd.Summary{Result: res, Dirs: []string{dir}, RAM: int64(c.RAM), Finished: finished,
		Removed: c.Dir == "", More: storedLines(&found, counts),
		Page: "URL"}
	if sum.Removed {
		sum.Next = []string{
			"the same command with --dir demo   keeps the crawl, for drumbeat report, get, log and audit"}
	}
	return errors.Join(crawlcmd.PrintSummary(a.Stdout, sum), printNames(a.Stdout, &found, counts), remove(), bounds,
		damageOf(&found, counts), crawlcmd.EndOf(res.Stop))
}

// storedSeeds returns the path of the seeds of a stored crawl.
func (c *Command) storedSeeds(web *storedweb.Web) (string, error) {
	if c.Seeds != "" {
		return filepath.Clean(c.Seeds), nil
	}
	if found := web.Found(); found.Seeds == 0 {
		return "", term.Usage(fmt.Errorf("demo: none of the %s is known to be a seed: the metadata "+
			"records after them are missing or name another page (via); give the seeds with --seeds",
			human.Counted(found.URLs, "stored page", "stored pages")))
	}
	return web.SeedFile(), nil
}

// ownFlags are flags of crawl that demo decides.
var ownFlags = []string{"dir", "add-dir", "out", "add-out", "new", "seeds", "known", "ram", "connections", "config",
	"preset"}

// storedOptions returns the options of the crawl of a stored crawl, without resolver and fetcher: those of the
// synthetic web's crawl, or with CrawlFlags those of lentOptions.
func (c *Command) storedOptions(a *term.App, dir, seeds string) (crawl.Options, error) {
	if len(c.CrawlFlags) == 0 {
		plain := c.options(dir)
		plain.Admission.Seeds = seeds
		return plain, nil
	}
	return c.lentOptions(a, dir, seeds)
}

// lentOptions returns the options of crawl with CrawlFlags, and with the delays and limits of demo unless the flags
// have others. seeds is the name of the seed file.
func (c *Command) lentOptions(a *term.App, dir, seeds string) (crawl.Options, error) {
	plain := c.options(dir)
	list := func(path string) string { return strings.ReplaceAll(path, ",", `\,`) }
	base := []string{"--dir=" + list(dir), "--seeds=" + seeds, "--contact=" + plain.Identity.Contact,
		"--resolver=127.0.0.1:53", "--crawl-log=all", "--pld-delay=0", "--network-rate=0", "--network-connections=0",
		"--host-delay-factor=0"}
	for _, d := range []struct {
		format string
		values []any
	}{{"host-delay=%v,min=%v", []any{allowed(plain.Politeness.HostDelay), allowed(plain.Politeness.HostDelayMin)}},
		{"server-delay=%v,min=%v",
			[]any{allowed(plain.Politeness.ServerDelay), allowed(plain.Politeness.ServerDelayMin)}},
		{"backoff=%v,max=%v", []any{plain.Health.Backoff, plain.Health.BackoffMax}},
		{"linger=%v", []any{plain.Limits.Linger}}, {"max-time=%v", []any{plain.Limits.MaxTime}},
		{"checkpoint-every=%v", []any{plain.Disk.CheckpointEvery}}} {
		base = append(base, fmt.Sprintf("--"+d.format, d.values...))
	}
	for _, n := range []struct {
		flag  string
		value int64
	}{{"ram", plain.Limits.RAMBytes}, {"disk", plain.Limits.DiskBytes},
		{"connections", int64(plain.Network.Connections)}} {
		base = append(base, fmt.Sprintf("--%s=%d", n.flag, n.value))
	}
	opt, err := crawlcmd.LentOptions(a, base, c.CrawlFlags, ownFlags)
	if err != nil {
		return crawl.Options{}, err
	}
	opt.Network.Connections = plain.Network.Connections
	return *opt, nil
}

// allowed returns a delay that crawl accepts: 0 or at least a millisecond.
func allowed(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return 0
	}
	return d
}

// damageOf returns the end of a crawl whose web was damaged: it lacks pages, so figures from it are not to be trusted.
func damageOf(f *storedweb.Found, c *storedweb.Counts) error {
	if c.Damaged+f.DamagedCount == 0 {
		return nil
	}
	return &term.Ended{Code: term.ExitDamage, Why: fmt.Sprintf(
		"the stored crawl is damaged (requests that got 502: %d, files that could not be read completely: %d)",
		c.Damaged, f.DamagedCount)}
}

// introduceStored prints the stored crawl, the delays and the plan.
func (c *Command) introduceStored(view *crawlcmd.View, f *storedweb.Found, opt *crawl.Options, plan crawl.Plan) {
	n := humanize.Comma
	seeds := n(f.Seeds) + " seeds"
	if c.Seeds != "" {
		seeds = "seeds from " + c.Seeds
	}
	view.Say(fmt.Sprintf("A stored crawl on loopback: %s and %s robots.txt on %s, in %s; %s.\n",
		human.Counted(f.URLs, "URL", "URLs"), n(f.Robots), human.Counted(f.Hosts, "host", "hosts"),
		human.Counted(f.Files, "WARC file", "WARC files"), seeds))
	if f.Read > 0 {
		view.Say(fmt.Sprintf("%d of the WARC files have no sound index (.cdxj) and were read themselves.\n", f.Read))
	}
	view.Say(fmt.Sprintf("Delays: %s between requests to a host, at least %s with a large budget; %s to an address. "+
		"Connections: %d. Directory: %s\n", human.Duration(opt.Politeness.HostDelay),
		human.Duration(opt.Politeness.HostDelayMin), human.Duration(opt.Politeness.ServerDelay),
		c.Connections, opt.Disk.Dirs[0]))
	for _, line := range plan.Lines() {
		view.Say(line + "\n")
	}
}

// storedLines are the lines of the summary on what was served.
func storedLines(f *storedweb.Found, c *storedweb.Counts) []string {
	n := humanize.Comma
	lines := []string{fmt.Sprintf("served: %s, %s; %s of them for /robots.txt, %s with the "+
		"body of another capture", human.Counted(c.Served, "stored response", "stored responses"),
		human.Bytes(c.Bytes), n(c.Robots), human.Counted(c.Revisits, "revisit", "revisits"))}
	lines = append(lines, fmt.Sprintf("not stored: %s for URLs, and %s for a /robots.txt, got 404; %s of %s "+
		"questions to the name servers were for hosts without a name",
		human.Counted(c.NotStored, "request", "requests"), n(c.NoRobots),
		n(c.NoName), n(c.Lookups)))
	if c.Unused == 0 {
		lines = append(lines, fmt.Sprintf("stored: all %s requested",
			human.Counted(f.URLs, "URL was", "URLs were")))
	} else {
		lines = append(lines, fmt.Sprintf("stored: %s of %s not requested", n(c.Unused),
			human.Counted(f.URLs, "URL was", "URLs were")))
	}
	if c.Damaged+f.DamagedCount > 0 {
		lines = append(lines, fmt.Sprintf("damaged: %s got 502 for a damaged record; %s could "+
			"not be read completely", human.Counted(c.Damaged, "request", "requests"),
			human.Counted(f.DamagedCount, "file", "files")))
	}
	return lines
}

// maxPrinted bounds the names that are printed for each kind.
const maxPrinted = 5

// printNames prints the first URLs and files of each kind.
func printNames(out io.Writer, f *storedweb.Found, c *storedweb.Counts) error {
	var b strings.Builder
	for _, x := range []struct {
		title string
		n     int64
		list  []string
	}{
		{"Files that could not be read completely", f.DamagedCount, f.Damaged},
		{"Answered with 502, since the record is damaged", c.Damaged, c.DamagedList},
		{"Answered with 404, since it is not stored", c.NotStored, c.NotStoredList},
		{"Hosts without a name, since none of their URLs is stored", c.NoName, c.NoNameList},
		{"Stored but not requested", c.Unused, c.UnusedList},
	} {
		if x.n == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s:\n", x.title)
		shown := x.list[:min(len(x.list), maxPrinted)]
		for _, s := range shown {
			fmt.Fprintf(&b, "  %s\n", term.PlainText(s))
		}
		if more := x.n - int64(len(shown)); more > 0 {
			fmt.Fprintf(&b, "  and %s more\n", humanize.Comma(more))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
