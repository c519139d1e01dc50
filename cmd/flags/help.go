package flags

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"drumbeat/internal/human"
)

// Limits of the brief help.
const (
	helpWidth   = 100 // columns, unless the terminal has fewer
	leastWidth  = 60
	briefFrom   = 12 // flags: a command with fewer shows all of the text
	longestName = 28 // columns of names; longer ones get a line of their own
)

// fullHelp is the form of --help-all, and of --help for commands with few flags.
var fullHelp = kong.HelpOptions{Compact: true, WrapUpperBound: 110, ValueFormatter: HelpWithDefault}

// global holds the flags of all commands.
type global struct {
	HelpAll helpAll
}

// helpAll is --help-all.
type helpAll bool

// BeforeReset prints the help and exits, before the parser misses anything.
func (helpAll) BeforeReset(ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(fullHelp, ctx); err != nil {
		return err
	}
	ctx.Exit(0)
	return nil
}

// helpPrinter returns the printer of --help: a screen of at most width columns, with the flags tagged common
// if a command has any.
func helpPrinter(width int) kong.HelpPrinter {
	return func(options kong.HelpOptions, ctx *kong.Context) error {
		node := ctx.Selected()
		if node == nil {
			node = ctx.Model.Node
		}
		flags, all := briefFlags(node)
		if node.Type == kong.CommandNode && (len(node.Children) > 0 || len(flags) == all && all < briefFrom) {
			return kong.DefaultHelpPrinter(options, ctx)
		}
		b := brief{width: width, names: namesWidth(node, flags), preset: Like(node) != nil}
		fmt.Fprintf(&b.out, "Usage: drumbeat %s\n\n", strings.TrimSpace(strings.TrimPrefix(node.Summary(), "drumbeat")))
		for _, line := range Wrap(node.Help, width) {
			b.out.WriteString(line + "\n")
		}
		if node.Detail != "" {
			b.out.WriteString("\n" + strings.TrimRight(node.Detail, "\n") + "\n")
		}
		b.out.WriteString("\n")
		for _, arg := range node.Positional {
			b.row(arg.Summary(), arg.Help, "")
		}
		if node.Type == kong.ApplicationNode {
			for _, group := range CommandGroups {
				head := group.Title + "\n"
				for _, command := range CommandsOf(node, group) {
					b.out.WriteString(head)
					head = ""
					b.row(command.Name, command.Help, "")
				}
			}
			b.out.WriteString("\ndrumbeat help COMMAND prints the flags of a command, drumbeat COMMAND " +
				"--help-all all of them.\n")
		} else {
			b.flags(flags)
			if len(flags) < all {
				fmt.Fprintf(&b.out, "\nThese are %d of %s. --help-all prints all with their full text.\n",
					len(flags), human.Counted(all, "flag", "flags"))
			} else {
				b.out.WriteString("\n--help-all prints the full text.\n")
			}
		}
		_, err := ctx.Stdout.Write(b.out.Bytes())
		return err
	}
}

// briefFlags returns the flags of a command for --help, and the number of all that are not hidden. Those of a command
// that is like another have its name as tag.
func briefFlags(command *kong.Node) (brief []*kong.Flag, all int) {
	tag := "common"
	if Like(command) != nil {
		tag = command.Name
	}
	var visible []*kong.Flag
	for _, flag := range command.Flags {
		if flag.Hidden || flag.Name == "help" {
			continue
		}
		visible = append(visible, flag)
		if flag.Tag.Has(tag) {
			brief = append(brief, flag)
		}
	}
	if brief == nil {
		brief = visible
	}
	return brief, len(visible)
}

// namesWidth returns the width of the column of names.
func namesWidth(node *kong.Node, flags []*kong.Flag) (width int) {
	var names []string
	for _, flag := range flags {
		names = append(names, flagName(flag))
	}
	for _, arg := range node.Positional {
		names = append(names, arg.Summary())
	}
	if node.Type == kong.ApplicationNode {
		for _, command := range node.Children {
			names = append(names, command.Name)
		}
	}
	for _, name := range names {
		width = max(width, min(len(name), longestName))
	}
	return width
}

// brief collects the text of --help.
type brief struct {
	width, names int  // columns, of all and of the names
	preset       bool // a preset changes defaults, so none is printed
	out          bytes.Buffer
}

// flags prints the flags by group, a line each.
func (b *brief) flags(flags []*kong.Flag) {
	for _, group := range append([]kong.Group{{Title: "Flags"}}, Groups[:]...) {
		head := group.Title + "\n"
		for _, flag := range flags {
			key := ""
			if flag.Group != nil {
				key = flag.Group.Key
			}
			if key != group.Key {
				continue
			}
			b.out.WriteString(head)
			head = ""
			def := ""
			plain := flag.HasDefault && !b.preset && !flag.IsBool() && !strings.Contains(flag.Default, "=")
			if plain && flag.Default != "0" && flag.Default != "0s" && flag.Default != "none" {
				def = flag.Default
			}
			b.row(flagName(flag), flag.Help, def)
		}
	}
}

// flagName returns a flag as the brief help names it.
func flagName(flag *kong.Flag) string {
	short := ""
	if flag.Short != 0 {
		short = "-" + string(flag.Short) + ", "
	}
	if flag.IsBool() {
		return short + "--" + flag.Name
	}
	value := flag.PlaceHolder
	if value == "" && flag.Enum != "" {
		value = strings.ReplaceAll(flag.Enum, ",", "|")
	}
	return short + "--" + flag.Name + "=" + value
}

// row prints a name and the first sentence of its help, on one line if the name is not too long. The default
// follows if there is room.
func (b *brief) row(name, help, def string) {
	indent := b.names + len("    ")
	text := FirstSentence(help)
	if room := b.width - indent; len(text) > room {
		text = Wrap(text, room-len(" ..."))[0] + " ..."
	}
	if with := text + " [" + def + "]"; def != "" && indent+len(with) <= b.width {
		text = with
	}
	if len(name) > b.names {
		fmt.Fprintf(&b.out, "  %s\n%*s%s\n", name, indent, "", text)
		return
	}
	fmt.Fprintf(&b.out, "  %-*s  %s\n", b.names, name, text)
}

// FirstSentence returns the text before the first full stop that a space follows.
func FirstSentence(text string) string {
	if end := strings.Index(text, ". "); end >= 0 {
		text = text[:end]
	}
	return strings.TrimSuffix(text, ".")
}
