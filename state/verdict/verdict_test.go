package verdict_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/state"
	"drumbeat/state/snapshot"
	"drumbeat/state/verdict"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// busy returns a snapshot of a crawl that answers and has every connection busy, with a change.
func busy(change func(s *snapshot.Snapshot)) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Time: now, Elapsed: time.Hour, Answered: now.Add(-time.Second), Connections: 10,
		InFlight: 10, PagesPerSecond: 7, Recent: snapshot.Window{Over: 10 * time.Second, Responses: 70, Pages: 70}}
	s.Counters[state.CountPages], s.Counters[state.CountResponses] = 70, 70
	if change != nil {
		change(s)
	}
	return s
}

type snap = snapshot.Snapshot

// judged is a change of a busy crawl and the verdict on it.
type judged struct {
	name   string
	change func(s *snap)
	state  verdict.State
	level  verdict.Level
	text   string
}

// silent changes a crawl to one without a response for 40 s.
func silent(kind snapshot.WaitKind, text string) func(s *snap) {
	return func(s *snap) {
		s.Answered, s.Wait = now.Add(-40*time.Second), snapshot.Wait{Kind: kind, Text: text}
	}
}

// node changes a crawl to a node of two.
func node(change func(c *snapshot.Cluster)) func(s *snap) {
	return func(s *snap) {
		s.Cluster = snapshot.Cluster{Node: 0, Nodes: 2, Connected: true, Since: now.Add(-time.Hour),
			Pairs: []snapshot.Pair{{Node: 1}}}
		change(&s.Cluster)
	}
}

const slow = "directories /d3, /d4 (device 8:48) transfer 11 MB/s, the others 140 MB/s"

var ofMachine = []judged{
	{"works", nil, verdict.Working, verdict.OK, "The crawl works: 7.0 pages per second."},
	{"late checkpoint", func(s *snap) { s.Checkpoint.When = now.Add(-11 * time.Minute) }, verdict.Slow, verdict.Bad,
		"The last checkpoint is 11 min old."},
	{"rare checkpoints", func(s *snap) {
		s.Checkpoint.When, s.CheckpointEvery = now.Add(-11*time.Minute), time.Hour
	}, verdict.Working, verdict.OK, "The crawl works"},
	{"RAM", func(s *snap) { s.RAM = snapshot.Space{Limit: 1 << 30, Used: 2 << 30} }, verdict.Working, verdict.Warn,
		"2.0 GiB of RAM, more than --ram 1.0 GiB"},
	{"slow disk", func(s *snap) { s.Dirs = []snapshot.Dir{{Path: "/d1"}, {Slow: slow}, {Slow: slow}} },
		verdict.Slow, verdict.Warn, "Directories /d3, /d4 (device 8:48) transfer 11 MB/s, the others 140 MB/s."},
	{"low disk", func(s *snap) { s.Dirs = []snapshot.Dir{{Path: "/d1", Free: 15 << 20, KeepFree: 10 << 20}} },
		verdict.Working, verdict.Warn, "/d1 has 15 MiB left; fetching pauses at 10 MiB."},
	{"drains", func(s *snap) { s.Draining = true }, verdict.Working, verdict.Warn, "drains"},
	{"paused", silent(snapshot.WaitOperator, "paused"), verdict.Waiting, verdict.Warn, "paused"},
	{"paused a moment ago", func(s *snap) { s.Wait.Kind = snapshot.WaitOperator }, verdict.Waiting, verdict.Warn,
		"paused"},
	{"rate limit", silent(snapshot.WaitLimit, "rate limit"), verdict.Waiting, verdict.OK, "No response for 40 s."},
}

var ofSites = []judged{
	{"outage", silent(snapshot.WaitOutage, "known servers do not answer"), verdict.Standing, verdict.Bad,
		"known servers do not answer"},
	{"outage with answers", func(s *snap) { s.Wait = snapshot.Wait{Kind: snapshot.WaitOutage, Text: "x"} },
		verdict.Slow, verdict.Bad, "The network or the name servers fail: x."},
	{"visits due later", func(s *snap) {
		silent(snapshot.WaitDue, "URLs due later")(s)
		s.Wait.Until, s.Deferred = now.Add(time.Hour), map[string]int64{"revisit": 99, "timeout": 1}
	}, verdict.Waiting, verdict.OK, "the next request is due in 1 h"},
	{"only failures left", func(s *snap) {
		silent(snapshot.WaitDue, "URLs due later")(s)
		s.Unique, s.Deferred = 200, map[string]int64{"timeout": 20, "revisit": 2}
	}, verdict.Standing, verdict.Bad, "20 URLs wait for another attempt after a failure: 20 timeout"},
	{"a few failures left of many", func(s *snap) {
		silent(snapshot.WaitDue, "URLs due later")(s)
		s.Unique, s.Deferred = 1e6, map[string]int64{"timeout": 20}
	}, verdict.Standing, verdict.Warn, "20 URLs wait"},
	{"most requests fail", func(s *snap) {
		s.Recent = snapshot.Window{Over: 10 * time.Second, Responses: 3, Pages: 3, Failures: 9,
			Failed: map[string]int64{"timeout": 8, "reset": 1}}
	}, verdict.Slow, verdict.Warn, "9 of 12 requests in the last 10 s failed: 8 timeout, 1 reset."},
	{"most answers refuse", func(s *snap) {
		s.Recent = snapshot.Window{Over: 10 * time.Second, Responses: 12, Errors: 9}
	}, verdict.Slow, verdict.Warn, "9 of 12 requests in the last 10 s failed: 9 answers with status 429 or 5xx."},
	{"merges stand", silent(snapshot.WaitDisk, "disk merges"), verdict.Slow, verdict.Warn, "waits for disk merges"},
	{"robots.txt arrives", func(s *snap) {
		silent(snapshot.WaitRobots, "robots.txt and DNS")(s)
		s.RobotsAnswered = now.Add(-time.Second)
	}, verdict.Waiting, verdict.OK, "robots.txt and DNS"},
	{"robots.txt does not", silent(snapshot.WaitRobots, "robots.txt and DNS"), verdict.Slow, verdict.Warn,
		"No robots.txt and no address arrives."},
}

var ofParts = []judged{
	{"broker away", node(func(c *snapshot.Cluster) { c.Connected = false }), verdict.Slow, verdict.Bad,
		"The broker of the cluster has been away for 1 h."},
	{"broker away for a moment", node(func(c *snapshot.Cluster) { c.Connected, c.Since = false, now }),
		verdict.Working, verdict.OK, "The crawl works"},
	{"a node stopped", node(func(c *snapshot.Cluster) {
		c.Pairs[0].Waiting, c.Pairs[0].Stalled = 12741, 20*time.Second
	}), verdict.Slow, verdict.Warn, "Node 1 has taken nothing for 20 s: 12,741 records wait for it."},
	{"an abandoned node", node(func(c *snapshot.Cluster) {
		c.Pairs[0] = snapshot.Pair{Node: 1, Waiting: 3, Stalled: time.Hour, Abandoned: true}
	}), verdict.Working, verdict.OK, "The crawl works"},
	{"object store", func(s *snap) { s.Uploads = snapshot.Uploads{Failing: "403", Waiting: 2, WaitingBytes: 2048} },
		verdict.Slow, verdict.Warn, "2 files wait (2.0 KiB) here: 403"},
	{"stops", func(s *snap) { s.Stopping = true }, verdict.Working, verdict.OK, "last checkpoint"},
}

// TestOf: each fault of the machine, the sites, the cluster and the parts has its state, level and words.
func TestOf(t *testing.T) {
	for _, test := range slices.Concat(ofMachine, ofSites, ofParts) {
		v := verdict.Of(busy(test.change))
		if v.State != test.state || v.Level != test.level || !strings.Contains(v.Text, test.text) {
			t.Errorf("%s: %+v", test.name, v)
		}
		if (v.Level == verdict.OK) != (len(v.Problems) == 0) {
			t.Errorf("%s: level %s with problems %v", test.name, v.Level, v.Problems)
		}
	}
}

// TestOfEnd: an end is complete, or says what is left; a fault is a failure.
func TestOfEnd(t *testing.T) {
	left := busy(func(s *snapshot.Snapshot) {
		s.Places[state.PlaceBeast], s.Places[state.PlaceReady], s.Places[state.PlaceOverBudget] = 30, 10, 6
		s.Places[state.PlaceDeferred], s.Deferred = 2, map[string]int64{"timeout": 2}
	})
	for _, test := range []struct {
		s     *snapshot.Snapshot
		end   verdict.End
		state verdict.State
		level verdict.Level
		text  string
	}{
		{busy(nil), verdict.End{Why: "done", Done: true}, verdict.Complete, verdict.OK, "complete: 70 pages"},
		{left, verdict.End{Why: "page limit"}, verdict.Left, verdict.OK,
			"(page limit): 70 pages; left: 40 queued, 6 over budget, 2 deferred (timeout)."},
		{left, verdict.End{Why: "done", Done: true}, verdict.Left, verdict.OK, "it does not fetch the rest: 40 queued"},
		{left, verdict.End{Why: "outage", Fault: true}, verdict.Failed, verdict.Bad, "(outage)"},
		{left, verdict.End{Err: errors.New("disk broke.")}, verdict.Failed, verdict.Bad, "an error: disk broke."},
		{&snapshot.Snapshot{}, verdict.End{Why: "done", Done: true}, verdict.Complete, verdict.Warn, "0 pages"},
	} {
		v := verdict.OfEnd(test.s, test.end)
		if v.State != test.state || v.Level != test.level || !strings.Contains(v.Text, test.text) {
			t.Errorf("%+v: %+v", test.end, v)
		}
	}
}

// TestOfNodes: a cluster is as well as its worst node, and a silent node is a fault.
func TestOfNodes(t *testing.T) {
	status := func(node int, state verdict.State, level verdict.Level) *cluster.Status {
		return &cluster.Status{Node: node, Time: now, State: string(state), Level: string(level), Text: "Text " +
			string(state) + ".", PagesPerSecond: 10}
	}
	good := func() []*cluster.Status {
		return []*cluster.Status{status(0, verdict.Working, verdict.OK), status(1, verdict.Working, verdict.OK)}
	}
	for _, test := range []struct {
		name   string
		change func(l []*cluster.Status)
		state  verdict.State
		level  verdict.Level
		text   string
	}{
		{"works", func([]*cluster.Status) {}, verdict.Working, verdict.OK, "2 nodes of 2 work: 20 pages per second."},
		{"older", func(l []*cluster.Status) { l[1].State, l[1].Level = "", "" }, verdict.Working, verdict.OK, "work"},
		{"silent", func(l []*cluster.Status) { l[1].Time = now.Add(-2 * time.Minute) }, verdict.Slow, verdict.Bad,
			"Node 1 has said nothing for 2 min."},
		{"never", func(l []*cluster.Status) { l[1] = nil }, verdict.Slow, verdict.Bad, "Node 1 has never"},
		{"one stands", func(l []*cluster.Status) { l[1] = status(1, verdict.Standing, verdict.Bad) }, verdict.Slow,
			verdict.Bad, "Node 1: Text standing-still."},
		{"all stand", func(l []*cluster.Status) {
			l[0], l[1] = status(0, verdict.Standing, verdict.Bad), status(1, verdict.Standing, verdict.Bad)
		}, verdict.Standing, verdict.Bad, "Node 0"},
		{"all wait", func(l []*cluster.Status) {
			l[0], l[1] = status(0, verdict.Waiting, verdict.OK), status(1, verdict.Waiting, verdict.OK)
		}, verdict.Waiting, verdict.OK, "All nodes wait: Text waiting."},
		{"ended", func(l []*cluster.Status) { l[0].Ended, l[1].Ended = "done", "done" }, verdict.Complete, verdict.OK,
			"All 2 nodes have ended."},
		{"configurations", func(l []*cluster.Status) { l[0].Config, l[1].Config = "a", "b" }, verdict.Working,
			verdict.Warn, "2 different configurations"},
	} {
		list := good()
		test.change(list)
		v := verdict.OfNodes(list, now)
		if v.State != test.state || v.Level != test.level || !strings.Contains(v.Text, test.text) {
			t.Errorf("%s: %+v", test.name, v)
		}
	}
}
