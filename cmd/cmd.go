// Package cmd is the command: one table of the commands below it, which makes the parser, -h, the names of the environment's
// variables and docs/FLAGS.md, and a test that compares that page.
//
// Each command is a package of its own. It exports Command, a struct with a field for each flag and a method Run, which
// checks the flags, completes them by what the machine has, calls the packages below, and prints. To add a command, write
// such a package and add its line to type commands here; the table of layers in internal/tidy takes a line, too.
//
// What several commands share of their flags is package flags, and what they share of the process and the machine, with
// streams, signals and exit codes, is package term. demo and bench run a crawl by package crawl of this folder, repair
// prints what audit prints; else no command knows another.
//
// Errors go up to flags.Run, where term.App prints each as one line on standard error and turns it into an exit code: a
// fault of flags or input is made by term.Usage and ends with 2, an end that is no failure is a *term.Ended with its own
// code, and the rest is told apart by what it wraps. A panic ends with a code of its own, whichever goroutine it is in.
//
// A process runs one command, in the goroutine of Main. The first SIGINT or SIGTERM ends the command's context, a second
// one ends the process; what is on disk is then as after a crash.
//
// The tests here run what needs several commands, such as a crawl and its audit; those of one command lie with it.
package cmd

import (
	"fmt"
	"runtime/debug"

	"drumbeat/cmd/audit"
	"drumbeat/cmd/bench"
	"drumbeat/cmd/botpage"
	"drumbeat/cmd/crawl"
	"drumbeat/cmd/demo"
	"drumbeat/cmd/dirs"
	"drumbeat/cmd/explain"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/plan"
	"drumbeat/cmd/repair"
	"drumbeat/cmd/term"
)

// commands is the one table of commands and flags: it makes the parser, -h and docs/FLAGS.md, which a test compares.
type commands struct {
	Crawl   crawl.Command   `cmd:"" help:"Crawl from a list of seeds. The same command resumes, and adds seeds that are new in the file."`
	Demo    demo.Command    `cmd:"" help:"Crawl a synthetic web that is served by this very process on loopback."`
	Plan    plan.Command    `cmd:"" help:"Say what a crawl of so many pages will take of RAM and disk, and how fast it can be, by the plan that the crawl itself would make."`
	Explain explain.Command `cmd:"" help:"Say what the crawler thinks of a thing. Without arguments: JSON lines in, JSON lines out."`
	BotPage botpage.Command `cmd:"" name:"bot-page" help:"Print or serve the page for site owners that the operator of a crawl publishes: who crawls, why, how to stop it or slow it down, from where it comes."`
	Audit   audit.Command   `cmd:"" help:"Read the files of a stopped crawl and prove that no URL was lost or doubled."`
	Repair  repair.Command  `cmd:"" help:"Bring a stopped crawl with damaged files to a state that balances and can go on, and say what is lost. Nothing is deleted: what it replaces it moves to DIR/state/damaged."`
	Dirs    dirs.Command    `cmd:"" help:"The directories of a crawl: which is which, and how to let one go that holds nothing."`
	Bench   bench.Command   `cmd:"" help:"Measure this machine, and compute what the paper's formulas promise for it."`
	Version versionCmd      `cmd:"" help:"Print the version."`
}

// Main runs the command of this process and returns its exit code.
func Main(args []string) int {
	return flags.Run(term.Process(), new(commands), args)
}

// versionCmd has no flags.
type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *term.App) error {
	_, err := fmt.Fprintln(a.Stdout, "drumbeat "+version())
	return err
}

// version is that of the module, or of the commit that a build in the repository was made from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "-" + s.Value[:12]
			}
		}
	}
	return v
}
