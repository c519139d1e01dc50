package ctl

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"drumbeat/cmd/term"
)

type historyCmd struct {
	Metric []string      `arg:""`
	Last   time.Duration `placeholder:"DURATION" default:"1h"`
	Points int           `default:"20"`
}

// series is the server's answer. A value is nil where the run had no such metric.
type series struct {
	Times  []float64             `json:"times"` // Unix seconds
	Series map[string][]*float64 `json:"series"`
}

// Run prints metrics over time.
func (c historyCmd) Run(a *term.App, w *Where) error {
	q := url.Values{"metrics": {strings.Join(c.Metric, ",")}, "points": {strconv.Itoa(c.Points)},
		"from": {time.Now().Add(-c.Last).Format(time.RFC3339)}}
	return call(a, w, http.MethodGet, "/api/v1/history?"+q.Encode(), nil, printer(a, func(out io.Writer, s *series) {
		fmt.Fprintf(out, "time\t%s\t\n", strings.Join(c.Metric, "\t"))
		for i, at := range s.Times {
			fmt.Fprintf(out, "%s\t", time.UnixMilli(int64(at*1000)).Format(time.DateTime))
			for _, name := range c.Metric {
				fmt.Fprintf(out, "%s\t", value(s.Series[name], i))
			}
			fmt.Fprintln(out)
		}
	}))
}

// value returns a value of a series as text.
func value(values []*float64, i int) string {
	if i >= len(values) || values[i] == nil {
		return "-"
	}
	return strconv.FormatFloat(*values[i], 'f', -1, 64)
}
