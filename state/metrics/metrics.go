package metrics

import (
	"strconv"
	"strings"

	"drumbeat/internal/histogram"
	"drumbeat/state/snapshot"
)

// Prefix begins the names of the metrics on the page /metrics.
const Prefix = "drumbeat_"

// Kind is the kind of a metric.
type Kind uint8

// The kinds.
const (
	Counter Kind = iota
	Gauge
	Histogram
)

// String returns the name that Prometheus uses.
func (k Kind) String() string { return [...]string{"counter", "gauge", "histogram"}[k] }

// Metric describes one metric.
type Metric struct {
	Name  string // without Prefix
	Help  string // a sentence without a full stop
	Unit  string // "bytes", "seconds"; "" for numbers
	Kind  Kind
	Label string // name of the label; "" for a metric without one

	each     func(s *snapshot.Snapshot, f func(label string, v float64)) // nil for values and histograms
	times    snapshot.Time                                               // of histograms
	fraction bool                                                        // values are not integers
}

// All returns the table. The caller must not change it.
func All() []Metric { return table[:] }

// Each calls f for each value of the counters and gauges.
func Each(s *snapshot.Snapshot, f func(m *Metric, label string, v float64)) {
	rows := table // begins with those of values
	visit := func(label string, values []value) {
		for i, v := range values {
			f(&rows[i], label, number(v.v))
		}
	}
	for _, values := range [...][]value{ofCrawl(s), ofStructures(s), ofCluster(s)} {
		visit("", values)
		rows = rows[len(values):]
	}
	for i := range s.Dirs {
		visit(s.Dirs[i].Path, ofDir(&s.Dirs[i]))
	}
	rows = rows[dirMetrics:]
	for i := range s.Cluster.Pairs {
		visit(strconv.Itoa(s.Cluster.Pairs[i].Node), ofPair(&s.Cluster.Pairs[i]))
	}
	for i := range rows {
		if m := &rows[i]; m.each != nil {
			m.each(s, func(label string, v float64) { f(m, label, v) })
		}
	}
}

// EachHistogram calls f for each histogram.
func EachHistogram(s *snapshot.Snapshot, f func(m *Metric, h *histogram.Snapshot)) {
	for i := range table {
		if m := &table[i]; m.Kind == Histogram {
			f(m, &s.Times[m.times])
		}
	}
}

// The bounds of the buckets that /metrics and the history show are the powers of two nanoseconds from
// 2^firstBound to 2^lastBound, that is from 66 µs to 275 s.
const (
	firstBound = 16
	lastBound  = 38
)

// Bounds returns the upper bounds of the buckets in seconds.
func Bounds() (bounds []float64) {
	for power := firstBound; power <= lastBound; power++ {
		bounds = append(bounds, float64(int64(1)<<power)/1e9)
	}
	return bounds
}

// Buckets returns the number of observations below each of Bounds, and of all.
func Buckets(h *histogram.Snapshot) (below []int64, all int64) {
	for power := firstBound; power <= lastBound; power++ {
		below = append(below, h.Below(power))
	}
	return below, h.Count()
}

// Series calls f for each series under its flat name, buckets of histograms included. fraction says that
// values of the series need not be integers.
func Series(s *snapshot.Snapshot, f func(name string, fraction bool, v float64)) {
	Each(s, func(m *Metric, label string, v float64) { f(m.Series(label), m.fraction || m.Unit == "seconds", v) })
	bounds := Bounds()
	EachHistogram(s, func(m *Metric, h *histogram.Snapshot) {
		below, all := Buckets(h)
		for i, n := range below {
			f(m.Name+`_bucket{le="`+strconv.FormatFloat(bounds[i], 'g', -1, 64)+`"}`, false, float64(n))
		}
		f(m.Name+"_count", false, float64(all))
		f(m.Name+"_sum", true, h.Sum.Seconds())
	})
}

// Series returns the flat name of a value: the name, and the label if the metric has one.
func (m *Metric) Series(label string) string {
	if m.Label == "" {
		return m.Name
	}
	return m.Name + "{" + m.Label + `="` + escaped.Replace(label) + `"}`
}

// escaped quotes the value of a label as the text format of Prometheus does.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
