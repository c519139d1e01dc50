package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
	"drumbeat/weburl"
)

// nodeOfTwo is the command of a node; node 0 has the broker.
func nodeOfTwo(ctx context.Context, webArgs []string, node int, broker string, more ...string) *exec.Cmd {
	args := append(slices.Concat(webArgs, more), "--disk=4GB", "--cluster-stream=64MiB", "--checkpoint-every=1s",
		"--linger=2s", "--admin=127.0.0.1:0", "--host-delay=50ms", "--server-delay=1ms", "--cluster-lease=5s",
		fmt.Sprintf("--node=%d", node))
	if node == 0 { // 256 MiB are for the broker
		args = append(args, "--ram=448MiB", "--cluster=embed", "--cluster-listen="+broker)
	} else {
		args = append(args, "--ram=192MiB", "--cluster=nats://"+broker)
	}
	return cmdtest.Child(ctx, args...)
}

// auditTwo audits the nodes together; the output must have the texts.
func auditTwo(t *testing.T, when, file string, dirs, want []string) {
	t.Helper()
	out, _ := wantExit(t, term.ExitDone, "",
		append([]string{"cluster", "audit", "--deep", "--cluster-file=" + file}, dirs...)...)
	for _, text := range append(want, "2 of 2 nodes, 2 pairs: balanced", ", 0 do not; ", " 0 on two nodes") {
		if !strings.Contains(out, text) {
			t.Errorf("%s: no %q in %s", when, text, out)
		}
	}
}

// TestClusterMove: two processes crawl as one and are stopped in order, as by Ctrl-C. Slots move, as the
// guide has it, the nodes are audited together, with --deep, and continue to the end: each URL is fetched
// once, and the nodes balance again.
func TestClusterMove(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, webArgs := cmdtest.SmallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages = 20, 40, 800
		o.Robots.RedirectHost, o.Robots.ServerError = 0, 0
	})
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.json")
	wantExit(t, term.ExitDone, "", "cluster", "init", "--nodes=2", file)
	broker, seeds := brokerAddr(t), cmdtest.SeedFile(t, web)
	dirs := []string{filepath.Join(dir, "n0"), filepath.Join(dir, "n1")}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	requests := func() int { n, _, _ := web.Log().Totals(); return n }
	// run runs both nodes, and stops them in order after a number of requests; 0: until they end.
	run := func(most int) {
		t.Helper()
		code := term.ExitDone
		var processes []*exec.Cmd
		var said [2]bytes.Buffer
		for node := range dirs {
			cmd := nodeOfTwo(ctx, webArgs, node, broker, "--dir="+dirs[node], "--seeds="+seeds, "--cluster-file="+file)
			cmd.Stderr = &said[node]
			must(t, cmd.Start())
			processes = append(processes, cmd)
		}
		if most > 0 {
			code = term.ExitSignal
			for requests() < most && ctx.Err() == nil {
				<-time.After(10 * time.Millisecond)
			}
			for _, cmd := range processes {
				must(t, cmd.Process.Signal(syscall.SIGINT))
			}
		}
		var wg sync.WaitGroup
		for node, cmd := range processes {
			wg.Go(func() {
				err := cmd.Wait()
				var exit *exec.ExitError
				if got := cmd.ProcessState.ExitCode(); err != nil && !errors.As(err, &exit) || got != code {
					t.Errorf("node %d: exit code %d, want %d: %v: %s", node, got, code, err, said[node].String())
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	audit := func(when string, want ...string) {
		t.Helper()
		auditTwo(t, when, file, dirs, want)
	}
	run(250)
	audit("before")
	out, _ := wantExit(t, term.ExitDone, "", "cluster", "move", "--slots", largestHalf(t, file, web), "--from", "0",
		"--to", "1", file, dirs[0], dirs[1])
	if !strings.Contains(out, "that were done on other nodes moved here") || !strings.Contains(out, "next: copy") {
		t.Errorf("move: %s", out)
	}
	audit("after the move", "URLs that were done before their slots moved")
	run(requests() + 150)
	audit("stopped again", "URLs that were done before their slots moved")
	run(0)
	audit("at the end", "URLs that were done before their slots moved", " 0 and 0 are in outboxes")
	checkOnce(t, web)
}

// largestHalf returns the half of the slots with the largest PLD of node 0, which has fetched some of its pages.
func largestHalf(t *testing.T, file string, web *simweb.Web) string {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	f, err := cluster.DecodeFile(data)
	must(t, err)
	h, suffixes, pages, largest := weburl.NewHasher(f.Secret), weburl.NewSuffixes(false), map[int]int{}, 0
	for url := range web.Expected("drumbeat").FetchedURLs() {
		slot := weburl.Slot(h.PLDKey(suffixes.PLDBytes(weburl.Split([]byte(url)).Host)))
		if f.Table.OwnerOf(slot) != 0 {
			continue
		}
		if pages[slot]++; pages[slot] > pages[largest] {
			largest = slot
		}
	}
	if largest < cluster.Slots/2 {
		return "0-2047"
	}
	return "2048-4095"
}

// checkOnce requires that each URL was fetched once.
func checkOnce(t *testing.T, web *simweb.Web) {
	t.Helper()
	snap, want, wrong := web.Log().Snapshot(), web.Expected("drumbeat"), 0
	for url := range want.FetchedURLs() {
		if snap.Fetches[url] != 1 {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d URLs were not fetched once", wrong, want.Fetched)
	}
}
