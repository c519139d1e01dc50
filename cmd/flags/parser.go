// Package flags has the groups of flags that several commands share, the types of flag values, and the
// parser.
//
// A command is a struct with a field for each flag; kong reads the tags. A group, such as Who or Delays, is
// a struct that commands embed, so a flag is declared, checked and explained in one place. A group has up to
// three methods: Check returns the first fault in its own flags, Complete computes defaults that depend on
// other flags, and Apply sets a crawl's options. A group of a single command is in that command's package,
// unless it is as self-contained as these.
//
// Types of values (Size, Count, PortPair, schedules) read text in UnmarshalText and print it in String, so
// the output of --print-config can be read again; a fuzz test checks this. A pointer is nil if the flag is
// not given and the machine or another flag decides.
//
// Settings (sources.go) gives the parser the values of --config (config.go) and --preset (presets.go), and
// knows what set each flag. Its Print is --print-config; Template is a configuration file with the defaults.
// All names and types come from the table, so a file has exactly the flags.
//
// The texts of --help are plain text in help, a file for each command (helptexts.go); tags have none. --help (help.go)
// prints the flags with the tag common, a line each with the first sentence of the text; --help-all prints all.
//
// NewParser makes the parser of any table: package cmd's of all commands, or a test's of one. It names the
// environment variable of each flag and the headings (Groups) of -h and docs/reference/flags.md. Both come from the
// same tags.
//
// This package starts no goroutine, and prints and exits only in Run. Check methods return plain errors;
// the commands turn them into term.Usage errors (exit code 2).
package flags

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"drumbeat/internal/human"
)

// DefaultAgent is the product token that stands in User-Agent and that robots.txt groups are compared with.
const DefaultAgent = "drumbeat"

// DefaultDir is the default of --dir.
const DefaultDir = "drumbeat-crawl"

// Groups are the headings of -h and docs/reference/flags.md, in order.
var Groups = [...]kong.Group{
	{Key: "what", Title: "Crawl"},
	{Key: "limits", Title: "Limits"},
	{Key: "urls", Title: "URL rules"},
	{Key: "politeness", Title: "Politeness"},
	{Key: "net", Title: "Network"},
	{Key: "budget", Title: "Budgets"},
	{Key: "machine", Title: "RAM and disk"},
	{Key: "output", Title: "Output"},
	{Key: "hook", Title: "Hook"},
	{Key: "render", Title: "Rendering"},
	{Key: "recrawl", Title: "Recrawl"},
	{Key: "cluster", Title: "Cluster"},
	{Key: "report", Title: "Reporting"},
}

// CommandGroups are the headings under which --help, completion and the manual page list the commands, in order. The
// tag of names the group of a command in the table.
var CommandGroups = [...]kong.Group{
	{Key: "start", Title: "Start a crawl"},
	{Key: "watch", Title: "Watch and steer"},
	{Key: "results", Title: "Results"},
	{Key: "repair", Title: "Check and repair"},
	{Key: "bench", Title: "Benchmarks"},
	{Key: "program", Title: "This program"},
	{Key: "", Title: "Commands"},
}

// CommandsOf returns the commands of a group that are not hidden.
func CommandsOf(app *kong.Node, group kong.Group) (list []*kong.Node) {
	for _, command := range app.Children {
		if !command.Hidden && command.Tag.Get("of") == group.Key {
			list = append(list, command)
		}
	}
	return list
}

// Like returns the command whose flags another command has, too, by the tag like; nil if it has only its own.
func Like(command *kong.Node) *kong.Node {
	if name := command.Tag.Get("like"); name != "" && command.Parent != nil {
		return commandNamed(command.Parent, name)
	}
	return nil
}

// OwnFlags returns the flags of a command that the one it is like does not have.
func OwnFlags(command *kong.Node) []*kong.Flag {
	like := Like(command)
	return slices.DeleteFunc(slices.Clone(command.Flags),
		func(f *kong.Flag) bool { return flagNamed(like, f.Name) != nil })
}

// NewParser returns the parser that fills table, a pointer to a struct with a field for each command.
func NewParser(table any, opts ...kong.Option) (*kong.Kong, error) {
	settings := new(Settings)
	opts = slices.Concat(mappers, []kong.Option{
		kong.Bind(settings),
		kong.Resolvers(settings),
		kong.WithBeforeResolve(settings.load),
		kong.Name("drumbeat"),
		kong.Description("drumbeat crawls the web from one machine, by the methods of the IRLbot paper."),
		kong.Vars{"defaultDir": DefaultDir, "defaultAgent": DefaultAgent, "preset": "none",
			"presets": "none,survey,archive,site,own-site", "tables": "plds,pld-edges,pld-ranks,hosts," +
				"host-edges,host-ranks,reputation,pages,links,state,changes,refused,queue,robots,near-duplicates," +
				"texts,sample,wacz"},
		kong.PostBuild(nameEnvironment),
		kong.PostBuild(addHelp),
		kong.ExplicitGroups(Groups[:]),
		kong.ConfigureHelp(fullHelp),
		kong.ValueFormatter(HelpWithDefault),
		kong.Help(helpPrinter(helpWidth)),
		kong.Embed(new(global)),
	}, opts)
	p, err := kong.New(table, opts...)
	if err != nil {
		return nil, fmt.Errorf("BUG: the flag table: %w", err)
	}
	return p, nil
}

// ownPrefix lists the commands whose variables begin with DRUMBEAT_ and their name.
var ownPrefix = [...]string{"demo", "bench", "log"}

// nameEnvironment names the environment variable of every flag: DRUMBEAT_HOST_DELAY for --host-delay. The
// variables of ownPrefix's commands have prefixes of their own, so a crawl's settings do not affect them.
func nameEnvironment(k *kong.Kong) error {
	for _, command := range k.Model.Children {
		prefix := "DRUMBEAT_"
		if slices.Contains(ownPrefix[:], command.Name) {
			prefix += strings.ToUpper(command.Name) + "_"
		}
		nodes := append([]*kong.Node{command}, command.Children...)
		for _, node := range nodes {
			for _, flag := range node.Flags {
				name := prefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
				switch {
				case unconfigured(flag):
					name = "DRUMBEAT_" + strings.ToUpper(command.Name) + "_" + strings.TrimPrefix(name, prefix)
				case command.Name == "explain" && slices.Contains(explainOwn[:], flag.Name):
					name = "DRUMBEAT_EXPLAIN_" + strings.TrimPrefix(name, prefix)
				case command.Name == "log" && flag.Name == "dir": // one variable names the crawl for all commands
					name = "DRUMBEAT_DIR"
				}
				defaultParts(flag)
				flag.Envs = []string{name}
				flag.Tag.Envs = flag.Envs
			}
		}
	}
	return nil
}

// explainOwn lists the flags of explain with variables of their own: DRUMBEAT_DIR, which is set for a crawl,
// must not make explain url read that crawl.
var explainOwn = [...]string{"dir", "out", "json", "fast"}

// HelpWithDefault returns a flag's help followed by its default, unless the help has it already.
func HelpWithDefault(v *kong.Value) string {
	if len(partsOf(v.Target.Type())) > 0 { // each part names its default
		return v.Help
	}
	if v.HasDefault && v.Default != "" && v.Name != "help" && !v.IsBool() && !strings.Contains(v.Help, v.Default+":") {
		return v.Help + " Default: " + v.Default + "."
	}
	return v.Help
}

// flagValues returns the values of a flag as text: one for each repetition, none if it is unset.
func flagValues(flag *kong.Flag) []string { return valueTexts(flag.Target) }

func valueTexts(v reflect.Value) []string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Slice {
		text := fmt.Sprint(v.Interface())
		if d, ok := v.Interface().(time.Duration); ok {
			text = human.Exact(d)
		}
		if len(partsOf(v.Type())) > 0 {
			text = formatParts(v, defaultsOf(v.Type()))
		}
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
