package flags

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// defaultTexts returns a flag's default as flagValues returns a value; none if it has none.
func defaultTexts(flag *kong.Flag) []string {
	target := reflect.New(flag.Target.Type()).Elem()
	if flag.HasDefault && decodeInto(flag, flag.Default, target) != nil {
		return nil
	}
	return valueTexts(target)
}

// Print prints the flags of a command whose values differ from the defaults, as TOML for --config, each with
// its source. Values that follow from other flags and from the machine are comments, so that the same
// configuration computes them again.
func (s *Settings) Print(out io.Writer, command *kong.Node) error {
	var b bytes.Buffer
	for _, group := range Groups {
		var lines []string
		for _, flag := range command.Flags {
			if flag.Group == nil || flag.Group.Key != group.Key || slices.Contains(unprinted[:], flag.Name) ||
				unconfigured(flag) {
				continue
			}
			texts := flagValues(flag)
			if len(texts) == 0 || slices.Equal(texts, defaultTexts(flag)) {
				continue
			}
			line := fmt.Sprintf("%s = %s", flag.Name, tomlValue(flag, texts))
			if from := s.from[flag.Value]; from != "" {
				lines = append(lines, line+"  # "+from)
			} else {
				lines = append(lines, "# "+line+"  # computed")
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "# %s\n%s\n\n", group.Title, strings.Join(lines, "\n"))
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}

// unprinted lists the flags that Print leaves out: it prints the values that come from them.
var unprinted = [...]string{"config", "preset", "print-config"}

// templateWidth is the width of a template's comments.
const templateWidth = 100

// Template prints a configuration file for a command with every flag, its help and its default, all as
// comments. A flag without a default has its placeholder as value.
func Template(out io.Writer, command *kong.Node) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Configuration of drumbeat %s, for --config.\n"+
		"# A line with # and no space after it is a flag with its default, or with the kind of its value.\n"+
		"# To set the flag, remove the # and change the value.\n", command.Name)
	for _, group := range Groups {
		head := fmt.Sprintf("\n# --- %s ---\n", group.Title)
		for _, flag := range command.Flags {
			if flag.Hidden || flag.Group == nil || flag.Group.Key != group.Key || flag.Name == "config" ||
				flag.Name == "print-config" || unconfigured(flag) {
				continue
			}
			b.WriteString(head + "\n")
			head = ""
			for _, line := range Wrap(flag.Help, templateWidth-len("# ")) {
				b.WriteString("# " + line + "\n")
			}
			texts := defaultTexts(flag)
			if len(texts) == 0 {
				texts = []string{cmp.Or(flag.Default, flag.PlaceHolder)}
			}
			fmt.Fprintf(&b, "#%s = %s\n", flag.Name, tomlValue(flag, texts))
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}

// Wrap breaks text at spaces into lines of at most width bytes, or of one longer word.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
