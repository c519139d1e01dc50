package condition_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/state"
	"drumbeat/state/condition"
	"drumbeat/state/snapshot"
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

// judged is a change of a busy crawl and the condition of it.
type judged struct {
	name   string
	change func(s *snap)
	state  condition.State
	level  condition.Level
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
	{"works", nil, condition.Working, condition.OK, "The crawl works: 7.0 pages per second."},
	{"late checkpoint", func(s *snap) { s.Checkpoint.When = now.Add(-11 * time.Minute) }, condition.Slow, condition.Bad,
		"The last checkpoint is 11 min old."},
	{"rare checkpoints", func(s *snap) {
		s.Checkpoint.When, s.CheckpointEvery = now.Add(-11*time.Minute), time.Hour
	}, condition.Working, condition.OK, "The crawl works"},
	{"RAM", func(s *snap) { s.RAM = snapshot.Space{Limit: 1 << 30, Used: 2 << 30} }, condition.Working, condition.Warn,
		"2.0 GiB of RAM, more than --ram 1.0 GiB"},
	{"slow disk", func(s *snap) { s.Dirs = []snapshot.Dir{{Path: "/d1"}, {Slow: slow}, {Slow: slow}} },
		condition.Slow, condition.Warn, "Directories /d3, /d4 (device 8:48) transfer 11 MB/s, the others 140 MB/s."},
	{"low disk", func(s *snap) { s.Dirs = []snapshot.Dir{{Path: "/d1", Free: 15 << 20, KeepFree: 10 << 20}} },
		condition.Working, condition.Warn, "/d1 has 15 MiB left; fetching pauses at 10 MiB."},
	{"late backup", func(s *snap) {
		s.Backup = snapshot.Backup{On: true, Place: "/b", Number: 3, Late: true, Time: now.Add(-13 * time.Hour),
			Failing: "no route"}
	}, condition.Working, condition.Bad, "The last backup in /b is 13 h old: no route."},
	{"no backup", func(s *snap) { s.Backup = snapshot.Backup{On: true, Place: "/b", Late: true} }, condition.Working,
		condition.Bad, "There is no backup in /b yet: it is under way."},
	{"failed backup", func(s *snap) { s.Backup = snapshot.Backup{On: true, Failing: "no route"} }, condition.Working,
		condition.Warn, "The last attempt to make a backup failed: no route."},
	{"drains", func(s *snap) { s.Draining = true }, condition.Working, condition.Warn, "drains"},
	{"paused", silent(snapshot.WaitOperator, "paused"), condition.Waiting, condition.Warn, "paused"},
	{"paused a moment ago", func(s *snap) { s.Wait.Kind = snapshot.WaitOperator }, condition.Waiting, condition.Warn,
		"paused"},
	{"rate limit", silent(snapshot.WaitLimit, "rate limit"), condition.Waiting, condition.OK, "No response for 40 s."},
}

var ofSites = []judged{
	{"outage", silent(snapshot.WaitOutage, "known servers do not answer"), condition.Standing, condition.Bad,
		"known servers do not answer"},
	{"outage with answers", func(s *snap) { s.Wait = snapshot.Wait{Kind: snapshot.WaitOutage, Text: "x"} },
		condition.Slow, condition.Bad, "The network or the name servers fail: x."},
	{"visits due later", func(s *snap) {
		silent(snapshot.WaitDue, "URLs due later")(s)
		s.Wait.Until, s.Deferred = now.Add(time.Hour), map[string]int64{"revisit": 99, "timeout": 1}
	}, condition.Waiting, condition.OK, "the next request is due in 1 h"},
	{"only failures left", func(s *snap) {
		silent(snapshot.WaitDue, "URLs due later")(s)
		s.Unique, s.Deferred = 200, map[string]int64{"timeout": 20, "revisit": 2}
	}, condition.Standing, condition.Bad, "20 URLs wait after a failure: timeout (20)"},
	{"a few failures left of many", func(s *snap) {
		silent(snapshot.WaitDue, "URLs due later")(s)
		s.Unique, s.Deferred = 1e6, map[string]int64{"timeout": 20}
	}, condition.Standing, condition.Warn, "20 URLs wait"},
	{"most requests fail", func(s *snap) {
		s.Recent = snapshot.Window{Over: 10 * time.Second, Responses: 3, Pages: 3, Failures: 9,
			Failed: map[string]int64{"timeout": 8, "reset": 1}}
	}, condition.Slow, condition.Warn,
		"9 of 12 requests in the last 10 s failed: timeout (8), connection closed early (1)."},
	{"most answers refuse", func(s *snap) {
		s.Recent = snapshot.Window{Over: 10 * time.Second, Responses: 12, Errors: 9}
	}, condition.Slow, condition.Warn, "9 of 12 requests in the last 10 s failed: status 429 or 5xx (9)."},
	{"merges stand", silent(snapshot.WaitDisk, "disk merges"), condition.Slow, condition.Warn, "waits for disk merges"},
	{"robots.txt arrives", func(s *snap) {
		silent(snapshot.WaitRobots, "robots.txt and DNS")(s)
		s.RobotsAnswered = now.Add(-time.Second)
	}, condition.Waiting, condition.OK, "robots.txt and DNS"},
	{"robots.txt does not", silent(snapshot.WaitRobots, "robots.txt and DNS"), condition.Slow, condition.Warn,
		"No robots.txt and no DNS answer arrives."},
}

var ofParts = []judged{
	{"broker away", node(func(c *snapshot.Cluster) { c.Connected = false }), condition.Slow, condition.Bad,
		"The broker of the cluster has been away for 1 h."},
	{"broker away for a moment", node(func(c *snapshot.Cluster) { c.Connected, c.Since = false, now }),
		condition.Working, condition.OK, "The crawl works"},
	{"a node stopped", node(func(c *snapshot.Cluster) {
		c.Pairs[0].Waiting, c.Pairs[0].Silent = 12741, 15*time.Second
	}), condition.Slow, condition.Warn, "Node 1 has sent nothing for 15 s; 12,741 records wait for it."},
	{"a node whose disk hangs", node(func(c *snapshot.Cluster) {
		c.Pairs[0].Waiting, c.Pairs[0].Stalled = 3, 70*time.Second
	}), condition.Slow, condition.Warn, "Node 1 has stored nothing for 1 min 10 s; 3 records wait for it."},
	{"a node that is silent for long", node(func(c *snapshot.Cluster) { c.Pairs[0].Silent = time.Hour }),
		condition.Slow, condition.Bad, "Node 1 has sent nothing for 1 h; 0 records wait for it."},
	{"a node that never came", node(func(c *snapshot.Cluster) {
		c.Pairs[0].Silent, c.Pairs[0].Missing = time.Minute, true
	}), condition.Slow, condition.Bad,
		"Node 1 has not started, 1 min after this node, and the crawl cannot end without it; 0 records wait for it."},
	{"a node that ended with work left", node(func(c *snapshot.Cluster) {
		c.Idle, c.Pairs[0].Ended = true, "stopped"
	}), condition.Working, condition.OK, "The crawl works"},
	{"nothing left but on a node that ended", func(s *snap) {
		silent(snapshot.WaitNodes, "the other nodes")(s)
		s.Answered = now.Add(-2 * time.Minute)
		node(func(c *snapshot.Cluster) { c.Idle, c.Pairs[0].Ended = true, "stopped" })(s)
	}, condition.Standing, condition.Bad,
		"Node 1 has ended its run (stopped), and the crawl cannot end before it runs again; 0 records wait for it."},
	{"links held up", node(func(c *snapshot.Cluster) {
		c.Pairs[0].Waiting, c.Pairs[0].Stalled = 3, time.Hour
	}), condition.Slow, condition.Bad, "Node 1 has stored nothing for 1 h; 3 records wait for it."},
	{"a node that is replaced", node(func(c *snapshot.Cluster) {
		c.Pairs[0].Waiting, c.Pairs[0].Stalled, c.Pairs[0].Replacing = 3, time.Hour, true
	}), condition.Slow, condition.Warn,
		"Node 1 takes its place again from a backup (drumbeat cluster replace); 3 records wait for it."},
	{"an older node", node(func(c *snapshot.Cluster) {
		c.Pairs[0].Waiting, c.Pairs[0].Held = 3, true
	}), condition.Slow, condition.Warn,
		"Node 1 has an older version, and nothing is sent to it; 3 records wait for it."},
	{"quarantine", node(func(c *snapshot.Cluster) { c.Pairs[0].Quarantined = 2 }), condition.Slow, condition.Warn,
		"Node 1: 2 messages wait in quarantine, because this version cannot read them."},
	{"an abandoned node", node(func(c *snapshot.Cluster) {
		c.Pairs[0] = snapshot.Pair{Node: 1, Waiting: 3, Stalled: time.Hour, Abandoned: true}
	}), condition.Working, condition.OK, "The crawl works"},
	{"object store", func(s *snap) { s.Uploads = snapshot.Uploads{Failing: "403", Waiting: 2, WaitingBytes: 2048} },
		condition.Slow, condition.Warn, "2 files wait (2.0 KiB) here: 403"},
	{"erases", func(s *snap) {
		s.Answered, s.Erasures = now.Add(-time.Minute), snapshot.Erasures{Waiting: 2, Since: now.Add(-12 * time.Second),
			Step: "read WARC files"}
	}, condition.Waiting, condition.Warn, "erased pages for 12 s, and fetches nothing meanwhile: read WARC files."},
	{"a request to erase was refused", func(s *snap) {
		s.Erasures = snapshot.Erasures{Waiting: 2, Refused: 1, Why: "no room"}
	}, condition.Working, condition.Warn, "1 request to erase pages was not carried out"},
	{"stops", func(s *snap) { s.Stopping = true }, condition.Working, condition.OK, "last checkpoint"},
}

// TestOf: each fault of the machine, the sites, the cluster and the parts has its state, level and words.
func TestOf(t *testing.T) {
	for _, test := range slices.Concat(ofMachine, ofSites, ofParts) {
		v := condition.Of(busy(test.change))
		if v.State != test.state || v.Level != test.level || !strings.Contains(v.Text, test.text) {
			t.Errorf("%s: %+v", test.name, v)
		}
		if (v.Level == condition.OK) != (len(v.Problems) == 0) {
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
		end   condition.End
		state condition.State
		level condition.Level
		text  string
	}{
		{busy(nil), condition.End{Why: "done", Done: true}, condition.Complete, condition.OK, "complete: 70 pages"},
		{left, condition.End{Why: "page limit"}, condition.Left, condition.OK,
			"(page limit): 70 pages; left: 40 queued, 6 over budget, 2 deferred (timeout)."},
		{left, condition.End{Why: "done", Done: true}, condition.Left, condition.OK,
			"it does not fetch the rest: 40 queued"},
		{left, condition.End{Why: "outage", Fault: true}, condition.Failed, condition.Bad, "(outage)"},
		{left, condition.End{Err: errors.New("disk broke.")}, condition.Failed, condition.Bad, "an error: disk broke."},
		{&snapshot.Snapshot{}, condition.End{Why: "done", Done: true}, condition.Complete, condition.Warn, "0 pages"},
	} {
		v := condition.OfEnd(test.s, test.end)
		if v.State != test.state || v.Level != test.level || !strings.Contains(v.Text, test.text) {
			t.Errorf("%+v: %+v", test.end, v)
		}
	}
}

// TestOfNodes: a cluster is as well as its worst node, and a silent node is a fault.
func TestOfNodes(t *testing.T) {
	status := func(node int, state condition.State, level condition.Level) *cluster.Status {
		return &cluster.Status{Node: node, Time: now, State: string(state), Level: string(level), Text: "Text " +
			string(state) + ".", PagesPerSecond: 10}
	}
	good := func() []*cluster.Status {
		return []*cluster.Status{status(0, condition.Working, condition.OK), status(1, condition.Working, condition.OK)}
	}
	for _, test := range []struct {
		name   string
		change func(l []*cluster.Status)
		state  condition.State
		level  condition.Level
		text   string
	}{
		{"works", func([]*cluster.Status) {}, condition.Working, condition.OK,
			"2 nodes of 2 work: 20 pages per second."},
		{"older", func(l []*cluster.Status) { l[1].State, l[1].Level = "", "" }, condition.Working,
			condition.OK, "work"},
		{"silent", func(l []*cluster.Status) { l[1].Time = now.Add(-2 * time.Minute) }, condition.Slow, condition.Bad,
			"Node 1 has not reported for 2 min."},
		{"never", func(l []*cluster.Status) { l[1] = nil }, condition.Slow, condition.Bad, "Node 1 has never"},
		{"one stands", func(l []*cluster.Status) { l[1] = status(1, condition.Standing, condition.Bad) },
			condition.Slow, condition.Bad, "Node 1: Text standing-still."},
		{"all stand", func(l []*cluster.Status) {
			l[0], l[1] = status(0, condition.Standing, condition.Bad), status(1, condition.Standing, condition.Bad)
		}, condition.Standing, condition.Bad, "Node 0"},
		{"all wait", func(l []*cluster.Status) {
			l[0], l[1] = status(0, condition.Waiting, condition.OK), status(1, condition.Waiting, condition.OK)
		}, condition.Waiting, condition.OK, "All nodes wait: Text waiting."},
		{"ended", func(l []*cluster.Status) { l[0].Ended, l[1].Ended = "done", "done" },
			condition.Complete, condition.OK,
			"All 2 nodes have ended."},
		{"configurations", func(l []*cluster.Status) { l[0].Config, l[1].Config = "a", "b" }, condition.Working,
			condition.Warn, "2 different configurations"},
	} {
		list := good()
		test.change(list)
		v := condition.OfNodes(list, now)
		if v.State != test.state || v.Level != test.level || !strings.Contains(v.Text, test.text) {
			t.Errorf("%s: %+v", test.name, v)
		}
	}
}

// TestReasonCounts: the largest number is first, and an unknown name is its own text.
func TestReasonCounts(t *testing.T) {
	counts := map[string]int64{"timeout": 3, "no-such-host": 1200, "tls": 0, "one-of-later": 3}
	want := "host not found (1,200), one-of-later (3), timeout (3)"
	if got := condition.ReasonCounts(counts); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
