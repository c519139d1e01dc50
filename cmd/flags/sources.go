package flags

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/term"
)

// Sources holds the flags that name where the values of other flags come from.
type Sources struct {
	Config string `group:"report" common:"" placeholder:"FILE"`
	Preset string `group:"report" common:"" placeholder:"NAME" default:"${preset}" enum:"${presets}"`
}

// Settings gives the parser the values that stand in the configuration file and the preset. The precedence
// is: command line, environment, file, preset, default. It belongs to one parse.
type Settings struct {
	loaded bool
	values map[*kong.Value]any    // for the parser, of file and preset
	from   map[*kong.Value]string // what sets a flag; absent for a default
}

// Validate implements kong.Resolver.
func (*Settings) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver: it returns the value of a flag that the command line does not set.
func (s *Settings) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	return s.values[flag.Value], nil
}

// load reads the file and the preset of the selected command. The parser calls it before Resolve, several
// times.
func (s *Settings) load(ctx *kong.Context) error {
	command := ctx.Selected()
	if s.loaded || command == nil {
		return nil
	}
	s.loaded = true
	s.values, s.from = map[*kong.Value]any{}, map[*kong.Value]string{}
	for _, path := range ctx.Path {
		if path.Flag != nil {
			s.from[path.Flag.Value] = "command line"
		}
	}
	for _, flag := range command.Flags {
		if name := term.SetVariable(flag.Envs); name != "" && s.from[flag.Value] == "" {
			s.from[flag.Value] = name
		}
	}
	if name := s.text(ctx, flagNamed(command, "config")); name != "" {
		if err := s.loadFile(ctx, command, name); err != nil {
			return term.Usage(err)
		}
	}
	s.loadPreset(command, s.text(ctx, flagNamed(command, "preset")))
	return nil
}

// Given reports whether the command line, the environment, a configuration file or a preset sets a flag of a command.
func (s *Settings) Given(command *kong.Node, name string) bool {
	flag := flagNamed(command, name)
	return flag != nil && s.from[flag.Value] != ""
}

// text returns the value of --config or --preset; "" if the command has no such flag.
func (s *Settings) text(ctx *kong.Context, flag *kong.Flag) string {
	if flag == nil {
		return ""
	}
	if text, ok := s.values[flag.Value].(string); ok {
		return text
	}
	text, _ := ctx.FlagValue(flag).(string)
	return text
}

// set takes a value from a source that comes after all sources so far. A default is not handed to the parser,
// which would count the flag as used: json = false and text = true do not exclude each other.
func (s *Settings) set(flag *kong.Flag, value any, from string) {
	if s.from[flag.Value] != "" {
		return
	}
	s.from[flag.Value] = from
	target := reflect.New(flag.Target.Type()).Elem()
	if err := decodeInto(flag, value, target); err != nil || !slices.Equal(valueTexts(target), defaultTexts(flag)) {
		s.values[flag.Value] = value
	}
}

// loadFile takes the values of a configuration file. Every key must be right, even if another source takes
// precedence.
func (s *Settings) loadFile(ctx *kong.Context, command *kong.Node, name string) error {
	entries, err := readConfig(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at := fmt.Sprintf("%s:%d", name, e.line)
		flag := flagNamed(command, e.key)
		if unconfigured(flag) {
			flag = nil // the key is that of crawl
		}
		if to := movedTo(e.key); flag == nil && to != "" && flagNamed(command, "preset") != nil {
			return fmt.Errorf("%s: %s: %s", at, e.key, to) // also of a crawl's file for plan and bot-page
		}
		if flag == nil && flagNamed(command, "preset") != nil &&
			flagNamed(commandNamed(ctx.Model.Node, "crawl"), e.key) != nil {
			continue // plan and bot-page read the file of a crawl
		}
		if flag == nil || e.key == "config" {
			return fmt.Errorf("%s: %s", at, unknownKey(ctx.Model.Node, command, e.key))
		}
		value, err := configValue(flag, e.value)
		if err == nil {
			err = tryValue(flag, value)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", at, e.key, err)
		}
		s.set(flag, value, at)
	}
	return nil
}

// tryValue parses a value without keeping it, for an error that names the line.
func tryValue(flag *kong.Flag, value any) error {
	texts, ok := value.([]any)
	if !ok {
		texts = []any{value}
	}
	for _, text := range texts {
		if flag.Enum != "" && !slices.Contains(flag.EnumSlice(), text.(string)) {
			return fmt.Errorf("%q is not one of %s", text, strings.Join(flag.EnumSlice(), ", "))
		}
		if ok {
			text = kong.JoinEscaped([]string{text.(string)}, flag.Tag.Sep) // each alone, for an error without a list
		}
		if err := decodeInto(flag, text, reflect.New(flag.Target.Type()).Elem()); err != nil {
			return err
		}
	}
	return nil
}

// decodeInto parses the value of a flag into target.
func decodeInto(flag *kong.Flag, value any, target reflect.Value) error {
	if target.Kind() == reflect.Pointer {
		target.Set(reflect.New(target.Type().Elem()))
	}
	return flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value,
		Scan: kong.Scan().PushTyped(value, kong.FlagValueToken)}, target)
}

// unknownKey says what is wrong with a key that is no flag of the command.
func unknownKey(app, command *kong.Node, key string) string {
	if key == "config" {
		return "config can't be set in a configuration file"
	}
	var names []string
	for _, flag := range command.Flags {
		if !flag.Hidden {
			names = append(names, flag.Name)
		}
	}
	if to := movedTo(key); to != "" && hasMoved(command, to) {
		return key + ": " + to
	}
	text := fmt.Sprintf("%s is not a flag of %s", key, command.Name)
	for _, other := range app.Children { // first: the same name is no misspelling
		if flagNamed(other, "config") != nil && flagNamed(other, key) != nil {
			return fmt.Sprintf("%s but of %s; remove it", text, other.Name)
		}
	}
	if like := term.Nearest(key, names); like != "" {
		return text + ", did you mean " + like + "?"
	}
	return text + "; drumbeat config " + command.Name + " lists all"
}

// unconfigured reports whether a flag has nothing to do with a flag of that name of other commands. No configuration
// file sets it, and its environment variable has the name of its command: plan --from.
func unconfigured(flag *kong.Flag) bool { return flag != nil && flag.Tag.Get("config") == "-" }

// flagNamed returns a flag of a command; nil if there is none.
func flagNamed(command *kong.Node, name string) *kong.Flag {
	if command == nil {
		return nil
	}
	for _, flag := range command.Flags {
		if flag.Name == name {
			return flag
		}
	}
	return nil
}

// commandNamed returns a command of the table; nil if there is none.
func commandNamed(app *kong.Node, name string) *kong.Node {
	for _, command := range app.Children {
		if command.Name == name {
			return command
		}
	}
	return nil
}
