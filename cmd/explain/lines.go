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

// maxLine bounds an input line, in bytes: a page of 16 MiB in base64 fits. The answer to a longer line is an
// error; the line is not kept in RAM.
const maxLine = 32 << 20

// failure is the answer to a bad line.
type failure struct {
	Error string `json:"error"`
}

// answerLines answers each line of in with one line of JSON, in order, until in ends. An error of answer
// becomes {"error": …}; only reading and writing can fail. It flushes its output whenever no input is
// waiting, so a program may ask one question at a time through a pipe.
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
			line = nil // release the buffer of a large page
		}
	}
}

// readLine appends the next line, without its end, to line. It returns io.EOF only if no input is left. It
// keeps nothing of a line longer than limit bytes.
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

// decodeLine reads one JSON object into q, and refuses anything after it.
func decodeLine(line []byte, q any) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return errors.New("the line is empty, not a JSON object")
	}
	if !utf8.Valid(line) {
		return errors.New("the line is not UTF-8; put other bytes into the field that ends in _base64")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if err := dec.Decode(q); err != nil {
		return fmt.Errorf("not the expected JSON object: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one JSON value on the line")
	}
	return nil
}

// textOrBase64 returns the value of a pair of fields. Exactly one must be present.
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
