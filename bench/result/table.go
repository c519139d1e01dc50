package result

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table is a text table for people.
type Table struct {
	// Title is the line above the table.
	Title string `json:"title"`
	// Head names the columns; each row has the same number of cells.
	Head []string   `json:"head"`
	Rows [][]string `json:"rows"`
	// Notes are the lines below the table.
	Notes []string `json:"notes,omitempty"`
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Write prints the table with minimal column widths, right-aligned.
func (t Table) Write(w io.Writer) error {
	var b strings.Builder
	t.format(&b)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("bench: write table: %w", err)
	}
	return nil
}

func (t Table) format(b *strings.Builder) {
	width := make([]int, len(t.Head))
	all := append([][]string{t.Head}, t.Rows...)
	for _, row := range all {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	b.WriteString(t.Title + "\n")
	for _, row := range all {
		for i, cell := range row {
			b.WriteString("  " + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)) + cell)
		}
		b.WriteByte('\n')
	}
	for _, note := range t.Notes {
		b.WriteString("  " + note + "\n")
	}
	b.WriteByte('\n')
}

// Number formats v with four significant digits; large numbers have no fraction and groups of three digits.
func Number(v float64) string {
	decimals := 0
	switch {
	case v < 10:
		decimals = 3
	case v < 100:
		decimals = 2
	case v < 1000:
		decimals = 1
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, rest, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		rest = "." + rest
	}
	return whole + rest
}

// Power formats a round number in short form: 8e9, 1e8, 2.5e3.
func Power(v float64) string {
	s := strconv.FormatFloat(v, 'e', -1, 64)
	digits, exponent, _ := strings.Cut(s, "e")
	n, err := strconv.Atoi(exponent)
	if err != nil || n < 3 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return digits + "e" + strconv.Itoa(n)
}

// DecimalBytes formats bytes in decimal units, like the paper's numbers.
func DecimalBytes(v float64) string {
	for _, u := range []struct {
		n    float64
		name string
	}{{1e12, " TB"}, {1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}} {
		if v >= u.n {
			return strconv.FormatFloat(v/u.n, 'g', 4, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + " B"
}

// BinaryBytes formats a size in the form that flags accept.
func BinaryBytes(n int) string {
	for _, u := range []struct {
		n    int
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.n && n%u.n == 0 {
			return strconv.Itoa(n/u.n) + u.name
		}
	}
	return strconv.Itoa(n) + "B"
}
