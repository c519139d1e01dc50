package audit

import (
	"strings"
	"testing"

	"drumbeat/cluster"
)

// TestMovedSums: an audit of all nodes misses a URL that one node has given and no other has got, unless it may be on
// its way. Its JSON keeps the sums.
func TestMovedSums(t *testing.T) {
	nodes := func(change func(giver, taker *Cluster)) []Node {
		var list []Node
		for node := range 2 {
			c := &Cluster{Node: node, Nodes: 2, Pairs: []Pair{{Node: 1 - node}}}
			list = append(list, Node{Balanced: true, Cluster: c})
		}
		giver, taker := list[0].Cluster, list[1].Cluster
		for key := range uint64(3) {
			giver.Given.Known.Add(key)
			taker.Got.Known.Add(key)
		}
		giver.Given.Waiting.Add(1)
		taker.Got.Waiting.Add(1)
		change(giver, taker)
		for i := range list {
			data, err := list[i].Cluster.MarshalJSON()
			list[i].Cluster = new(Cluster)
			if err == nil {
				err = list[i].Cluster.UnmarshalJSON(data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return list
	}
	for _, c := range []struct {
		name   string
		change func(giver, taker *Cluster)
		bad    bool
	}{
		{"all have come", func(_, _ *Cluster) {}, false},
		{"a key waits in URLseen", func(_, taker *Cluster) { taker.Got.Known.Sub(0) }, false},
		{"a URL is lost", func(_, taker *Cluster) { taker.Got.Waiting.Sub(1) }, true},
		{"another URL has come", func(_, taker *Cluster) { taker.Got.Waiting.Sub(1); taker.Got.Waiting.Add(2) }, true},
		{"a key has come twice", func(_, taker *Cluster) { taker.Got.Known.Add(0) }, true},
		{"a URL is on its way", func(giver, taker *Cluster) {
			taker.Got = cluster.MovedSums{}
			giver.Pairs[0].Parts.Waiting.Add(1)
		}, false},
		{"a URL is in quarantine", func(_, taker *Cluster) { taker.Got.Waiting.Sub(1); taker.Quarantined = 1 }, false},
	} {
		rep, err := CompareNodes(nodes(c.change))
		if err != nil {
			t.Fatal(c.name, err)
		}
		if rep.Balanced() == c.bad || c.bad && !strings.Contains(rep.Bad[0], "have given slots") {
			t.Errorf("%s: %v", c.name, rep.Bad)
		}
	}
}
