package log

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/term"
	"drumbeat/internal/crawllog"
	"drumbeat/internal/human"
)

// printer prints lines.
type printer struct {
	out       *bufio.Writer
	via, json bool
	lines     int64
	row       []byte // reused
}

// line prints a line for a person: time, outcome, bytes, duration and URL. With --json it prints it as stored.
func (p *printer) line(f *crawllog.Fields) error {
	p.lines++
	if p.json {
		if _, err := p.out.Write(f.Line); err != nil {
			return err
		}
		return p.out.WriteByte('\n')
	}
	bytes, took := "-", "-"
	if f.Bytes > 0 {
		bytes = human.Bytes(f.Bytes)
	}
	if f.Millis > 0 {
		took = human.Duration(time.Duration(f.Millis) * time.Millisecond)
	}
	row := f.Time.UTC().AppendFormat(p.row[:0], time.DateTime)
	row = fmt.Appendf(row, "  %-12s %9s %9s  %s", outcomeOf(f), bytes, took, term.PlainText(string(f.URL)))
	if len(f.Redirect) > 0 {
		row = append(append(row, " -> "...), term.PlainText(string(f.Redirect))...)
	}
	if p.via && len(f.Via) > 0 {
		row = append(append(row, "  on "...), term.PlainText(string(f.Via))...)
	}
	p.row = append(row, '\n')
	_, err := p.out.Write(p.row)
	return err
}

// outcome is a status, a reason or both.
type outcome struct {
	Status int    `json:"status,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// maxReason bounds the text of a reason that is printed, in bytes: reasons of seeds have error messages.
const maxReason = 100

func outcomeOf(f *crawllog.Fields) outcome {
	reason := f.Reason[:min(len(f.Reason), maxReason)]
	return outcome{Status: f.Status, Reason: term.PlainText(string(reason))}
}

// String returns the status, the reason, or both.
func (o outcome) String() string {
	switch {
	case o.Status == 0 && o.Reason == "":
		return "-"
	case o.Status == 0:
		return o.Reason
	case o.Reason == "":
		return strconv.Itoa(o.Status)
	}
	return strconv.Itoa(o.Status) + " " + o.Reason
}

// maxOutcomes bounds the outcomes that are counted apart.
const maxOutcomes = 10_000

// counts are the numbers of lines by outcome.
type counts struct {
	by    map[outcome]int64
	total int64
}

func (c *counts) add(f *crawllog.Fields) {
	c.total++
	o := outcomeOf(f)
	if _, known := c.by[o]; !known && len(c.by) >= maxOutcomes {
		o = outcome{Reason: "other reasons"}
	}
	c.by[o]++
}

// counted is the number of lines with an outcome.
type counted struct {
	outcome
	Lines int64 `json:"lines"`
}

// countReport is the JSON form of counts, the largest number first.
type countReport struct {
	Outcomes []counted `json:"outcomes"`
	Total    int64     `json:"total"`
}

func (c *counts) report() *countReport {
	r := &countReport{Outcomes: []counted{}, Total: c.total}
	for o, n := range c.by {
		r.Outcomes = append(r.Outcomes, counted{o, n})
	}
	slices.SortFunc(r.Outcomes, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Reason, b.Reason))
	})
	return r
}

func (c *counts) print(out io.Writer) error {
	r := c.report()
	for _, o := range r.Outcomes {
		if _, err := fmt.Fprintf(out, "%15s  %s\n", humanize.Comma(o.Lines), o.outcome); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%15s  total\n", humanize.Comma(r.Total))
	return err
}
