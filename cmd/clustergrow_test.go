package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/changes"
	"drumbeat/weburl"
)

// TestClusterGrow: a crawl begins with one node. Two more join while it runs, one by one; a node is killed by kill -9
// and starts again, the hosts of a PLD are divided, and the first node leaves. No request is made twice but for those
// of the kill, no page is missing, and the accounts of the nodes that are left balance.
func TestClusterGrow(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, webArgs := cmdtest.SmallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.IPs, o.SeedURLs = 30, 45, 600, 24, 5
		o.Robots.ServerError, o.Robots.RedirectHost = 0, 0
	})
	f := newFleetOf(t, 1, web, webArgs, "--host-delay=200ms", "--server-delay=50ms", "--cluster-lease=5s")
	f.startBroker()
	f.start(0, join(f.listen)...)
	f.requests(40)
	change := func(args ...string) (*process, *sayings) {
		cmd := cmdtest.Child(f.ctx, append(append([]string{"cluster"}, args...), "--cluster=nats://"+f.listen)...)
		said := new(sayings)
		cmd.Stdout = said
		return f.run(cmd), said
	}
	done := func(p *process) {
		t.Helper()
		if <-p.ended; p.err != nil {
			t.Fatalf("%v: %s", p.err, p.said.String())
		}
	}
	for node := 1; node < fleetNodes; node++ {
		p, said := change("join", f.file)
		for !strings.Contains(said.String(), "has room for node") {
			select {
			case <-p.ended:
				t.Fatalf("%v: %s", p.err, p.said.String())
			case <-time.After(5 * time.Millisecond):
			}
		}
		f.start(node, join(f.listen)...)
		done(p)
		if node == 1 {
			f.kill(1)
			f.orderWhileAway()
			f.start(1, join(f.listen)...)
		}
	}
	p, _ := change("divide", f.file, largestPLD(web))
	done(p)
	f.kill(1)
	f.start(1, join(f.listen)...)       // with the new file
	p, _ = change("leave", f.file, "0") // with its hosts
	done(p)
	<-f.processes[0].ended
	if code := f.processes[0].ProcessState.ExitCode(); code != term.ExitDone {
		t.Errorf("the node that left ended with %d: %s", code, f.processes[0].said.String())
	}
	if !f.wait() {
		return
	}
	snap, missing, twice := web.Log().Snapshot(), 0, 0
	for url := range web.Expected("drumbeat").FetchedURLs() {
		switch n := snap.Fetches[url]; {
		case n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	t.Logf("%d URLs fetched twice after two kills", twice)
	if missing > 0 || twice > 120 {
		t.Errorf("%d URLs are missing, %d were fetched twice", missing, twice)
	}
	checkGrown(t, f)
}

// largestPLD returns the PLD of a web with the most pages.
func largestPLD(web *simweb.Web) (largest string) {
	pages := map[string]int{}
	for url := range web.Expected("drumbeat").FetchedURLs() {
		pld := weburl.NewSuffixes(false).PLD(string(weburl.Split([]byte(url)).Host))
		if pages[pld]++; pages[pld] > pages[largest] || pages[pld] == pages[largest] && pld < largest {
			largest = pld
		}
	}
	return largest
}

// orderedHost is a host that no page names.
const orderedHost = "never.test"

// orderWhileAway gives an order to node 0 while node 1 is away and node 2 has not joined.
func (f *fleet) orderWhileAway() {
	f.t.Helper()
	nodes := filepath.Join(f.dir, "nodes")
	if err := os.WriteFile(nodes, []byte("n0 "+f.nodeDir(0)+"\nn1 "+f.nodeDir(1)+"\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
	for {
		cmd := cmdtest.Child(f.ctx, "ctl", "--nodes="+nodes, "block", "host", orderedHost)
		said, err := cmd.CombinedOutput()
		switch {
		case err == nil && strings.Contains(string(said), "done on 1 of 2 nodes; n1 gets it when it is back"):
			return
		case f.ctx.Err() != nil || !strings.Contains(string(said), "not running"): // node 0 begins again with the table
			f.t.Fatalf("%v: %s", err, said)
		}
	}
}

// checkGrown audits the three nodes, and looks for the order. The first node has left.
func checkGrown(t *testing.T, f *fleet) {
	t.Helper()
	dirs := []string{filepath.Join(f.dir, "0"), filepath.Join(f.dir, "1"), filepath.Join(f.dir, "2")}
	for _, dir := range dirs {
		s, err := changes.Read(disk.OS(), filepath.Join(dir, state.ChangesName))
		if err != nil || len(s.Blocked) != 1 || s.Orders["- host "+orderedHost].Stamp == 0 {
			t.Errorf("%s has not carried out the order: %+v, %v", dir, s, err)
		}
		wantExit(t, term.ExitDone, "balanced", "audit", "--deep", dir)
	}
	// The node that left has an older table of owners.
	out, _ := wantExit(t, term.ExitDone, "balanced", append([]string{"cluster", "audit", "--deep",
		"--cluster-file=" + f.file}, dirs...)...)
	if !strings.Contains(out, "node 0 has departed: ") || strings.Contains(out, "missing") {
		t.Errorf("cluster audit with the node that left: %s", out)
	}
}
