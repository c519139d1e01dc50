package cluster

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
	slotmove "drumbeat/state/move"
)

// TestMoveArguments: move refuses impossible slots and nodes, and directories without a crawl, and then the
// file is unchanged.
func TestMoveArguments(t *testing.T) {
	var out bytes.Buffer
	a := &term.App{Stdout: &out}
	dir := t.TempDir()
	name := filepath.Join(dir, "cluster.json")
	must(t, (&initCmd{File: name, Nodes: 2}).Run(a))
	before, err := read(name)
	must(t, err)
	two := []string{filepath.Join(dir, "n0"), filepath.Join(dir, "n1")}
	for _, x := range []struct {
		cmd  moveCmd
		code int
		why  string
	}{
		{moveCmd{Slots: "0-4096", From: -1, To: 1, File: name, Node: two}, term.ExitUsage, "--slots 0-4096"},
		{moveCmd{Slots: "9-3", From: -1, To: 1, File: name, Node: two}, term.ExitUsage, "--slots 9-3"},
		{moveCmd{Slots: "x", From: -1, To: 1, File: name, Node: two}, term.ExitUsage, "--slots x"},
		{moveCmd{Slots: "0-9", From: -1, To: 2, File: name, Node: two}, term.ExitUsage, "--to 2"},
		{moveCmd{Slots: "0-9", From: 2, To: 1, File: name, Node: two}, term.ExitUsage, "--from 2"},
		{moveCmd{Slots: "0-9", From: -1, To: 1, File: name, Node: two[:1]}, term.ExitUsage, "directories of 1 node"},
		{moveCmd{Slots: "0-9", From: -1, To: 1, File: two[0], Node: two}, term.ExitUsage, two[0]},
		{moveCmd{Slots: "0-9", From: 1, To: 1, File: name, Node: two}, term.ExitFailure, "no slot"},
		{moveCmd{Slots: "7", From: -1, To: 1 - before.Table.OwnerOf(7), File: name, Node: two}, term.ExitDirectory,
			"holds no crawl"},
	} {
		err := x.cmd.Run(a)
		if err == nil || term.ExitCode(err) != x.code || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%+v: %v, exit code %d, want %q, %d", x.cmd, err, term.ExitCode(err), x.why, x.code)
		}
	}
	after, err := read(name)
	if err != nil || after.Table.Sum() != before.Table.Sum() {
		t.Errorf("the file has changed: %v", err)
	}
}

// TestPrintMove: the text names each node that gave or got slots, and the share of all.
func TestPrintMove(t *testing.T) {
	table, err := cluster.NewTable([]float64{1, 1})
	if err == nil {
		table, err = table.Move(0, cluster.Slots-1, 0, 1)
	}
	must(t, err)
	var out bytes.Buffer
	rep := &slotmove.Report{Finished: true, Table: table, Nodes: []slotmove.NodeReport{
		{Node: 0, Unique: 0, UniqueBefore: 70, Waiting: 30, Ended: 40, Messages: 2},
		{Node: 1, Unique: 170, UniqueBefore: 100, Ended: -40}}}
	must(t, printMove(&out, "c.json", rep))
	want := "completed an earlier move that was interrupted; nothing else was moved\n" +
		"node 0: 0 unique URLs, had 70; 30 that wait and 40 that are done moved away; " +
		"received 2 messages from other nodes\n" +
		"node 1: 170 unique URLs, had 100; 40 that were done on other nodes moved here; " +
		"received 0 messages from other nodes\n" +
		"node 0 owns 0 of 4096 slots\nnode 1 owns 4096 of 4096 slots\n" +
		"next: copy c.json to each node, then start all\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
