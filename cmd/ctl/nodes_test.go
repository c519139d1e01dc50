package ctl

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drumbeat/admin"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
)

// nodesFile writes a file of nodes.
func nodesFile(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "nodes")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// linesOf returns the lines of a text in order.
func linesOf(text string) []string {
	list := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(list)
	return list
}

// TestNodes: a command runs on all nodes at the same time: one by the socket, one by its URL with its token. A node
// that is away does not stop the others, and its exit code is that of the command. The output names the nodes.
func TestNodes(t *testing.T) {
	asked := make(chan struct{})
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		asked <- struct{}{}
		_, _ = w.Write([]byte("{}"))
	}))
	defer remote.Close()
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-asked // the other nodes do not wait for this one
		_, _ = w.Write([]byte("{}"))
	}))
	defer slow.Close()
	f := newFake(t, map[string]any{"POST /api/v1/pause": 1})
	file := nodesFile(t, "# a comment", "n0 "+slow.URL, "", "n1 "+remote.URL+"/ token", "n2\t"+f.dir, "gone ./nothing")
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "token"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, said := cmdtest.WantExit[commands](t, term.ExitDirectory, "", "ctl", "--nodes", file, "pause")
	const paused = ": paused; drumbeat ctl resume continues"
	if got := linesOf(out); !slices.Equal(got, []string{"n0" + paused, "n1" + paused, "n2" + paused}) {
		t.Errorf("%q", got)
	}
	if got := linesOf(said); len(got) != 2 || !strings.HasPrefix(got[1], "gone: drumbeat: ") ||
		got[0] != "drumbeat: done on 3 of 4 nodes, not on gone" {
		t.Errorf("%q", got)
	}
	out, _ = cmdtest.WantExit[commands](t, term.ExitDirectory, "", "ctl", "--nodes", file, "--json", "pause")
	for _, line := range linesOf(out) {
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		if a.Node == "gone" && (a.Code != term.ExitDirectory || a.Errors == "" || len(a.Answers) > 0) ||
			a.Node != "gone" && (a.Code != term.ExitDone || len(a.Answers) != 1) {
			t.Errorf("%s", line)
		}
	}
	// One node refuses: the code is that of bad input, and the list on standard input goes to all nodes.
	a, b := newFake(t, map[string]any{"POST /api/v1/seeds": admin.SeedsTaken{Accepted: 1}}), newFake(t, nil)
	file = nodesFile(t, "a "+a.dir, "b "+b.dir)
	_, said = cmdtest.WantExit[commands](t, term.ExitUsage, "http://s.example/\n", "ctl", "--nodes", file, "seeds",
		"--file", "-")
	for _, f := range []*fake{a, b} {
		if got := f.requests(); len(got) != 1 || !strings.Contains(got[0], "s.example") {
			t.Errorf("%q", got)
		}
	}
	if got := linesOf(said); got[0] != "b: drumbeat: it cannot be done" {
		t.Errorf("%q", got)
	}
	file = nodesFile(t, "a "+a.dir)
	if _, said = cmdtest.WantExit[commands](t, term.ExitDone, "", "ctl", "--nodes", file, "seeds",
		"s.example"); said != "done on 1 of 1 node\n" {
		t.Errorf("%q", said)
	}
}

// TestNodesOrder: a node that is away gets an order that another node has taken for all, so the command succeeds. All
// nodes get a request to erase under one name. If one node takes the order alone, it is as any other command.
func TestNodesOrder(t *testing.T) {
	for _, test := range []struct {
		taken, other admin.Everywhere
		code         int
		want         string
	}{
		{admin.Everywhere{Everywhere: true}, admin.Everywhere{Everywhere: true}, term.ExitDone,
			"done on 2 of 4 nodes; away, gone get it when they are back"},
		{admin.Everywhere{Alone: "no room"}, admin.Everywhere{Alone: "no room"}, term.ExitDirectory,
			"drumbeat: done on 2 of 4 nodes, not on away, gone"},
	} {
		a := newFake(t, map[string]any{"POST /api/v1/erase": admin.EraseTaken{Everywhere: test.taken}})
		b := newFake(t, map[string]any{"POST /api/v1/erase": admin.EraseTaken{Everywhere: test.other}})
		file := nodesFile(t, "a "+a.dir, "b "+b.dir, "gone ./nothing", "away http://127.0.0.1:1")
		_, said := cmdtest.WantExit[commands](t, test.code, "", "ctl", "--nodes", file, "erase", "--host", "a.example",
			"--reason", "x")
		if lines := linesOf(said); !slices.Contains(lines, test.want) ||
			slices.Contains(lines, "a: the other nodes of the cluster do not get this order: no room") !=
				(test.taken.Alone != "") {
			t.Errorf("%q", lines)
		}
		if x, y := a.requests(), b.requests(); len(x) != 1 || !slices.Equal(x, y) ||
			!strings.Contains(x[0], "/api/v1/erase?order=") {
			t.Errorf("%q, %q", x, y)
		}
	}
	taken := admin.Change{Everywhere: admin.Everywhere{Everywhere: true}}
	a := newFake(t, map[string]any{"POST /api/v1/blocks": taken})
	b := newFake(t, nil)
	file := nodesFile(t, "a "+a.dir, "b "+b.dir, "gone ./nothing")
	if _, said := cmdtest.WantExit[commands](t, term.ExitUsage, "", "ctl", "--nodes", file, "block",
		"host", "x.example", "y.example"); !strings.Contains(said,
		"done on 1 of 3 nodes, not on b; gone gets it when it is back") {
		t.Errorf("%q", said)
	}
	if out, _ := cmdtest.WantExit[commands](t, term.ExitDone, "", "ctl", "--dir", a.dir, "block", "host",
		"x.example"); !strings.Contains(out, "all nodes of the cluster carry it out") {
		t.Errorf("%q", out)
	}
}

// TestNodesFile: a bad line is named, and then no node is asked.
func TestNodesFile(t *testing.T) {
	f := newFake(t, nil)
	good := "good " + f.dir
	for _, test := range []struct{ line, want string }{
		{"n0", "line 2: node n0 has no place"},
		{"good elsewhere", "line 2: it has the name or the place of node good"},
		{"other " + f.dir, "line 2: it has the name or the place of node good"},
		{"n0 dir token", "line 2: node n0: token after a directory"},
		{"n0 http://127.0.0.1:1 token more", "line 2: node n0: more after the token file"},
		{"n0 ftp://127.0.0.1:1", "line 2: --url"},
		{"n0 http://127.0.0.1:1 absent", "line 2: --token-file"},
		{"n\x1b0 dir", "want at most 64 letters"},
		{strings.Repeat("n", 65) + " dir", "want at most 64 letters"},
		{strings.Repeat("#", mostNodesFile), "has more than"},
	} {
		_, said := cmdtest.WantExit[commands](t, term.ExitUsage, "", "ctl", "--nodes", nodesFile(t, good, test.line),
			"pause")
		if !strings.Contains(said, test.want) {
			t.Errorf("no %q in %q", test.want, said)
		}
	}
	if got := f.requests(); len(got) > 0 {
		t.Errorf("a node was asked: %q", got)
	}
	file := nodesFile(t, good)
	for _, args := range [][]string{{"--nodes", filepath.Join(f.dir, "absent"), "pause"},
		{"--nodes", nodesFile(t, "# none"), "pause"}, {"--nodes", file, "--dir", f.dir, "pause"},
		{"--nodes", file, "pause", f.dir}, {"--nodes", file, "--url", "http://127.0.0.1:1", "pause"},
		{"--nodes", file, "top"}} {
		args = append([]string{"ctl"}, args...)
		if _, said := cmdtest.WantExit[commands](t, term.ExitUsage, "", args...); said == "" {
			t.Errorf("%v: nothing was said", args)
		}
	}
}
