package admit

import (
	"errors"
	"slices"
	"testing"

	"drumbeat/cluster"
	"drumbeat/weburl"
)

// FuzzInlet: a record from another node is taken, or refused with cluster.ErrMessage.
func FuzzInlet(f *testing.F) {
	for _, url := range []string{"http://a.test/", "http://./", "http://../", "http://a./", "http:///",
		"http://co.uk./", "http://127.0.0.1/", "x"} {
		f.Add((&weburl.Record{URL: []byte(url)}).Append(nil))
	}
	p := &Policy{Hasher: weburl.NewHasher(weburl.Secret{1}), Suffixes: weburl.NewSuffixes(false)}
	f.Fuzz(func(t *testing.T, record []byte) {
		in := NewInlet(p)
		for range 2 { // the second time the host is known
			if _, err := in.Link(record); err != nil {
				if !errors.Is(err, cluster.ErrMessage) || len(in.Tuples) > 0 {
					t.Fatalf("%q: %v, %d tuples", record, err, len(in.Tuples))
				}
			} else if len(in.Tuples) == 0 {
				t.Fatalf("%q: taken without a tuple", record)
			}
		}
	})
}

// TestOnward: a link and an edge to a PLD of another node are for that node, whatever the sender's table, unless the
// slot of the PLD moves here.
func TestOnward(t *testing.T) {
	table, err := cluster.NewTable([]float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	suffixes := weburl.NewSuffixes(false)
	p := &Policy{Hasher: weburl.NewHasher(weburl.Secret{1}).WithSlots(suffixes), Suffixes: suffixes, Table: table,
		Node: 1}
	hosts := []string{"a.test", "b.test", "c.test", "d.test", "e.test", "f.test"}
	i := slices.IndexFunc(hosts, func(host string) bool { return table.Owner(p.Hasher.PLDKey([]byte(host))) == 0 })
	if i < 0 {
		t.Fatal("no host of node 0")
	}
	host := []byte(hosts[i])
	rec := (&weburl.Record{URL: []byte("http://" + hosts[i] + "/")}).Append(nil)
	for _, arrives := range []bool{false, true} {
		in := NewInlet(p)
		if arrives {
			in.Arriving.Set(weburl.Slot(p.Hasher.PLDKey(host)))
		}
		_, err := in.Link(rec)
		if err = errors.Join(err, in.Edge([]byte("from.test"), host)); err != nil {
			t.Fatal(err)
		}
		onward := len(in.Onward.Links) == 1 && in.Onward.Links[0].Node == 0 && len(in.Onward.Edges) == 1
		if onward == arrives || (len(in.Tuples) == 1 && len(in.Edges) == 1) != arrives {
			t.Errorf("arrives %t: %+v, %d tuples, %d edges", arrives, in.Onward, len(in.Tuples), len(in.Edges))
		}
	}
}
