package doctor

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"drumbeat/cmd/term"
	"drumbeat/internal/human"
)

// status is the verdict of a check.
type status int

const (
	ok status = iota
	unknown
	warn
	fail
)

// marks are the statuses in the table and in JSON, with their colours.
var marks = [...]struct {
	text   string
	colour term.Colour
}{
	ok: {"ok", term.Green}, unknown: {"unknown", term.NoColour},
	warn: {"warn", term.Yellow}, fail: {"fail", term.Red},
}

// MarshalText implements encoding.TextMarshaler.
func (s status) MarshalText() ([]byte, error) { return []byte(marks[s].text), nil }

// result is what a check found.
type finding struct {
	Check  string `json:"check"`
	Status status `json:"status"`
	// Now is what the machine has, Need what the crawl needs.
	Now  string `json:"now"`
	Need string `json:"need,omitempty"`
	// Fix lists commands and settings. Each may be enough. It is empty if Status is ok.
	Fix []string `json:"fix,omitempty"`
}

// at sets the status and how to fix it, if cond holds and the status is not worse already.
func (r *finding) at(s status, cond bool, fix ...string) {
	if cond && s > r.Status {
		r.Status, r.Fix = s, fix
	}
}

// cannot returns the result of a check that could not be made.
func cannot(name string, err error) []finding {
	return []finding{{Check: name, Status: unknown, Now: err.Error()}}
}

// summary is the output of the command.
type summary struct {
	Need     *needs    `json:"need"`
	Checks   []finding `json:"checks"`
	Problems int       `json:"problems"`
	Warnings int       `json:"warnings"`
	Unknown  int       `json:"unknown"`
}

func newReport(need *needs, results []finding) *summary {
	s := &summary{Need: need, Checks: results}
	for _, r := range results {
		switch r.Status {
		case fail:
			s.Problems++
		case warn:
			s.Warnings++
		case unknown:
			s.Unknown++
		}
	}
	return s
}

func (s *summary) failed() bool { return s.Problems > 0 }

// maxCell bounds the width of a column, in characters; longer text continues to the right of the others.
const maxCell = 44

// write prints the table, and below each warning or failure how to fix it.
func (s *summary) write(w io.Writer) error {
	n := s.Need
	if _, err := fmt.Fprintf(w, "%s pages, %s, %s of RAM, %s of disk: up to %s pages/s, %s requests/s\n\n",
		human.Rough(n.Pages), human.Counted(n.Connections, "connection", "connections"),
		human.Bytes(n.RAMBytes), human.Bytes(n.StateBytes+n.OutputBytes),
		number(n.Rate), number(n.Requests)); err != nil {
		return err
	}
	if err := s.writeChecks(w); err != nil {
		return err
	}
	return s.writeEnd(w)
}

// writeChecks prints the table.
func (s *summary) writeChecks(w io.Writer) error {
	head := finding{Check: "check", Now: "now", Need: "needed"}
	var mark, check, now int
	for _, r := range append(s.Checks, head) {
		mark = max(mark, len(marks[r.Status].text))
		check = max(check, min(maxCell, width(r.Check)))
		if r.Need != "" {
			now = max(now, min(maxCell, width(r.Now)))
		}
	}
	line := func(colour term.Colour, text string, r finding) error {
		rest := "  " + pad(r.Check, check) + "  " + r.Now
		if r.Need != "" {
			rest = "  " + pad(r.Check, check) + "  " + pad(r.Now, now) + "  " + r.Need
		}
		err := term.Paint(w, colour, text)
		if err == nil {
			_, err = fmt.Fprintln(w, strings.Repeat(" ", mark-len(text))+rest)
		}
		for _, fix := range r.Fix {
			if err == nil {
				_, err = fmt.Fprintf(w, "%s  -> %s\n", strings.Repeat(" ", mark), fix)
			}
		}
		return err
	}
	if err := line(term.NoColour, "", head); err != nil {
		return err
	}
	for _, r := range s.Checks {
		if err := line(marks[r.Status].colour, marks[r.Status].text, r); err != nil {
			return err
		}
	}
	return nil
}

// writeEnd prints the last lines.
func (s *summary) writeEnd(w io.Writer) error {
	text := "\n"
	for _, r := range s.Checks {
		if strings.HasPrefix(strings.Join(r.Fix, "\n"), "sysctl ") {
			text = "\nTo keep a sysctl after a restart, write its NAME=VALUE to /etc/sysctl.d/90-drumbeat.conf.\n"
		}
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	var worst status
	for _, r := range s.Checks {
		worst = max(worst, r.Status)
	}
	if err := term.Paint(w, marks[worst].colour, s.line()); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// line is the summary in a line, such as "1 problem, 2 warnings: disk space; clock, swap".
func (s *summary) line() string {
	var counts, names []string
	for _, k := range [...]struct {
		status    status
		n         int
		one, many string
	}{{fail, s.Problems, "problem", "problems"}, {warn, s.Warnings, "warning", "warnings"},
		{unknown, s.Unknown, "unknown", "unknown"}} {
		if k.n == 0 {
			continue
		}
		var of []string
		for _, r := range s.Checks {
			if r.Status == k.status {
				of = append(of, r.Check)
			}
		}
		names = append(names, strings.Join(of, ", "))
		word := k.many
		if k.n == 1 {
			word = k.one
		}
		counts = append(counts, fmt.Sprintf("%d %s", k.n, word))
	}
	if len(counts) == 0 {
		return fmt.Sprintf("All %s ok.", human.Counted(len(s.Checks), "check is", "checks are"))
	}
	return strings.Join(counts, ", ") + ": " + strings.Join(names, "; ")
}

func width(s string) int { return utf8.RuneCountInString(s) }

func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-width(s))) }

// comma writes a number in groups of three digits; the largest ones, which stand for none, as unlimited.
func comma(n int64) string {
	if n >= 1<<62 {
		return "unlimited"
	}
	return humanize.Comma(n)
}

// number writes a rate for people.
func number(v float64) string {
	if v < 10 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return comma(int64(min(v, 1<<61)))
}

// speed writes bytes/s.
func speed(v float64) string { return human.Bytes(v) + "/s" }

// plural writes a number and its noun.
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return comma(n) + " " + noun + "s"
}

// power returns the least power of two from n on.
func power(n int64) int64 {
	p := int64(1)
	for p < n && p < 1<<61 {
		p *= 2
	}
	return p
}
