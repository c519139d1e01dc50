// Package cmd is the command: a table of the commands below it, from which the parser, -h, the names of
// environment variables and docs/reference/flags.md are made. A test compares that page.
//
// Each command is a package of its own. It exports Command, a struct with a field for each flag and a method
// Run, which checks the flags, computes defaults from the machine, calls the packages below, and prints. To
// add a command, write such a package, add its line to type commands here, and a line to the table of layers
// in internal/tidy.
//
// Package flags has the flags that several commands share. Package term has what they share of the process
// and the machine: streams, signals, exit codes. demo and bench run a crawl by package crawl of this folder,
// site runs the command crawl and then report, and repair prints what audit prints; no other command depends on
// another.
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
	"drumbeat/cmd/backup"
	"drumbeat/cmd/bench"
	"drumbeat/cmd/botpage"
	"drumbeat/cmd/cluster"
	"drumbeat/cmd/crawl"
	"drumbeat/cmd/ctl"
	"drumbeat/cmd/demo"
	"drumbeat/cmd/dirs"
	"drumbeat/cmd/doctor"
	"drumbeat/cmd/erase"
	"drumbeat/cmd/explain"
	"drumbeat/cmd/export"
	"drumbeat/cmd/extract"
	"drumbeat/cmd/flags"
	"drumbeat/cmd/get"
	"drumbeat/cmd/keys"
	"drumbeat/cmd/log"
	"drumbeat/cmd/plan"
	"drumbeat/cmd/publish"
	"drumbeat/cmd/rendercommand"
	"drumbeat/cmd/repair"
	"drumbeat/cmd/report"
	"drumbeat/cmd/restore"
	"drumbeat/cmd/site"
	"drumbeat/cmd/table"
	"drumbeat/cmd/term"
)

// commands is the table of all commands and flags, by the groups in which help, completion and the manual page list
// them (flags.CommandGroups).
type commands struct {
	Crawl   crawl.Command         `cmd:"" of:"start"`
	Site    site.Command          `cmd:"" of:"start" like:"crawl" set:"preset=own-site"`
	Demo    demo.Command          `cmd:"" of:"start"`
	Plan    plan.Command          `cmd:"" of:"start"`
	Doctor  doctor.Command        `cmd:"" of:"start"`
	Config  table.Config          `cmd:"" of:"start"`
	BotPage botpage.Command       `cmd:"" name:"bot-page" of:"start"`
	Keys    keys.Command          `cmd:"" of:"start"`
	Render  rendercommand.Command `cmd:"" name:"render-command" of:"start"`
	Cluster cluster.Command       `cmd:"" of:"start"`

	Ctl     ctl.Command     `cmd:"" of:"watch"`
	Log     log.Command     `cmd:"" of:"watch"`
	Explain explain.Command `cmd:"" of:"watch"`

	Report  report.Command  `cmd:"" of:"results"`
	Get     get.Command     `cmd:"" of:"results"`
	Export  export.Command  `cmd:"" of:"results"`
	Extract extract.Command `cmd:"" of:"results"`
	Index   export.Index    `cmd:"" of:"results"`
	Publish publish.Command `cmd:"" of:"results"`

	Audit   audit.Command   `cmd:"" of:"repair"`
	Repair  repair.Command  `cmd:"" of:"repair"`
	Backup  backup.Command  `cmd:"" of:"repair"`
	Restore restore.Command `cmd:"" of:"repair"`
	Erase   erase.Command   `cmd:"" of:"repair"`
	Dirs    dirs.Command    `cmd:"" of:"repair"`

	Bench bench.Command `cmd:"" of:"bench"`

	Completion table.Completion `cmd:"" of:"program"`
	Man        table.Man        `cmd:"" of:"program"`
	Version    versionCmd       `cmd:"" of:"program"`
}

// Main runs the command of this process and returns its exit code.
func Main(args []string) int { return flags.Run(term.Process(), new(commands), args) }

// versionCmd is the table of version's flags.
type versionCmd struct {
	JSON bool `name:"json"`
}

// Run prints the version, and of what this program was built.
func (c *versionCmd) Run(a *term.App) error {
	b := term.ThisBuild()
	if c.JSON {
		return term.WriteJSON(a.Stdout, b)
	}
	_, err := fmt.Fprintln(a.Stdout, "drumbeat "+b.String())
	return err
}
