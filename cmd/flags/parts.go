package flags

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"drumbeat/internal/human"
)

// A flag with the tag type:"parts" has several values that answer one question: "VALUE,name=value,switch". Its
// field is a struct; this file reads and prints it by the tags of the struct's fields:
//
//	Main     *time.Duration `part:"" placeholder:"DURATION"`
//	Depth    Count          `part:"depth" default:"32" most:"3500"`
//	Sort     bool           `part:"sort"`
//	Escapes  string         `part:"escapes" enum:"fold,keep" default:"fold"`
//
// The part without a name comes first, if at all. A switch is on by its name alone. A part that the text
// lacks has its default (of an enum, the first value unless a default is given); a pointer is nil then, and
// another flag or the machine decides. least and most are the range, negative values are refused everywhere.
// A list has colons between its values. "\," is a comma within a value. The value without a name may have an equals
// sign after a slash, as that of a file may.
//
// The help of a part stands below that of its flag, as "--guards depth".

// decodeParts is the mapper of type:"parts".
func decodeParts(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("parts", &text); err != nil {
		return err
	}
	v := defaultsOf(target.Type())
	if err := setParts(v, text); err != nil {
		return err
	}
	target.Set(v)
	return nil
}

// part is a field of a flag with parts.
type part struct {
	name  string // "" for the value without a name
	index int
	kind  reflect.Type // of the value, or of a list's elements
	tag   reflect.StructTag
}

// partsOf returns the parts of a type; none if it is no flag with parts.
func partsOf(t reflect.Type) (list []part) {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if name, ok := f.Tag.Lookup("part"); ok {
			kind := f.Type
			if kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
				kind = kind.Elem()
			}
			list = append(list, part{name, i, kind, f.Tag})
		}
	}
	return list
}

// byDefault returns the default of the part as text, if it has one.
func (p part) byDefault() (string, bool) {
	if def, ok := p.tag.Lookup("default"); ok {
		return def, true
	}
	enum, ok := p.tag.Lookup("enum")
	first, _, _ := strings.Cut(enum, ",")
	return first, ok
}

// isSwitch reports whether the part's name alone sets it.
func (p part) isSwitch() bool { return p.kind.Kind() == reflect.Bool }

// defaultsOf returns the defaults of a flag with parts.
func defaultsOf(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	for _, p := range partsOf(t) {
		if def, ok := p.byDefault(); ok && !p.set(v.Field(p.index), def) {
			panic("BUG: default of part " + p.name)
		}
	}
	return v
}

// setParts sets the parts of text.
func setParts(v reflect.Value, text string) error {
	list := partsOf(v.Type())
	if text == "" {
		return fmt.Errorf("the value is empty: want %s", partNames(list))
	}
	var given []string
	items := kong.SplitEscaped(text, ',')
	if strings.HasSuffix(text, ",") && !strings.HasSuffix(text, `\,`) {
		items = append(items, "") // which SplitEscaped leaves out
	}
	for i, item := range items {
		name, value, valued := strings.Cut(strings.TrimSpace(item), "=")
		if valued && i == 0 && list[0].name == "" && strings.Contains(name, "/") {
			name, value, valued = strings.TrimSpace(item), "", false
		}
		n := slices.IndexFunc(list, func(p part) bool { return p.name == name })
		switch {
		case !valued && n >= 0 && name != "" && list[n].isSwitch():
			value = "on"
		case !valued && i == 0 && list[0].name == "" && (n < 0 || name == ""):
			name, value, n = "", name, 0
		case n < 0 && i == 0 && list[0].unit() == "FILE":
			return fmt.Errorf("%s: want %s; a file with = in its name needs a / before it: ./%s", item,
				partNames(list), item)
		case n < 0 || name == "":
			return fmt.Errorf("%s: want %s", item, partNames(list))
		}
		if slices.Contains(given, name) {
			return fmt.Errorf("%s: this part is given twice", item)
		}
		given = append(given, name)
		if !list[n].set(v.Field(list[n].index), value) {
			return list[n].fault(item, value)
		}
	}
	return nil
}

// fault says why an item is refused.
func (p part) fault(item, value string) error {
	if p.kind == reflect.TypeFor[time.Duration]() {
		_, err := human.ParseDuration(value)
		switch {
		case err != nil && p.name == "":
			return err // which has the value
		case err != nil:
			return fmt.Errorf("%s: %w", item, err)
		}
	}
	return fmt.Errorf("%s: want %s", item, p.want())
}

// partNames lists what may begin an item.
func partNames(list []part) string {
	var names []string
	for _, p := range list {
		switch {
		case p.name == "":
			names = append(names, p.unit()+" first")
		case p.isSwitch():
			names = append(names, p.name)
		default:
			names = append(names, p.name+"="+p.unit())
		}
	}
	return orList(names)
}

// orList joins words by commas and "or".
func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// set reads text into the field of the part, and reports whether it is in the range.
func (p part) set(field reflect.Value, text string) bool {
	if field.Kind() == reflect.Slice {
		list := reflect.MakeSlice(field.Type(), 0, 1)
		for one := range strings.SplitSeq(text, ":") {
			v := reflect.New(p.kind).Elem()
			if !p.read(v, one) || !p.inRange(v) {
				return false
			}
			list = reflect.Append(list, v)
		}
		field.Set(list)
		return true
	}
	v := reflect.New(p.kind).Elem()
	if !p.read(v, text) || !p.inRange(v) {
		return false
	}
	if field.Kind() == reflect.Pointer {
		v = v.Addr()
	}
	field.Set(v)
	return true
}

// read reads text into a value.
func (p part) read(v reflect.Value, text string) bool {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text)) == nil
	}
	switch v.Interface().(type) {
	case time.Duration:
		d, err := human.ParseDuration(text)
		v.SetInt(int64(d))
		return err == nil && (d == 0 || d >= time.Millisecond)
	case bool:
		v.SetBool(text == "on")
		return text == "on" || text == "off"
	case string:
		v.SetString(text)
		enum := p.tag.Get("enum")
		return text != "" && (enum == "" || slices.Contains(strings.Split(enum, ","), text))
	case float64:
		f, err := strconv.ParseFloat(text, 64)
		v.SetFloat(f)
		return err == nil && f >= 0
	}
	panic("BUG: a part of type " + v.Type().String())
}

// inRange compares a number with the tags least and most.
func (p part) inRange(v reflect.Value) bool {
	for _, end := range [...]string{"least", "most"} {
		text, ok := p.tag.Lookup(end)
		if !ok {
			continue
		}
		bound := reflect.New(p.kind).Elem()
		if !p.read(bound, text) {
			panic("BUG: range of part " + p.name)
		}
		sign := 1
		if end == "most" {
			sign = -1
		}
		if v.CanFloat() && !(float64(sign)*v.Float() >= float64(sign)*bound.Float()) ||
			v.CanInt() && int64(sign)*v.Int() < int64(sign)*bound.Int() {
			return false
		}
	}
	return true
}

// kinds names the kinds of values, and has an example of each.
var kinds = map[reflect.Type]struct{ unit, words, example string }{
	reflect.TypeFor[Count]():         {"N", "a whole number", "8"},
	reflect.TypeFor[Size]():          {"SIZE", "a size", "64MiB"},
	reflect.TypeFor[Fraction]():      {"SHARE", "a number or a quotient", "1/7"},
	reflect.TypeFor[time.Duration](): {"DURATION", "a duration", "90s"},
	reflect.TypeFor[float64]():       {"N", "a number", "10"},
	reflect.TypeFor[string]():        {"TEXT", "a text", "x"},
}

// unit returns the placeholder of the value.
func (p part) unit() string {
	if enum := p.tag.Get("enum"); enum != "" {
		return strings.ReplaceAll(enum, ",", "|")
	}
	if name := p.tag.Get("placeholder"); name != "" {
		return name
	}
	return kinds[p.kind].unit
}

// between returns the range in words; "" without one.
func (p part) between() string {
	least, most := p.tag.Get("least"), p.tag.Get("most")
	switch {
	case least != "" && most != "":
		return least + " to " + most
	case least != "":
		return "at least " + least
	case most != "":
		return "at most " + most
	}
	return ""
}

// want says what the part takes, with an example.
func (p part) want() string {
	example := p.tag.Get("default")
	kind := kinds[p.kind]
	switch enum := p.tag.Get("enum"); {
	case p.isSwitch():
		return p.name + ", " + p.name + "=on or " + p.name + "=off"
	case enum != "":
		return orList(strings.Split(enum, ",")) + p.asIn(strings.Split(enum, ",")[0])
	case p.tag.Get("example") != "":
		example = p.tag.Get("example")
	case example == "" || example == "0":
		example = kind.example
	}
	words := kind.words
	if name := p.tag.Get("placeholder"); name == "FILE" || name == "DIR" || name == "URL" {
		words, example = "a "+name, name
	}
	if between := p.between(); between != "" {
		words += ", " + between
	}
	return words + p.asIn(example)
}

// asIn shows how the part is written.
func (p part) asIn(value string) string {
	if p.name == "" {
		return ", as in " + value
	}
	return ", as in " + p.name + "=" + value
}

// help returns what the part takes, for its flag's help, before text.
func (p part) help(text string) string {
	head := p.name + "=" + p.unit()
	switch {
	case p.name == "":
		head, text = p.unit(), "first, without a name."
	case p.isSwitch():
		head = p.name
	}
	var notes []string
	if between := p.between(); between != "" {
		notes = append(notes, between)
	}
	if def, _ := p.byDefault(); def != "" {
		notes = append(notes, "default "+def)
	}
	if len(notes) > 0 {
		head += " (" + strings.Join(notes, "; ") + ")"
	}
	return head + ": " + text
}

// formatParts returns text that setParts reads as v: the parts that differ from base, which has the same type.
func formatParts(v, base reflect.Value) string {
	var items []string
	for _, p := range partsOf(v.Type()) {
		if reflect.DeepEqual(v.Field(p.index).Interface(), base.Field(p.index).Interface()) {
			continue
		}
		field, name := v.Field(p.index), p.name+"="
		text := strings.Join(valueTexts(field), ":")
		switch {
		case text == "":
		case !p.isSwitch():
			if p.name == "" {
				name = ""
			}
			items = append(items, strings.ReplaceAll(name+text, ",", `\,`))
		case field.Bool():
			items = append(items, p.name)
		default:
			items = append(items, name+"off")
		}
	}
	return strings.Join(items, ",")
}

// defaultParts gives a flag with parts its default as text, which the parser reads when nothing sets the flag.
func defaultParts(flag *kong.Flag) {
	var items []string
	for _, p := range partsOf(flag.Target.Type()) {
		switch def, ok := p.byDefault(); {
		case ok && p.name == "":
			items = append(items, def)
		case ok:
			items = append(items, p.name+"="+def)
		}
	}
	if len(items) > 0 {
		flag.Default, flag.HasDefault = strings.Join(items, ","), true
	}
}

// PartNames returns the names of a flag's parts, "VALUE" for the one without; none for a flag without parts.
func PartNames(v *kong.Value) (names []string) {
	for _, p := range partsOf(v.Target.Type()) {
		names = append(names, cmp.Or(p.name, "VALUE"))
	}
	return names
}

// PartWords returns what may begin an item of a flag's value, for completion: "depth=", "escapes=keep", "sort". It
// returns nil for a flag without parts.
func PartWords(v *kong.Value) (words []string) {
	for _, p := range partsOf(v.Target.Type()) {
		enum, name := p.tag.Get("enum"), ""
		if p.name != "" {
			name = p.name + "="
		}
		switch {
		case enum != "":
			for word := range strings.SplitSeq(enum, ",") {
				words = append(words, name+word)
			}
		case p.isSwitch():
			words = append(words, p.name)
		case name != "":
			words = append(words, name)
		}
	}
	return words
}
