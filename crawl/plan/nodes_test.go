package plan

import (
	"slices"
	"strings"
	"testing"

	"drumbeat/cluster"
)

// planOf plans a node of a cluster, with a broker in its process or without.
func planOf(t *testing.T, nodes int, broker int64) (*Options, Plan, Forecast) {
	t.Helper()
	o := defaults(4<<30, 4<<40)
	o.Nodes, o.BrokerRAM = nodes, broker
	p, err := Make(o)
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.Forecast(Load{Pages: 1e8, MaxRate: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return &o, p, f
}

// TestPlanSetsExchangeAside: outboxes and a broker in the process get RAM from all others, and the parts still have the
// sum of the whole.
func TestPlanSetsExchangeAside(t *testing.T) {
	_, alone, _ := planOf(t, 1, 0)
	for _, c := range []struct {
		nodes  int
		broker int64
	}{{2, 0}, {4, cluster.BrokerRAM}, {1000, 0}} {
		o, p, _ := planOf(t, c.nodes, c.broker)
		want := c.broker + int64(c.nodes-1)*cluster.OutboxRAM(o.QueueBlockBytes)
		if got := p.ExchangeBytes - want; got < 512<<10 || got > 64<<20 {
			t.Errorf("%+v: %d bytes for the exchange, want %d and some more for messages", c, p.ExchangeBytes, want)
		}
		sum := int64(0)
		for _, part := range p.RAM() {
			if sum += part.Bytes; part.Bytes < 0 {
				t.Errorf("%+v: %+v", c, part)
			}
		}
		if sum != o.RAMBytes || p.URLSeen.RAMBytes >= alone.URLSeen.RAMBytes || p.BodyBytes >= alone.BodyBytes {
			t.Errorf("%+v: parts have %d bytes of %d; URLseen has %d, bodies %d, alone %d and %d", c, sum, o.RAMBytes,
				p.URLSeen.RAMBytes, p.BodyBytes, alone.URLSeen.RAMBytes, alone.BodyBytes)
		}
	}
	if alone.ExchangeBytes != 0 {
		t.Errorf("a crawl of one node sets %d bytes aside", alone.ExchangeBytes)
	}
	o := defaults(300<<20, 100<<30)
	o.Nodes, o.BrokerRAM = 2, cluster.BrokerRAM
	if _, err := Make(o); err == nil || !strings.Contains(err.Error(), "for the exchange with other nodes") {
		t.Errorf("a broker in 300 MiB: got %v", err)
	}
}

// TestPlanNodes: more nodes send more, the broker carries what all send, and what goes wrong is said.
func TestPlanNodes(t *testing.T) {
	last := NodesForecast{}
	for _, nodes := range []int{1, 2, 4, 64, 1000, 2000} {
		_, p, f := planOf(t, nodes, 0)
		n := p.Nodes(&f, NodesInput{StreamBytes: 1 << 30, Replicas: 3})
		if nodes == 1 {
			if n.SentBytes != 0 || n.Rate != f.Rate || n.LargestShare != 1 {
				t.Errorf("one node: %+v", n)
			}
			continue
		}
		if n.LinksPerPage <= last.LinksPerPage || n.SentBytes <= last.SentBytes || n.Rate <= last.Rate ||
			n.OutboxRAM <= last.OutboxRAM || n.MarksBytes <= last.MarksBytes {
			t.Errorf("%d nodes: %+v, fewer have %+v", nodes, n, last)
		}
		if n.BrokerBytes != n.SentBytes*float64(nodes) || n.BrokerCopies != 2*n.BrokerBytes {
			t.Errorf("%d nodes: %+v", nodes, n)
		}
		most := f.Load.Misses * f.Load.LinksPerPage * measuredAway
		if n.LinksPerPage >= most || n.LinksPerPage < most*0.45 {
			t.Errorf("%d nodes: a page sends %v links, of %v to other PLDs", nodes, n.LinksPerPage, most)
		}
		if n.Leases <= last.Leases && n.Leases < mostNetworks || n.LeaseBytes != n.Leases*cluster.LeaseBytes ||
			n.LeaseRoom != cluster.DefaultLeasesBytes {
			t.Errorf("%d nodes: leases %+v", nodes, n)
		}
		has := func(part string) bool {
			return slices.ContainsFunc(n.Warnings, func(w string) bool { return strings.Contains(w, part) })
		}
		if !has("One node crawls all hosts of a PLD") ||
			has("--cluster-leases=") != (nodes >= 64) || has("room for the marks of ") != (nodes == 2000) ||
			nodes == 64 && !has("--cluster-leases=1317MiB") || has("--cluster-stream") {
			t.Errorf("%d nodes: warnings %q", nodes, n.Warnings)
		}
		last = n
	}
	_, p, f := planOf(t, 8, cluster.BrokerRAM)
	n := p.Nodes(&f, NodesInput{StreamBytes: 1 << 20})
	if n.BrokerDiskBytes != cluster.BrokerDisk(8, 1<<20, cluster.DefaultLeasesBytes) || len(n.Warnings) != 3 {
		t.Errorf("a broker in one of 8 nodes: %+v", n)
	}
}
