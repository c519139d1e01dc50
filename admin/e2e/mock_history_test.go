package e2e

import (
	"net/http"
	"strings"
	"time"
)

// gaps are times without a running crawl, as distances before now.
var gaps = [...][2]time.Duration{{30*time.Hour + 25*time.Minute, 30 * time.Hour},
	{9*24*time.Hour + 5*time.Hour, 9 * 24 * time.Hour}}

func (c *crawl) history(r *http.Request) any {
	now := time.Now()
	parse := func(name string, otherwise time.Time) time.Time {
		if t, err := time.Parse(time.RFC3339, r.FormValue(name)); err == nil {
			return t
		}
		return otherwise
	}
	from, to := parse("from", c.first), parse("to", now)
	if from.Before(c.first) {
		from = c.first
	}
	points := int(number(r.FormValue("points"), 600))
	if points < 1 || points > 5000 || !from.Before(to) {
		return problem{http.StatusBadRequest, "points and times must be in range"}
	}
	step := max(time.Second, to.Sub(from)/time.Duration(points))
	if c.scenario == "new" {
		step = time.Second
	}
	times := []int64{}
	series := map[string][]any{}
	names := strings.Split(r.FormValue("metrics"), ",")
	for t := from; !t.After(to); t = t.Add(step) {
		times = append(times, t.Unix())
		for _, name := range names {
			series[name] = append(series[name], c.metric(name, t, now))
		}
	}
	events := []object{{"time": stamp(c.first), "what": "start", "text": "the crawl starts"}}
	if c.scenario != "new" {
		for _, g := range gaps {
			what := "crash"
			if g[0] < 48*time.Hour {
				what = "stop"
			}
			events = append(events, object{"time": stamp(now.Add(-g[0])), "what": what, "text": what + " of the run"},
				object{"time": stamp(now.Add(-g[1])), "what": "start", "text": "the crawl resumes"})
		}
		for m := 1; m <= 60; m++ {
			events = append(events,
				object{"time": stamp(now.Truncate(time.Minute).Add(-time.Duration(m) * time.Minute)),
					"what": "checkpoint", "text": "checkpoint"})
		}
	}
	if c.scenario == "trouble" {
		events = append(events, object{"time": stamp(now.Add(-50 * time.Minute)), "what": "change",
			"text": "ada: budget example.org 5000"})
	}
	return object{"from": stamp(from), "to": stamp(to), "step": step.Seconds(), "times": times,
		"series": series, "events": events}
}

// metric returns the value of a metric, nil while no crawl ran or for an unknown one.
func (c *crawl) metric(name string, t, now time.Time) any {
	for _, g := range gaps {
		if c.scenario != "new" && t.After(now.Add(-g[0])) && t.Before(now.Add(-g[1])) {
			return nil
		}
	}
	pages := c.pages(t)
	if c.scenario == "finished" {
		pages = min(1, float64(t.Sub(c.first))/float64(now.Sub(c.first)-20*time.Minute)) * c.pages(now)
	}
	s := float64(t.Unix())
	total := pages
	if c.scenario != "new" && c.scenario != "finished" {
		total += 5e5 * wave(s, 86_400) * min(1, pages/1e7)
	}
	switch name {
	case "pages_total":
		return int64(total)
	case "received_bytes_total":
		return int64(total * 25_000)
	case "attempts_failed_total":
		failures := total * 0.021
		if c.scenario == "trouble" && now.Sub(t) < 25*time.Minute {
			failures += (25*time.Minute - now.Sub(t)).Seconds() * 200
		}
		return int64(failures)
	case "slot_samples_total":
		return t.Sub(c.first).Seconds() * 100
	}
	use, ok := strings.CutPrefix(name, `slots_sampled_total{use="`)
	if !ok {
		return nil
	}
	shares := map[string]float64{"exchange": 0.85, "parse and store": 0.04, "politeness": 0.09, "disk": 0.02}
	share := shares[strings.TrimSuffix(use, `"}`)]
	sum := 2000 * 100 * share * t.Sub(c.first).Seconds()
	switch { // the wave is the integral of what exchange loses to politeness
	case share == 0.85:
		sum += 2000 * 100 * 20 * wave(s, 5000)
	case share == 0.09:
		sum -= 2000 * 100 * 20 * wave(s, 5000)
	}
	return sum
}

// log returns n lines of a log up to a time.
func (c *crawl) log(t time.Time, n int) []object {
	texts := []struct{ level, text string }{{"INFO", "checkpoint 28411: 412 MB in 2.3 s, pause 2.1 ms, stall 6.4 ms"},
		{"INFO", "urlseen: pass 812 over 4,096 buckets began"}, {"INFO",
			"urlseen: pass 812 ended after 171 s: 31,204,882 unique URLs"},
		{"WARN", "names: the cache is full; 1.2 % of lookups miss"}, {"INFO", "BEAST reads queue 412"}}
	if c.scenario == "trouble" {
		texts = append(texts, struct{ level, text string }{"ERROR",
			"an outage of the network: 41 of the last 64 sources fail; fetching slows down until canaries answer"})
	}
	if c.scenario == "new" {
		n = min(n, 2)
	}
	lines := []object{}
	for i := range n {
		at := t.Add(-time.Duration(n-i-1) * 9 * time.Second)
		line := texts[(at.Unix()/9)%int64(len(texts))]
		lines = append(lines, object{"time": stamp(at), "level": line.level, "text": line.text})
	}
	return lines
}
