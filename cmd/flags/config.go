package flags

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
	toml "github.com/pelletier/go-toml/v2"

	"drumbeat/internal/human"
)

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 1 << 20

// configEntry is a key of a configuration file, with its line.
type configEntry struct {
	key   string
	value any // as go-toml decodes it
	line  int
}

// readConfig reads a configuration file, in the order of its lines.
func readConfig(name string) (entries []configEntry, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	if len(data) > maxConfig {
		return nil, fmt.Errorf("--config %s: a configuration file has at most %s", name, human.Bytes(maxConfig))
	}
	values := map[string]any{}
	var fault *toml.DecodeError
	if err := toml.Unmarshal(data, &values); errors.As(err, &fault) {
		line, column := fault.Position()
		return nil, fmt.Errorf("%s:%d:%d: %s", name, line, column, strings.TrimPrefix(fault.Error(), "toml: "))
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	lines := configLines(data)
	for key, value := range values {
		if _, table := value.(map[string]any); table {
			return nil, fmt.Errorf("%s:%d: %s is a table; write the names of flags as keys, without tables and dots",
				name, lines[key], key)
		}
		entries = append(entries, configEntry{key, value, lines[key]})
	}
	slices.SortFunc(entries, func(a, b configEntry) int { return cmp.Compare(a.line, b.line) })
	return entries, nil
}

// configLines returns the line of each key. A strict decoder, which accepts no key, reports them all.
func configLines(data []byte) map[string]int {
	lines := map[string]int{}
	var unknown *toml.StrictMissingError
	if err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(&struct{}{}); errors.As(err,
		&unknown) {
		for _, e := range unknown.Errors {
			if key := e.Key(); len(key) > 0 && lines[key[0]] == 0 {
				lines[key[0]], _ = e.Position()
			}
		}
	}
	return lines
}

// configValue turns a value of a configuration file into one for the parser: text, or a list of texts.
func configValue(flag *kong.Flag, value any) (any, error) {
	list, ok := value.([]any)
	if !ok {
		return configText(flag, value)
	}
	if !flag.IsSlice() {
		return nil, errors.New("this flag takes one value, not a list")
	}
	if len(list) == 0 {
		return nil, errors.New("the list is empty; remove the key to get the default")
	}
	texts := make([]any, len(list))
	for i, v := range list {
		text, err := configText(flag, v)
		if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	return texts, nil
}

// configText returns a single value as text.
func configText(flag *kong.Flag, value any) (string, error) {
	switch v := value.(type) {
	case bool:
		if flag.IsBool() {
			return strconv.FormatBool(v), nil
		}
	case string:
		if !flag.IsBool() {
			return v, nil
		}
	case int64:
		if !flag.IsBool() && valueKind(flag) != reflect.String {
			return strconv.FormatInt(v, 10), nil
		}
	case float64:
		if !flag.IsBool() && valueKind(flag) != reflect.String && !math.IsInf(v, 0) && !math.IsNaN(v) {
			return strconv.FormatFloat(v, 'g', -1, 64), nil
		}
	}
	switch {
	case flag.IsBool():
		return "", fmt.Errorf("want true or false, not %s", kindName(value))
	case valueKind(flag) == reflect.String:
		return "", fmt.Errorf("want a string in quotes, not %s", kindName(value))
	}
	return "", fmt.Errorf("want a number or a string, not %s", kindName(value))
}

// kindName names a type of TOML.
func kindName(value any) string {
	switch value.(type) {
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case int64, float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date"
}

// valueKind returns the kind of a flag's value, or of a list's elements.
func valueKind(flag *kong.Flag) reflect.Kind {
	t := flag.Target.Type()
	if t.Kind() == reflect.Pointer || flag.IsSlice() {
		t = t.Elem()
	}
	return t.Kind()
}

// bareNumber matches a number that TOML reads without quotes.
var bareNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?(e[+-]?[0-9]+)?$`)

// tomlValue returns the values of a flag as TOML that configValue reads.
func tomlValue(flag *kong.Flag, texts []string) string {
	var parts []string
	for _, text := range texts {
		kind := valueKind(flag)
		words := kind == reflect.String || kind == reflect.Struct && len(partsOf(flag.Target.Type())) == 0
		if !flag.IsBool() && (words || !bareNumber.MatchString(text)) {
			text = tomlString(text)
		}
		parts = append(parts, text)
	}
	if flag.IsSlice() {
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return strings.Join(parts, "")
}

// tomlString returns a basic string of TOML, in ASCII except for printable characters.
func tomlString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
