package e2e

import (
	"net/http"
	"time"
)

// cluster is the state of a cluster of four nodes. In the scenario "healthy" node 3 was given up; in
// "trouble" node 2 is silent and the broker away.
func (c *crawl) cluster(now time.Time) any {
	if c.scenario == "new" || c.scenario == "finished" {
		return problem{http.StatusNotFound, "this crawl has one node only"}
	}
	trouble := c.scenario == "trouble"
	node := func(n int, host string, pages int64, more object) object {
		status := object{"node": n, "host": host, "pages": pages, "pagesPerSecond": 812.5, "queued": 90 * pages,
			"diskUsed": 300e9 + float64(n)*1e11, "diskLimit": 1e12, "checkpoint": 4711,
			"saved": stamp(now.Add(-40 * time.Second)), "waiting": 52_000, "waitingBytes": 4_100_000,
			"leases": object{"held": 21_000, "wanted": 310, "longest": 12, "urls": 9_400, "taken": 88_000,
				"handedOver": 61_000, "lost": 2}}
		for name, value := range more {
			status[name] = value
		}
		return object{"node": n, "heard": true, "age": 4, "status": status}
	}
	nodes := []object{node(0, "crawl-a.example", 31_000_000,
		object{"waits": "politeness: --host-delay (81 % of the hosts)"}),
		node(1, "crawl-b.example", 29_500_000, object{"waiting": 0, "waitingBytes": 0}),
		node(2, "crawl-c.example", 30_100_000, nil), {"node": 3, "heard": false, "age": 0}}
	overview := object{"pages": 90_600_000, "pagesPerSecond": 2437.5, "queued": 8_154_000_000, "waiting": 104_000,
		"missing": []int{}, "fullest": 2, "fullestShare": 0.5, "configs": 1, "givenUp": []int{3}}
	broker := object{"connected": true, "since": stamp(now.Add(-26 * time.Hour)), "connects": 1}
	health := object{"level": "warn", "state": "working",
		"text": "Node 3 was abandoned: the others continue without it.",
		"problems": []object{{"level": "warn", "what": "cluster",
			"text": "Node 3 was abandoned: the others continue without it."}}}
	if trouble {
		health = object{"level": "bad", "state": "slow", "text": "Node 2 has not reported for 11 min 40 s.",
			"problems": []object{{"level": "bad", "what": "cluster",
				"text": "Node 2 has not reported for 11 min 40 s."},
				{"level": "bad", "what": "cluster", "text": "Node 3 has never reported."},
				{"level": "warn", "what": "cluster", "text": "The nodes have 2 different configurations."}}}
		nodes[2]["heard"], nodes[2]["age"] = false, 700
		nodes[1]["status"].(object)["leases"].(object)["resting"] = true
		overview["missing"], overview["givenUp"], overview["configs"] = []int{2, 3}, nil, 2
		broker = object{"connected": false, "since": stamp(now.Add(-9 * time.Minute)), "connects": 3}
	}
	var pairs []object
	for n := 1; n < 4; n++ {
		pairs = append(pairs, object{"node": n, "added": 310_000_000, "waiting": 26_000, "waitingBytes": 2_050_000,
			"stalled": 0, "published": 1_200_000, "resends": n - 1, "taken": 298_000_000, "holes": 0})
	}
	return object{"time": stamp(now), "health": health, "nodes": nodes,
		"self": object{"node": 0, "nodes": 4, "broker": broker}, "overview": overview, "pairs": pairs}
}
