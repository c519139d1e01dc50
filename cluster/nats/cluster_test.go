//go:build !noembed

package nats

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"drumbeat/cluster"
	"drumbeat/cluster/transporttest"
)

// testCluster is three servers on loopback.
type testCluster struct {
	t       *testing.T
	conf    [3]*natsserver.Options
	servers [3]*natsserver.Server
	urls    []string
}

// newCluster starts servers with the options that conf returns, given the ports of all for clients and then for routes.
func newCluster(t *testing.T, scheme string, conf func(i int, ports [6]int) *natsserver.Options) *testCluster {
	t.Helper()
	c := &testCluster{t: t}
	ports := [6]int(freePorts(t, 6))
	for i := range c.conf {
		c.conf[i] = conf(i, ports)
		c.urls = append(c.urls, fmt.Sprintf("%s://127.0.0.1:%d", scheme, ports[i]))
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.stop(i)
		}
	})
	for _, s := range c.servers {
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("a server does not start")
		}
	}
	return c
}

// freePorts returns ports of loopback: a server of a cluster must know its routes at the start.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	var hold []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		hold = append(hold, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range hold {
		l.Close()
	}
	return ports
}

// plain returns a function for newCluster of servers without TLS.
func plain(t *testing.T) func(i int, ports [6]int) *natsserver.Options {
	dir := t.TempDir()
	return func(i int, ports [6]int) *natsserver.Options {
		var routes []*url.URL
		for _, port := range ports[3:] {
			routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)})
		}
		return &natsserver.Options{ServerName: fmt.Sprint("s", i), Host: "127.0.0.1", Port: ports[i], NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint(i)), SyncInterval: time.Minute, Routes: routes,
			Cluster: natsserver.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: ports[3+i]}}
	}
}

func (c *testCluster) start(i int) {
	s, err := natsserver.NewServer(c.conf[i].Clone())
	if err != nil {
		c.t.Fatal(err)
	}
	s.Start()
	c.servers[i] = s
}

func (c *testCluster) stop(i int) {
	c.servers[i].Shutdown()
	c.servers[i].WaitForShutdown()
}

// ready waits until the cluster has a leader and knows the buckets.
func (c *testCluster) ready(e *Transport) {
	c.t.Helper()
	for b := range cluster.Buckets {
		c.retry(func() error {
			_, err := e.Get(c.t.Context(), b, "k")
			if errors.Is(err, cluster.ErrNotFound) {
				return nil
			}
			return err
		})
	}
}

// retry repeats f until it returns no error.
func (c *testCluster) retry(f func() error) {
	c.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var err error
	for range 1200 {
		if err = f(); err == nil {
			return
		}
		<-tick.C
	}
	c.t.Fatal(err)
}

var long = flag.Bool("long", false, "run the contract against a cluster of three servers")

// TestCluster runs the contract against three servers with three replicas. An own node makes the streams first:
// the first messages to a stream whose leader is being elected are lost without an answer.
func TestCluster(t *testing.T) {
	if !*long {
		t.Skip("use -args -long")
	}
	t.Parallel()
	c := newCluster(t, "nats", plain(t))
	c.ready(open(t, Options{Crawl: "t", URLs: c.urls, Replicas: 3}))
	for i, test := range transporttest.Tests() {
		t.Run(test.Name, func(t *testing.T) {
			maker := open(t, Options{Crawl: fmt.Sprint("t", i), Node: 99, URLs: c.urls, Replicas: 3})
			c.ready(maker)
			for to := range 3 {
				c.retry(func() error { return maker.Purge(t.Context(), to, 2) })
			}
			test.Run(t,
				transporttest.Broker{StreamBytes: testStream, Lags: true, Open: func(node int) cluster.Transport {
					return open(t, Options{Crawl: fmt.Sprint("t", i), Node: node, URLs: c.urls, Replicas: 3})
				}})
		})
	}
}

// TestReplicas: a node that forgot --cluster-replicas makes streams and values with one copy. The next one
// that has it gives them all copies. The first is told that it has another option, once, and takes nothing
// away.
func TestReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 3 s")
	}
	t.Parallel()
	c := newCluster(t, "nats", plain(t))
	var mu sync.Mutex
	var warned []string
	warn := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(text, "--cluster-replicas") {
			warned = append(warned, text)
		}
	}
	names := []string{"KV_DB_t", "KV_DB_t_net", "DB_t_0", "DB_t_1"}
	use := func(node, replicas int) *Transport {
		e := open(t, Options{Crawl: "t", Node: node, URLs: c.urls, Replicas: replicas, Warn: warn})
		c.ready(e)
		for to := range 2 {
			c.retry(func() error { return e.Purge(t.Context(), to, 2) })
		}
		return e
	}
	copies := func(e *Transport, want int) {
		t.Helper()
		for _, name := range names {
			c.retry(func() error {
				s, err := e.js.Stream(t.Context(), name)
				if err == nil && s.CachedInfo().Config.Replicas != want {
					err = fmt.Errorf("%s has %d copies, want %d", name, s.CachedInfo().Config.Replicas, want)
				}
				return err
			})
		}
	}
	copies(use(0, 1), 1)
	if len(warned) > 0 {
		t.Errorf("a node alone was warned: %q", warned)
	}
	right := use(1, 3)
	copies(right, 3)
	c.retry(func() error { _, err := right.Put(t.Context(), cluster.BucketCrawl, "k", []byte("v")); return err })
	if len(warned) > 0 {
		t.Errorf("the node with three copies was warned: %q", warned)
	}
	copies(use(0, 1), 3)
	if len(warned) != 1 || !strings.Contains(warned[0], "keeps 3 copies") {
		t.Errorf("the node that forgot it was told: %q", warned)
	}
}

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
