package tabular

import (
	"fmt"
	"math"
	"time"
)

// Type is the type of a column.
type Type string

// The types of columns.
const (
	String  Type = "string"
	Int64   Type = "int64"
	Float64 Type = "float64"
	Bool    Type = "bool"
	Binary  Type = "binary"
	Time    Type = "timestamp" // UTC, in milliseconds
)

// Column describes one column of a table.
type Column struct {
	Name     string `json:"name"` // unique in its table; a letter, then letters, digits and _
	Type     Type   `json:"type"`
	Nullable bool   `json:"nullable,omitempty"`
	// Few says that a String column has few distinct values, such as a media type. Parquet stores them
	// in a dictionary then.
	Few bool `json:"few,omitempty"`
	// Bits says that the values of an Int64 column fit into 16 or 32 bits: Parquet has the narrower type then. 0: 64.
	Bits int `json:"bits,omitempty"`
}

// Value is one value of a row. The zero Value is null.
type Value struct {
	kind Type // empty: null
	num  uint64
	text []byte
}

// Null is the value of a nullable column without a value.
var Null = Value{}

// Text returns the value of a String column. The bytes must stay unchanged until Write returns.
func Text(b []byte) Value { return Value{kind: String, text: b} }

// Str is Text of a string.
func Str(s string) Value { return Value{kind: String, text: []byte(s)} }

// StrOrNull is Str, or null for the empty string.
func StrOrNull(s string) Value {
	if s == "" {
		return Null
	}
	return Str(s)
}

// Bytes returns the value of a Binary column. The bytes must stay unchanged until Write returns.
func Bytes(b []byte) Value { return Value{kind: Binary, text: b} }

// Int returns the value of an Int64 column.
func Int(n int64) Value { return Value{kind: Int64, num: uint64(n)} }

// Float returns the value of a Float64 column.
func Float(f float64) Value { return Value{kind: Float64, num: math.Float64bits(f)} }

// Truth returns the value of a Bool column.
func Truth(b bool) Value {
	v := Value{kind: Bool}
	if b {
		v.num = 1
	}
	return v
}

// At returns the value of a Time column, rounded down to milliseconds.
func At(t time.Time) Value { return Value{kind: Time, num: uint64(t.UnixMilli())} }

// IsNull tells whether the value is null.
func (v Value) IsNull() bool { return v.kind == "" }

func (v Value) int() int64     { return int64(v.num) }
func (v Value) float() float64 { return math.Float64frombits(v.num) }

// checkColumns returns an error if no table can have these columns.
func checkColumns(columns []Column) error {
	if len(columns) == 0 {
		return fmt.Errorf("tabular: no columns")
	}
	seen := make(map[string]bool)
	for _, c := range columns {
		switch c.Type {
		case String, Int64, Float64, Bool, Time, Binary:
		default:
			return fmt.Errorf("tabular: column %s: unknown type %q", c.Name, c.Type)
		}
		if c.Bits != 0 && (c.Type != Int64 || c.Bits != 16 && c.Bits != 32) {
			return fmt.Errorf("tabular: column %s: no %s of %d bits", c.Name, c.Type, c.Bits)
		}
		if !goodName(c.Name) || seen[c.Name] {
			return fmt.Errorf("tabular: column %q: the name is invalid or not unique", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

func goodName(name string) bool {
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != ""
}

// checkRow returns an error if a row does not fit the columns, and the size of the row in memory.
func checkRow(columns []Column, row []Value) (int64, error) {
	if len(row) != len(columns) {
		return 0, fmt.Errorf("tabular: row of %d values, want %d", len(row), len(columns))
	}
	bytes := int64(8 * len(row))
	for i, v := range row {
		c := &columns[i]
		if v.kind != c.Type && (v.kind != "" || !c.Nullable) {
			return 0, fmt.Errorf("tabular: column %s: value of type %q, want %s", c.Name, v.kind, c.Type)
		}
		if n := v.int(); v.kind == Int64 && c.Bits != 0 && n != n<<(64-c.Bits)>>(64-c.Bits) {
			return 0, fmt.Errorf("tabular: column %s: %d does not fit into %d bits", c.Name, n, c.Bits)
		}
		bytes += int64(len(v.text))
	}
	if bytes > MaxRowBytes {
		return 0, fmt.Errorf("tabular: row of %d bytes, at most %d are allowed", bytes, MaxRowBytes)
	}
	return bytes, nil
}
