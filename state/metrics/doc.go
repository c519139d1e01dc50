// Package metrics names the figures of a running crawl: one table of metrics with name, help, unit, kind and
// label. The page /metrics, the history on disk and the report read this table, so all show the same numbers.
//
// Names follow the conventions of Prometheus, without the prefix Prefix: base units as suffixes (_bytes,
// _seconds), counters end in _total. A metric has at most one label. No label names a host, a PLD or a URL,
// so the number of series is bounded: status codes, reasons, places and directories are the largest groups.
//
//	metrics.Each(s, func(m *metrics.Metric, label string, v float64) { … })
//	metrics.EachHistogram(s, func(m *metrics.Metric, h *histogram.Snapshot) { … })
//
// Each visits counters and gauges, EachHistogram the histograms. Series visits all of them under flat names,
// such as responses_total{code="200"} and exchange_seconds_bucket{le="0.065536"}.
//
// # Contract
//
// A metric keeps its name, unit and meaning: alerts, dashboards and files of package history name it. A new
// counter of package state needs a row here (TestEverythingHasAMetric). Counters cover all runs of a crawl,
// except those whose help says "of this run". After a crash they return to the last checkpoint, because the
// work since then is done again and counted again.
//
// Series that are 0 because their code or reason has not occurred are not visited. Within one run a series
// that was visited once is visited in each later snapshot, except gauges by reason, which end at 0.
//
// # Concurrency and cost
//
// The table does not change. A visit takes some 50 µs (BenchmarkEach).
package metrics
