package admin

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"drumbeat/admin/prom"
	"drumbeat/crawl"
)

// TestMetricsAreTheStatus: at rest /metrics and the status have the same numbers.
func TestMetricsAreTheStatus(t *testing.T) {
	r := newRig(t, func(o *crawl.Options, a *Options) {
		a.Handlers = map[string]http.Handler{"GET /metrics": prom.Handler("test", o.Observe.Control.Snapshot)}
	})
	r.await("pages", func() bool { return r.requests() > 200 })
	r.ask("POST", "/api/v1/pause", "", r.withToken)
	var faults []string
	for range 20 { // URLs may still move between the two questions
		<-time.After(200 * time.Millisecond)
		s := get[Status](r, "/api/v1/status")
		code, body := r.ask("GET", "/metrics", "", nil)
		if code != http.StatusOK {
			t.Fatalf("/metrics: %d", code)
		}
		got := map[string]string{}
		for line := range strings.Lines(string(body)) {
			if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
				got[line[:i]] = strings.TrimSpace(line[i:])
			}
		}
		faults = nil
		want := func(series string, n int64) {
			if v, err := strconv.ParseFloat(got["drumbeat_"+series], 64); err != nil || int64(v) != n {
				faults = append(faults, series+" is "+got["drumbeat_"+series]+", the status has "+
					strconv.FormatInt(n, 10))
			}
		}
		for _, p := range s.Places {
			want(`urls{place="`+p.Name+`"}`, p.URLs)
		}
		for code, n := range s.Codes {
			want(`responses_total{code="`+code+`"}`, n)
		}
		want("pages_total", s.Counters["pages"])
		want("received_bytes_total", s.Counters["received_bytes"])
		if len(faults) == 0 && len(s.Codes) > 0 {
			return
		}
	}
	t.Errorf("%q", faults)
}
