package cmd

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/cputime"
	"drumbeat/internal/simweb"
)

var (
	clusterStart = flag.Duration("cluster.start", 2*time.Minute, "BenchmarkCluster: measure this long after the start")
	clusterTime  = flag.Duration("cluster.time", time.Minute, "BenchmarkCluster: measure for this long")
	clusterConns = flag.Int("cluster.connections", 1000, "BenchmarkCluster: --connections of each node")
	clusterNodes = flag.String("cluster.nodes", "1 2", "BenchmarkCluster: numbers of nodes")
	clusterRate  = flag.Float64("cluster.rate", 1500, "BenchmarkCluster: --rate for each node; 0: none")
)

// BenchmarkCluster: the CPU time that a request takes in a crawl alone, and in one of several nodes, and what the
// broker takes for it. All of them are processes, and the web's server is none of them. They are measured for
// a minute, -cluster.start after their start. A node has the same --rate in both, since what a process pays
// however few pages it has would count twice otherwise. With 6000 networks a few have many hosts and most
// have one; with 500 all nodes visit all networks.
//
//	go test ./cmd -run '^$' -bench BenchmarkCluster -benchtime 1x
func BenchmarkCluster(b *testing.B) {
	for _, networks := range []int{6000, 500} {
		for size := range strings.FieldsSeq(*clusterNodes) {
			nodes, err := strconv.Atoi(size)
			must(b, err)
			b.Run(fmt.Sprintf("networks=%d/nodes=%d", networks, nodes), func(b *testing.B) {
				for b.Loop() {
					benchCluster(b, networks, nodes)
				}
			})
		}
	}
}

func benchCluster(b *testing.B, networks, nodes int) {
	web, args := cmdtest.SmallWeb(b, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.IPs, o.Networks = 3000, 6000, 4_000_000, 6000, networks
		o.SeedURLs = 3000
		o.Page.ServerError, o.Robots.ServerError, o.Robots.CrawlDelay = 0, 0, 0 // a crawl that waits for nothing
	})
	dir := b.TempDir()
	args = slices.Concat(args, []string{"--seeds=" + cmdtest.SeedFile(b, web), "--disk=8GB", "--ram=512MiB",
		fmt.Sprintf("--connections=%d", *clusterConns), "--host-delay=100ms", "--server-delay=20ms", "--pld-delay=0s",
		"--checkpoint-every=10s", fmt.Sprintf("--rate=%g", *clusterRate*float64(nodes)), "--linger=2s",
		"--admin=127.0.0.1:0"})
	var all sync.WaitGroup
	start := func(cmd *exec.Cmd) int { return startMeasured(b, &all, cmd) }
	var broker int
	if nodes > 1 {
		file, listen := filepath.Join(dir, "cluster.json"), brokerAddr(b)
		if out, err := cmdtest.Child(b.Context(), "cluster", "init", fmt.Sprintf("--nodes=%d", nodes),
			file).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		cmd := exec.CommandContext(b.Context(), os.Args[0], filepath.Join(dir, "broker"), listen)
		cmd.Env = append(os.Environ(), term.ChildMode+"=broker")
		if _, err := cmd.StdinPipe(); err != nil {
			b.Fatal(err)
		}
		broker = start(cmd)
		args = append(args, "--cluster=nats://"+listen, "--cluster-stream=64MiB", "--cluster-file="+file)
	}
	var pids []int // of the nodes
	for node := range nodes {
		more := []string{"--dir=" + filepath.Join(dir, fmt.Sprint(node))}
		if nodes > 1 {
			more = append(more, fmt.Sprintf("--node=%d", node))
		}
		pids = append(pids, start(cmdtest.Child(b.Context(), slices.Concat(args, more)...)))
	}
	type figures struct {
		at            time.Time
		requests      int
		nodes, broker time.Duration
	}
	wait := func(d time.Duration) (f figures) {
		<-time.After(d)
		if b.Failed() {
			b.FailNow()
		}
		f.at = time.Now()
		f.requests, _, _ = web.Log().Totals()
		for _, pid := range pids {
			f.nodes += cpuTime(b, pid)
		}
		if broker > 0 {
			f.broker = cpuTime(b, broker)
		}
		return f
	}
	from := wait(*clusterStart)
	to := wait(*clusterTime)
	requests, took := float64(to.requests-from.requests), to.at.Sub(from.at)
	b.ReportMetric(float64((to.nodes-from.nodes).Microseconds())/requests, "node-cpu-us/request")
	b.ReportMetric(requests/took.Seconds(), "requests/s")
	b.ReportMetric((to.nodes-from.nodes+to.broker-from.broker).Seconds()/took.Seconds(), "cores")
	if broker > 0 {
		b.ReportMetric(float64((to.broker-from.broker).Microseconds())/requests, "broker-cpu-us/request")
	}
}

// startMeasured starts a process, waits for it beside the benchmark, and kills it at the end. It returns its number.
func startMeasured(b *testing.B, all *sync.WaitGroup, cmd *exec.Cmd) int {
	said := new(bytes.Buffer)
	cmd.Stderr = said
	must(b, cmd.Start())
	all.Go(func() {
		if err := cmd.Wait(); err != nil && b.Context().Err() == nil && cmd.ProcessState.ExitCode() != -1 {
			b.Errorf("%v: %v: %s", cmd.Args, err, said)
		}
	})
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		all.Wait()
	})
	return cmd.Process.Pid
}
func cpuTime(b *testing.B, pid int) time.Duration {
	d, err := cputime.Of(pid)
	must(b, err)
	return d
}
