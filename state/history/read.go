package history

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"drumbeat/disk"
)

// Query selects a part of a history.
type Query struct {
	// From and To bound the span: From <= time < To.
	From, To time.Time
	// Points bounds the number of points, at most MaxPoints. The span is divided into as many intervals;
	// the last sample of each counts. 0 means MaxPoints.
	Points int
	// Names are series, or names of metrics for all their series. None means all.
	Names []string
}

// MaxPoints bounds Query.Points; maxValues bounds the values of a result.
const (
	MaxPoints = 10_000
	maxValues = 16 << 20
)

// Data is the answer to a query.
type Data struct {
	Step   time.Duration        // between two points
	Times  []time.Time          // of the samples
	Series map[string][]float64 // by name, for each of Times; NaN where the run had no such series
	Events []Event              // the last MaxPoints of the span
	// Damage has an error for each file that could not be read to its end.
	Damage []error
}

// listings bounds how often Read starts over because a Writer replaced a file meanwhile.
const listings = 100

// Read reads a part of the history in a directory. One that does not exist is empty.
func Read(fsys disk.FS, dir string, q Query) (*Data, error) {
	if q.Points == 0 {
		q.Points = MaxPoints
	}
	if q.Points < 0 || q.Points > MaxPoints || !q.From.Before(q.To) {
		return nil, fmt.Errorf("history: %d points from %v to %v", q.Points, q.From, q.To)
	}
	for try := 1; ; try++ {
		data, err := read(fsys, dir, &q)
		if err == nil || try == listings || !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}
}

// Span returns the times of the first and the last record of a history; zero times if it is empty.
func Span(fsys disk.FS, dir string) (first, last time.Time, err error) {
	for try := 1; ; try++ {
		first, last, err = span(fsys, dir)
		if try == listings || !errors.Is(err, fs.ErrNotExist) {
			return first, last, err
		}
	}
}

func span(fsys disk.FS, dir string) (first, last time.Time, _ error) {
	files, _, err := list(fsys, dir)
	if err == nil {
		err = starts(fsys, dir, files)
	}
	if err != nil {
		return first, last, err
	}
	for i := range files {
		if start := files[i].start; start != unknown && (first.IsZero() || start < first.UnixMilli()) {
			first = time.UnixMilli(start).UTC()
		}
	}
	for _, f := range slices.Backward(files) {
		d, err := load(fsys, dir, &f)
		if isDamage(err) {
			continue
		}
		if err != nil {
			return first, last, err
		}
		for d.next(new(Event)) != itemEnd {
		}
		return first, time.UnixMilli(d.last).UTC(), nil
	}
	return first, first, nil
}

// reader collects the points of a query.
type reader struct {
	q        *Query
	from, to int64 // ms
	width    int64 // ms of an interval
	point    int64 // interval of the last of Times
	data     *Data
	wanted   map[string]bool
}

func read(fsys disk.FS, dir string, q *Query) (*Data, error) {
	files, _, err := list(fsys, dir)
	if err != nil {
		return nil, err
	}
	r := reader{q: q, from: q.From.UnixMilli(), to: q.To.UnixMilli(), point: -1, wanted: map[string]bool{},
		data: &Data{Series: map[string][]float64{}}}
	r.width = max(1, (r.to-r.from+int64(q.Points)-1)/int64(q.Points))
	r.data.Step = time.Duration(r.width) * time.Millisecond
	for _, name := range q.Names {
		r.wanted[name] = true
	}
	if err := starts(fsys, dir, files); err != nil {
		return nil, err
	}
	for i := range files {
		if f := &files[i]; f.start != unknown && f.start >= r.to ||
			i+1 < len(files) && f.start <= files[i+1].start && files[i+1].start <= r.from {
			continue // all of it is behind the span, or before it
		}
		d, err := load(fsys, dir, &files[i])
		if isDamage(err) {
			if i < len(files)-1 { // the header of the last file may be about to be written
				r.data.Damage = append(r.data.Damage, err)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := r.file(d); err != nil {
			return nil, err
		}
		if d.at < len(d.data) && i < len(files)-1 { // the last file may be about to be written
			r.data.Damage = append(r.data.Damage, d.corrupt())
		}
	}
	for name, values := range r.data.Series {
		r.data.Series[name] = r.pad(values, len(r.data.Times))
	}
	return r.data, nil
}

// pad appends NaN up to a length.
func (r *reader) pad(values []float64, n int) []float64 {
	for len(values) < n {
		values = append(values, math.NaN())
	}
	return values
}

// file adds the samples and events of a file.
func (r *reader) file(d *decoder) error {
	var ev Event
	var columns []seriesOf
	changed := -1
	for it := d.next(&ev); it != itemEnd; it = d.next(&ev) {
		if d.last < r.from || d.last >= r.to {
			continue
		}
		if it == itemEvent {
			if len(r.data.Events) == MaxPoints {
				r.data.Events = slices.Delete(r.data.Events, 0, MaxPoints/10)
			}
			r.data.Events = append(r.data.Events, ev)
			continue
		}
		if d.changed != changed {
			columns, changed = r.columns(d), d.changed
		}
		if err := r.sample(d, columns); err != nil {
			return err
		}
	}
	return nil
}

// seriesOf is a column that the query wants.
type seriesOf struct {
	at    int // index in the file
	name  string
	scale float64
}

// columns returns the columns of a file that the query wants.
func (r *reader) columns(d *decoder) (list []seriesOf) {
	for i := range d.columns {
		c := &d.columns[i]
		metric, _, _ := strings.Cut(c.name, "{")
		if len(r.wanted) == 0 || r.wanted[c.name] || r.wanted[metric] {
			list = append(list, seriesOf{i, c.name, c.scale()})
		}
	}
	return list
}

// sample adds a sample. It replaces the one before if both are in the same interval.
func (r *reader) sample(d *decoder, columns []seriesOf) error {
	point := (d.last - r.from) / r.width
	if point != r.point || len(r.data.Times) == 0 {
		if point < r.point { // the clock was set back: what it measured twice counts once
			return nil
		}
		r.point = point
		r.data.Times = append(r.data.Times, time.Time{})
	}
	n := len(r.data.Times)
	r.data.Times[n-1] = time.UnixMilli(d.last).UTC()
	for i := range columns {
		c := &columns[i]
		values, known := r.data.Series[c.name]
		if !known && int64(len(r.data.Series)+1)*int64(r.q.Points) > maxValues {
			return fmt.Errorf("history: more than %d series of %d points: select some", len(r.data.Series), r.q.Points)
		}
		values = append(r.pad(values, n-1)[:n-1], float64(d.values[c.at])/c.scale)
		r.data.Series[c.name] = values
	}
	return nil
}
