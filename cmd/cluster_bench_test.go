package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// BenchmarkCluster: the CPU time that a page takes in a crawl alone, and in one of two and three nodes over the broker of the
// first, until half of a web is fetched, so that no node waits for its last hosts. Each crawls the same web with the same options, as processes; the web's server is none of them. A cluster's
// broker takes what the first node takes more than the others for the same number of pages.
//
//	go test ./cmd -run '^$' -bench BenchmarkCluster -benchtime 1x
func BenchmarkCluster(b *testing.B) {
	for _, nodes := range []int{1, 2, 3} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				benchCluster(b, nodes)
			}
		})
	}
}

func benchCluster(b *testing.B, nodes int) {
	web, webArgs := cmdtest.SmallWeb(b, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.IPs, o.Networks = 500, 2000, 40_000, 250, 100
		o.Page.ServerError, o.Robots.ServerError, o.Robots.CrawlDelay = 0, 0, 0 // a crawl that waits for nothing
	})
	dir := b.TempDir()
	file := filepath.Join(dir, "cluster.json")
	if nodes > 1 {
		if out, err := cmdtest.Child(b.Context(), "cluster", "init", fmt.Sprintf("--nodes=%d", nodes), file).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	broker, seeds := brokerAddr(b), cmdtest.SeedFile(b, web)
	type figures struct {
		Pages int64
		cpu   time.Duration
	}
	each := make([]figures, nodes)
	var all sync.WaitGroup
	for node := range nodes {
		summary := filepath.Join(dir, fmt.Sprintf("%d.json", node))
		args := append(append([]string{}, webArgs...), "--dir="+filepath.Join(dir, fmt.Sprint(node)), "--seeds="+seeds, "--disk=4GB",
			"--connections=200", "--host-delay=0s", "--server-delay=0s", "--pld-delay=0s", "--linger=2s", "--max-pages=20000", "--admin=127.0.0.1:0", "--summary="+summary)
		switch {
		case nodes == 1:
			args = append(args, "--ram=512MiB")
		case node == 0: // 256 MiB are for the broker
			args = append(args, "--ram=768MiB", "--cluster=embed", "--cluster-listen="+broker)
		default:
			args = append(args, "--ram=512MiB", "--cluster=nats://"+broker)
		}
		if nodes > 1 {
			args = append(args, "--cluster-stream=64MiB", "--cluster-file="+file, fmt.Sprintf("--node=%d", node))
		}
		all.Go(func() {
			cmd := cmdtest.Child(b.Context(), args...)
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != term.ExitPages {
				b.Errorf("node %d: %v: %s", node, err, said.String())
				return
			}
			data, err := os.ReadFile(summary)
			if err == nil {
				err = json.Unmarshal(data, &each[node])
			}
			if err != nil {
				b.Error(err)
			}
			each[node].cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		})
	}
	all.Wait()
	var pages int64
	var cpu, others time.Duration
	for node, f := range each {
		pages, cpu = pages+f.Pages, cpu+f.cpu
		if node > 0 {
			others += f.cpu
		}
		b.Logf("node %d: %d pages, %v", node, f.Pages, f.cpu)
	}
	b.ReportMetric(float64(cpu.Microseconds())/float64(pages), "cpu-us/page")
	if rest := pages - each[0].Pages; nodes > 1 && rest > 0 {
		b.ReportMetric(float64(others.Microseconds())/float64(rest), "node-cpu-us/page")
		b.ReportMetric(float64((each[0].cpu-others*time.Duration(each[0].Pages)/time.Duration(rest)).Microseconds())/float64(pages), "broker-cpu-us/page")
	}
}
