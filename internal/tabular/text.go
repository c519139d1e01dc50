package tabular

import (
	"bytes"
	"encoding/hex"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// timeLayout is RFC 3339 with milliseconds, as in the crawl log.
const timeLayout = "2006-01-02T15:04:05.000Z"

// appendCSVHeader appends the line of names.
func appendCSVHeader(dst []byte, columns []Column) []byte {
	for i, c := range columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, c.Name...)
	}
	return append(dst, '\n')
}

// appendCSV appends a row (RFC 4180, with LF).
func appendCSV(dst []byte, row []Value) []byte {
	for i, v := range row {
		if i > 0 {
			dst = append(dst, ',')
		}
		if v.kind != String {
			dst = appendScalar(dst, v)
			continue
		}
		if len(v.text) > 0 && !bytes.ContainsAny(v.text, "\",\r\n") && v.text[0] != ' ' {
			dst = appendUTF8(dst, v.text)
			continue
		}
		dst = append(dst, '"')
		for rest := v.text; len(rest) > 0; {
			n := bytes.IndexByte(rest, '"') + 1
			if n == 0 {
				dst = appendUTF8(dst, rest)
				break
			}
			dst = append(appendUTF8(dst, rest[:n]), '"')
			rest = rest[n:]
		}
		dst = append(dst, '"')
	}
	return append(dst, '\n')
}

// appendTSV appends a row with tabs between values. Text must not have tabs or line ends.
func appendTSV(dst []byte, row []Value) []byte {
	for i, v := range row {
		if i > 0 {
			dst = append(dst, '\t')
		}
		if v.kind == String {
			dst = appendUTF8(dst, v.text)
		} else {
			dst = appendScalar(dst, v)
		}
	}
	return append(dst, '\n')
}

// appendJSON appends a row as one JSON object and LF.
func appendJSON(dst []byte, columns []Column, row []Value) []byte {
	for i, v := range row {
		if i > 0 {
			dst = append(dst, ',')
		} else {
			dst = append(dst, '{')
		}
		dst = append(dst, '"')
		dst = append(dst, columns[i].Name...)
		dst = append(dst, '"', ':')
		switch f := v.float(); {
		case v.kind == "", v.kind == Float64 && (math.IsNaN(f) || math.IsInf(f, 0)):
			dst = append(dst, "null"...)
		case v.kind == String:
			dst = appendJSONText(dst, v.text)
		case v.kind == Time, v.kind == Binary:
			dst = append(appendScalar(append(dst, '"'), v), '"')
		default:
			dst = appendScalar(dst, v)
		}
	}
	return append(dst, '}', '\n')
}

// appendScalar appends a value that is not text; nothing for null.
func appendScalar(dst []byte, v Value) []byte {
	switch v.kind {
	case Binary:
		return hex.AppendEncode(dst, v.text)
	case Int64:
		return strconv.AppendInt(dst, v.int(), 10)
	case Float64:
		return strconv.AppendFloat(dst, v.float(), 'g', -1, 64)
	case Bool:
		return strconv.AppendBool(dst, v.num != 0)
	case Time:
		return time.UnixMilli(v.int()).UTC().AppendFormat(dst, timeLayout)
	}
	return dst
}

// appendUTF8 appends text and replaces what is not UTF-8.
func appendUTF8(dst, text []byte) []byte {
	if utf8.Valid(text) {
		return append(dst, text...)
	}
	return append(dst, bytes.ToValidUTF8(text, []byte("\uFFFD"))...)
}

// appendJSONText appends text as a JSON string (RFC 8259, section 7).
func appendJSONText(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	dst = append(dst, '"')
	from := 0
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[from:i]...)
		from = i + 1
		if c >= ' ' {
			dst = append(dst, '\\', c)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, text[from:]...), '"')
}
