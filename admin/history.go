package admin

import (
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/internal/human"
	"drumbeat/state"
	"drumbeat/state/history"
)

// History is a part of the history of the crawl.
type History struct {
	From   time.Time           `json:"from"`
	To     time.Time           `json:"to"`
	Step   float64             `json:"step" doc:"Seconds between two points."`
	Times  []float64           `json:"times" doc:"Unix seconds of the samples."`
	Series map[string][]number `json:"series" doc:"By name, a value for each time; null where the run has none."`
	Events []HistoryEvent      `json:"events"`
	Damage []string            `json:"damage" doc:"Files that could not be read to their ends."`
}

// HistoryEvent is something that happened.
type HistoryEvent struct {
	Time time.Time `json:"time"`
	What string    `json:"what" doc:"start, stop, crash, change and so on."`
	Text string    `json:"text"`
}

// number is a value of a series: null in JSON if it is not a number.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

// The bounds of a question about the history.
const (
	defaultPoints = 600
	maxPoints     = 2000
	maxMetrics    = 50
)

// timeParam returns a time of the query, def if it is missing.
func timeParam(r *http.Request, name string, def time.Time) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, problem(http.StatusBadRequest, fmt.Sprintf("%s is %q: want an RFC 3339 time", name, text))
	}
	return at, nil
}

// history returns a part of the history. A name without label is the sum of the series of that metric.
func (s *Server) history(r *http.Request) (any, error) {
	to, err := timeParam(r, "to", time.Now())
	if err != nil {
		return nil, err
	}
	from, err := timeParam(r, "from", to.Add(-time.Hour))
	if err != nil {
		return nil, err
	}
	points, err := intParam(r, "points", defaultPoints, maxPoints)
	if err != nil {
		return nil, err
	}
	names := splitNames(r.URL.Query().Get("metrics"))
	if len(names) == 0 || len(names) > maxMetrics {
		return nil, problem(http.StatusBadRequest,
			fmt.Sprintf("metrics has %s: want 1 to %d, separated by commas", human.Counted(len(names), "name", "names"),
				maxMetrics))
	}
	if !from.Before(to) {
		return nil, problem(http.StatusBadRequest, "from is not before to")
	}
	data, err := history.Read(disk.OS(), filepath.Join(s.opt.Dirs[0], state.HistoryName),
		history.Query{From: from, To: to, Points: points, Names: names})
	if err != nil {
		return nil, err
	}
	out := &History{From: from.UTC(), To: to.UTC(), Step: data.Step.Seconds(), Times: []float64{},
		Series: map[string][]number{}, Events: []HistoryEvent{}, Damage: []string{}}
	for _, at := range data.Times {
		out.Times = append(out.Times, float64(at.UnixMilli())/1000)
	}
	for _, name := range names {
		out.Series[name] = seriesOf(data, name)
	}
	for _, e := range data.Events {
		out.Events = append(out.Events, HistoryEvent{e.Time.UTC(), e.What, e.Text})
	}
	for _, err := range data.Damage {
		out.Damage = append(out.Damage, err.Error())
	}
	return out, nil
}

// splitNames splits names at commas outside of quotes.
func splitNames(text string) (names []string) {
	quoted := false
	for _, name := range strings.FieldsFunc(text, func(c rune) bool {
		quoted = quoted != (c == '"')
		return c == ',' && !quoted
	}) {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// seriesOf returns a series, or the sum of the series of a metric with labels.
func seriesOf(data *history.Data, name string) []number {
	sum := make([]number, len(data.Times))
	for i := range sum {
		sum[i] = number(math.NaN())
	}
	for series, values := range data.Series {
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		for i, v := range values {
			switch {
			case math.IsNaN(v):
			case math.IsNaN(float64(sum[i])):
				sum[i] = number(v)
			default:
				sum[i] += number(v)
			}
		}
	}
	return sum
}
