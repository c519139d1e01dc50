package report

import (
	"encoding/json"
	"math"
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

// written writes a history of hours: a crawl of 10 pages per second that waits for politeness in the first hour
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
	return reportOf(figures(), o)
}

// figures are those of a stopped crawl.
func figures() *explain.Figures {
	f := &explain.Figures{AsOf: explain.AsOf{Crawl: "<b>", Checkpoint: 7, Time: began, State: "stopped"},
		Active: time.Hour, Runs: 2, PLDs: 12,
		Run: &state.LastRun{Agent: "a&b", Budget: "paper", Scope: state.ScopeAll,
			FirstSeeds: []string{"http://a.test/?\"><script>alert(2)</script>", "http://b.test/"},
			About:      state.About{Description: "<i>Why</i>", Operator: "<u>Who</u>"}},
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
	return f
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
	if want := []string{"pages", "traffic", "queued", "p", "degrees", "beast"}; !slices.Equal(names, want) {
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

// TestFirstSample: the pages before the first sample count if the history begins with the crawl.
func TestFirstSample(t *testing.T) {
	for _, c := range []struct{ before, want float64 }{{8, 380}, {5000, 200}} {
		fsys := memfs.New(1)
		w, err := history.Open(history.Options{FS: fsys, Dir: "d/history", Bytes: 1 << 30})
		must(t, err)
		for i := range 4 {
			active := c.before + float64(10*i)
			must(t, w.Append(began.Add(time.Duration(i)*10*time.Second), []history.Value{
				{Name: "active_seconds_total", V: active, Fraction: true}, {Name: "pages_total", V: 10 * active}}))
		}
		must(t, w.Close())
		r := made(t, fsys)
		if len(r.Hours) != 1 || math.Abs(r.Hours[0].Pages-c.want) > 1 || math.Abs(r.Hours[0].Rate-10) > 0.1 {
			t.Errorf("%v s before: %+v", c.before, r.Hours)
		}
	}
}

// TestNoHistory: without a history the report must say so and have the rest.
func TestNoHistory(t *testing.T) {
	r := made(t, memfs.New(1))
	if len(r.Incomplete) != 1 || len(r.Charts) != 1 || r.Hours != nil {
		t.Errorf("incomplete %v, %d charts, %d hours", r.Incomplete, len(r.Charts), len(r.Hours))
	}
}

// pageOf returns the page of a report, and reports what would come from elsewhere or is markup from outside.
func pageOf(t *testing.T, r *Report, view View) string {
	t.Helper()
	var b strings.Builder
	must(t, r.WriteHTML(&b, view))
	text := b.String()
	for _, bad := range []string{"<script", "src=", "href=\"h", "url(", "@import", "<gap>", "<b>&", "<i>", "<u>", "x<y",
		"NaN", "Inf", "%!", "ZgotmplZ"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	return text
}

// contains reports the texts that a page lacks, or has.
func contains(t *testing.T, text string, want bool, list ...string) {
	t.Helper()
	for _, s := range list {
		if strings.Contains(text, s) != want {
			t.Errorf("has %q: %t, want %t", s, !want, want)
		}
	}
}

// TestPage: the page escapes seeds, names and events, which come from outside.
func TestPage(t *testing.T) {
	r := made(t, written(t, 2))
	r.Incomplete = append(r.Incomplete, "a <gap>")
	text := pageOf(t, r, View{By: "drumbeat 1"})
	contains(t, text, true, "x&lt;y&#39;z&#34;.example", "&lt;script&gt;alert", "a&amp;b", "8 more", "36,000",
		"<title>Crawl of http://a.test/?&#34;&gt;&lt;script&gt;alert(2)", "(its name is not stored yet)",
		"&lt;i&gt;Why",
		"Crawled by &lt;u&gt;Who", "default-src 'none'", "Made by drumbeat 1", "forbidden by robots.txt",
		"404 Not Found")
	if len(text) > 300_000 {
		t.Errorf("%d bytes", len(text))
	}
}

// paperWords are for those who know the paper, structureWords for those who know the crawler.
var (
	paperWords     = []string{"the paper", "figure 6", "figure 7", "section VIII", "Table VIII", "PLD"}
	structureWords = []string{"DRUM", "BEAST", "STAR", "URLseen", "in-degree"}
)

// TestWords: only --paper speaks of the paper, and only a large crawl of the crawler's structures.
func TestWords(t *testing.T) {
	r := made(t, written(t, 2))
	text := pageOf(t, r, View{})
	contains(t, text, false, paperWords...)
	contains(t, text, true, "BEAST", "<details><summary>Queues of BEAST")
	contains(t, pageOf(t, r, View{Paper: true}), true, "6,380,051,942", "section VIII", "figure 7a of the paper",
		"Table VIII", "unknown")
	f := figures()
	f.Accounts.Unique.N = large - 1
	o, err := readOver(written(t, 2), "d")
	must(t, err)
	small := reportOf(f, o)
	text = pageOf(t, small, View{})
	contains(t, text, false, paperWords...)
	contains(t, text, false, structureWords...)
	contains(t, pageOf(t, small, View{Paper: true}), true, "DRUM", "BEAST")
}

// TestVerdict: the page begins with how the crawl ended and what is left.
func TestVerdict(t *testing.T) {
	stopped := func(why string) []history.Event {
		return []history.Event{{What: "stop", Text: "error: of an earlier run"}, {What: "start"},
			{What: "stop", Text: why}}
	}
	for _, c := range []struct {
		state, done  string
		events       []history.Event
		left         int64
		want, level  string
		text, absent string
	}{
		{"finished", "done", stopped("done"), 0, "complete", "ok", "complete: 36,000 pages", "error"},
		{"finished", "done", nil, 6, "ended", "ok", "it does not fetch the rest: 6 over budget", ""},
		{"stopped", "", stopped("page limit"), 6, "ended", "ok", "(page limit): 36,000 pages; left: 6 over budget", ""},
		{"stopped", "", nil, 6, "ended", "ok", "(stopped)", ""},
		{"stopped", "", stopped("disk limit"), 6, "failed", "bad", "(disk limit)", ""},
		{"stopped", "", stopped("error: disk broke"), 6, "failed", "bad", "with an error: disk broke.", ""},
		{"interrupted", "", stopped("error: disk broke"), 6, "failed", "bad", "with an error: disk broke.", ""},
		{"interrupted", "", append(stopped("done"), history.Event{What: "start"}), 6, "interrupted", "warn",
			"was interrupted. At its last checkpoint it had 36,000 pages", "done"},
		{"unknown", "", nil, 6, "unknown", "warn", "is running, or was interrupted", ""},
		{"running", "", nil, 6, "running", "off", "is running. At its last checkpoint it had 36,000 pages", ""},
	} {
		f := figures()
		f.AsOf.State, f.AsOf.Done = c.state, c.done
		f.Accounts.Places[state.PlaceOverBudget].N = c.left
		v := judge(f, c.events)
		if v.State != c.want || v.Level != c.level || !strings.Contains(v.Text, c.text) ||
			c.absent != "" && strings.Contains(v.Text, c.absent) || (len(v.Left) > 0) != (c.left > 0) {
			t.Errorf("%s %s %v: %+v", c.state, c.done, c.events, v)
		}
	}
}

// TestEmpty: a crawl without a page has a report that says so.
func TestEmpty(t *testing.T) {
	o, err := readOver(memfs.New(1), "d")
	must(t, err)
	r := reportOf(&explain.Figures{AsOf: explain.AsOf{Crawl: "c1", State: "finished", Done: "done"}}, o)
	contains(t, pageOf(t, r, View{}), true, "Crawl c1", "The crawl has fetched no page.",
		`class="verdict warn"`, "has no history")
}

// TestJSON: the report survives JSON, whose fields are those of earlier releases and more.
func TestJSON(t *testing.T) {
	r := made(t, written(t, 2))
	data, err := json.Marshal(r)
	must(t, err)
	var back Report
	if err := json.Unmarshal(data, &back); err != nil || len(back.Charts) != len(r.Charts) ||
		back.AsOf.Crawl != "<b>" || back.Verdict.Text != r.Verdict.Text {
		t.Errorf("%v, %+v", err, back)
	}
	var fields map[string]json.RawMessage
	must(t, json.Unmarshal(data, &fields))
	for _, name := range []string{"made", "as_of", "options", "summary", "codes", "failed", "refused", "deferred",
		"places", "top_plds", "degrees", "beast_queues", "hours", "charts", "events"} {
		if len(fields[name]) == 0 {
			t.Errorf("the report lacks %s", name)
		}
	}
	var charts []map[string]json.RawMessage
	must(t, json.Unmarshal(fields["charts"], &charts))
	for _, name := range []string{"name", "title", "x", "y", "lines"} {
		if len(charts[0][name]) == 0 {
			t.Errorf("a chart lacks %s", name)
		}
	}
}

// TestUnits: values must be readable.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		unit Unit
		v    float64
		want string
	}{{Number, 1234567, "1,234,567"}, {Bytes, 143e12, "130 TiB"}, {Bits, 319e6, "319.0 Mbit/s"},
		{Bits, 31e3, "31 kbit/s"}, {Rate, 1789, "1,789"},
		{Rate, 35.58, "35.6"}, {Seconds, 41.27 * 86400, "41 d 6 h"}, {Seconds, 75.2, "1 min 15 s"},
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
