package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"drumbeat/bench/result"
)

// report fills rep from the trials.
func (r *trials) report(rep *result.Report, k *walk) {
	bytes, plain := int64(0), int64(0)
	sums := map[string]int64{}
	for u := range r.pages {
		file := k.fetched[u].file
		if sums[file] == 0 {
			if info, err := os.Stat(file); err == nil {
				sums[file] = info.Size()
			}
		}
		bytes += sums[file]
		name, _, _ := strings.Cut(strings.TrimPrefix(u, "http://"), "/")
		if r.web.byName[name].plain {
			plain += sums[file]
		}
	}
	pages := float64(len(r.pages))
	rep.Set("web", "%d hosts (%s), %d pages, mean %.1f KB, %.0f links per page", len(r.web.hosts),
		strings.Join(r.Packages, " "), len(r.pages), float64(bytes)/pages/1e3, float64(k.links)/pages)
	rep.Set("server",
		"nginx on the same CPUs, %.0f %% of the bytes uncompressed, the rest compressed in advance (gzip "+
			"-6), logs buffered; after an untimed crawl", 100*float64(plain)/float64(bytes))
	r.describe(rep, contenders, r.web.path(""), func(name string) *exec.Cmd { return r.command(name, "DIR") })
	for _, name := range contenders {
		for _, l := range r.runs[name] {
			rep.Add("BenchmarkRace/client="+name, int64(len(l.log.pages)), metrics(l)...)
		}
	}
	rep.Tables = append(rep.Tables, r.table())
	r.ratios(rep)
	rep.Tables = append(rep.Tables, r.found(k))
	missing, extra := 0, 0
	for _, l := range slices.Concat(r.runs[drumbeatName], r.runs[noStoreName]) {
		m, e := r.compare(l)
		c := comparison{walk: k}
		e = slices.DeleteFunc(e, func(u string) bool { return c.whyExtra(u) != noneFound })
		missing, extra = max(missing, len(m)), max(extra, len(e))
	}
	rep.Checks = append(rep.Checks,
		result.AtMost("pages of the walk that drumbeat missed", float64(missing), 0, "pages"),
		result.AtMost("pages beyond the walk that drumbeat fetched", float64(extra), 0, "pages"))
	differ := 0
	want := r.pagesOf(drumbeatName)
	for _, name := range contenders {
		if !slices.Equal(r.pagesOf(name), want) {
			differ++
		}
	}
	rep.Checks = append(rep.Checks,
		result.AtMost("contenders whose pages differ from drumbeat's", float64(differ), 0, "contenders"))
}

func metrics(l *trial) []result.Metric {
	return []result.Metric{{Value: float64(l.wall.Nanoseconds()) / float64(len(l.log.pages)), Unit: "ns/op"},
		{Value: l.rate(), Unit: "pages/s"}, {Value: l.perPage(l.cpu), Unit: "cpu-us/page"},
		{Value: l.perPage(l.serverCPU), Unit: "server-cpu-us/page"}, {Value: 100 * l.idle, Unit: "idle-%"},
		{Value: float64(l.rssBytes) / 1e6, Unit: "rss-MB"}}
}

// table returns the medians.
func (r *trials) table() result.Table {
	t := r.runs.medians("medians", contenders, []column[*trial]{
		{"pages/s", "%.0f", (*trial).rate},
		{"CPU ms/page", "%.3f", (*trial).cpuMillis},
		{"server ms/page", "%.3f", func(l *trial) float64 { return l.perPage(l.serverCPU) / 1e3 }},
		{"duration, s", "%.2f", func(l *trial) float64 { return l.wall.Seconds() }},
		{"CPUs idle", "%.0f %%", func(l *trial) float64 { return 100 * l.idle }},
		{"RSS MB", "%.0f", func(l *trial) float64 { return float64(l.rssBytes) / 1e6 }},
		{"start, s", "%.2f", func(l *trial) float64 { return l.first.Seconds() }},
		{"tail, s", "%.2f", func(l *trial) float64 { return l.tail.Seconds() }},
	})
	r.runs.spread(&t, (*trial).rate)
	t.Notes = []string{
		"bare: a bare loop over the URLs that drumbeat fetched (bench/bareloop). nostore: without WARC files.",
		"start: from the start of the process to the first answer. tail: from the last answer to the end " +
			"of the process."}
	return t
}

// found compares the pages of each crawler with the walk.
func (r *trials) found(k *walk) result.Table {
	t := result.Table{Title: fmt.Sprintf("pages found, compared with the walk (%d pages)", len(r.pages)),
		Head: []string{"contender", "pages", "missed", "beyond the walk", "explained", "requests", "repeated"}}
	var examples []string
	c := comparison{walk: k}
	for _, name := range crawlers {
		l := r.runs[name][len(r.runs[name])-1]
		missed, extra := r.compare(l)
		requests, doubled := 0, 0
		for u, n := range l.log.byURL {
			requests += n
			if n > 1 && !strings.HasSuffix(u, "/robots.txt") {
				doubled++
			}
		}
		explained := map[class]int{}
		all := 0
		for _, u := range extra {
			if why := c.whyExtra(u); why != noneFound {
				explained[why]++
				all++
			}
		}
		t.Add(name, fmt.Sprint(len(l.log.pages)), fmt.Sprint(len(missed)), fmt.Sprint(len(extra)), fmt.Sprint(all),
			fmt.Sprint(requests), fmt.Sprint(doubled))
		for _, u := range missed[:min(len(missed), 3)] {
			examples = append(examples, fmt.Sprintf("%s missed %s, linked from %s", name, u, k.found[u]))
		}
		for _, why := range slices.Sorted(maps.Keys(explained)) {
			examples = append(examples, fmt.Sprintf("%s, beyond the walk: %d %s", name, explained[why], why))
		}
		if n := len(extra) - all; n > 0 {
			examples = append(examples, fmt.Sprintf("%s, beyond the walk: %d UNEXPLAINED", name, n))
		}
	}
	t.Notes = examples
	return t
}

// pagesOf returns the pages of a contender's last trial, sorted.
func (r *trials) pagesOf(name string) []string {
	list := r.runs[name]
	return slices.Sorted(slices.Values(list[len(list)-1].log.pages))
}

// compare returns the pages that a trial missed, and those that it fetched beyond the walk.
func (r *trials) compare(l *trial) (missed, extra []string) {
	got := map[string]bool{}
	for _, u := range l.log.pages {
		got[u] = true
		if !r.pages[u] {
			extra = append(extra, u)
		}
	}
	for u := range maps.Keys(r.pages) {
		if !got[u] {
			missed = append(missed, u)
		}
	}
	slices.Sort(missed)
	return missed, extra
}
