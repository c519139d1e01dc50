//go:build !noembed

package nats

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"drumbeat/exchange"
	"drumbeat/exchange/enginetest"
)

// cluster is three servers on loopback.
type cluster struct {
	t       *testing.T
	conf    [3]*natsserver.Options
	servers [3]*natsserver.Server
	urls    []string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
	dir := t.TempDir()
	// A server of a cluster must know its routes at the start, so the ports are chosen here.
	var ports [6]int
	var hold []net.Listener
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		hold = append(hold, l)
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	for _, l := range hold {
		l.Close()
	}
	var routes []*url.URL
	for _, port := range ports[3:] {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)})
	}
	for i := range c.conf {
		c.conf[i] = &natsserver.Options{ServerName: fmt.Sprint("s", i), Host: "127.0.0.1", Port: ports[i], NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint(i)), SyncInterval: time.Minute, Routes: routes,
			Cluster: natsserver.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: ports[3+i]}}
		c.urls = append(c.urls, fmt.Sprint("nats://127.0.0.1:", ports[i]))
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

func (c *cluster) start(i int) {
	s, err := natsserver.NewServer(c.conf[i].Clone())
	if err != nil {
		c.t.Fatal(err)
	}
	s.Start()
	c.servers[i] = s
}

func (c *cluster) stop(i int) {
	c.servers[i].Shutdown()
	c.servers[i].WaitForShutdown()
}

// ready waits until the cluster has a leader and knows the buckets.
func (c *cluster) ready(e *Engine) {
	c.t.Helper()
	for b := range exchange.Buckets {
		c.retry(func() error {
			_, err := e.Get(c.t.Context(), b, "k")
			if errors.Is(err, exchange.ErrNotFound) {
				return nil
			}
			return err
		})
	}
}

// retry repeats f until it returns no error.
func (c *cluster) retry(f func() error) {
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
	c := newCluster(t)
	c.ready(open(t, Options{Crawl: "t", URLs: c.urls, Replicas: 3}))
	for i, test := range enginetest.Tests() {
		t.Run(test.Name, func(t *testing.T) {
			maker := open(t, Options{Crawl: fmt.Sprint("t", i), Node: 99, URLs: c.urls, Replicas: 3})
			c.ready(maker)
			for to := range 3 {
				c.retry(func() error { return maker.Purge(t.Context(), to, 2) })
			}
			test.Run(t, enginetest.Broker{StreamBytes: testStream, Lags: true, Open: func(node int) exchange.Engine {
				return open(t, Options{Crawl: fmt.Sprint("t", i), Node: node, URLs: c.urls, Replicas: 3})
			}})
		})
	}
}
