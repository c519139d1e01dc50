package cmd

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// TestClusterKill: three processes crawl as one, over the broker of the first. Each is killed by kill -9 once, the broker
// with the first. Together they fetch each URL, and each deep audit balances.
func TestClusterKill(t *testing.T) {
	if testing.Short() {
		t.Skip("three processes take seconds of a processor")
	}
	t.Parallel()
	web, webArgs := cmdtest.SmallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages = 30, 60, 1500
		o.Robots.RedirectHost, o.Robots.ServerError = 0, 0 // two nodes would ask one host
	})
	const nodes = 3
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.json")
	wantExit(t, term.ExitDone, "", "cluster", "init", "--nodes=3", file)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broker := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	seeds := cmdtest.SeedFile(t, web)
	args := func(node int) []string {
		list := append([]string{}, webArgs...)
		list = append(list, fmt.Sprintf("--dir=%s", filepath.Join(dir, fmt.Sprint(node))), "--seeds="+seeds, "--ram=192MiB",
			"--checkpoint-every=1s", "--linger=2s", "--admin=127.0.0.1:0", "--host-delay=20ms", "--server-delay=1ms", "--cluster-lease=6s", "--cluster-file="+file, fmt.Sprintf("--node=%d", node))
		if node == 0 {
			return append(list, "--cluster=embed", "--cluster-listen="+broker)
		}
		return append(list, "--cluster=nats://"+broker)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	requests := func() int { n, _, _ := web.Log().Totals(); return n }
	var wg sync.WaitGroup
	var kills sync.Map
	for node := range nodes {
		wg.Go(func() {
			for run := 0; ; run++ {
				cmd := cmdtest.Child(ctx, args(node)...)
				var said bytes.Buffer
				cmd.Stderr = &said
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				for run == 0 && requests() < 300*(node+1) {
					select {
					case err := <-ended:
						ended <- err
						run = 1 // too early
					case <-time.After(5 * time.Millisecond):
					}
				}
				if run == 0 {
					_ = cmd.Process.Kill() // it may have ended
					<-ended
					kills.Store(node, true)
					continue
				}
				if err := <-ended; err != nil {
					t.Errorf("node %d: %v: %s", node, err, said.String())
					cancel()
				}
				return
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	snap, want := web.Log().Snapshot(), web.Expected("drumbeat")
	missing, twice := 0, 0
	for url := range want.FetchedURLs() {
		switch n := snap.Fetches[url]; {
		case n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	for url := range snap.Fetches {
		if fetched, _, _ := want.Has(url); !fetched {
			t.Errorf("fetched, but must not be: %s", url)
		}
	}
	for node := range nodes {
		out, _ := wantExit(t, term.ExitDone, "", "audit", "--deep", filepath.Join(dir, fmt.Sprint(node)))
		if !strings.Contains(out, "balanced") {
			t.Errorf("audit of node %d: %s", node, out)
		}
	}
	killed := 0
	kills.Range(func(any, any) bool { killed++; return true })
	t.Logf("%d kills; %d URLs, %d fetched more than once", killed, want.Fetched, twice)
	if missing > 0 || killed < nodes || twice > want.Fetched/2 {
		t.Errorf("%d of %d URLs missing, %d fetched more than once, %d nodes killed", missing, want.Fetched, twice, killed)
	}
}
