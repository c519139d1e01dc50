// Package prom serves the metrics of a running crawl to Prometheus, at /metrics of the admin server.
//
// # Contract
//
// A collector visits the table of package state/metrics for each scrape, so that /metrics, the history and
// the status show the same numbers. Names get the prefix drumbeat_. Histograms are classic ones with the
// buckets of the table. The collectors of the Go runtime and of the process come with them. No metric has a
// label with a host or a URL, so their number is bounded: some 450 series in a crawl in which everything
// occurs.
//
// While no crawl runs, the metrics of the crawl are missing and drumbeat_up is 0.
//
// The library writes the text formats and negotiates them. Its registry checks each scrape for consistency. A
// Handler is safe for concurrent use. It answers at most maxScrapes requests at a time, with 503 beyond.
//
// A scrape takes a millisecond or so of CPU and allocates 400 KB (BenchmarkScrape).
package prom

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"drumbeat/internal/histogram"
	"drumbeat/state/metrics"
	"drumbeat/state/snapshot"
)

// prefix precedes the name of each metric of the crawl.
const prefix = "drumbeat_"

// maxScrapes is the number of scrapes at a time.
const maxScrapes = 4

// Handler returns the handler. read returns the current snapshot, or an error while no crawl runs.
func Handler(version string, read func() (*snapshot.Snapshot, error)) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(newCollector(version, read), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// collector makes the metrics of a scrape.
type collector struct {
	read     func() (*snapshot.Snapshot, error)
	up, info *prometheus.Desc
	version  string
	descs    map[string]*prometheus.Desc // by name in the table
}

func newCollector(version string, read func() (*snapshot.Snapshot, error)) *collector {
	c := &collector{read: read, version: version, descs: map[string]*prometheus.Desc{},
		up: prometheus.NewDesc(prefix+"up", "Whether a crawl is running: 1 or 0", nil, nil),
		info: prometheus.NewDesc(prefix+"build_info", "Version of the crawler; the value is always 1",
			[]string{"version"}, nil)}
	for _, m := range metrics.All() {
		var labels []string
		if m.Label != "" {
			labels = []string{m.Label}
		}
		c.descs[m.Name] = prometheus.NewDesc(prefix+m.Name, m.Help, labels, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.up
	out <- c.info
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, c.version)
	s, err := c.read()
	if err != nil {
		out <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 0)
		return
	}
	out <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 1)
	metrics.Each(s, func(m *metrics.Metric, label string, v float64) {
		kind := prometheus.GaugeValue
		if m.Kind == metrics.Counter {
			kind = prometheus.CounterValue
		}
		var labels []string
		if m.Label != "" {
			labels = []string{label}
		}
		out <- prometheus.MustNewConstMetric(c.descs[m.Name], kind, v, labels...)
	})
	bounds := metrics.Bounds()
	metrics.EachHistogram(s, func(m *metrics.Metric, h *histogram.Snapshot) {
		below, all := metrics.Buckets(h)
		buckets := make(map[float64]uint64, len(bounds))
		for i, bound := range bounds {
			buckets[bound] = uint64(below[i])
		}
		out <- prometheus.MustNewConstHistogram(c.descs[m.Name], uint64(all), h.Sum.Seconds(), buckets)
	})
}
