package flags

import (
	"encoding"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// numbers are the mappers of the tags type:"count", type:"size" and type:"fraction", with which a package that
// doesn't know this one declares its flags as plain numbers, and of type:"parts" (parts.go).
var numbers = []kong.Option{
	kong.NamedMapper("count", kong.MapperFunc(decodeNumber[Count])),
	kong.NamedMapper("size", kong.MapperFunc(decodeNumber[Size])),
	kong.NamedMapper("fraction", kong.MapperFunc(decodeNumber[Fraction])),
	kong.NamedMapper("parts", kong.MapperFunc(decodeParts)),
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
