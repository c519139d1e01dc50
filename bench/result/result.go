package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is the result of one benchmark command.
type Report struct {
	// Name is the command's name, such as "drum"; Save uses it in file names. Title says in one line what
	// was measured.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Command is the command line, empty if unset; Machine and Began are the place and time of the run.
	Command string    `json:"command"`
	Machine Machine   `json:"machine"`
	Began   time.Time `json:"began"`
	// Settings are further conditions of the run, printed as "key: value" above the lines.
	Settings []Setting `json:"settings,omitempty"`
	Lines    []Line    `json:"lines"`
	Tables   []Table   `json:"tables,omitempty"`
	Checks   []Check   `json:"checks,omitempty"`
	// Notes are printed at the end, one per line.
	Notes []string `json:"notes,omitempty"`
}

// Setting is a parameter or fact of the run.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Line is one measurement in the format of a Go benchmark.
type Line struct {
	// Name begins with "Benchmark" and contains parameters as /key=value.
	Name string `json:"name"`
	// N is the number of measured operations.
	N       int64    `json:"n"`
	Metrics []Metric `json:"metrics"`
}

// Metric is a value with its unit, such as 12.3 ns/op.
type Metric struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Check is a figure and its stated target.
type Check struct {
	// Name describes what is checked.
	Name string
	// Got is the figure; it must be at least Least and at most Most.
	Got, Least, Most float64
	Unit             string
}

// MarshalJSON omits values that are not finite, and bounds without effect.
func (c Check) MarshalJSON() ([]byte, error) {
	number := func(v float64) *float64 {
		if math.IsNaN(v) || math.Abs(v) >= math.MaxFloat64 {
			return nil
		}
		return &v
	}
	return json.Marshal(struct {
		Name  string   `json:"name"`
		OK    bool     `json:"ok"`
		Got   *float64 `json:"got,omitempty"`
		Least *float64 `json:"least,omitempty"`
		Most  *float64 `json:"most,omitempty"`
		Unit  string   `json:"unit"`
	}{c.Name, c.OK(), number(c.Got), number(c.Least), number(c.Most), c.Unit})
}

// AtLeast checks that a figure is at least a limit.
func AtLeast(name string, got, least float64, unit string) Check {
	return Check{Name: name, Got: got, Least: least, Most: math.MaxFloat64, Unit: unit}
}

// AtMost checks that a figure is at most a limit.
func AtMost(name string, got, most float64, unit string) Check {
	return Check{Name: name, Got: got, Least: -math.MaxFloat64, Most: most, Unit: unit}
}

// Within checks that got differs from want by at most share times want.
func Within(name string, got, want, share float64, unit string) Check {
	return Check{Name: name, Got: got, Least: want - share*math.Abs(want),
		Most: want + share*math.Abs(want), Unit: unit}
}

// OK reports whether the figure meets the target. NaN never does.
func (c Check) OK() bool { return c.Got >= c.Least && c.Got <= c.Most }

// String returns the printed line.
func (c Check) String() string {
	verdict := "ok    "
	if !c.OK() {
		verdict = "MISSED"
	}
	var want string
	switch {
	case c.Most == math.MaxFloat64:
		want = "at least " + c.number(c.Least)
	case c.Least == -math.MaxFloat64:
		want = "at most " + c.number(c.Most)
	default:
		want = c.number(c.Least) + " to " + c.number(c.Most)
	}
	return fmt.Sprintf("%s  %s: %s %s, want %s", verdict, c.Name, c.number(c.Got), c.Unit, want)
}

// number formats a figure of the check. If all of them are whole, they are counts and have no decimals.
func (c Check) number(v float64) string {
	text := Number(v)
	for _, figure := range []float64{c.Got, c.Least, c.Most} {
		if figure != math.Trunc(figure) {
			return text
		}
	}
	whole, _, _ := strings.Cut(text, ".")
	return whole
}

// Add appends a line; metrics are pairs of value and unit.
func (r *Report) Add(name string, n int64, metrics ...Metric) {
	r.Lines = append(r.Lines, Line{Name: name, N: n, Metrics: metrics})
}

// Set appends a setting.
func (r *Report) Set(key, format string, args ...any) {
	r.Settings = append(r.Settings, Setting{key, fmt.Sprintf(format, args...)})
}

// SetDirs appends a setting for each measured directory.
func (r *Report) SetDirs(dirs []string) {
	for i, dir := range dirs {
		r.Set(fmt.Sprintf("dir%d", i), "%s", dir)
	}
}

// ErrMissed is wrapped by the error of Err.
var ErrMissed = errors.New("target missed")

// Err returns an error that names the missed checks, or nil.
func (r *Report) Err() error {
	var missed []string
	for _, c := range r.Checks {
		if !c.OK() {
			missed = append(missed, c.Name)
		}
	}
	if missed == nil {
		return nil
	}
	return fmt.Errorf("bench %s: %w: %s", r.Name, ErrMissed, strings.Join(missed, "; "))
}

// Write prints settings and lines, then tables, checks and notes.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: drumbeat/bench\n", runtime.GOOS, runtime.GOARCH)
	if r.Command != "" {
		fmt.Fprintf(&b, "command: %s\n", r.Command)
	}
	for _, s := range append(r.Machine.settings(), r.Settings...) {
		fmt.Fprintf(&b, "%s: %s\n", s.Key, s.Value)
	}
	for _, l := range r.Lines {
		b.WriteString(l.String() + "\n")
	}
	b.WriteByte('\n')
	for _, t := range r.Tables {
		t.format(&b)
	}
	for _, c := range r.Checks {
		b.WriteString(c.String() + "\n")
	}
	if len(r.Checks) > 0 {
		b.WriteByte('\n')
	}
	for _, note := range r.Notes {
		b.WriteString(note + "\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("bench: write report: %w", err)
	}
	return nil
}

// String formats the line like package testing.
func (l Line) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s \t%8d", l.Name, l.N)
	for _, m := range l.Metrics {
		b.WriteString("\t" + value(m.Value) + " " + m.Unit)
	}
	return b.String()
}

// value formats a figure with at least four significant digits, without exponent.
func value(v float64) string {
	decimals := 0
	if a := math.Abs(v); a > 0 && a < 1000 {
		decimals = min(12, 3-int(math.Floor(math.Log10(a))))
	}
	return fmt.Sprintf("%12s", strconv.FormatFloat(v, 'f', decimals, 64))
}

// Sample holds the repeats of one figure.
type Sample []float64

// Of computes a figure of each repeat.
func Of[T any](repeats []T, figure func(T) float64) Sample {
	s := make(Sample, 0, len(repeats))
	for _, r := range repeats {
		s = append(s, figure(r))
	}
	return s
}

// Median returns the median of the repeats; NaN if there are none.
func (s Sample) Median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(s))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Spread formats the smallest and the largest repeat.
func (s Sample) Spread() string {
	if len(s) == 0 {
		return ""
	}
	return Number(slices.Min(s)) + "-" + Number(slices.Max(s))
}

// Save writes <name>.json and <name>.txt into dir and returns the names. It creates dir if necessary and
// replaces existing files.
func (r *Report) Save(dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("bench: save report: %w", err)
	}
	put := func(name string, b []byte) error {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b, 0o666); err != nil {
			return fmt.Errorf("bench: save report: %w", err)
		}
		names = append(names, name)
		return nil
	}
	var text, object bytes.Buffer
	if err := errors.Join(r.Write(&text), r.WriteJSON(&object)); err != nil {
		return nil, err
	}
	return names, errors.Join(put(r.Name+".json", object.Bytes()), put(r.Name+".txt", text.Bytes()))
}

// WriteJSON writes the report as a JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	b, err := json.MarshalIndent(r, "", "\t")
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("bench: write report: %w", err)
	}
	return nil
}
