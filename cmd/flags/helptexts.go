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
//	    What --help prints below the usage, in paragraphs.
//
//	    Examples:
//	      Lines that are indented further stay lines.
//
//	--dir
//	    The text of the flag.
//
//	--guards depth
//	    The text of a part of a flag (parts.go).
//
//	<url>
//	    The text of the argument.
//
// A blank line ends a paragraph. A flag's text is that below its command, else that below the command above
// it (ctl), else that in shared.txt. The output joins the lines of a paragraph, and the paragraphs of a flag,
// by spaces, and wraps them to its width. A text may name variables of kong, such as ${defaultDir}.
//
//go:embed help/*.txt
var helpFiles embed.FS

// helpKey names a text: a command's path, and a flag (--dir), an argument (<url>), or "" for the command
// itself.
type helpKey struct{ command, name string }

// helpText is a text: its paragraphs, each on one line but for lines that are indented further.
type helpText []string

// add adds a line of a file to the text.
func (t *helpText) add(line string) {
	line, last := strings.TrimPrefix(line, helpIndent), len(*t)-1
	switch {
	case last < 0:
		*t = helpText{line}
	case line == "":
		*t = append(t.end(), "")
	case (*t)[last] == "":
		(*t)[last] = line
	case strings.HasPrefix(line, " "):
		(*t)[last] += "\n" + line
	default:
		(*t)[last] += " " + line
	}
}

// helpIndent begins each line of a text.
const helpIndent = "    "

// helpTexts returns all texts. The files are part of the program, so a fault in them is a bug.
func helpTexts() (map[helpKey]helpText, error) {
	files, err := helpFiles.ReadDir("help")
	if err != nil {
		return nil, fmt.Errorf("BUG: %w", err)
	}
	texts := map[helpKey]helpText{}
	for _, file := range files {
		data, err := helpFiles.ReadFile(path.Join("help", file.Name()))
		if err != nil {
			return nil, fmt.Errorf("BUG: %w", err)
		}
		var key helpKey
		for line := range strings.SplitSeq(string(data), "\n") {
			if line == "" || strings.HasPrefix(line, helpIndent) {
				text := texts[key]
				text.add(line)
				texts[key] = text
				continue
			}
			texts[key] = texts[key].end()
			if command, ok := strings.CutPrefix(line, "= "); ok {
				key = helpKey{command, ""}
			} else {
				key.name = line
			}
			if _, twice := texts[key]; twice {
				return nil, fmt.Errorf("BUG: help/%s has %s twice", file.Name(), line)
			}
		}
		texts[key] = texts[key].end()
	}
	delete(texts, helpKey{})
	return texts, nil
}

// end returns the text without empty paragraphs at its end.
func (t helpText) end() helpText {
	for len(t) > 0 && t[len(t)-1] == "" {
		t = t[:len(t)-1]
	}
	return t
}

// addHelp gives commands, flags and arguments their texts.
func addHelp(k *kong.Kong) error {
	texts, err := helpTexts()
	if err != nil {
		return err
	}
	visitHelp(k.Model.Node, "", func(help, detail *string, keys ...helpKey) {
		for _, key := range keys {
			switch text := texts[key]; {
			case len(text) == 0 || *help != "": // a tag has precedence
			case detail == nil:
				*help = strings.Join(text, " ")
			default:
				*help, *detail = text[0], strings.Join(text[1:], "\n\n")
			}
		}
	})
	return nil
}

// visitHelp calls f with the help of each command, flag and argument below node, the detail of a command, and
// the keys of the text, first the one that has precedence.
func visitHelp(node *kong.Node, command string, f func(help, detail *string, keys ...helpKey)) {
	above, _, _ := strings.Cut(command, " ")
	if like := Like(node); like != nil {
		above = like.Name
	}
	for _, arg := range node.Positional {
		name := "<" + arg.Name + ">"
		f(&arg.Help, nil, helpKey{command, name}, helpKey{above, name}, helpKey{"", name})
	}
	for _, flag := range node.Flags {
		name := "--" + flag.Name
		f(&flag.Help, nil, helpKey{command, name}, helpKey{above, name}, helpKey{"", name})
		visitParts(flag, func(text *string, part string) {
			name := name + " " + part
			f(text, nil, helpKey{command, name}, helpKey{above, name}, helpKey{"", name})
		})
	}
	for _, child := range node.Children {
		path := strings.TrimSpace(command + " " + child.Name)
		f(&child.Help, &child.Detail, helpKey{path, ""})
		visitHelp(child, path, f)
	}
}

// visitParts calls f with the text of each part of a flag, and adds those that f sets to the flag's help.
func visitParts(flag *kong.Flag, f func(text *string, part string)) {
	head := " Parts:"
	for _, p := range partsOf(flag.Target.Type()) {
		text := ""
		if p.name != "" {
			f(&text, p.name)
		}
		if text != "" || p.name == "" && !strings.Contains(flag.Help, head) {
			flag.Help += head + " " + p.help(text)
			head = ""
		}
	}
}

// CheckHelp returns an error that names the commands, flags and arguments without a text, and the texts
// without one of these. app must have all commands.
func CheckHelp(app *kong.Application) error {
	texts, err := helpTexts()
	if err != nil {
		return err
	}
	unused := maps.Clone(texts)
	var missing []string
	visitHelp(app.Node, "", func(help, _ *string, keys ...helpKey) {
		found := *help != ""
		for _, key := range keys {
			if _, ok := texts[key]; ok {
				delete(unused, key)
				found = true
				break
			}
		}
		if !found {
			missing = append(missing, strings.TrimSpace(keys[0].command+" "+keys[0].name))
		}
	})
	if len(missing) == 0 && len(unused) == 0 {
		return nil
	}
	return fmt.Errorf("without a text in cmd/flags/help: %q; texts of nothing: %v", missing,
		slices.Collect(maps.Keys(unused)))
}
