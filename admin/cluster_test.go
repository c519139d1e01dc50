package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/admin/web"
	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/crawl"
	"drumbeat/state/condition"
	"drumbeat/state/snapshot"
)

// inCluster makes a crawl node 0 of several, and returns the connections of the others.
func inCluster(t *testing.T, o *crawl.Options, nodes int) (others []cluster.Transport) {
	t.Helper()
	net := mem.New(mem.Options{})
	weights := make([]float64, nodes)
	for i := range weights {
		weights[i] = 1
	}
	table, err := cluster.NewTable(weights)
	must(t, err)
	for node := range nodes {
		e := net.Transport(node)
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		if node > 0 {
			others = append(others, e)
			continue
		}
		o.Cluster = &crawl.Cluster{Table: table, Crawl: 7, Transport: e, LeaseTTL: 3 * time.Second}
	}
	return others
}

// TestClusterPage: the page /cluster and what it shows: all nodes by what they say of themselves, those that
// were not heard of, the fullest one, and the exchange with each other node.
func TestClusterPage(t *testing.T) {
	t.Parallel()
	var others []cluster.Transport
	r := newRig(t, func(o *crawl.Options, adm *Options) {
		others = inCluster(t, o, 3)
		o.Identity.Host, adm.Page = "here.test", web.Handler()
	})
	code, page := r.ask("GET", "/cluster", "", nil)
	if code != http.StatusOK || !bytes.Contains(page, []byte(`id="nodes"`)) {
		t.Errorf("/cluster: %d %.200s", code, page)
	}
	said := &cluster.Status{Node: 1, Time: time.Now(), Host: "<b>there</b>", Pages: 5, PagesPerSecond: 2.5, DiskUsed: 9,
		DiskLimit: 10, Config: "x", Leases: &cluster.LeaseStatus{Held: 4, URLs: 7}}
	data, err := said.Encode()
	must(t, err)
	if _, err := others[0].Put(t.Context(), cluster.BucketCrawl, cluster.StatusKey(1), data); err != nil {
		t.Fatal(err)
	}
	if _, err := others[1].Put(t.Context(), cluster.BucketCrawl, cluster.StatusKey(2),
		[]byte(`{"node":1}`)); err != nil {
		t.Fatal(err)
	}
	var c Cluster
	r.await("the statuses of two nodes", func() bool {
		c = Cluster{}
		code, body := r.ask("GET", "/api/v1/cluster", "", nil)
		return code == http.StatusOK && json.Unmarshal(body, &c) == nil && len(c.Nodes) == 3 && c.Nodes[0].Heard &&
			c.Nodes[1].Heard && len(c.Pairs) == 2 && c.Pairs[0].Waiting+c.Pairs[1].Waiting > 0
	})
	if n := c.Nodes[0]; n.Status.Host != "here.test" || n.Status.DiskLimit == 0 {
		t.Errorf("this node: %+v", n.Status)
	}
	if n := c.Nodes[1]; n.Status.Leases == nil || *n.Status.Leases != *said.Leases || c.Nodes[0].Status.Leases == nil ||
		n.Status.Host != said.Host || n.Status.PagesPerSecond != 2.5 || n.Age < 0 || n.Age > 60 {
		t.Errorf("node 1: %+v %+v", n, n.Status)
	}
	if o := c.Overview; c.Nodes[2].Heard || !slices.Equal(o.Missing, []int{2}) || o.Fullest != 1 ||
		o.FullestShare != 0.9 || o.Configs != 2 {
		t.Errorf("overview %+v", c.Overview)
	}
	if s := c.Self; s.Node != 0 || s.Nodes != 3 || !s.Broker.Connected || c.Pairs[0].Node != 1 || c.Pairs[1].Node != 2 {
		t.Errorf("this node %+v, pairs %+v", s, c.Pairs)
	}
	var st Status
	if _, body := r.ask("GET", "/api/v1/status", "", nil); json.Unmarshal(body, &st) != nil || st.Cluster == nil ||
		st.Cluster.Nodes != 3 {
		t.Errorf("status: %+v", st.Cluster)
	}
}

// TestClusterHealth: /healthz names all problems, and how the node sees the broker and the other nodes. A node that is
// silent makes the condition bad, for /readyz.
func TestClusterHealth(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := &crawl.Snapshot{Time: now, Answered: now, Cluster: snapshot.Cluster{Nodes: 4, Connected: true,
		Since: now.Add(-time.Hour), Pairs: []snapshot.Pair{
			{Node: 1, Silent: 2 * time.Minute, Waiting: 3, WaitingBytes: 2048},
			{Node: 2, Abandoned: true}, {Node: 3, Quarantined: 1}}}}
	h := new(Server).healthOf(condition.Of(s))
	got := h.line() + h.others() + clusterLine(s)
	if want := `slow: Node 1 has sent nothing for 2 min; 3 records wait for it.
warn: Node 3: 1 message waits in quarantine, because this version cannot read them.
cluster: node 0 of 4, connected to the broker for 1 h; silent nodes: 1; abandoned nodes: 2; 3 records wait (2.0 KiB) ` +
		"for other nodes\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.Cluster.Connected, s.Cluster.Pairs[1].Departed = false, true
	if text := clusterLine(s); !strings.Contains(text, ", without the broker for 1 h;") ||
		!strings.Contains(text, "; abandoned nodes: none; departed nodes: 2; 3 records") {
		t.Error(text)
	}
	r := newRig(t, func(o *crawl.Options, _ *Options) { inCluster(t, o, 2) })
	code, body := r.ask("GET", "/healthz", "", nil)
	if code != http.StatusOK || !bytes.Contains(body, []byte("\ncluster: node 0 of 2, connected to the broker for ")) {
		t.Errorf("/healthz: %d %s", code, body)
	}
}

// TestClusterOfOne: a crawl of one node has no cluster, and says so.
func TestClusterOfOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if code, body := r.ask("GET", "/api/v1/cluster", "", nil); code != http.StatusNotFound ||
		!bytes.Contains(body, []byte("one node")) {
		t.Errorf("%d %s", code, body)
	}
}
