package outlook

import (
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"drumbeat/disk"
	"drumbeat/state"
	"drumbeat/state/history"
)

// wanted are the metrics that Read takes from the history.
var wanted = []string{"active_seconds_total", "pages_total", "links_cached_total", "links_checked_total",
	"unique_urls_total", "urls_sized_total", "record_bytes_total", "attempts_total", "hosts", "plds", "pld_edges",
	"urls", "slots_sampled_total", "disk_bytes", "disk_used_bytes", "disk_limit_bytes", "ram_limit_bytes",
	"connections_limit", "checkpoint_bytes", "dir_free_bytes", "dir_keep_free_bytes", "urlseen_link_io_bytes",
	"urlseen_link_io_predicted_bytes", "urlseen_text_ratio",
	"disk_pages_per_second", "run_seconds", "disk_read_bytes_total",
	"disk_written_bytes_total", "urlseen_passes_total"}

// maxPoints is the number of points of the whole history, and of its last hours: more than six hours of samples.
const maxPoints = 2500

// series are samples of the history.
type series struct{ data *history.Data }

// readSeries reads the samples from a time on, all for the zero time.
func readSeries(fsys disk.FS, dir string, from time.Time) (*series, error) {
	dir = path.Join(dir, state.HistoryName)
	first, last, err := history.Span(fsys, dir)
	if err != nil || first.IsZero() {
		return &series{&history.Data{}}, err
	}
	if from.IsZero() {
		from = first
	}
	data, err := history.Read(fsys, dir, history.Query{From: from, To: last.Add(time.Millisecond), Points: maxPoints,
		Names: wanted})
	if err != nil {
		return nil, err
	}
	return &series{data}, nil
}

// last returns the index of the last sample, -1 without samples.
func (s *series) last() int { return len(s.data.Times) - 1 }

// at returns the value of a series at a sample; 0 if the run had no such series.
func (s *series) at(name string, i int) float64 {
	values := s.data.Series[name]
	if i >= len(values) || math.IsNaN(values[i]) {
		return 0
	}
	return values[i]
}

// now returns the last value of a series.
func (s *series) now(name string) float64 { return s.at(name, s.last()) }

// sum returns the sum of series at a sample.
func (s *series) sum(i int, names ...string) (sum float64) {
	for _, name := range names {
		sum += s.at(name, i)
	}
	return sum
}

// labels returns the label values of a metric, sorted.
func (s *series) labels(metric string) (list []string) {
	for name := range s.data.Series {
		if rest, ok := strings.CutPrefix(name, metric+"{"); ok {
			if _, value, ok := strings.Cut(strings.TrimSuffix(rest, `"}`), `="`); ok {
				list = append(list, value)
			}
		}
	}
	slices.Sort(list)
	return list
}

// labelled returns the name of a series.
func labelled(metric, label, value string) string { return metric + "{" + label + `="` + value + `"}` }

// from returns the first sample from which on at least so much of a total has come, 0 if there is less.
func (s *series) from(total string, amount float64) int {
	end := s.now(total)
	for i := s.last(); i >= 0; i-- {
		if end-s.at(total, i) >= amount {
			return i
		}
	}
	return 0
}

// positive returns the last positive value of a series, 0 without one.
func (s *series) positive(name string) float64 {
	for _, v := range slices.Backward(s.data.Series[name]) {
		if v > 0 {
			return v
		}
	}
	return 0
}

// highest returns the largest value of the sum of series from a sample on.
func (s *series) highest(from int, names ...string) (most float64) {
	for i := from; i <= s.last(); i++ {
		most = max(most, s.sum(i, names...))
	}
	return most
}

// gainOfRun returns by how much a total of a run grew from a sample on; it begins at 0 with each run.
func (s *series) gainOfRun(name string, from int) (sum float64) {
	for i := from + 1; i <= s.last(); i++ {
		now, before := s.at(name, i), s.at(name, i-1)
		if now < before {
			before = 0
		}
		sum += now - before
	}
	return sum
}

// run returns the first sample of the run to which a sample belongs.
func (s *series) run(i int) int {
	for ; i > 0; i-- {
		if s.at("run_seconds", i) < s.at("run_seconds", i-1) {
			return i
		}
	}
	return 0
}
