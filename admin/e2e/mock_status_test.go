package e2e

import "time"

const meanRate = 6600 // pages per second

// pagesPerSecond is the rate at a time, 0 while the crawl does not fetch.
func (c *crawl) pagesPerSecond(t time.Time) float64 {
	c.mu.Lock()
	paused := c.settings.Paused
	c.mu.Unlock()
	s := float64(t.UnixMilli()) / 1000
	switch {
	case c.scenario == "finished", paused:
		return 0
	case c.scenario == "new":
		return max(0, min(40, t.Sub(c.began).Seconds()-6)*1.5)
	case c.scenario == "trouble":
		return 310 + 160*wave(s, 41)
	}
	return 7000 + 900*wave(s, 3600) + 350*wave(s, 23)
}

// pages is the number of pages at a time.
func (c *crawl) pages(t time.Time) float64 {
	switch c.scenario {
	case "new":
		return 60 * max(0, t.Sub(c.began).Seconds()-6)
	case "finished":
		return 2_481_902_113
	}
	total := meanRate * t.Sub(c.first).Seconds()
	if c.scenario == "trouble" {
		// The outage began some minutes before the server, and continues.
		began := c.began.Add(30*time.Hour - 25*time.Minute)
		if lost := t.Sub(began).Seconds(); lost > 0 {
			total -= lost * (meanRate - 310)
		}
	}
	return total
}

// places counts URLs by place.
func (c *crawl) places(t time.Time) []object {
	p := c.pages(t)
	s := float64(t.UnixMilli()) / 1000
	saw := func(period, high float64) float64 { return high * (s/period - float64(int64(s/period))) }
	var n [12]float64
	switch c.scenario {
	case "new":
		up := max(0, t.Sub(c.began).Seconds()-6)
		n = [12]float64{0, 40 * up, 0, 0, 12 * up, 30 * up, 9 * up, min(900, 100*up), 0, p * 1.1, p * 0.02, 0}
	case "finished":
		n[9], n[10], n[11] = p*1.14, p*0.081, 1204
	default:
		n = [12]float64{4_100_000 + saw(600, 30e6), 2_000_000 + saw(240, 18e6), 5.4e9 + p*0.2, 2.9e9 + p*0.4,
			1.1e6 + saw(60, 2e6),
			260_000 + 40_000*wave(s, 300), 410_000 + 60_000*wave(s, 200), 181_000 + 8000*wave(s, 17),
			9.4e6 + 1e5*wave(s, 500), p * 1.14, p * 0.081, 1204}
	}
	names := []string{"unstreamed", "star", "beast", "failed", "robotscheck", "awaitrobots", "ready", "ram",
		"deferred", "fetched", "refused", "held"}
	out := make([]object, len(names))
	for i, name := range names {
		out[i] = object{"name": name, "urls": int64(n[i])}
	}
	return out
}

func (c *crawl) status(t time.Time) object {
	rate, pages := c.pagesPerSecond(t), c.pages(t)
	places := c.places(t)
	unique := int64(0)
	for _, p := range places {
		unique += p["urls"].(int64)
	}
	busy := min(2000, int(rate/3.9))
	c.mu.Lock()
	paused, drain, limits := c.settings.Paused, c.settings.Drain, c.settings.Rate
	c.mu.Unlock()
	out := object{"time": stamp(t), "state": "running", "version": "1.4.0", "crawl": "5f1d93ac22e07b41",
		"agent": "survey-bot", "contact": "crawl@example.org", "host": "crawler-1", "pid": 4711,
		"dirs": []string{"/data1/crawl", "/data2/crawl"}, "started": stamp(c.began),
		"elapsed": t.Sub(c.began).Seconds(), "active": t.Sub(c.first).Seconds() * 0.97,
		"waiting": "politeness: 161,204 of 180,377 hosts wait for --host-delay", "limits": limits,
		"rates": object{"pages": rate, "bits": rate * 25e3 * 8, "links": rate * 52, "responses": rate * 1.14,
			"errors": rate * 0.021},
		"connections": object{"limit": 2000, "busy": busy, "robots": busy / 40}, "unique": unique,
		"uniqueShare": 0.1034, "plds": int64(pages / 29), "hosts": int64(pages / 12), "servers": int64(pages / 61),
		"places": places, "counters": c.counters(pages), "codes": codes(pages),
		"refused": object{"robots": int64(pages * 0.041), "no-such-host": int64(pages * 0.017),
			"timeout": int64(pages * 0.009), "not-welcome": int64(pages * 0.006),
			"connect-failure": int64(pages * 0.004),
			"host-given-up":   int64(pages * 0.002), "forbidden-address": int64(pages * 0.0004),
			"forbidden-port": int64(1204)},
		"deferred": object{"host-backlog": int64(6_100_000), "host-backoff": int64(1_800_000),
			"unconfirmed": int64(700_000), "too-many-requests": int64(500_000), "await-robots": int64(300_000)},
		"failures": object{"timeout": int64(pages * 0.011), "reset": int64(pages * 0.004),
			"connect-failure": int64(pages * 0.005), "tls": int64(pages * 0.001)},
		"ram": ram(0.86), "disk": c.disk(pages), "checkpoint": object{"number": int(t.Sub(c.first).Minutes()),
			"time": stamp(t.Truncate(time.Minute)), "pause": 0.0021, "stall": 0.0064, "total": 2.31,
			"bytes": 412_000_000, "longestPause": 0.0093, "longestStall": 0.0412},
		"model": object{"measured": 41.2, "predicted": 38.9, "unit": "bytes of disk I/O per link"},
		"health": object{"level": "ok", "state": "working",
			"text": "The crawl works: 3,412 pages per second. It waits for politeness: --host-delay " +
				"(89 % of the hosts).",
			"problems": []object{}}}
	queued := int64(0)
	for _, place := range places {
		if name := place["name"]; name != "failed" && name != "fetched" && name != "refused" && name != "held" {
			queued += place["urls"].(int64)
		}
	}
	out["progress"] = object{"ended": int64(pages * 1.221), "queued": queued, "rate": rate, "longRate": rate,
		"left": float64(queued) / max(1, rate), "grows": 0}
	if node, ok := c.cluster(t).(object); ok {
		out["cluster"] = node["self"]
	}
	c.adapt(out, t)
	if paused {
		out["state"], out["waiting"] = "paused", "paused by the operator"
		out["health"] = object{"level": "warn", "state": "waiting", "text": "The operator paused the crawl.",
			"next": "drumbeat ctl resume", "problems": []object{{"level": "warn", "what": "operator",
				"text": "The operator paused the crawl.", "next": "drumbeat ctl resume"}}}
	} else if drain {
		out["state"] = "draining"
	}
	return out
}

// adapt changes a status to that of the scenario.
func (c *crawl) adapt(out object, t time.Time) {
	switch c.scenario {
	case "new":
		out["waiting"], out["uniqueShare"] = "robots.txt and DNS", 0.71
		out["refused"], out["deferred"], out["failures"] = object{}, object{}, object{}
		out["checkpoint"] = object{"number": 0, "pause": 0, "stall": 0, "total": 0, "bytes": 0,
			"longestPause": 0, "longestStall": 0}
		out["ram"] = ram(0.04)
		out["model"] = object{"measured": 0, "predicted": 0, "unit": "bytes of disk I/O per link"}
		out["health"] = object{"level": "ok", "state": "working", "problems": []object{},
			"text": "The crawl works. It waits for robots.txt and DNS."}
		out["dirs"] = []string{"/home/ada/drumbeat-crawl"}
		if c.pages(t) == 0 {
			out["waiting"], out["codes"] = "seeds", object{}
			out["health"] = object{"level": "ok", "state": "working", "problems": []object{},
				"text": "The crawl works. It waits for seeds."}
		}
	case "finished":
		out["state"], out["waiting"], out["reason"] = "finished", "", "done"
		out["deferred"] = object{}
		out["health"] = object{"level": "ok", "state": "complete", "next": "drumbeat report",
			"text": "The crawl is complete: 412,006 pages, and nothing is left.", "problems": []object{}}
	case "trouble":
		outage := "network: known servers do not answer since " + t.Add(-25*time.Minute).UTC().Format("15:04:05 MST") +
			"; one request in 94s, failures are not counted"
		out["waiting"] = outage
		out["limits"] = "--bandwidth 800M until 06:00"
		checkpoint := out["checkpoint"].(object)
		checkpoint["time"], checkpoint["longestStall"] = stamp(t.Add(-13*time.Minute-7*time.Second)), 4.81
		out["ram"] = ram(1.04)
		out["rates"].(object)["errors"] = 214.2
		out["health"] = object{"level": "bad", "state": "standing-still", "since": stamp(t.Add(-25 * time.Minute)),
			"text": "The network or the name servers fail: " + outage + ".", "next": "drumbeat doctor",
			"problems": []object{
				{"level": "bad", "what": "network", "next": "drumbeat doctor",
					"text": "The network or the name servers fail: " + outage + "."},
				{"level": "bad", "what": "checkpoint", "text": "The last checkpoint is 13 min 7 s old."},
				{"level": "warn", "what": "disk", "next": "df -h",
					"text": "/data2/crawl has 71 GiB left; fetching pauses at 40 GiB."},
				{"level": "warn", "what": "memory",
					"text": "The process uses 129 GiB of RAM, more than --ram 124 GiB."}}}
	}
}

func (c *crawl) counters(pages float64) object {
	n := func(f float64) int64 { return int64(pages * f) }
	return object{"links": n(52), "links_checked": n(9.4), "links_cached": n(38), "links_scope": n(2.1),
		"links_blocked": n(0.01), "links_filtered": n(0.8), "edges": n(0.29), "seeds": 1_200_000, "attempts": n(1.19),
		"responses": n(1.14), "pages": n(1),
		"redirects": n(0.09), "received_bytes": n(25_000), "decoded_bytes": n(96_000),
		"robots_attempts":       n(0.071),
		"robots_received_bytes": n(300), "lookups": n(0.09), "lookup_failures": n(0.017),
		"retries": n(0.021), "deferrals": n(0.4),
		"truncated": n(0.0002), "checkpoints": n(0.000003), "unconfirmed": n(0.012), "refusals": n(0.013),
		"urls_placed": n(5.3), "urls_over_budget": n(0.9), "urls_scanned": n(0.55), "urls_replaced": 0,
		"urls_released": n(1.5), "urls_unknown": n(0.11), "urls_answered": n(0.109), "urls_allowed": n(1.3),
		"urls_admitted": n(1.25), "urls_due": n(0.36), "urls_denied": n(0.06),
		"challenges": n(0.002), "host_rests": n(0.001), "hosts_given_up": n(0.0002)}
}

func codes(pages float64) object {
	out := object{}
	for code, share := range map[string]float64{"200": 1.0, "301": 0.05, "302": 0.036, "304": 0.0001, "307": 0.001,
		"308": 0.003, "400": 0.002, "403": 0.011, "404": 0.031, "410": 0.002, "429": 0.0009, "500": 0.002,
		"502": 0.0008, "503": 0.0017} {
		if n := int64(pages * share); n > 0 {
			out[code] = n
		}
	}
	return out
}

func ram(share float64) object {
	limit := 64 << 30
	parts := []object{}
	for _, p := range []struct {
		name  string
		share float64
	}{{"urlseen", 0.31}, {"pldindegree-edges", 0.05}, {"pldindegree", 0.06}, {"robotscache", 0.07},
		{"robotsrequested", 0.01}, {"names", 0.02}, {"content", 0.03}, {"content-filter", 0.02},
		{"url-cache", 0.06}, {"edge-cache", 0.01}, {"name-cache", 0.01}, {"polite", 0.06}, {"queues", 0.06},
		{"bodies", 0.12}, {"heap", 0.11}} {
		parts = append(parts, object{"name": p.name, "bytes": int64(float64(limit) * p.share)})
	}
	return object{"limit": limit, "used": int64(float64(limit) * share), "parts": parts}
}

func (c *crawl) disk(pages float64) object {
	limit, size := 40e12, 20e12
	if c.scenario == "new" {
		limit, size = 0, 512e9
	}
	used := pages*2_100 + 2e6
	parts := []object{}
	for _, p := range []struct {
		name  string
		share float64
	}{{"urlseen", 0.06}, {"pldindegree-edges", 0.02}, {"pldindegree", 0.001}, {"robotscache", 0.012},
		{"robotsrequested", 0.002}, {"names", 0.015}, {"queues", 0.17}, {"output, logs and the rest", 0.72}} {
		parts = append(parts, object{"name": p.name, "bytes": int64(used * p.share)})
	}
	dirs := []object{{"path": "/data1/crawl", "free": int64(size * 0.38), "size": int64(size),
		"freeFiles": 912_000_000},
		{"path": "/data2/crawl", "free": int64(size * 0.36), "size": int64(size), "freeFiles": 911_000_000}}
	switch c.scenario {
	case "trouble":
		dirs[1]["free"] = int64(31e9)
	case "new":
		dirs = []object{{"path": "/home/ada/drumbeat-crawl", "free": int64(191e9), "size": int64(size),
			"freeFiles": 28_000_000}}
	}
	for _, dir := range dirs {
		dir["keepFree"] = int64(18e9)
	}
	return object{"limit": int64(limit), "used": int64(used), "parts": parts, "dirs": dirs}
}
