package report

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/state"
	"drumbeat/state/explain"
	"drumbeat/state/history"
)

var began = time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC)

// written writes a history of hours: a crawl of 10 pages a second that waits for politeness in the first hour
// and for merges later, with a crash after half of the time that sets the totals back.
func written(t *testing.T, hours int) disk.FS {
	t.Helper()
	fsys := memfs.New(1)
	w, err := history.Open(history.Options{FS: fsys, Dir: "d/history", Bytes: 1 << 30})
	must(t, err)
	back := 0.0
	polite, merges, samples := 0.0, 0.0, 0.0
	for i := range hours * 360 {
		at := began.Add(time.Duration(i) * 10 * time.Second)
		if i == hours*180 {
			back = 300
			polite, merges, samples = 0, 0, 0
			must(t, w.Event(history.Event{Time: at, What: "crash", Text: `<script>alert("1")</script>`}))
		}
		active := float64(i*10) - back
		if i < 180 {
			polite += 1000
		} else {
			merges += 1000
		}
		samples += 100
		if err := w.Append(at, []history.Value{{Name: "active_seconds_total", V: active, Fraction: true},
			{Name: "pages_total", V: 10 * active}, {Name: "received_bytes_total", V: 1e5 * active},
			{Name: "links_total", V: 200 * active}, {Name: "links_cached_total", V: 60 * active},
			{Name: "links_checked_total", V: 40 * active}, {Name: "unique_urls_total", V: 11 * active},
			{Name: "hosts", V: 77}, {Name: "beast_queue", V: float64(i / 100)},
			{Name: `urls{place="beast"}`, V: float64(i)}, {Name: `slots_sampled_total{use="politeness"}`, V: polite},
			{Name: `slots_sampled_total{use="disk"}`, V: merges},
			{Name: "slot_samples_total", V: samples}}); err != nil {
			t.Fatal(err)
		}
	}
	must(t, w.Close())
	return fsys
}

// made returns a report without reading a crawl's state.
func made(t *testing.T, fsys disk.FS) *Report {
	t.Helper()
	o, err := readOver(fsys, "d")
	must(t, err)
	f := &explain.Figures{AsOf: explain.AsOf{Crawl: "<b>", Checkpoint: 7, Time: began, State: "stopped"},
		Active: time.Hour, Runs: 2, Run: &state.LastRun{Agent: "a&b"}, PLDs: 12,
		Top: []explain.TopPLD{{PLD: "x<y'z\".example", Indegree: 5, Fetched: 6}, {}},
		Degrees: []explain.DegreeClass{{From: 0, PLDs: 9}, {From: 1, PLDs: 3, Visited: 2, Fetched: 20},
			{From: 4, PLDs: 1, Visited: 1, Fetched: 500}}}
	a := &f.Accounts
	a.Counters[state.CountPages], a.Counters[state.CountLinks], a.Unique.N, a.Codes[200], a.Codes[404] = 36_000,
		720_000, 39_600, 36_000, 5
	a.Counters[state.CountLinksCached], a.Counters[state.CountLinksChecked] = 200_000, 160_000
	a.Failed[state.ReasonTimeout], a.Refused[state.ReasonRobots] = 3, 4
	for n := range int64(40) {
		f.Queues = append(f.Queues, explain.QueueFigure{Number: n, URLs: 10 * n})
	}
	r := &Report{Made: began, AsOf: f.AsOf, Options: f.Run, Top: f.Top, Degrees: f.Degrees, Queues: f.Queues,
		Summary: summary(f, o)}
	r.counts(a)
	r.overTime(o, f)
	return r
}

// TestOverTime: rates must be those of the samples, a step back after a crash must count as no progress, and
// each hour must name what limited the speed.
func TestOverTime(t *testing.T) {
	r := made(t, written(t, 4))
	names := []string{}
	for _, c := range r.Charts {
		names = append(names, c.Name)
		if c.Name == "pages" {
			for _, p := range c.Lines[0].Points {
				if math.Abs(p[1]-10) > 0.01 {
					t.Errorf("%v pages/s at %v", p[1], p[0])
				}
			}
		}
	}
	if want := []string{"pages", "traffic", "p", "degrees", "beast", "queued"}; !slices.Equal(names, want) {
		t.Errorf("charts %v, want %v", names, want)
	}
	if len(r.Hours) != 5 || !strings.HasPrefix(r.Hours[0].Text, "The delays of hosts") ||
		!strings.HasPrefix(r.Hours[1].Text, "Merges on disk") || r.Hours[1].Uses[0] != (Use{"disk", 1}) ||
		math.Abs(r.Hours[1].Rate-10) > 0.1 || math.Abs(r.Hours[1].Pages-36_000) > 200 {
		t.Errorf("hours %+v", r.Hours)
	}
	if len(r.Events) != 1 || len(r.Incomplete) > 0 {
		t.Errorf("events %v, incomplete %v", r.Events, r.Incomplete)
	}
	find := func(key string) float64 {
		i := slices.IndexFunc(r.Summary, func(f Figure) bool { return f.Key == key })
		return r.Summary[i].Value
	}
	if find("pages_per_second") != 10 || find("p") != 0.11 || find("hosts") != 77 || find("servers") != unknown ||
		find("peak_pages_per_second") != unknown {
		t.Errorf("summary %+v", r.Summary)
	}
	if n := len(made(t, written(t, 100)).Hours); n == 0 || n > maxHours {
		t.Errorf("%d rows for 100 hours", n)
	}
}

// TestNoHistory: without a history the report must say so and have the rest.
func TestNoHistory(t *testing.T) {
	r := made(t, memfs.New(1))
	if len(r.Incomplete) != 1 || len(r.Charts) != 1 || r.Hours != nil {
		t.Errorf("incomplete %v, %d charts, %d hours", r.Incomplete, len(r.Charts), len(r.Hours))
	}
}

// TestPage: the page must be complete without any other file, escape what comes from outside, and be
// balanced.
func TestPage(t *testing.T) {
	r := made(t, written(t, 2))
	r.Incomplete = append(r.Incomplete, "a <gap>")
	var b strings.Builder
	must(t, r.WriteHTML(&b))
	page := b.String()
	for _, bad := range []string{"<script", "src=", "href=", "url(", "@import", "<gap>", "<b>", "x<y",
		"NaN", "Inf", "%!"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, want := range []string{"x&lt;y&#39;z&#34;.example", "&lt;script&gt;alert", "Report of crawl &lt;b&gt;",
		"a&amp;b", "8 more", "figure 7a", "6,380,051,942", "36,000", "(name not merged yet)", "unknown",
		"default-src 'none'"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	open := map[string]int{}
	for _, tag := range regexp.MustCompile(`<(/?)([a-z0-9]+)`).FindAllStringSubmatch(page, -1) {
		if tag[1] == "" {
			open[tag[2]]++
		} else {
			open[tag[2]]--
		}
	}
	for tag, n := range open {
		if n != 0 && tag != "meta" && tag != "path" {
			t.Errorf("%d <%s> more than closed", n, tag)
		}
	}
	if len(page) > 300_000 {
		t.Errorf("%d bytes", len(page))
	}
}

// TestJSON: the report must survive JSON.
func TestJSON(t *testing.T) {
	r := made(t, written(t, 2))
	data, err := json.Marshal(r)
	must(t, err)
	var back Report
	if err := json.Unmarshal(data, &back); err != nil || len(back.Charts) != len(r.Charts) || back.AsOf.Crawl != "<b>" {
		t.Errorf("%v, %+v", err, back)
	}
}

// TestAxes: ticks must be round and within the axis, and each value must be within the chart.
func TestAxes(t *testing.T) {
	for _, c := range []struct {
		log    bool
		values []float64
		ticks  []string
	}{
		{false, []float64{0, 7}, []string{"0", "2", "4", "6"}},
		{false, []float64{3, 1234}, []string{"0", "500", "1000"}},
		{false, []float64{0, 2.1e6}, []string{"0", "500k", "1M", "1.5M", "2M"}},
		{false, []float64{0}, []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}},
		{false, nil, []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}},
		{false, []float64{-1, 1}, []string{"-1", "-0.5", "0", "0.5", "1"}},
		{true, []float64{3, 40_000, 0}, []string{"1", "10", "100", "1000", "10k", "100k"}},
		{true, []float64{100}, []string{"100", "1000"}},
	} {
		a := newAxis(c.log, 0, 100, func(f func(float64)) {
			for _, v := range c.values {
				f(v)
			}
		})
		var got []string
		for _, v := range a.ticks() {
			got = append(got, tickText(v))
			if at, ok := a.at(v); !ok || at < -0.01 || at > 100.01 {
				t.Errorf("%v: tick %v at %v", c.values, v, at)
			}
		}
		if !slices.Equal(got, c.ticks) {
			t.Errorf("%v: ticks %v, want %v", c.values, got, c.ticks)
		}
		for _, v := range c.values {
			if at, ok := a.at(v); ok && (at < -0.01 || at > 100.01) || !ok && v > 0 {
				t.Errorf("%v is at %v", v, at)
			}
		}
	}
}

// TestUnits: values must be readable.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		unit Unit
		v    float64
		want string
	}{{Number, 1234567, "1,234,567"}, {Bytes, 143e12, "130 TiB"}, {Bits, 319e6, "319.0 Mbit/s"}, {Rate, 1789, "1,789"},
		{Rate, 35.58, "35.6"}, {Seconds, 41.27 * 86400, "41.27 days"}, {Seconds, 75.2, "1 min 15 s"},
		{Mean, 0.107, "0.107"}, {Share, 0.5, "50.0 %"}, {Number, unknown, "unknown"}} {
		if got := c.unit.text(c.v); got != c.want {
			t.Errorf("%v %s: got %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

// TestMost: the share of PLDs must count those below.
func TestMost(t *testing.T) {
	below := [33]int64{0, 50, 89, 90, 99}
	for i := 5; i < len(below); i++ {
		below[i] = 100
	}
	if m90, m99, none := most(below, 0.9), most(below, 0.99), most([33]int64{}, 0.9); m90 != 8 ||
		m99 != 16 || none != 0 {
		t.Errorf("got %d, %d and %d", m90, m99, none)
	}
}
