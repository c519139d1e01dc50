package flags

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// The texts of --help stand in files of help, one for each command, as plain text:
//
//	= ctl top
//	    The text of the command.
//
//	--dir
//	    The text of the flag, in lines of any length. A blank line begins a paragraph.
//
//	<url>
//	    The text of the argument.
//
// A flag's text is that below its command, else that below the command above it (ctl), else that in shared.txt. All
// output joins lines and paragraphs by spaces and wraps them to its own width. A text may name variables of kong, such
// as ${defaultDir}.
//
//go:embed help/*.txt
var helpFiles embed.FS

// helpKey names a text: a command's path, and a flag (--dir), an argument (<url>), or "" for the command itself.
type helpKey struct{ command, name string }

// helpTexts returns all texts. The files are part of the program, so a fault in them is a bug.
func helpTexts() (map[helpKey]string, error) {
	files, err := helpFiles.ReadDir("help")
	if err != nil {
		return nil, fmt.Errorf("BUG: %w", err)
	}
	texts := map[helpKey]string{}
	for _, file := range files {
		data, err := helpFiles.ReadFile(path.Join("help", file.Name()))
		if err != nil {
			return nil, fmt.Errorf("BUG: %w", err)
		}
		var key helpKey
		for line := range strings.Lines(string(data)) {
			text := strings.TrimSpace(line)
			switch command, ok := strings.CutPrefix(text, "= "); {
			case text == "":
				continue
			case line[0] == ' ' || line[0] == '\t':
				texts[key] = strings.TrimSpace(texts[key] + " " + text)
				continue
			case ok:
				key = helpKey{command, ""}
			default:
				key.name = text
			}
			if _, twice := texts[key]; twice {
				return nil, fmt.Errorf("BUG: help/%s has %s twice", file.Name(), text)
			}
			texts[key] = ""
		}
	}
	return texts, nil
}

// addHelp gives commands, flags and arguments their texts.
func addHelp(k *kong.Kong) error {
	texts, err := helpTexts()
	if err != nil {
		return err
	}
	visitHelp(k.Model.Node, "", func(help *string, keys ...helpKey) {
		for _, key := range keys {
			if *help == "" { // of no tag either
				*help = texts[key]
			}
		}
	})
	return nil
}

// visitHelp calls f with the help of each command, flag and argument below node, and the keys of its text, first the
// one that has precedence.
func visitHelp(node *kong.Node, command string, f func(help *string, keys ...helpKey)) {
	above, _, _ := strings.Cut(command, " ")
	for _, arg := range node.Positional {
		name := "<" + arg.Name + ">"
		f(&arg.Help, helpKey{command, name}, helpKey{above, name}, helpKey{"", name})
	}
	for _, flag := range node.Flags {
		name := "--" + flag.Name
		f(&flag.Help, helpKey{command, name}, helpKey{above, name}, helpKey{"", name})
	}
	for _, child := range node.Children {
		path := strings.TrimSpace(command + " " + child.Name)
		f(&child.Help, helpKey{path, ""})
		visitHelp(child, path, f)
	}
}

// CheckHelp returns an error that names the commands, flags and arguments without a text, and the texts without one of
// these. app must have all commands.
func CheckHelp(app *kong.Application) error {
	texts, err := helpTexts()
	if err != nil {
		return err
	}
	unused := maps.Clone(texts)
	var missing []string
	visitHelp(app.Node, "", func(help *string, keys ...helpKey) {
		for _, key := range keys {
			if _, ok := texts[key]; ok {
				delete(unused, key)
				break
			}
		}
		if *help == "" {
			missing = append(missing, strings.TrimSpace(keys[0].command+" "+keys[0].name))
		}
	})
	if len(missing) == 0 && len(unused) == 0 {
		return nil
	}
	return fmt.Errorf("without a text in cmd/flags/help: %q; texts of nothing: %v", missing, slices.Collect(maps.Keys(unused)))
}
