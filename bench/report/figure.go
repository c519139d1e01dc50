package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Figure is the data of a plot: series over one pair of axes. Command bench/lab draws it from a report's
// JSON.
type Figure struct {
	// Name becomes part of the file's name: lower-case letters, digits and dashes.
	Name  string `json:"name"`
	Title string `json:"title"`
	// X and Y name the axes with their units.
	X string `json:"x"`
	Y string `json:"y"`
	// LogX and LogY make an axis logarithmic; the plot then omits points at 0 or below.
	LogX   bool     `json:"logX,omitempty"`
	LogY   bool     `json:"logY,omitempty"`
	Series []Series `json:"series"`
}

// Series is a named list of points, ordered by x.
type Series struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
	// Model marks the values of a formula, which are drawn dashed and without marks.
	Model bool `json:"model,omitempty"`
}

// Point is one pair of coordinates.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Add appends a point to the named series, and creates the series if necessary.
func (f *Figure) Add(name string, x, y float64) {
	i := slices.IndexFunc(f.Series, func(s Series) bool { return s.Name == name })
	if i < 0 {
		i = len(f.Series)
		f.Series = append(f.Series, Series{Name: name})
	}
	f.Series[i].Points = append(f.Series[i].Points, Point{x, y})
}

// ErrNoPoints is the error of Validate for a figure without visible points.
var ErrNoPoints = errors.New("nothing to draw")

// Validate returns an error if the axes can't show any point.
func (f Figure) Validate() error {
	for _, s := range f.Series {
		if len(f.Visible(s)) > 0 {
			return nil
		}
	}
	return fmt.Errorf("bench: plot %s: %w", f.Name, ErrNoPoints)
}

// Visible returns the points of a series that the axes can show.
func (f Figure) Visible(s Series) (points []Point) {
	for _, p := range s.Points {
		finite := !math.IsNaN(p.X) && !math.IsNaN(p.Y) && !math.IsInf(p.X, 0) && !math.IsInf(p.Y, 0)
		if finite && (!f.LogX || p.X > 0) && (!f.LogY || p.Y > 0) {
			points = append(points, p)
		}
	}
	return points
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
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return nil, fmt.Errorf("bench: save report: %w", err)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		return nil, err
	}
	errs := []error{put(r.Name+".json", append(b, '\n')), put(r.Name+".txt", text.Bytes())}
	for _, f := range r.Figures {
		errs = append(errs, f.Validate())
	}
	return names, errors.Join(errs...)
}

func SortPoints(p []Point) {
	slices.SortFunc(p, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
}
