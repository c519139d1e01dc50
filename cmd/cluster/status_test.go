//go:build !noembed

package cluster

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"drumbeat/cluster"
	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
)

// emptyBroker starts the broker of a cluster of three nodes.
func emptyBroker(t *testing.T, dir string, f *cluster.File) *nats.Transport {
	t.Helper()
	e, err := nats.Open(nats.Options{Crawl: f.Crawl, Secret: f.Secret[:],
		Embed: &nats.Embed{Dir: filepath.Join(dir, "nats"), Listen: "127.0.0.1:0",
			StoreBytes: cluster.BrokerDisk(3, nats.DefaultStreamBytes, cluster.DefaultLeasesBytes), Sync: time.Minute}})
	must(t, err)
	return e
}

// statusRig is a cluster of three nodes whose broker has no node.
type statusRig struct {
	t     *testing.T
	name  string // of the file
	file  *cluster.File
	e     *nats.Transport
	out   bytes.Buffer
	app   term.App
	heavy []cluster.Heavy // that nodes tell from now on
}

func newStatusRig(t *testing.T) *statusRig {
	dir := t.TempDir()
	r := &statusRig{t: t, name: filepath.Join(dir, "cluster.json")}
	r.app = term.App{Stdout: &r.out, Stderr: &r.out}
	must(t, (&initCmd{File: r.name, Nodes: 3}).Run(&r.app))
	var err error
	r.file, err = read(r.name)
	must(t, err)
	r.e = emptyBroker(t, dir, r.file)
	t.Cleanup(func() {
		if err := r.e.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// status returns what cluster status prints, and checks its exit code. Words have a space between them.
func (r *statusRig) status(json bool, want int) string {
	r.t.Helper()
	r.out.Reset()
	c := statusCmd{File: r.name, connectFlags: connectFlags{Cluster: []string{"nats://" + r.e.Addr().String()}},
		JSON: json}
	if err := c.Run(&r.app); term.ExitCode(err) != want {
		r.t.Errorf("exit code %d, want %d: %v", term.ExitCode(err), want, err)
	}
	return strings.Join(strings.Fields(r.out.String()), " ")
}

// put writes statuses.
func (r *statusRig) put(list ...cluster.Status) {
	r.t.Helper()
	for _, st := range list {
		data, err := st.Encode()
		must(r.t, err)
		if _, err := r.e.Put(r.t.Context(), cluster.BucketCrawl, cluster.StatusKey(st.Node), data); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestStatus: status prints what nodes have said, names those that were not heard of, and makes nothing at
// the broker. A broker that does not answer is an error.
func TestStatus(t *testing.T) {
	r := newStatusRig(t)
	if text := r.status(false, term.ExitFailure); strings.Count(text, "never reported – ") != 3 ||
		strings.Count(text, "– none ") != 3 {
		t.Errorf("an empty broker: %s", text)
	}
	r.put([]cluster.Status{
		{Node: 0, Time: time.Now(), Host: "a\x1b[2J", Version: "0.3.0", Pages: 1234, PagesPerSecond: 5.5,
			Waits: "new links", DiskUsed: 1, DiskLimit: 4, Waiting: 7, WaitingBytes: 2000, Slowest: 2, Checkpoint: 9,
			Leases: &cluster.LeaseStatus{Held: 1200, Wanted: 3, Longest: 75, URLs: 45, Taken: 6789,
				HandedOver: 10, Lost: 2, Resting: true, Starting: true}},
		{Node: 1, Time: time.Now().Add(-time.Hour), Host: "b", Pages: 6, DiskUsed: 3, DiskLimit: 4, Quarantined: 8},
	}...)
	must(t, <-r.e.Publish(t.Context(), 2, 0, "", []byte("x")))
	text := r.status(false, term.ExitFailure)
	for _, want := range []string{"1,240 pages, 5.5 pages/s", " 0.3.0 ok waits for new links",
		"7 (2.0 KiB, most for node 2)",
		"25 %", "not reporting", "1 message, ", "networks 3 1 min 15 s 45 6,789 10 2 since its start",
		"bad: Node 2 has never reported.", "slow: Node 1 has not reported for 1 h",
		" b bad not reporting 1 h ago 6 0.0 0 0 8 ", "2 – – bad never reported", "all bad 1,240 5.5 0 7 (2.0 KiB) 8",
		"The fullest disk is that of node 1: 75 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("a control character of a node: %q", text)
	}
	var is report
	if err := json.Unmarshal([]byte(r.status(true, term.ExitFailure)), &is); err != nil || len(is.Nodes) != 3 ||
		is.Nodes[2] != nil || is.Overview.Fullest != 1 || is.Nodes[0].Leases == nil ||
		is.Nodes[0].Leases.HandedOver != 10 || is.Nodes[1].Leases != nil || !is.Streams[1].Missing ||
		is.Streams[2].Messages != 1 {
		t.Errorf("%v, %+v", err, is)
	}
	if is.Level != "bad" || len(is.Problems) != 2 || is.Problems[1].Text != "Node 2 has never reported." {
		t.Errorf("%s %+v", is.Level, is.Problems)
	}
	c := statusCmd{File: r.name, connectFlags: connectFlags{Cluster: []string{"nats://" + noBroker(t)}}}
	if err := c.Run(&r.app); err == nil || !strings.Contains(err.Error(), "answers") {
		t.Errorf("without a broker: %v", err)
	}
}

// TestStatusHealth: the exit code is 1 if the condition of the cluster is bad. All problems are named.
func TestStatusHealth(t *testing.T) {
	r := newStatusRig(t)
	now := time.Now()
	r.put(cluster.Status{Node: 0, Time: now}, cluster.Status{Node: 1, Time: now, Abandoned: []int{2}})
	if text := r.status(false, term.ExitDone); !strings.Contains(text, "2 – – – abandoned") {
		t.Error(text)
	}
	r.put(cluster.Status{Node: 1, Time: now, Abandoned: []int{2}, Departed: []int{2}})
	if text := r.status(false, term.ExitDone); !strings.Contains(text, "2 – – – departed") ||
		!strings.Contains(text, "2 nodes of 2 work") || strings.Contains(text, "abandoned") {
		t.Error(text)
	}
	r.put(cluster.Status{Node: 1, Time: now, Level: "warn", State: "slow", Text: "It is slow."},
		cluster.Status{Node: 2, Time: now, Level: "bad", State: "standing-still", Text: "A disk is full."})
	text := r.status(false, term.ExitFailure)
	for _, want := range []string{"slow: Node 2: A disk is full.", "warn: Node 1: It is slow.", " 1 warn running "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}

// noBroker returns an address where nobody listens.
func noBroker(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	return l.Addr().String()
}

// TestPermissionsText: a NATS server takes the permissions as they are printed.
func TestPermissionsText(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "cluster.json")
	var out bytes.Buffer
	a := &term.App{Stdout: &out}
	must(t, (&initCmd{File: name, Nodes: 3}).Run(a))
	var sizes []int
	for _, status := range []bool{false, true} {
		out.Reset()
		must(t, (&permissionsCmd{File: name, Status: status}).Run(a))
		file := filepath.Join(dir, "server.conf")
		conf := "authorization { users = [ { user = u, password = p, " + out.String() + " } ] }\n"
		must(t, os.WriteFile(file, []byte(conf), 0o600))
		o, err := natsserver.ProcessConfigFile(file)
		if err != nil || len(o.Users) != 1 {
			t.Fatalf("%v: %s", err, conf)
		}
		p := o.Users[0].Permissions
		f, err := read(name)
		must(t, err)
		want, err := nats.NeededPermissions(f.Crawl, 3, !status)
		must(t, err)
		if strings.Join(p.Publish.Allow, " ") != strings.Join(want.Publish, " ") ||
			strings.Join(p.Subscribe.Allow, " ") != strings.Join(want.Subscribe, " ") {
			t.Errorf("the server takes %v, %v; want %+v", p.Publish.Allow, p.Subscribe.Allow, want)
		}
		sizes = append(sizes, len(want.Publish))
	}
	if sizes[1] >= sizes[0] {
		t.Errorf("a node publishes %d subjects, who looks %d", sizes[0], sizes[1])
	}
}
