// Package cmd is the command: a table of the commands below it, from which the parser, -h, the names of
// environment variables and docs/FLAGS.md are made. A test compares that page.
//
// Each command is a package of its own. It exports Command, a struct with a field for each flag and a method
// Run, which checks the flags, computes defaults from the machine, calls the packages below, and prints. To
// add a command, write such a package, add its line to type commands here, and a line to the table of layers
// in internal/tidy.
//
// Package flags has the flags that several commands share. Package term has what they share of the process
// and the machine: streams, signals, exit codes. demo and bench run a crawl by package crawl of this folder,
// and repair prints what audit prints; no other command depends on another.
//
// Errors go up to flags.Run, where term.App prints each as one line on standard error and turns it into an
// exit code: term.Usage marks a fault of flags or input (2), *term.Ended is an orderly end with its own
// code, and others are classified by what they wrap. A panic, in any goroutine, has a code of its own.
//
// A process runs one command, in the goroutine of Main. The first SIGINT or SIGTERM cancels the command's
// context, a second one ends the process; the files on disk are then as after a crash.
//
// The tests here run several commands, such as a crawl and its audit; tests of a single command are in its
// package.
package cmd

import (
	"fmt"

	"drumbeat/cmd/audit"
	"drumbeat/cmd/bench"
	"drumbeat/cmd/botpage"
	"drumbeat/cmd/cluster"
	"drumbeat/cmd/crawl"
	"drumbeat/cmd/ctl"
	"drumbeat/cmd/demo"
	"drumbeat/cmd/dirs"
	"drumbeat/cmd/doctor"
	"drumbeat/cmd/explain"
	"drumbeat/cmd/export"
	"drumbeat/cmd/extract"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/get"
	"drumbeat/cmd/log"
	"drumbeat/cmd/plan"
	"drumbeat/cmd/repair"
	"drumbeat/cmd/report"
	"drumbeat/cmd/table"
	"drumbeat/cmd/term"
)

// commands is the table of all commands and flags.
type commands struct {
	Crawl      crawl.Command    `cmd:"" help:"Crawl the web from a list of seeds. The same command resumes the crawl, and adds new seeds of the file."`
	Demo       demo.Command     `cmd:"" help:"Crawl a synthetic web that this process serves on loopback."`
	Plan       plan.Command     `cmd:"" help:"Predict RAM, disk space and speed of a crawl, by the plan that the crawl would make."`
	Doctor     doctor.Command   `cmd:"" help:"Check whether this machine can run the planned crawl. It compares limits, network, name servers, RAM, CPU, clock and disks with what the crawl needs, and says how to mend what is wrong. Exit code 1 if a check fails."`
	Explain    explain.Command  `cmd:"" help:"Explain a decision of the crawler about a URL, host, link, robots.txt or scope rule. Without arguments: answer JSON lines of standard input by JSON lines."`
	Log        log.Command      `cmd:"" help:"Print the log of a stopped or running crawl: what became of each URL. Select lines by status, reason, host, URL, media type and time, count them, or follow the log as it grows."`
	Get        get.Command      `cmd:"" help:"Print the stored response of a URL: its body, head, text or WARC record."`
	BotPage    botpage.Command  `cmd:"" name:"bot-page" help:"Print or serve a page for site owners. It says who crawls, why, from which addresses, and how to stop the crawler or slow it down."`
	Ctl        ctl.Command      `cmd:"" help:"Watch and steer a running crawl: state, pause, limits, blocks, delays, budgets, seeds."`
	Report     report.Command   `cmd:"" help:"Write a report of a crawl as HTML or JSON. It has the figures of the paper beside the paper's own, the speed over time and what limited it, top PLDs, codes, reasons and events."`
	Export     export.Command   `cmd:"" help:"Write what a crawl found as a table in Parquet, CSV or JSON lines. It has PLDs, edges between them, hosts, pages, links, refusals, waiting URLs, or robots.txt. The same command goes on after an interruption."`
	Cluster    cluster.Command  `cmd:"" help:"Prepare a crawl of several nodes: make and show the file that all of them share. Show and compare its nodes, and move parts of the web between stopped ones."`
	Index      export.Index     `cmd:"" help:"Write the indexes of all WARC files as one, sorted. Its format is CDXJ or ZipNum, for replay tools such as pywb and OutbackCDX."`
	Extract    extract.Command  `cmd:"" help:"Write the texts of the HTML pages for an index. It has main text, title, language, description, canonical URL and JSON-LD, as WET, Parquet, CSV or JSON lines. The same command goes on after an interruption."`
	Audit      audit.Command    `cmd:"" help:"Read the files of a stopped crawl and check that no URL was lost or duplicated."`
	Repair     repair.Command   `cmd:"" help:"Repair a stopped crawl with damaged files so it can resume. It prints what is lost. It deletes nothing: it moves replaced files to DIR/state/damaged."`
	Dirs       dirs.Command     `cmd:"" help:"List the directories of a crawl, or remove empty ones from it."`
	Bench      bench.Command    `cmd:"" help:"Measure the parts of the crawler on this machine, and compute the paper's formulas."`
	Config     table.Config     `cmd:"" help:"Print a configuration file with all flags of a command and their defaults. All lines are comments; --config reads the file."`
	Completion table.Completion `cmd:"" help:"Print a script that completes commands, flags and values in bash, zsh or fish."`
	Man        table.Man        `cmd:"" help:"Print the manual page, for man(1)."`
	Version    versionCmd       `cmd:"" help:"Print the version."`
}

// Main runs the command of this process and returns its exit code.
func Main(args []string) int {
	return flags.Run(term.Process(), new(commands), args)
}

// versionCmd has no flags.
type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *term.App) error {
	_, err := fmt.Fprintln(a.Stdout, "drumbeat "+term.Build())
	return err
}
