// Package table has the commands that print the table of commands and flags in another form: config (a
// configuration file for --config), completion (for bash, zsh and fish) and man (a manual page).
//
// All three read the parser's model of the table that runs them, so a flag that is added to a command
// appears here without further work. docs/reference/flags.md comes from the same model, by a test of package cmd.
//
// Config prints with flags.Template, which knows how --config spells values. completion.go writes a shell
// script that has all names in it and does not run drumbeat; it completes commands, flags, the values of
// flags with a fixed set, and file names. man.go writes the macros of man(7) with one section for each
// command. Hidden commands and flags are left out.
//
// Exit codes: 0, or term.ExitUsage (2) for a name that is no command, or no shell.
//
// Tests of package cmd run the commands with the table of all commands: they read each configuration file
// again, run the completion in bash, and format the page with groff, where these are installed.
//
// Nothing here keeps state or starts a goroutine; all output goes through the App's standard output.
package table

import (
	"fmt"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// Config prints a configuration file with the defaults of a command.
type Config struct {
	Command string `arg:"" optional:"" enum:"crawl,demo,plan,bot-page" default:"crawl"`
}

// Run prints the file.
func (c *Config) Run(a *term.App, kctx *kong.Context) error {
	for _, command := range kctx.Model.Children {
		if command.Name == c.Command {
			return flags.Template(a.Stdout, command)
		}
	}
	return fmt.Errorf("BUG: no command %s", c.Command)
}
