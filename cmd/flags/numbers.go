package flags

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"drumbeat/internal/human"
)

// mappers replace the parser's own, whose errors have the words of Go, for all kinds of values that flags
// have. The tags type:"count", type:"size" and type:"fraction" are for a package that doesn't know this one
// and declares its flags as plain numbers; type:"parts" is in parts.go.
var mappers = []kong.Option{
	kong.NamedMapper("count", kong.MapperFunc(decodeNumber[Count])),
	kong.NamedMapper("size", kong.MapperFunc(decodeNumber[Size])),
	kong.NamedMapper("fraction", kong.MapperFunc(decodeNumber[Fraction])),
	kong.NamedMapper("parts", kong.MapperFunc(decodeParts)),
	kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)),
	kong.KindMapper(reflect.Int, kong.MapperFunc(decodeInt)),
	kong.KindMapper(reflect.Int64, kong.MapperFunc(decodeInt)),
	kong.KindMapper(reflect.Uint16, kong.MapperFunc(decodeUint)),
	kong.KindMapper(reflect.Uint32, kong.MapperFunc(decodeUint)),
	kong.KindMapper(reflect.Uint64, kong.MapperFunc(decodeUint)),
	kong.KindMapper(reflect.Float64, kong.MapperFunc(decodeFloat)),
	kong.KindMapper(reflect.Bool, boolMapper{}),
	kong.PostBuild(demandValues),
}

// decodeNumber reads a T into a number of any kind, a pointer to one, or a list of them with commas between.
func decodeNumber[T Count | Size | Fraction, P interface {
	*T
	encoding.TextUnmarshaler
}](ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("number", &text); err != nil {
		return err
	}
	parts := []string{text}
	if target.Kind() == reflect.Slice {
		parts = strings.Split(text, ",")
	}
	for _, part := range parts {
		var v T
		if err := P(&v).UnmarshalText([]byte(part)); err != nil {
			return err
		}
		switch value := reflect.ValueOf(v); target.Kind() {
		case reflect.Slice:
			target.Set(reflect.Append(target, value.Convert(target.Type().Elem())))
		case reflect.Pointer:
			target.Elem().Set(value.Convert(target.Type().Elem())) // the parser has made what it points to
		default:
			target.Set(value.Convert(target.Type()))
		}
	}
	return nil
}

func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := human.ParseDuration(text)
	target.SetInt(int64(d))
	return err
}

func decodeInt(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("number", &text); err != nil {
		return err
	}
	n, err := strconv.ParseInt(text, 0, target.Type().Bits())
	if err != nil {
		return wholeNumber(text, err)
	}
	target.SetInt(n)
	return nil
}

func decodeUint(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("number", &text); err != nil {
		return err
	}
	n, err := strconv.ParseUint(text, 0, target.Type().Bits())
	if err != nil {
		return wholeNumber(text, err)
	}
	target.SetUint(n)
	return nil
}

// wholeNumber is the error of a text that strconv does not read.
func wholeNumber(text string, err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%s is too large", text)
	}
	return fmt.Errorf("%q is not a whole number", text)
}

func decodeFloat(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("number", &text); err != nil {
		return err
	}
	v, err := strconv.ParseFloat(text, target.Type().Bits())
	if err != nil {
		return fmt.Errorf("%q is not a number", text)
	}
	target.SetFloat(v)
	return nil
}

// boolMapper reads a switch: its name alone, or a value after "=" or from a file or a variable.
type boolMapper struct{}

// IsBool says that a flag needs no value.
func (boolMapper) IsBool() bool { return true }

func (boolMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		target.SetBool(true)
		return nil
	}
	switch value := ctx.Scan.Pop().Value; strings.ToLower(fmt.Sprint(value)) {
	case "true", "1", "yes":
		target.SetBool(true)
	case "false", "0", "no":
		target.SetBool(false)
	default:
		return fmt.Errorf("%q is neither true nor false", value)
	}
	return nil
}

// demandValues puts the check for a missing value before every mapper of a flag that takes one.
func demandValues(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && !flag.IsBool() {
			flag.Mapper = valueMapper{flag.Mapper}
		}
		return next(nil)
	})
}

// valueMapper is a mapper of a flag that takes a value.
type valueMapper struct{ kong.Mapper }

// Decode reads the value, or says that there is none.
func (m valueMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	token := ctx.Scan.Peek()
	if token.IsValue() {
		return m.Mapper.Decode(ctx, target)
	}
	form := cmp.Or(ctx.Value.Flag.PlaceHolder, strings.ReplaceAll(ctx.Value.Enum, ",", "|"), "VALUE")
	switch {
	case token.IsEOL():
		return fmt.Errorf("the value is missing; write --%s=%s", ctx.Value.Name, form)
	case token.InferredType() == kong.ShortFlagToken:
		return fmt.Errorf("the value %v begins with a dash; write --%s=%[1]v", token.Value, ctx.Value.Name)
	}
	return fmt.Errorf("the value is missing before %v; write --%s=%s", token.Value, ctx.Value.Name, form)
}
