package flags

import (
	"errors"
	"fmt"
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
	args = usual(args)
	if err := term.CheckEnvironment(parser, movedVariable); err != nil {
		return a.Fail(term.Usage(err))
	}
	if err := checkCommand(parser.Model.Node, args); err != nil {
		return a.Fail(term.Usage(err))
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return a.Fail(term.Usage(plainVariable(explainMissing(explainMoved(err)))))
	}
	return a.Fail(runSelected(kctx, a))
}

// Several is implemented by a command whose subcommands may run more than once, each time with other bindings.
type Several interface {
	// Several runs the selected subcommand by run, which may be called concurrently.
	Several(a *term.App, run func(a *term.App, binds ...any) error) error
}

// runSelected runs the selected command.
func runSelected(k *kong.Context, a *term.App) error {
	run := func(a *term.App, binds ...any) error { return k.Run(append(binds, a)...) }
	for node := k.Selected(); node != nil; node = node.Parent {
		if node.Target.CanAddr() {
			if several, ok := node.Target.Addr().Interface().(Several); ok {
				return several.Several(a, run)
			}
		}
	}
	return run(a)
}

// plainVariable replaces the parser's word for a variable in an error.
func plainVariable(err error) error {
	text, of := strings.CutSuffix(err.Error(), `")`)
	if before, after, ok := strings.Cut(text, " (from envar "); of && ok {
		return errors.New(before + " (from the variable " + after + `")`)
	}
	return err
}

// kongExit is the panic by which -h leaves the parser; its value is the exit code.
type kongExit int

// usual translates the usual spellings of other programs.
func usual(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case len(args) == 1 && (args[0] == "--version" || args[0] == "-V"):
		return []string{"version"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// checkCommand refuses the first word that is no command where one is expected, with a guess: a similar name, or a
// command of the same name elsewhere in the table.
func checkCommand(node *kong.Node, args []string) error {
	for _, word := range args {
		if strings.HasPrefix(word, "-") || len(node.Children) == 0 {
			return nil
		}
		next := commandNamed(node, word)
		if next == nil {
			return unknownCommand(node, word)
		}
		node = next
	}
	return nil
}

// unknownCommand says that word is no command below node.
func unknownCommand(node *kong.Node, word string) error {
	var names, elsewhere []string
	for _, command := range node.Children {
		if command.Hidden {
			continue
		}
		names = append(names, command.Name)
		if commandNamed(command, word) != nil {
			elsewhere = append(elsewhere, command.Name+" "+word)
		}
	}
	guess := term.Nearest(word, names)
	if len(elsewhere) > 0 {
		guess = strings.Join(elsewhere, `" or "`)
	}
	all := strings.TrimSpace("drumbeat help " + strings.TrimPrefix(strings.TrimPrefix(node.Path(), "drumbeat"), " "))
	for _, takesURL := range []string{"url", "crawl"} { // of explain, and of the program
		if strings.Contains(word, "://") && commandNamed(node, takesURL) != nil {
			guess = strings.TrimPrefix(node.FullPath()+" "+takesURL+" "+word, "drumbeat ")
		}
	}
	if guess != "" {
		return fmt.Errorf("%q is not a command, did you mean \"%s\"? %s lists all", word, guess, all)
	}
	return fmt.Errorf("%q is not a command; %s lists all", word, all)
}

// explainMissing names the arguments and flags that a command needs and did not get, one by one, each with its
// text, and an example. Other errors of the parser stay as they are.
func explainMissing(err error) error {
	var parse *kong.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	text, node := err.Error(), parse.Context.Selected()
	if node != nil && strings.HasPrefix(text, "expected one of ") {
		var names []string
		for _, command := range node.Children {
			if !command.Hidden {
				names = append(names, command.Name)
			}
		}
		command := strings.TrimPrefix(node.FullPath(), "drumbeat ")
		return fmt.Errorf("%s needs one of its commands: %s. drumbeat help %[1]s has more", command,
			strings.Join(names, ", "))
	}
	if node == nil || !strings.HasPrefix(text, "missing flags: ") && !strings.HasPrefix(text, "expected \"<") {
		return err
	}
	var missing []string
	for _, arg := range node.Positional {
		if arg.Required && !arg.Set {
			missing = append(missing, fmt.Sprintf("%s (%s)", arg.Summary(), FirstSentence(arg.Help)))
		}
	}
	for _, flag := range node.Flags {
		if flag.Required && !flag.Set {
			text, _, _ := strings.Cut(FirstSentence(flag.Help), ": ")
			missing = append(missing, fmt.Sprintf("%s (%s)", flagName(flag), text))
		}
	}
	if len(missing) == 0 {
		return err
	}
	command := strings.TrimPrefix(node.FullPath(), "drumbeat ")
	text = fmt.Sprintf("%s needs %s", command, strings.Join(missing, ", and "))
	if example := firstExample(node); example != "" {
		return fmt.Errorf("%s. Example: %s", text, example)
	}
	return fmt.Errorf("%s. drumbeat help %s has more", text, command)
}

// firstExample returns the first example of a command's help; "" if it has none.
func firstExample(node *kong.Node) string {
	for line := range strings.Lines(node.Detail) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "drumbeat "+node.Name+" ") {
			return line
		}
	}
	return ""
}
