package crawl

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/mem"
	"drumbeat/disk/memfs"
	"drumbeat/weburl"
)

// TestIdleEnd: node 0 has told that it is idle, since its only host is due in minutes. The host comes back
// while node 1, which follows a chain of n pages, ends. Both nodes end, and together, whenever that is: node
// 1 does not end before it has taken what node 0 sends.
func TestIdleEnd(t *testing.T) {
	t.Parallel()
	step := 24
	if testing.Short() {
		step = 240
	}
	for n := 240; n <= 480; n += step {
		inBubble(t, func(t *testing.T) { idleEnd(t, n) })
	}
}

func idleEnd(t *testing.T, n int) {
	table, err := cluster.NewTable([]float64{1, 1})
	must(t, err)
	h := weburl.NewHasher(weburl.Secret{1, 2})
	name := func(node int, prefix string) string {
		for i := 0; ; i++ {
			if n := fmt.Sprintf("%s%d.test", prefix, i); table.Owner(h.PLDKey([]byte(n))) == node {
				return n
			}
		}
	}
	down, chain, other := name(0, "down"), name(1, "chain"), name(1, "other")
	began, w := time.Now(), &insideWeb{}
	w.Serve = func(host, path string) answer {
		switch {
		case host == down && time.Since(began) < 6*time.Minute:
			return answer{503, "", ""}
		case path == "/robots.txt":
			return noRobots
		case host == down:
			return answer{200, "", fmt.Sprintf("<a href=http://%s/a></a><a href=http://%s/b></a>", other, other)}
		case host == chain:
			var i int
			if _, err := fmt.Sscanf(path, "/%d", &i); err == nil && i < n {
				return answer{200, "", fmt.Sprintf("<a href=/%d></a>", i+1)}
			}
		}
		return answer{200, "", "x"}
	}
	base := w.options(t, "http://"+down+"/", "http://"+chain+"/0")
	net := mem.New(mem.Options{Seed: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Hour)
	defer cancel()
	var wg sync.WaitGroup
	var stops [2]string
	for node := range 2 {
		o := base
		o.Disk.FS = memfs.New(uint64(node) + 1)
		o.Politeness.HostDelay, o.Politeness.HostDelayMin = time.Second, time.Second
		o.Observe.Control, o.Limits.MaxTime = nil, 0
		o.Disk.CheckpointEvery, o.Limits.Linger = time.Minute, 5*time.Second
		e := net.Transport(node)
		defer e.Close()
		o.Cluster = &Cluster{Node: node, Table: table, Crawl: 7, Secret: weburl.Secret{1, 2}, Transport: e,
			LeaseTTL: time.Minute}
		wg.Go(func() {
			r, err := Run(ctx, o)
			if err != nil {
				t.Error(err)
				return
			}
			stops[node] = r.Stop
		})
	}
	wg.Wait()
	for node, stop := range stops {
		if stop != StopDone {
			t.Errorf("chain of %d pages: node %d: %q", n, node, stop)
		}
	}
	answered, sent := false, len(w.Got(other, "/a"))+len(w.Got(other, "/b"))
	for _, r := range w.Got(down, "/") {
		answered = answered || r.At.Sub(began) >= 6*time.Minute
	}
	if want := map[bool]int{true: 2}[answered]; sent != want {
		t.Errorf("chain of %d pages: %d requests for the links of the host that came back, want %d", n, sent, want)
	}
}
