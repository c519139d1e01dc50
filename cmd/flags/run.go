package flags

import (
	"errors"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/term"
)

// Run parses args by a table of commands, runs the selected command, and returns the exit code.
func Run(a *term.App, table any, args []string) (code int) {
	a.Args = args
	defer func() {
		if r := recover(); r != nil {
			exit, ok := r.(kongExit)
			if !ok {
				exit = kongExit(a.Panicked(r, debug.Stack()))
			}
			code = int(exit)
		}
	}()
	width := helpWidth
	if columns := term.Columns(a.Stdout); columns > 0 {
		width = max(leastWidth, min(width, columns))
	}
	out := term.NewPlain(a.Stdout) // output includes text from sites
	a.Stdout = out
	defer func() { _ = out.Flush() }()
	parser, err := NewParser(table, kong.Writers(a.Stdout, a.Stderr), kong.Help(helpPrinter(width)),
		kong.Exit(func(code int) { panic(kongExit(code)) }))
	if err != nil {
		return a.Fail(err)
	}
	switch { // the usual spellings of other programs
	case len(args) == 1 && args[0] == "--version":
		args = []string{"version"}
	case len(args) > 0 && args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	}
	if err := term.CheckEnvironment(parser, movedVariable); err != nil {
		return a.Fail(term.Usage(err))
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		err = explainMoved(err)
		if text, fromEnv := strings.CutSuffix(err.Error(), `")`); fromEnv { // the parser's word for a variable
			err = errors.New(strings.Replace(text, " (from envar ", " (from the variable ", 1) + `")`)
		}
		return a.Fail(term.Usage(err))
	}
	return a.Fail(kctx.Run(a))
}

// kongExit is the panic by which -h leaves the parser; its value is the exit code.
type kongExit int
