package crawllog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Fields are those fields of a line that a reader of many lines selects by and prints. They are decoded
// several times as fast as an Entry. The byte slices are valid until the next line.
type Fields struct {
	// Line is the line as stored, without its newline.
	Line []byte
	// Time, with milliseconds.
	Time time.Time
	// The texts, without quotes and escapes. nil: the line has no such field.
	URL, Reason, MIME, Via, Redirect []byte
	// Status of the HTTP response, 0 without one.
	Status int
	// Bytes received.
	Bytes int64
	// Millis is the duration of the fetch in milliseconds.
	Millis int64
}

var errForm = errors.New("not a line of Append")

// Parse sets the fields from a line without newline. It decodes lines of other programs and versions, too,
// if they are JSON objects with these fields.
func (f *Fields) Parse(line []byte) error {
	if f.quick(line) == nil {
		return nil
	}
	var e Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	if e.Time.IsZero() {
		return fmt.Errorf("no time in %.40q", line)
	}
	text := func(s string) []byte {
		if s == "" {
			return nil
		}
		return []byte(s)
	}
	*f = Fields{Line: line, Time: e.Time.UTC(), URL: text(e.URL), Reason: text(e.Reason),
		MIME: text(e.MIME), Via: text(e.Via), Redirect: text(e.Redirect), Status: e.Status,
		Bytes: e.Bytes, Millis: e.Elapsed.Milliseconds()}
	return nil
}

// quick parses a line in the form that Append writes: one object without spaces, of strings, whole numbers
// and true.
func (f *Fields) quick(line []byte) error {
	*f = Fields{Line: line}
	if len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' {
		return errForm
	}
	for rest := line[1:]; ; {
		name, after, err := quoted(rest)
		if err != nil || len(after) < 2 || after[0] != ':' {
			return errForm
		}
		value := after[1:]
		var text []byte
		if value[0] == '"' {
			text, rest, err = quoted(value)
		} else {
			end := bytes.IndexAny(value, ",}")
			if end < 0 {
				return errForm
			}
			value, rest = value[:end], value[end:]
		}
		if err == nil {
			err = f.set(name, value, text)
		}
		if err != nil {
			return err
		}
		switch {
		case len(rest) == 1 && rest[0] == '}':
			if f.Time.IsZero() {
				return errForm
			}
			return nil
		case len(rest) < 2 || rest[0] != ',':
			return errForm
		}
		rest = rest[1:]
	}
}

// quoted returns the text between quotes at the beginning of b, escapes included, and what follows.
func quoted(b []byte) (text, rest []byte, err error) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, errForm
	}
	for end := 1; ; end++ {
		i := bytes.IndexByte(b[end:], '"')
		if i < 0 {
			return nil, nil, errForm
		}
		end += i
		slashes := 0
		for b[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return b[1:end], b[end+1:], nil
		}
	}
}

// set takes the value of a field; text is that of a string, without quotes. It refuses other types than
// Append's, which Unmarshal judges.
func (f *Fields) set(name, value, text []byte) (err error) {
	switch string(name) {
	case "ts":
		if text == nil {
			return errForm
		}
		return f.Time.UnmarshalText(text)
	case "url":
		f.URL, err = unescaped(text)
	case "reason":
		f.Reason, err = unescaped(text)
	case "mime":
		f.MIME, err = unescaped(text)
	case "via":
		f.Via, err = unescaped(text)
	case "redirect":
		f.Redirect, err = unescaped(text)
	case "status":
		var n int64
		n, err = number(value)
		f.Status = int(n)
	case "bytes":
		f.Bytes, err = number(value)
	case "ms":
		f.Millis, err = number(value)
	}
	return err
}

// unescaped returns a JSON string's text without escapes.
func unescaped(text []byte) ([]byte, error) {
	if text == nil {
		return nil, errForm
	}
	if bytes.IndexByte(text, '\\') < 0 {
		return text, nil
	}
	quoted := append(append(append(make([]byte, 0, len(text)+2), '"'), text...), '"')
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return nil, errForm
	}
	return []byte(s), nil
}

// number reads a whole number of at most 18 digits.
func number(b []byte) (n int64, err error) {
	digits := bytes.TrimPrefix(b, []byte("-"))
	if len(digits) == 0 || len(digits) > 18 {
		return 0, errForm
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, errForm
		}
		n = 10*n + int64(c-'0')
	}
	if len(digits) < len(b) {
		n = -n
	}
	return n, nil
}
