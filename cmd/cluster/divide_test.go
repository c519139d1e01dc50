package cluster

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
	"drumbeat/weburl"
)

// TestPLDOf: divide takes PLDs with and without private suffixes, and says which PLD another name belongs to.
func TestPLDOf(t *testing.T) {
	for _, name := range []string{"example.org", "example.co.uk", "someone.github.io", "github.io"} {
		if pld, err := pldOf(name); err != nil || pld != name {
			t.Errorf("%s: %q, %v", name, pld, err)
		}
	}
	if _, err := pldOf("www.example.org"); err == nil || !strings.HasSuffix(err.Error(), "such as example.org") {
		t.Error(err)
	}
	if pld, err := pldOf(""); err == nil {
		t.Errorf("no name is the PLD %q", pld)
	}
}

// TestShowDivided: show names divided PLDs, and the nodes that visit their hosts.
func TestShowDivided(t *testing.T) {
	var out bytes.Buffer
	a := &term.App{Stdout: &out}
	name := filepath.Join(t.TempDir(), "cluster.json")
	f, err := cluster.NewFile([]float64{1, 1, 1})
	must(t, err)
	parts := cluster.WeightedParts([]float64{3, 0, 1}, []int{0, 2})
	slot := weburl.Slot(weburl.NewHasher(f.Secret).PLDKey([]byte("example.org")))
	f.Table, err = f.Table.Divide("example.org", slot, &parts)
	must(t, err)
	data, err := f.Encode()
	must(t, err)
	must(t, os.WriteFile(name, data, 0o600))
	must(t, (&showCmd{File: name}).Run(a))
	if want := " is divided: node 0 75.0 %, node 2 25.0 % of the hosts\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("printed %s, want %q", out.String(), want)
	}
}
