package table

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// Man prints a manual page.
type Man struct{}

// Run prints the page.
func (*Man) Run(a *term.App, kctx *kong.Context) error {
	_, err := a.Stdout.Write(manPage(kctx.Model))
	return err
}

// manPage returns the page of the table, in the macros of man(7).
func manPage(app *kong.Application) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH DRUMBEAT 1 \"\" \"drumbeat %s\" \"User Commands\"\n", roff(term.Version()))
	b.WriteString(".ad l\n.SH NAME\ndrumbeat \\- web crawler for one large server\n" +
		".SH SYNOPSIS\n\\fBdrumbeat\\fR \\fIcommand\\fR [\\fIarguments\\fR] [\\fIflags\\fR]\n" +
		".SH DESCRIPTION\n" + roff(app.Help) + "\n.PP\n" +
		roff("drumbeat help COMMAND prints the most used flags of a command; --help-all prints all. "+
			"Sizes take decimal and binary units (2MB, 2MiB), durations are written as 90s, 1h30m or 7d, and "+
			"large numbers as 1e6.") + "\n")
	for _, group := range flags.CommandGroups {
		head := ".SH " + strings.ToUpper(roff(group.Title)) + "\n"
		for _, command := range flags.CommandsOf(app.Node, group) {
			b.WriteString(head)
			head = ""
			for _, leaf := range leaves(command) {
				writeCommand(&b, leaf)
			}
		}
	}
	b.WriteString(".SH ENVIRONMENT\n" +
		roff("A variable sets each flag: DRUMBEAT_HOST_DELAY sets --host-delay. Variables of demo begin with "+
			"DRUMBEAT_DEMO_, those of bench with DRUMBEAT_BENCH_, those of log but --dir with "+
			"DRUMBEAT_LOG_, and those of explain's "+
			"--dir, --out, --json and --fast with DRUMBEAT_EXPLAIN_. The command line takes precedence over "+
			"the environment, "+
			"which precedes --config, --preset and the default.") +
		"\n.SH EXIT STATUS\n" + roff("0 if the command is done, 2 for a bad flag or bad input. "+
		"docs/reference/exit-codes.md lists all.") +
		"\n.SH SEE ALSO\n" + roff("docs/start, docs/howto and docs/reference in the source of drumbeat.") + "\n")
	return b.Bytes()
}

// leaves returns a command without commands below it, or else all of those.
func leaves(command *kong.Node) []*kong.Node {
	if len(command.Children) == 0 {
		return []*kong.Node{command}
	}
	return command.Leaves(true)
}

// writeCommand writes the section of a command.
func writeCommand(b *bytes.Buffer, command *kong.Node) {
	fmt.Fprintf(b, ".SS %s\n%s\n", roff("drumbeat "+strings.TrimPrefix(command.Path(), "drumbeat ")),
		roff(command.Help))
	for _, arg := range command.Positional {
		fmt.Fprintf(b, ".TP\n\\fI%s\\fR\n%s\n", roff(arg.Summary()), roff(arg.Help))
	}
	if like := flags.Like(command); like != nil {
		fmt.Fprintf(b, ".PP\n%s\n", roff("It has all flags of drumbeat "+like.Name+", and:"))
	}
	for _, flag := range slices.Concat(inherited(command), flags.OwnFlags(command)) {
		if flag.Hidden || flag.Name == "help" {
			continue
		}
		name := "\\fB" + roff("--"+flag.Name) + "\\fR"
		if flag.Tag.Negatable != "" {
			name += ", \\fB" + roff("--no-"+flag.Name) + "\\fR"
		}
		if flag.Short != 0 {
			name = "\\fB" + roff("-"+string(flag.Short)) + "\\fR, " + name
		}
		if !flag.IsBool() {
			value := flag.PlaceHolder
			if flag.Enum != "" && (value == "" || len(flag.Enum) <= longestEnum) {
				value = strings.ReplaceAll(flag.Enum, ",", "|")
			}
			name += "=\\fI" + roff(value) + "\\fR"
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", name, roff(flags.HelpWithDefault(flag.Value)))
	}
	for paragraph := range strings.SplitSeq(command.Detail, "\n\n") {
		switch {
		case strings.Contains(paragraph, "\n"): // a list, such as examples
			b.WriteString(".PP\n.nf\n" + roff(paragraph) + "\n.fi\n")
		case paragraph != "":
			b.WriteString(".PP\n" + roff(paragraph) + "\n")
		}
	}
}

// longestEnum is the length of a list of values that fits on a line. Instead of a longer one stands the flag's
// placeholder; its help has the values.
const longestEnum = 50

// inherited returns the flags of the commands above a command.
func inherited(command *kong.Node) (list []*kong.Flag) {
	for n := command.Parent; n != nil && n.Type == kong.CommandNode; n = n.Parent {
		list = slices.Concat(n.Flags, list)
	}
	return list
}

// roff escapes text: backslashes, hyphens, characters beyond ASCII, and marks at the start of a line.
func roff(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			b.WriteString(`\&`)
		}
		for _, r := range line {
			switch {
			case r == '\\':
				b.WriteString(`\e`)
			case r == '-':
				b.WriteString(`\-`)
			case r == '|': // a list of values may break there
				b.WriteString(`|\:`)
			case r > '~':
				fmt.Fprintf(&b, `\[u%04X]`, r)
			default:
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
