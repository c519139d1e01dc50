package get

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"drumbeat/cmd/term"
	"drumbeat/internal/maintext"
	"drumbeat/internal/pagetext"
	"drumbeat/internal/response"
	"drumbeat/warc"
)

// print prints what the user wants of a record.
func (c *Command) print(to io.Writer, r *warc.StoredRecord, warn func(string)) error {
	out := bufio.NewWriterSize(output{to}, 64<<10)
	err := c.write(out, r, warn)
	// What precedes damage is printed.
	if flushed := out.Flush(); flushed != nil {
		return flushed
	}
	var closed outputError
	if err != nil && !errors.As(err, &closed) {
		return fmt.Errorf("get: %w", err)
	}
	return err
}

// output marks the errors of standard output.
type output struct{ w io.Writer }

// Write implements io.Writer.
func (o output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = outputError{err}
	}
	return n, err
}

type outputError struct{ err error }

func (e outputError) Error() string { return "get: write: " + e.err.Error() }
func (e outputError) Unwrap() error { return e.err }

func (c *Command) write(out *bufio.Writer, r *warc.StoredRecord, warn func(string)) error {
	if c.Record {
		out.Write(r.Head) // the writer keeps its error
		if _, err := io.Copy(out, r); err != nil {
			return err
		}
		_, err := out.WriteString("\r\n\r\n")
		return err
	}
	b, err := response.Open(r, warn)
	if err != nil {
		return err
	}
	defer b.Close()
	if c.Head {
		_, err := out.Write(b.Head)
		if rest := b.SkipBody(); err == nil {
			err = rest // the record's checksum
		}
		return err
	}
	switch kind := b.ContentType(); {
	case (c.Text || c.Markdown) && !pagetext.IsHTML(kind):
		flag := "--text"
		if c.Markdown {
			flag = "--markdown"
		}
		return term.Usage(fmt.Errorf("%s is for HTML, and the response is %.100q: use --body", flag, kind))
	case c.Text:
		err = pagetext.Write(out, b.Body, kind)
	case c.Markdown:
		var d *maintext.Doc
		d, err = maintext.HTML(b.Body, kind, strings.TrimPrefix(r.Get("WARC-Target-URI"), warc.RenderedPrefix))
		if err != nil {
			break
		}
		text, cut := d.Markdown(maintext.MaxMarkdown)
		if cut || d.Truncated {
			warn("the page is too long: its end is missing")
		}
		_, err = out.Write(text)
	default:
		var n int64
		if n, err = io.Copy(out, b.Body); n == 0 && err == nil && r.Get("WARC-Truncated") == "" {
			status, _, _ := bytes.Cut(b.Head, []byte("\r\n"))
			warn(fmt.Sprintf("the body is empty; --head prints the header fields of %.100q", status))
		}
	}
	var closed outputError
	if errors.As(err, &closed) {
		return err
	}
	return b.End(err)
}
