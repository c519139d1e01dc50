package e2e

import (
	"fmt"
	"math"
	"strings"
	"time"
)

func (c *crawl) structures(t time.Time) object {
	s := float64(t.UnixMilli()) / 1000
	level := s/600 - math.Floor(s/600)
	scale := 1.0
	switch c.scenario {
	case "new":
		level, scale = 0.0004, 1e-7
	case "finished":
		level, scale = 0, 0.9
	}
	fill := make([]float64, 256)
	for i := range fill {
		fill[i] = max(0, level*(1+0.13*wave(float64(i), 37)))
	}
	drums := []object{}
	for _, d := range []struct {
		name    string
		buckets int
		keys    float64
	}{{"urlseen", 4096, 41e9}, {"pldindegree-edges", 512, 1.8e9}, {"pldindegree", 64, 89e6},
		{"robotscache", 512, 261e6}, {"robotsrequested", 128, 261e6}, {"names", 256, 350e6}} {
		keys := int64(d.keys * scale)
		drum := object{"name": d.name, "buckets": d.buckets, "keys": keys,
			"pending": int64(level * float64(keys) / 9), "pendingBytes": int64(level * float64(keys) * 4),
			"full": level * 0.94, "fill": []float64{}, "fullBuckets": int64(level * 12),
			"running": level > 0.93 && d.name == "urlseen",
			"passes":  int(t.Sub(c.began).Seconds() / 600), "lastPassSeconds": 171.3, "nextPassSeconds": 160.2,
			"diskBytes": keys * 9, "ioBytes": keys * 44, "tupleIOBytes": 77.2, "predictedTupleIOBytes": 75.9}
		if d.name == "urlseen" {
			drum["fill"] = fill
		}
		drums = append(drums, drum)
	}
	queues := []object{}
	for i, name := range []string{"awaitrobots", "robotsfetch", "robotsdeferred", "ready", "deferred",
		"held"} {
		n := int64(3e6 * scale / float64(i+1))
		queues = append(queues, object{"name": name, "urls": n, "bytes": n * 41})
	}
	beast := object{"current": 412, "horizon": 64, "queues": []object{}, "failed": int64(2.9e9 * scale),
		"scanning": level > 0.5,
		"scans":    9, "priority": "depth", "lanes": []object{
			{"weight": 2, "current": 412, "urls": int64(4e9 * scale), "failed": int64(1e9 * scale)},
			{"weight": 1, "current": 412, "urls": int64(2e9 * scale), "failed": int64(1.9e9 * scale)}}}
	if scale == 1 {
		list := []object{}
		for i := range 42 {
			n := int64(6e8 * math.Exp(-float64(i)/9))
			list = append(list, object{"lane": i % 2, "number": 412 + i/2, "urls": n, "bytes": n * 38})
		}
		beast["queues"] = list
	} else {
		beast["current"], beast["failed"], beast["scanning"], beast["scans"] = 1, 0, false, 0
	}
	return object{"drums": drums, "queues": queues, "beast": beast}
}

func (c *crawl) slots(t time.Time) object {
	names := []string{"exchange", "parse and store", "cpu", "limit", "politeness", "admission", "dns", "robots.txt",
		"disk", "deferred", "space or outage", "new links"}
	shares := []float64{0.88, 0.04, 0.01, 0, 0.05, 0.01, 0, 0, 0.01, 0, 0, 0}
	switch c.scenario {
	case "trouble":
		shares = []float64{0.11, 0.01, 0, 0.03, 0.06, 0, 0.03, 0.04, 0.01, 0.05, 0.66, 0}
	case "new":
		shares = []float64{0.002, 0, 0, 0, 0, 0, 0.9, 0.098, 0, 0, 0, 0}
	case "finished":
		shares = []float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	}
	uses := []object{}
	for i, name := range names {
		now := 2000 * shares[i] * (1 + 0.03*wave(float64(t.Unix())+float64(i), 30))
		uses = append(uses, object{"name": name, "now": now, "run": 2000 * shares[i]})
	}
	return object{"total": 2000, "uses": uses}
}

func (c *crawl) hosts(t time.Time) object {
	list := []object{}
	states := []string{"backs off until %s: back-off; 7 failures in a row; last: timeout at %s",
		"backs off until %s: Retry-After; 1 failures in a row; last: too fast (status 429) at %s",
		"not welcome for good; backs off until %s: not welcome; 12 refusals without a page; last: challenge " +
			"(status 403) at %s",
		"backs off until %s: failing; 21 failures in a row; 2 long back-offs; last: unreachable at %s",
		"given up for good; backs off until %s: failing; 40 failures in a row; 3 long back-offs; last: hang-up at %s"}
	n := 50
	if c.scenario == "new" || c.scenario == "finished" {
		n = 0
	}
	for i := range n {
		until, at := t.Add(time.Duration(i*i+5)*time.Minute), t.Add(-time.Duration(i*13)*time.Second)
		name := fmt.Sprintf("www%d.shop-%d.example", i, i*7)
		switch {
		case i == 3:
			name = "a-very-long-name-of-a-host-that-does-not-fit.into-a-column.of-any-screen.and-goes-on.example.co.uk"
		case i == 5:
			name = ""
		case i == 6:
			name = "<img src=x onerror=alert(1)>.example"
		}
		list = append(list, object{"host": name, "key": fmt.Sprintf("%016x", 0x9e3779b97f4a7c15*uint64(i+1)),
			"state": fmt.Sprintf(states[i%len(states)], until.UTC().Format(time.RFC3339),
				at.UTC().Format(time.RFC3339)), "until": stamp(until), "at": stamp(at), "inRam": i % 4})
	}
	return object{"hosts": list}
}

func (c *crawl) plds(sort string) object {
	list := []object{}
	names := []string{"example.com", "wordpress.example", "gov.example", "microsoft.example", "blog-host.example.co.uk",
		"news.example", "university.example", "example.org", "photo.example", "wiki.example"}
	n := 50
	if c.scenario == "new" {
		n = 0
	}
	for i := range n {
		name := fmt.Sprintf("site-%d.example", i)
		if i < len(names) {
			name = names[i]
		}
		if i == 13 {
			name = ""
		}
		degree := 2_948_085 / (i + 1)
		pages := 400_000 / (1 + i%7)
		list = append(list, object{"rank": i + 1, "pld": name, "key": fmt.Sprintf("%016x",
			0x9e3779b97f4a7c15*uint64(i+1)), "indegree": degree, "budget": min(10_000, degree/200+10), "pages": pages,
			"bytes":  int64(pages) * 24_000,
			"placed": pages * 3, "pinned": name == "example.org" && c.scenario == "trouble"})
	}
	return object{"asOf": stamp(time.Now().Add(-40 * time.Second)), "plds": list, "sort": sort}
}

// explain answers for a URL if the question has a slash or two labels and a path, for a host otherwise.
func (c *crawl) explain(asked string) any {
	if asked == "" || strings.Contains(asked, " ") {
		return problem{400, fmt.Sprintf("%q is no URL, host, PLD or address", asked)}
	}
	now := time.Now()
	asOf := object{"crawl": "5f1d93ac22e07b41", "checkpoint": 28_411, "time": stamp(now.Add(-40 * time.Second)),
		"age_seconds": 40.2, "state": "running", "bytes_read": 1_204_331}
	site := object{"pld": "example.com", "known": true, "indegree": 2_948_085, "rank": 1, "ranks": 1000,
		"first_seen": stamp(c.first), "placed": 1_200_000, "fetched": 400_000, "bytes": int64(9.6e9),
		"budget": 10_000, "next_queue": 431, "used": 812, "checks_waiting": 1290}
	origin := object{"origin": "https://www.example.com", "state": "rules",
		"fetched": stamp(now.Add(-20 * time.Hour)),
		"expires": stamp(now.Add(4 * time.Hour)), "addresses": []string{"192.0.2.17", "2001:db8::17"}, "rules": 14,
		"delay": 40.0, "delay_why": "--host-delay"}
	host, path, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(asked, "https://"), "http://"), "/")
	if !strings.Contains(asked, "/") {
		return object{"host": object{"asked": asked, "host": host, "as_of": asOf, "site": site,
			"origins":  []object{origin},
			"places":   object{"beast": 12_033, "deferred": 411, "fetched": 9120, "failed": 88_120},
			"deferred": object{"host-backlog": 411}, "next_due": stamp(now.Add(17 * time.Minute)), "stored": 9120,
			"delays": []object{{"who": "host " + host, "until": stamp(now.Add(3 * time.Minute))}},
			"why": []string{"The host has 12,033 URLs in BEAST, the first of them in queue 413.",
				"Its robots.txt has 14 rules for this agent."}}}
	}
	return object{"url": object{"asked": asked, "url": asked, "host": host, "pld": "example.com",
		"key": "8be1f00a73c9d41e", "as_of": asOf, "seen": true, "place": "beast",
		"why": []string{"The URL waits in queue Q(431) of BEAST; the crawl reads Q(412).",
			"Its PLD has a budget of 10,000 pages a queue; 19 queues come first.", "robots.txt allows /" + path + "."},
		"queue": object{"number": 431, "current": 412, "ahead": 19, "horizon": 64},
		"record": object{"found": stamp(now.Add(-50 * time.Hour)), "depth": 4,
			"parent_url": "https://www.example.com/<b>parent</b>", "budget": 10_000},
		"link": object{"taken": true, "why": "no rule forbids it"}, "site": site, "robots": origin,
		"verdict": object{"decision": "allow", "allowed": true, "rule": "Allow: /"}}}
}
