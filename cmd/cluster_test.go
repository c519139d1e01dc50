package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// fleetWeb serves a web of 1,500 pages on 60 hosts, and returns the flags that crawl it.
func fleetWeb(t *testing.T) (*simweb.Web, []string) {
	return cmdtest.SmallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages = 30, 60, 1500
		o.Robots.RedirectHost, o.Robots.ServerError = 0, 0 // two nodes would ask one host
	})
}

// TestClusterKill: three processes crawl as one, over the broker of the first. Each is killed by kill -9
// once, the broker with the first. Together they fetch each URL, and each deep audit balances.
func TestClusterKill(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, webArgs := fleetWeb(t)
	f := newFleet(t, web, webArgs, "--host-delay=20ms", "--server-delay=1ms", "--cluster-lease=6s")
	flags := [fleetNodes][]string{f.embed(), join(f.listen), join(f.listen)}
	for node := range fleetNodes {
		f.start(node, flags[node]...)
	}
	for node := range fleetNodes {
		f.requests(300 * (node + 1))
		f.kill(node)
		f.start(node, flags[node]...)
	}
	if !f.wait() {
		return
	}
	for node := range fleetNodes {
		out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", f.nodeDir(node))
		if !strings.Contains(out, "balanced") {
			t.Errorf("audit of node %d: %s", node, out)
		}
	}
	f.check(outsideLimits{host: 20 * time.Millisecond})
}

// TestClusterRoutes: three processes, each with a server of its own, crawl as one. Each is killed by kill -9
// once, with its server, and the others continue.
func TestClusterRoutes(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, webArgs := fleetWeb(t)
	f := newFleet(t, web, webArgs, "--host-delay=20ms", "--server-delay=1ms", "--cluster-lease=6s",
		"--cluster-replicas=3", "--cluster-sync=1m")
	var routes, listen [fleetNodes]string
	for node := range fleetNodes {
		routes[node] = brokerAddr(t)
		f.args = append(f.args, "--cluster-routes="+routes[node])
	}
	start := func(node int) {
		f.start(node, "--ram=448MiB", "--cluster=embed", "--cluster-listen="+listen[node],
			"--cluster-route-listen="+routes[node])
	}
	for node := range fleetNodes {
		listen[node] = brokerAddr(t)
		start(node)
	}
	for node := range fleetNodes {
		f.requests(200 * (node + 1)) // some 1,500 in all: URLs are left for the nodes that are not killed
		f.kill(node)
		f.requests(200*(node+1) + 60) // two servers of three are enough
		start(node)
	}
	if f.wait() {
		f.check(outsideLimits{host: 20 * time.Millisecond})
	}
}

// TestClusterPages: three processes stop at a limit of pages that holds for all of them. A process with
// another option is refused with exit code 4, and cluster status shows the nodes meanwhile.
func TestClusterPages(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, webArgs := fleetWeb(t)
	const nodes, limit = 3, 300
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.json")
	wantExit(t, term.ExitDone, "", "cluster", "init", "--nodes=3", file)
	broker := "nats://" + brokerAddr(t)
	seeds := cmdtest.SeedFile(t, web)
	args := func(node int, more ...string) []string {
		list := append([]string{}, webArgs...)
		list = append(list, fmt.Sprintf("--dir=%s", filepath.Join(dir, fmt.Sprint(node))), "--seeds="+seeds,
			"--disk=4GB", "--cluster-stream=64MiB", "--checkpoint-every=1s", "--linger=2s", "--admin=127.0.0.1:0",
			"--host-delay=200ms", "--server-delay=1ms", "--cluster-file="+file, fmt.Sprintf("--node=%d", node),
			fmt.Sprintf("--max-pages=%d", limit), "--rate=60", "--cluster-lease=5s",
			fmt.Sprintf("--summary=%s", filepath.Join(dir, fmt.Sprintf("%d.json", node))))
		if node == 0 { // 256 MiB are for the broker
			list = append(list, "--ram=448MiB", "--cluster=embed",
				"--cluster-listen="+strings.TrimPrefix(broker, "nats://"))
		} else {
			list = append(list, "--ram=192MiB", "--cluster="+broker)
		}
		return append(list, more...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var ended sync.WaitGroup
	start := func(node int) {
		cmd := cmdtest.Child(ctx, args(node)...)
		var said bytes.Buffer
		cmd.Stderr = &said
		must(t, cmd.Start())
		ended.Go(func() {
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != term.ExitPages {
				t.Errorf("node %d: %v: %s", node, err, said.String())
				cancel()
			}
		})
	}
	start(0)
	// Its configuration is that of the cluster. It need not have a seed.
	for said := []byte{}; !bytes.Contains(said, []byte(`"configs": 1`)) &&
		ctx.Err() == nil; <-time.After(100 * time.Millisecond) {
		// Fails at first.
		said, _ = cmdtest.Child(ctx, "cluster", "status", file, "--cluster="+broker, "--json").Output()
	}
	refused, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	cmd := cmdtest.Child(refused, args(1, "--max-depth=3")...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // with its goroutines
	said, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != term.ExitDirectory ||
		!bytes.Contains(said, []byte("depth is 3 here, ")) {
		t.Errorf("another depth: %v: %s", err, said)
	}
	start(1)
	start(2)
	out, err := cmdtest.Child(ctx, "cluster", "status", file, "--cluster="+broker).Output() // fails without all reports
	if !bytes.Contains(out, []byte("3 nodes: ")) || !bytes.Contains(out, []byte("pages/s")) {
		t.Errorf("status: %v: %s", err, out)
	}
	ended.Wait()
	sum := pagesOf(t, dir, nodes)
	if sum != limit {
		t.Errorf("%d pages, want %d", sum, limit)
	}
}

// pagesOf adds the pages of the nodes' summaries.
func pagesOf(t *testing.T, dir string, nodes int) int64 {
	t.Helper()
	sum := int64(0)
	for node := range nodes {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.json", node)))
		must(t, err)
		var figures struct{ Pages int64 }
		must(t, json.Unmarshal(data, &figures))
		sum += figures.Pages
	}
	return sum
}

// checkClusterAudit audits the nodes together, from their directories and from the JSON of each.
func checkClusterAudit(t *testing.T, dir, file string, nodes int) {
	t.Helper()
	var dirs, files []string
	for node := range nodes {
		dirs = append(dirs, filepath.Join(dir, fmt.Sprint(node)))
		out, _ := wantExit(t, term.ExitDone, "", "audit", "--json", dirs[node])
		files = append(files, filepath.Join(dir, fmt.Sprintf("%d.json", node)))
		must(t, os.WriteFile(files[node], []byte(out), 0o600))
	}
	for _, args := range [][]string{append([]string{"--deep", "--cluster-file=" + file}, dirs...), files,
		append([]string{files[0]}, dirs[1:]...)} {
		out, _ := wantExit(t, term.ExitDone, "", append([]string{"cluster", "audit"}, args...)...)
		if !strings.Contains(out, "3 of 3 nodes, 6 pairs: balanced") ||
			!strings.Contains(out, " 0 and 0 are in outboxes") {
			t.Errorf("cluster audit %v: %s", args, out)
		}
	}
	out, _ := wantExit(t, term.ExitDone, "", "cluster", "audit", "--json", dirs[0], files[2])
	if !strings.Contains(out, `"missing": [
    1
  ]`) {
		t.Errorf("without node 1: %s", out)
	}
	wantExit(t, term.ExitDirectory, "", "cluster", "audit", dirs[0], files[0])
	wantExit(t, term.ExitUsage, "", append([]string{"cluster", "audit", "--deep"}, dirs...)...)
	wantExit(t, term.ExitUsage, "", "cluster", "audit", file)
}
