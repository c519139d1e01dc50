// Package flags has what several commands share of their flags: groups of them, the types of their values, and the parser.
//
// A command is a struct with a field for each flag; kong reads the tags. A group, such as Who or Delays, is a struct that
// commands embed, so that a flag is declared, checked and explained in one place whichever commands have it. Where a group
// needs them it has three methods: Check returns the first fault that can be seen in its flags alone, Complete fills in
// what follows from others, and Apply puts all into a crawl's options. Groups that only one command has lie with that
// command, unless they are as self-contained as these.
//
// Types of values (Size, Count, PortRange, schedules) read text in UnmarshalText and print it in String, so that what
// --print-config says can be given again; a fuzz test holds them to that. A pointer is nil where a flag isn't given and
// the machine or another flag decides.
//
// NewParser makes the parser of any table: package cmd's of all commands, or a test's of one. It names the environment's
// variable of each flag, and the headings (Groups) under which -h and docs/FLAGS.md list them; those two and the parser
// come from the same tags.
//
// Nothing here starts a goroutine, prints or exits. Faults of flags are plain errors where the caller makes them term.Usage,
// and so exit code 2.
package flags

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// DefaultAgent is the product token that stands in User-Agent and that robots.txt groups are compared with.
const DefaultAgent = "drumbeat"

// defaultDir holds a crawl when --dir doesn't say otherwise.
const defaultDir = "drumbeat-crawl"

// Groups are the headings of -h and docs/FLAGS.md, in order.
var Groups = [...]kong.Group{
	{Key: "what", Title: "What is crawled"},
	{Key: "limits", Title: "When it stops"},
	{Key: "urls", Title: "Which URLs"},
	{Key: "manners", Title: "Manners"},
	{Key: "net", Title: "Network"},
	{Key: "budget", Title: "Budgets"},
	{Key: "machine", Title: "RAM and disk"},
	{Key: "output", Title: "What is kept"},
	{Key: "report", Title: "What is printed"},
}

// NewParser returns the parser that fills a table of commands: a pointer to a struct with a field for each.
func NewParser(table any, opts ...kong.Option) (*kong.Kong, error) {
	opts = append([]kong.Option{
		kong.Name("drumbeat"),
		kong.Description("drumbeat crawls the web with one machine, as the IRLbot paper describes. " +
			"drumbeat help COMMAND says more of a command, drumbeat --version which program this is."),
		kong.Vars{"defaultDir": defaultDir, "defaultAgent": DefaultAgent},
		kong.PostBuild(nameEnvironment),
		kong.ValueFormatter(flagHelp),
		kong.ExplicitGroups(Groups[:]),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
	}, opts...)
	p, err := kong.New(table, opts...)
	if err != nil {
		return nil, fmt.Errorf("BUG: the flag table: %w", err)
	}
	return p, nil
}

// nameEnvironment names the environment variable of every flag: DRUMBEAT_HOST_DELAY for --host-delay. Those of demo and
// bench have names of their own, so that a crawl's settings don't leak into them.
func nameEnvironment(k *kong.Kong) error {
	for _, command := range k.Model.Children {
		prefix := "DRUMBEAT_"
		if command.Name == "demo" || command.Name == "bench" {
			prefix += strings.ToUpper(command.Name) + "_"
		}
		nodes := append([]*kong.Node{command}, command.Children...)
		for _, node := range nodes {
			for _, flag := range node.Flags {
				name := prefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
				if command.Name == "explain" && slices.Contains(explainOwn[:], flag.Name) {
					name = "DRUMBEAT_EXPLAIN_" + strings.TrimPrefix(name, prefix)
				}
				flag.Envs = []string{name}
				flag.Tag.Envs = flag.Envs
			}
		}
	}
	return nil
}

// explainOwn are the flags of explain whose variables are not a crawl's: where DRUMBEAT_DIR is set, explain url stays what it is
// without --dir.
var explainOwn = [...]string{"dir", "out", "json", "fast"}

// flagHelp is a flag's help with its default.
func flagHelp(v *kong.Value) string {
	if v.HasDefault && v.Default != "" && v.Name != "help" && !v.IsBool() && !strings.Contains(v.Help, v.Default+":") {
		return v.Help + " Default: " + v.Default + "."
	}
	return v.Help
}

// Print prints the value of every flag of a command as a line that can be given again.
func Print(out io.Writer, command *kong.Node) error {
	for _, group := range Groups {
		for _, flag := range command.Flags {
			if flag.Group == nil || flag.Group.Key != group.Key {
				continue
			}
			for _, v := range flagValues(flag) {
				if _, err := fmt.Fprintf(out, "--%s=%s\n", flag.Name, v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// flagValues are the values of a flag as text: one, or as many as it was repeated; none where it is unset.
func flagValues(flag *kong.Flag) []string {
	v := flag.Target
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Slice {
		text := fmt.Sprint(v.Interface())
		if text == "" {
			return nil
		}
		return []string{text}
	}
	var values []string
	for i := range v.Len() {
		values = append(values, fmt.Sprint(v.Index(i).Interface()))
	}
	return values
}
