package explain

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"drumbeat/cmd/term"
)

// maxLine bounds a line that explain reads, in bytes: a page of 16 MiB in base64 and then some. A longer line is
// answered with an error and skipped without being kept.
const maxLine = 32 << 20

// failure is the answer to a line that has none.
type failure struct {
	Error string `json:"error"`
}

// answerLines answers each line of in with one line of JSON, in order, until in ends. A line that answer rejects
// becomes {"error": …}; only reading and writing can fail. Answers are written out whenever no input is waiting, so
// that a program may ask one question at a time through a pipe.
func answerLines(in io.Reader, out io.Writer, answer func(line []byte) (any, error)) error {
	src := bufio.NewReaderSize(in, 64<<10)
	dst := bufio.NewWriterSize(out, 64<<10)
	enc := json.NewEncoder(dst)
	enc.SetEscapeHTML(false)
	var line []byte
	for {
		var tooLong bool
		var err error
		line, tooLong, err = readLine(src, line[:0], maxLine)
		if err == io.EOF {
			return dst.Flush()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("explain: read standard input: %w", err), dst.Flush())
		}
		var a any
		if tooLong {
			err = fmt.Errorf("the line has more than %d bytes", maxLine)
		} else {
			a, err = answer(line)
		}
		if err != nil {
			a = failure{term.OneLine(err)}
		}
		if err := enc.Encode(a); err != nil {
			return fmt.Errorf("explain: write: %w", err)
		}
		if src.Buffered() == 0 {
			if err := dst.Flush(); err != nil {
				return fmt.Errorf("explain: write: %w", err)
			}
		}
		if cap(line) > 1<<20 {
			line = nil // one big page must not stay for ever
		}
	}
}

// readLine appends the next line without its end to line. io.EOF is returned only when nothing was left. Of a line
// longer than limit it keeps nothing.
func readLine(src *bufio.Reader, line []byte, limit int) (_ []byte, tooLong bool, err error) {
	some := false
	for {
		part, err := src.ReadSlice('\n')
		some = some || len(part) > 0
		if !tooLong && len(line)+len(part) > limit+1 {
			line, tooLong = line[:0], true
		}
		if !tooLong {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && some, err == nil:
			return bytes.TrimRight(line, "\r\n"), tooLong, nil
		default:
			return line, tooLong, err
		}
	}
}

// decodeLine reads one JSON object, and nothing after it, into q.
func decodeLine(line []byte, q any) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return errors.New("the line is empty, not a JSON object")
	}
	if !utf8.Valid(line) {
		return errors.New("the line is not UTF-8; bytes of another kind go into the field that ends in _base64")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if err := dec.Decode(q); err != nil {
		return fmt.Errorf("not the JSON object that is asked for: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one JSON value on the line")
	}
	return nil
}

// textOrBase64 is the value of a pair of fields of which exactly one is there.
func textOrBase64(name string, text, encoded *string) ([]byte, error) {
	switch {
	case text != nil && encoded != nil:
		return nil, fmt.Errorf("both %q and %q are given", name, name+"_base64")
	case text != nil:
		return []byte(*text), nil
	case encoded != nil:
		b, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name+"_base64", err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("neither %q nor %q is given", name, name+"_base64")
}
