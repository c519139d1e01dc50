package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// TestClusterReplace: a node is killed by kill -9, and its directory deleted. Its last backup takes its place while the
// two others run. The crawl ends, and the accounts of all nodes balance.
func TestClusterReplace(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, webArgs := cmdtest.SmallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.IPs, o.SeedURLs, o.Robots.ServerError = 30, 45, 450, 24, 30, 0
	})
	place := filepath.Join(t.TempDir(), "place")
	f := newFleet(t, web, webArgs, "--host-delay=50ms", "--server-delay=50ms", "--cluster-lease=5s", "--backup="+place,
		"--backup-every=1s")
	f.startBroker()
	for node := range fleetNodes {
		f.start(node, join(f.listen)...)
	}
	f.requests(web.Expected("drumbeat").Fetched / 4)
	for len(globbed(t, place+"/node-1/latest")) == 0 {
		select {
		case <-f.ctx.Done():
			t.Fatalf("no backup: %v", globbed(t, place+"/node-1/*"))
		case <-time.After(5 * time.Millisecond):
		}
	}
	f.kill(1)
	must(t, os.RemoveAll(f.nodeDir(1)))
	out, _ := wantExit(t, term.ExitDone, "has its place in the cluster", "cluster", "replace", "1", "--from="+place,
		"--cluster-file="+f.file, "--cluster=nats://"+f.listen, "--dir="+f.nodeDir(1))
	if !strings.Contains(out, "restored backup") || !strings.Contains(out, "begin incarnation 1 of node 1") {
		t.Errorf("cluster replace says %s", out)
	}
	for _, node := range []int{0, 2} {
		select {
		case <-f.processes[node].ended:
			t.Fatalf("node %d ended: %s", node, f.processes[node].said.String())
		default:
		}
	}
	f.start(1, join(f.listen)...)
	if f.wait() {
		checkClusterAudit(t, f.dir, f.file, fleetNodes)
	}
}
