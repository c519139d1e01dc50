package prom

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"drumbeat/internal/histogram"
	"drumbeat/state/metrics"
	"drumbeat/state/snapshot"
)

// scrape returns the text of a scrape.
func scrape(t *testing.T, read func() (*snapshot.Snapshot, error)) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	Handler("1.2.3", read).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.Bytes()
}

func someSnapshot() *snapshot.Snapshot {
	s := &snapshot.Snapshot{Refused: map[string]int64{"robots": 7}, Deferred: map[string]int64{"timeout": 1},
		Failed: map[string]int64{"reset": 2}}
	s.Codes[200], s.Codes[404] = 12, 3
	var h histogram.Histogram
	for i := range 50 {
		h.Observe(time.Duration(i) * time.Millisecond)
	}
	for i := range s.Times {
		s.Times[i] = h.Snapshot()
	}
	return s
}

// TestScrape: a scrape has every series of the table with its value, and Prometheus's linter finds nothing.
func TestScrape(t *testing.T) {
	s := someSnapshot()
	text := scrape(t, func() (*snapshot.Snapshot, error) { return s, nil })
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if v := families["drumbeat_up"].Metric[0].Gauge.GetValue(); v != 1 {
		t.Errorf("drumbeat_up is %v", v)
	}
	got := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			series := name
			for _, l := range m.Label {
				series += "{" + l.GetName() + `="` + l.GetValue() + `"}`
			}
			switch {
			case m.Counter != nil:
				got[series] = m.Counter.GetValue()
			case m.Gauge != nil:
				got[series] = m.Gauge.GetValue()
			case m.Histogram != nil:
				got[series+"_count"] = float64(m.Histogram.GetSampleCount())
			}
		}
	}
	metrics.Each(s, func(m *metrics.Metric, label string, v float64) {
		if g, ok := got[prefix+m.Series(label)]; !ok || g != v {
			t.Errorf("%s is %v (%t), want %v", m.Series(label), g, ok, v)
		}
	})
	metrics.EachHistogram(s, func(m *metrics.Metric, h *histogram.Snapshot) {
		if g := got[prefix+m.Name+"_count"]; g != float64(h.Count()) {
			t.Errorf("%s has %v observations, want %d", m.Name, g, h.Count())
		}
	})
}

// TestNoCrawl: without a crawl drumbeat_up is 0 and the metrics of the crawl are missing.
func TestNoCrawl(t *testing.T) {
	text := scrape(t, func() (*snapshot.Snapshot, error) { return nil, errors.New("not running") })
	if !bytes.Contains(text, []byte("drumbeat_up 0\n")) || bytes.Contains(text, []byte("drumbeat_pages_total")) {
		t.Errorf("%.500s", text)
	}
}

func BenchmarkScrape(b *testing.B) {
	s := someSnapshot()
	h := Handler("1.2.3", func() (*snapshot.Snapshot, error) { return s, nil })
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	}
}
