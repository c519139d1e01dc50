package cluster

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
)

// TestInit: init makes a file that show reads, replaces none, and refuses impossible numbers; show refuses a
// damaged one.
func TestInit(t *testing.T) {
	var out bytes.Buffer
	a := &term.App{Stdout: &out}
	name := filepath.Join(t.TempDir(), "cluster.json")
	must(t, (&initCmd{File: name, Nodes: 3, Weight: []float64{2, 1, 1}}).Run(a))
	must(t, (&showCmd{File: name}).Run(a))
	if text := out.String(); !strings.Contains(text, "3 nodes") || strings.Count(text, "\nnode ") != 3 {
		t.Errorf("printed %s", text)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	data, err := os.ReadFile(name)
	must(t, err)
	f, err := cluster.DecodeFile(data)
	must(t, err)
	if share := f.Table.Share(0); share < 1900 || share > 2200 {
		t.Errorf("node 0 of weight 2 in 4 owns %d of 4096 slots", share)
	}
	if strings.Contains(out.String(), f.Secret.Hex()) {
		t.Error("the secret was printed")
	}
	for _, bad := range []initCmd{{File: name, Nodes: 3}, {File: name + "2", Nodes: 0},
		{File: name + "2", Nodes: 2, Weight: []float64{1}}, {File: name + "2", Nodes: 1, Weight: []float64{-1}}} {
		if err := bad.Run(a); err == nil {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for i := 0; i < len(data); i += 97 {
		damaged := bytes.Clone(data)
		damaged[i] ^= 1
		if again, err := cluster.DecodeFile(damaged); err == nil &&
			(again.Secret != f.Secret || again.Table.Sum() != f.Table.Sum()) {
			t.Errorf("byte %d changed without notice", i)
		}
	}
}

// TestInitKeep: init --keep makes a file once, and refuses one that it would not have made.
func TestInitKeep(t *testing.T) {
	var out bytes.Buffer
	a := &term.App{Stdout: &out}
	name := filepath.Join(t.TempDir(), "cluster.json")
	var first []byte
	for range 2 {
		must(t, (&initCmd{File: name, Nodes: 3, Keep: true}).Run(a))
		data, err := os.ReadFile(name)
		if err != nil || first != nil && !bytes.Equal(data, first) {
			t.Fatalf("the file was made again, %v", err)
		}
		first = data
	}
	if err := (&initCmd{File: name, Nodes: 4, Keep: true}).Run(a); err == nil ||
		!strings.Contains(err.Error(), "belongs to a cluster of 3 nodes, not of --nodes 4") {
		t.Errorf("4 nodes: %v", err)
	}
	must(t, os.WriteFile(name, first[1:], 0o600))
	if err := (&initCmd{File: name, Nodes: 3, Keep: true}).Run(a); err == nil {
		t.Error("a damaged file was kept")
	}
}
