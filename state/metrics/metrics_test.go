package metrics

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"drumbeat/internal/histogram"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// full returns a snapshot in which every figure has a value, each counter its own.
func full() *snapshot.Snapshot {
	s := &snapshot.Snapshot{Time: time.Unix(1795262400, 0), Refused: map[string]int64{}, Deferred: map[string]int64{},
		Failed: map[string]int64{}, RAM: snapshot.Space{Limit: 7, Parts: []snapshot.Part{{Name: "urlseen", Bytes: 4}}},
		Disk: snapshot.Space{Parts: []snapshot.Part{{Name: "urlseen", Bytes: 5}}},
		Dirs: []snapshot.Dir{{Path: `/a "b\`, Free: 1, Total: 2, FreeFiles: 3, KeepFree: 4,
			ReadBytes: 5, WrittenBytes: 6, Reading: 7e9, Writing: 8e9, Busy: 9e9, Slow: "directory /a"}}}
	for c := range s.Counters {
		s.Counters[c] = int64(c)*1000 + 1000
	}
	for p := range s.Places {
		s.Places[p] = int64(p) + 1
	}
	for r := state.Reason(1); r < state.NumReasons; r++ {
		s.Refused[r.String()], s.Deferred[r.String()], s.Failed[r.String()] = 10+int64(r), 20+int64(r), 30+int64(r)
	}
	for _, u := range snapshot.SlotUses() {
		s.Slots.Use[u] = int64(u) + 1
	}
	s.DelaySteps, s.DelayResets, s.AdaptedHosts = 30, 4, 5
	s.Codes[0], s.Codes[200], s.Codes[999] = 1, 2, 3
	var h histogram.Histogram
	for i := range 100 {
		h.Observe(time.Duration(i) * time.Millisecond)
	}
	for t := range s.Times {
		s.Times[t] = h.Snapshot()
	}
	return s
}

// seriesOf returns the flat series of a snapshot.
func seriesOf(t *testing.T, s *snapshot.Snapshot) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	Series(s, func(name string, fraction bool, v float64) {
		if !fraction && v != math.Trunc(v) {
			t.Errorf("%s is %v and no fraction", name, v)
		}
		if _, twice := all[name]; twice {
			t.Errorf("%s occurs twice", name)
		}
		all[name] = v
	})
	return all
}

// wantCounters calls want for the series of the counters.
func wantCounters(s *snapshot.Snapshot, want func(name string, v float64)) {
	for c := range state.NumCounters {
		if c >= state.CountRobotsStatusOther && c <= state.CountRobotsStatus5xx {
			continue
		}
		if c >= state.CountCoded && c < state.CountBytesUncoded+state.Counter(len(state.Codings)) {
			continue
		}
		if c >= state.CountTLSBad && c < state.CountTLSBad+state.Counter(len(state.TLSVerdicts)) {
			want(`tls_bad_total{verdict="`+state.TLSVerdicts[c-state.CountTLSBad]+`"}`, float64(s.Count(c)))
			continue
		}
		if why, is := map[state.Counter]string{state.CountSigned: "always",
			state.CountSignedAsked: "challenge"}[c]; is {
			want(`signed_requests_total{why="`+why+`"}`, float64(s.Count(c)))
			continue
		}
		name, scale := c.String(), 1.0
		if row := counterRows[c]; row.name != "" {
			name = row.name
		}
		switch c {
		case state.CountFetchMillis:
			scale = 1e-3
		case state.CountHookMicros:
			scale = 1e-6
		}
		want(name+"_total", float64(s.Counters[c])*scale)
	}
}

// TestEverythingHasAMetric: each counter, place, reason, use of a slot, time and code must be in the table.
func TestEverythingHasAMetric(t *testing.T) {
	s := full()
	all := seriesOf(t, s)
	want := func(name string, v float64) {
		t.Helper()
		if got, ok := all[name]; !ok || got != v {
			t.Errorf("%s is %v (%t), want %v", name, got, ok, v)
		}
	}
	wantCounters(s, want)
	for class, label := range []string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		want(`robots_responses_total{class="`+label+`"}`,
			float64(s.Counters[state.CountRobotsStatusOther+state.Counter(class)]))
	}
	for i, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		for name, first := range map[string]state.Counter{"responses": state.CountCoded,
			"received_bytes": state.CountBytesCoded, "decoded_bytes": state.CountBytesUncoded} {
			want(`coded_`+name+`_total{coding="`+coding+`"}`, float64(s.Counters[first+state.Counter(i)]))
		}
	}
	for p, n := range s.Places {
		want(`urls{place="`+state.Place(p).String()+`"}`, float64(n))
	}
	for r := state.Reason(1); r < state.NumReasons; r++ {
		name := "refused_total"
		if r == state.ReasonForbiddenAddress || r == state.ReasonForbiddenPort {
			name = "held_urls"
		}
		want(name+`{reason="`+r.String()+`"}`, float64(s.Refused[r.String()]))
		want(`deferred_urls{reason="`+r.String()+`"}`, float64(s.Deferred[r.String()]))
		want(`attempts_failed_total{reason="`+r.String()+`"}`, float64(s.Failed[r.String()]))
	}
	for _, u := range snapshot.SlotUses() {
		want(`slots_sampled_total{use="`+u.String()+`"}`, float64(s.Slots.Use[u]))
	}
	for _, code := range []int{0, 200, 999} {
		want(fmt.Sprintf(`responses_total{code="%d"}`, code), float64(s.Codes[code]))
	}
	want("adaptive_delay_steps_total", 30)
	want("adaptive_delay_resets_total", 4)
	want("adaptive_delay_hosts", 5)
	for name, v := range map[string]float64{"dir_free_bytes": 1, "dir_read_bytes_total": 5,
		"dir_written_bytes_total": 6, "dir_reading_seconds_total": 7, "dir_writing_seconds_total": 8,
		"dir_busy_seconds_total": 9, "dir_slow": 1} {
		want(name+`{dir="/a \"b\\"}`, v)
	}
	n := 0
	EachHistogram(s, func(m *Metric, _ *histogram.Snapshot) {
		n++
		want(m.Name+"_count", 100)
		want(m.Name+"_sum", 4.95)
		want(m.Name+`_bucket{le="0.067108864"}`, 68)
		want(m.Name+`_bucket{le="274.877906944"}`, 100)
	})
	if n != int(snapshot.NumTimes) {
		t.Errorf("%d histograms for %d times", n, snapshot.NumTimes)
	}
	t.Logf("%d metrics, %d series", len(All()), len(all))
}

// TestNames: names must follow the rules of Prometheus and be unique, and each metric needs a help text.
func TestNames(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, m := range All() {
		if !name.MatchString(m.Name) || m.Label != "" && !name.MatchString(m.Label) || seen[m.Name] {
			t.Errorf("metric %q with label %q: a bad or repeated name", m.Name, m.Label)
		}
		seen[m.Name] = true
		if counts := strings.HasSuffix(m.Name, "_total"); counts != (m.Kind == Counter) {
			t.Errorf("%s is a %v", m.Name, m.Kind)
		}
		base := strings.TrimSuffix(m.Name, "_total")
		if m.Unit != "" && !strings.HasSuffix(base, "_"+m.Unit) {
			t.Errorf("%s does not end in its unit %s", m.Name, m.Unit)
		}
		if m.Unit == "" && (strings.HasSuffix(base, "_bytes") || strings.HasSuffix(base, "_seconds")) {
			t.Errorf("%s has no unit", m.Name)
		}
		if len(m.Help) < 4 || strings.HasSuffix(m.Help, ".") || m.Help[:1] != strings.ToUpper(m.Help[:1]) {
			t.Errorf("%s: help %q", m.Name, m.Help)
		}
		if m.Kind == Histogram && (m.each != nil || m.Label != "") {
			t.Errorf("%s has values of the wrong kind", m.Name)
		}
	}
	if len(Bounds()) != lastBound-firstBound+1 {
		t.Errorf("bounds %v", Bounds())
	}
}

// TestEmpty: the metrics of an empty snapshot must be zero, and those of codes and reasons absent.
func TestEmpty(t *testing.T) {
	for name, v := range seriesOf(t, &snapshot.Snapshot{}) {
		if name == `health{state="working"}` {
			continue
		}
		if v != 0 || strings.Contains(name, "reason=") || strings.Contains(name, "code=") {
			t.Errorf("%s is %v", name, v)
		}
	}
}

func BenchmarkEach(b *testing.B) {
	s := full()
	b.ReportAllocs()
	for b.Loop() {
		Each(s, func(*Metric, string, float64) {})
	}
}

// ExampleEach prints the URLs in RAM.
func ExampleEach() {
	s := &snapshot.Snapshot{}
	s.Places[state.PlaceRAM] = 17
	Each(s, func(m *Metric, label string, v float64) {
		if m.Name == "urls" && label == "ram" {
			fmt.Println(m.Series(label), v)
		}
	})
	// Output: urls{place="ram"} 17
}
