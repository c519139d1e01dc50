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

// TestStatus: status prints what nodes have said, names those that were not heard of, and makes nothing at
// the broker. A broker that does not answer is an error.
func TestStatus(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "cluster.json")
	var out bytes.Buffer
	a := &term.App{Stdout: &out, Stderr: &out}
	must(t, (&initCmd{File: name, Nodes: 3}).Run(a))
	f, err := read(name)
	must(t, err)
	e := emptyBroker(t, dir, f)
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	status := func(json bool) string {
		t.Helper()
		out.Reset()
		c := statusCmd{File: name, connectFlags: connectFlags{Cluster: []string{"nats://" + e.Addr().String()}},
			JSON: json}
		must(t, c.Run(a))
		return out.String()
	}
	if text := status(false); strings.Count(text, "never reported ") != 3 ||
		strings.Count(text, "\tnone\n")+strings.Count(text, " none\n") != 3 {
		t.Errorf("an empty broker: %s", text)
	}
	for _, st := range []cluster.Status{
		{Node: 0, Time: time.Now(), Host: "a\x1b[2J", Pages: 1234, PagesPerSecond: 5.5, Waits: "new links", DiskUsed: 1,
			DiskLimit: 4, Waiting: 7, WaitingBytes: 2000, Slowest: 2, Checkpoint: 9,
			Leases: &cluster.LeaseStatus{Held: 1200, Wanted: 3, Longest: 75, URLs: 45, Taken: 6789,
				HandedOver: 10, Lost: 2, Resting: true, Starting: true}},
		{Node: 1, Time: time.Now().Add(-time.Hour), Host: "b", Pages: 6, DiskUsed: 3, DiskLimit: 4},
	} {
		data, err := st.Encode()
		must(t, err)
		if _, err := e.Put(t.Context(), cluster.BucketCrawl, cluster.StatusKey(st.Node), data); err != nil {
			t.Fatal(err)
		}
	}
	must(t, <-e.Publish(t.Context(), 2, 0, "", []byte("x")))
	text := status(false)
	for _, want := range []string{"1,240 pages, 5.5 pages/s", "waits for new links", "7 (2.0 KiB, most for node 2)",
		"25 %", "not reporting", "1 message, ", "networks 3 1 min 15 s 45 6,789 10 2 since its start",
		"Node 1 has not reported", "Node 2 has not reported", "The fullest disk is that of node 1: 75 %"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("a control character of a node: %q", text)
	}
	var r report
	if err := json.Unmarshal([]byte(status(true)), &r); err != nil || len(r.Nodes) != 3 || r.Nodes[2] != nil ||
		r.Overview.Fullest != 1 || r.Nodes[0].Leases == nil || r.Nodes[0].Leases.HandedOver != 10 ||
		r.Nodes[1].Leases != nil || !r.Streams[1].Missing || r.Streams[2].Messages != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	c := statusCmd{File: name, connectFlags: connectFlags{Cluster: []string{"nats://" + noBroker(t)}}}
	if err := c.Run(a); err == nil || !strings.Contains(err.Error(), "answers") {
		t.Errorf("without a broker: %v", err)
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
