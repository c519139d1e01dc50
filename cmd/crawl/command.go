// Package crawl is the command crawl. It makes the options of package drumbeat/crawl from flags, environment
// and machine, shows the progress of the crawl, and prints its end.
//
// Command (command.go) is the table of its flags, in groups: those that other commands share come from package flags,
// the others stand in groups.go or in a file with their code. Each sets its group of crawl.Options.
// settings.go checks the flags and computes defaults from the machine, options.go turns them into
// crawl.Options, network.go opens the resolver and the fetcher. seeds.go copies seeds from standard input or
// the command line into the crawl's first directory, so the same command resumes.
//
// View (view.go, progress.go) shows a running crawl: on a terminal as a block of lines below the log,
// rewritten each second, elsewhere as a line every ten seconds. Summary (summary.go) is the end, and json.go
// has the same figures for --summary. noseed.go names the missing flags if no seed could be fetched.
//
// demo and bench crawl in the same way, with webs of their own, by OpenNetwork, MakePlan, Execute, View and
// Summary. Execute bounds the process to the plan (memory limit, garbage collector) and handles SIGINT,
// SIGTERM and SIGHUP. Any goroutine may write to a View.
//
// Exit codes: all of package term's. EndOf returns those of an orderly end: 0 done, 3 disk full, 11 signal,
// 14 --max-pages, 15 --max-time, 17 drained. Others are 16 if no seed could be fetched, and 4 for a
// directory that is in use, foreign or incomplete.
package crawl

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/state"
)

// Command is the table of crawl's flags. A pointer is nil if the flag is not given and the machine decides.
type Command struct {
	URLs   []string `arg:"" name:"url" optional:""`
	Seeds  string   `group:"what" common:"" placeholder:"FILE"`
	Dir    []string `group:"what" common:"" site:"" short:"d" placeholder:"DIR" default:"${defaultDir}"`
	AddDir []string `group:"what" placeholder:"DIR"`
	Out    []string `group:"what" common:"" placeholder:"DIR"`
	AddOut []string `group:"what" placeholder:"DIR"`
	Drain  bool     `group:"what"`
	New    bool     `group:"what"`
	Scope  string   `group:"what" common:"" site:"" enum:"all,pld,host" default:"all"`

	flags.RuleFiles

	Sitemaps       bool `group:"what" common:""`
	flags.Fetching `group:"what"`

	limitFlags
	flags.URLRules
	flags.Bodies

	flags.Who
	flags.About
	flags.Delays
	flags.Health
	flags.Sign
	Retries flags.Count `group:"politeness" placeholder:"N" default:"3"`

	flags.Links
	netFlags
	budgetFlags
	resourceFlags
	hookFlags
	renderFlags
	recrawlFlags
	extractFlags
	priorityFlags
	storeFlags
	backupFlags
	clusterFlags
	outputFlags
	reportFlags

	once func(*crawl.Snapshot) // of Once: gets the snapshots; nothing is said of the end
}

// Run crawls.
func (c *Command) Run(a *term.App, kctx *kong.Context, settings *flags.Settings) error {
	return c.RunThen(a, kctx, settings, func(*crawl.Options, *crawl.Result) error { return nil })
}

// RunThen crawls, and calls then after the summary of a crawl that has fetched something. The error of then is that
// of the command, joined to the reason of the end.
func (c *Command) RunThen(a *term.App, kctx *kong.Context, settings *flags.Settings,
	then func(*crawl.Options, *crawl.Result) error) error {
	c.renderFlags.env = a.Environment
	c.Fetching.Apply(&c.Bodies, &c.URLRules, &c.Links)
	if err := c.check(); err != nil {
		return err
	}
	m, err := term.ThisMachine()
	if err != nil {
		return err
	}
	notes, err := c.Complete(m)
	if err != nil {
		return err
	}
	opt := c.Options()
	if opt.Output.WARCDict, err = c.readDict(); err != nil {
		return term.Usage(err)
	}
	if err := c.ReadCluster(&opt); err != nil {
		return err
	}
	plan, err := MakePlan(&opt)
	if err != nil {
		return err
	}
	if err := c.readKeys(&opt.Identity); err != nil {
		return err
	}
	hideSecrets(&opt, a)
	scoping, err := c.readRules(opt.Admission.Env)
	if err != nil {
		return err
	}
	if c.PrintConfig {
		return errors.Join(settings.Print(a.Stdout, kctx.Selected()), printPlan(a.Stdout, plan, &opt),
			scoping.Print(a.Stdout), printSigner(a.Stdout, &opt.Identity))
	}
	if err := c.checkBrowser(context.Background()); err != nil {
		return term.Usage(err)
	}
	if err := errors.Join(c.openStore(&opt), c.openBackup(&opt)); err != nil {
		return err
	}
	view := NewView(a.Stderr, &c.Logging)
	defer view.Close()
	view.Watch = c.once
	var rules strings.Builder
	if err := errors.Join(scoping.Print(&rules), printSigner(&rules, &opt.Identity)); err != nil {
		return err
	}
	view.Say(rules.String())
	stop, err := c.openCluster(&opt, c.Timeout.All, func(text string) { view.log.Warn("cluster: " + text) })
	if err != nil {
		return err
	}
	if c.listens != "" {
		notes = append(notes, "the broker of the cluster listens on "+c.listens)
	}
	notes = append(notes, plan.Short()+"; --print-config shows the configuration and the plan")
	for _, n := range append(notes,
		wideDirectories(slices.Concat(opt.Disk.Dirs, opt.Disk.Out), opt.Output.OutMode)...) {
		view.Note(n)
	}
	if err := c.copyLists(a, &opt, view); err != nil {
		return err
	}
	return errors.Join(c.start(a, &opt, plan, view, then), stop())
}

// maxNetsLogged bounds a line of the log.
const maxNetsLogged = 16

// start opens the network and crawls.
func (c *Command) start(a *term.App, opt *crawl.Options, plan crawl.Plan, view *View,
	then func(*crawl.Options, *crawl.Result) error) error {
	network, err := c.network(plan, opt.Network.Bandwidth, a.NamePanicked())
	if err != nil {
		return err
	}
	opt.Network.Resolver, opt.Network.Fetcher = network.Resolver, network.Fetcher
	opt.Network.CloseIdle = network.Fetcher.CloseIdle
	if nets := network.Fetcher.OwnPublicNets(); len(nets) > 0 {
		view.log.Info(
			"crawl: addresses on the networks of this machine's interfaces are refused; --allow-net allows them",
			"networks", nets[:min(len(nets), maxNetsLogged)], "of", len(nets))
	}
	opt.Network.AllowedAddr, opt.Network.Ports, opt.Network.FetchLimits = network.Fetcher.AllowedAddr,
		network.Fetcher.Ports(), network.Limits
	opt.Links.SitemapEncoding = c.AcceptEncoding.ForSitemaps()
	if c.AcceptEncoding.Auto {
		opt.Network.SetAcceptEncoding = network.Fetcher.SetAcceptEncoding
	}
	if opt.Links.SitemapBytes, err = c.sitemapBytes(network.Limits, network.bodies); err != nil {
		return errors.Join(term.Usage(err), network.Close())
	}
	opt.Observe.Panicked = func(value any, stack []byte) {
		view.out.wait()
		a.Die(value, stack)
	}
	var res *crawl.Result
	err = c.Profiled(func() (err error) {
		res, err = Execute(a, opt, plan, view, c.Admin)
		return err
	})
	var noSeed *noSeed
	if finished := errors.Is(err, state.ErrFinished); (err == nil || finished) && fetchedNothing(res) {
		noSeed = whyNoSeed(opt, network.Fetcher.Refusal, res)
	}
	err = errors.Join(err, network.Close())
	finished := errors.Is(err, state.ErrFinished)
	switch {
	case err != nil && !finished:
		return err
	case c.once != nil:
		return EndOf(res.Stop)
	}
	sum := Summary{Result: res, Dirs: opt.Disk.Dirs, out: opt.Disk.Out, format: opt.Output.WARCFormat,
		RAM: opt.Limits.RAMBytes, Finished: finished}
	if opt.Output.Store {
		sum.Page = "URL"
		if len(c.URLs) > 0 {
			sum.Page = c.URLs[0]
		}
	}
	if opt.Extract != nil {
		sum.extract = opt.Extract.Dir
	}
	if err := PrintSummary(a.Stdout, sum); err != nil {
		return err
	}
	if c.Summary != "" {
		if err := saveSummary(c.Summary, res); err != nil {
			return err
		}
	}
	if noSeed != nil {
		noSeed.print(a.Stderr)
		return &term.Ended{Code: term.ExitNoSeed, Why: "no seed could be fetched", Quiet: true}
	}
	return errors.Join(then(opt, res), EndOf(res.Stop))
}

// EndOf returns the error, with its exit code, for the reason of a crawl's end; nil if the crawl is done.
func EndOf(stop string) error {
	switch stop {
	case crawl.StopCancelled:
		return &term.Ended{Code: term.ExitSignal, Why: stop, Quiet: true}
	case crawl.StopPages:
		return &term.Ended{Code: term.ExitPages, Why: stop, Quiet: true}
	case crawl.StopDisk:
		return &term.Ended{Code: term.ExitDiskFull,
			Why: "a disk is nearly full, or --disk is nearly reached (--when-full stop); the last error " +
				"of the log says " +
				"which, and how much is used"}
	case crawl.StopDrained:
		return &term.Ended{Code: term.ExitDrained, Why: stop, Quiet: true}
	case crawl.StopOutage:
		return &term.Ended{Code: term.ExitOutage,
			Why: "nothing has answered for as long as --outage-patience allows: the network or the name " +
				"servers are down, or " +
				"all servers drop our packets; the same command resumes"}
	case crawl.StopTime:
		return &term.Ended{Code: term.ExitTime, Why: stop, Quiet: true}
	}
	return nil
}
