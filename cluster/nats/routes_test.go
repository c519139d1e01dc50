//go:build !noembed

package nats

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
)

// routed is three nodes that embed the servers of a crawl, with TLS.
type routed struct {
	t     *testing.T
	opt   [3]Options
	nodes [3]*Transport
	urls  []string
}

func newRouted(t *testing.T, a *authority) *routed {
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	a.make("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: both})
	ports := freePorts(t, 6)
	r := &routed{t: t}
	var routes []string
	for _, port := range ports[3:] {
		routes = append(routes, fmt.Sprint("127.0.0.1:", port))
	}
	for i := range r.opt {
		listen := fmt.Sprint("127.0.0.1:", ports[i])
		r.urls = append(r.urls, "tls://"+listen)
		r.opt[i] = Options{Node: i, Crawl: "t", StreamBytes: testStream, Replicas: 3, CA: a.file("ca.pem"),
			Embed: &Embed{Dir: filepath.Join(t.TempDir(), "broker"), Listen: listen, Cert: a.file("server.pem"),
				Key: a.file("server.key"), Sync: time.Minute, Routes: routes, RouteListen: routes[i]}}
	}
	return r
}

func (r *routed) start(i int) {
	r.t.Helper()
	e, err := Open(r.opt[i])
	if err != nil {
		r.t.Fatal(err)
	}
	r.nodes[i] = e
}

func (r *routed) stop(i int) {
	if e := r.nodes[i]; e != nil {
		if err := e.Close(); err != nil {
			r.t.Error(err)
		}
	}
	r.nodes[i] = nil
}

// check requires the values and messages of n nodes.
func (c *testCluster) check(e *Transport, n int) {
	c.t.Helper()
	for i := range n {
		c.retry(func() error {
			v, err := e.Get(c.t.Context(), cluster.BucketCrawl, fmt.Sprint("k", i))
			if err == nil && string(v.Data) != "v" {
				err = fmt.Errorf("got %q", v.Data)
			}
			return err
		})
	}
	seen := map[byte]bool{}
	c.retry(func() error {
		in, err := e.Read(c.t.Context(), 2, 0)
		if err != nil {
			return err
		}
		defer in.Close()
		for len(seen) < n {
			m, err := in.Next(c.t.Context())
			if err != nil {
				return err
			}
			seen[m.Data[0]] = true
		}
		return nil
	})
}

// refuseStranger: a server with a certificate of somebody else finds no others.
func (r *routed) refuseStranger() {
	r.t.Helper()
	stranger := newAuthority(r.t)
	s := newRouted(r.t, stranger)
	o := s.opt[0]
	o.Embed.Routes = append([]string{o.Embed.RouteListen}, r.opt[0].Embed.Routes[:2]...)
	other, err := Open(o)
	if err != nil {
		r.t.Fatal(err)
	}
	defer other.Close()
	if n := other.server.(embedded).s.NumRoutes(); n != 0 {
		r.t.Errorf("a server with another certificate has %d routes", n)
	}
	if _, err := other.Get(r.t.Context(), cluster.BucketCrawl, "k0"); !errors.Is(err, cluster.ErrAway) {
		r.t.Errorf("a server with another certificate: %v, want %v", err, cluster.ErrAway)
	}
	if n := other.server.(embedded).s.NumRoutes(); n != 0 {
		r.t.Errorf("a server with another certificate has %d routes after a while", n)
	}
}

// TestRoutes: three embedded servers keep values and messages while one of them is away, need two, and let in
// only servers with a certificate.
func TestRoutes(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	a := newAuthority(t)
	r := newRouted(t, a)
	t.Cleanup(func() {
		for i := range r.nodes {
			r.stop(i)
		}
	})
	r.start(0)
	if _, err := r.nodes[0].Put(t.Context(), cluster.BucketCrawl, "k", []byte("v")); !errors.Is(err, cluster.ErrAway) {
		t.Errorf("a server alone: %v, want %v", err, cluster.ErrAway)
	}
	r.start(1)
	r.start(2)
	a.make("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	// A node without a server knows them all.
	client := open(t,
		Options{Node: 3, Crawl: "t", StreamBytes: testStream, Replicas: 3, URLs: r.urls, CA: a.file("ca.pem"),
			Cert: a.file("client.pem"), Key: a.file("client.key"), retry: 50 * time.Millisecond})
	c := &testCluster{t: t}
	all := append(r.nodes[:], client)
	for i, e := range all {
		c.retry(func() error { return <-e.Publish(t.Context(), 2, i, fmt.Sprint("m", i), []byte{byte(i)}) })
		c.retry(func() error {
			_, err := e.Put(t.Context(), cluster.BucketCrawl, fmt.Sprint("k", i), []byte("v"))
			return err
		})
	}
	for i := range r.nodes { // each in turn
		r.stop(i)
		c.check(client, len(all))
		c.check(r.nodes[(i+1)%3], len(all))
		r.start(i)
		c.retry(func() error {
			_, err := r.nodes[i].Put(t.Context(), cluster.BucketCrawl, "again", []byte("v"))
			return err
		})
		c.check(r.nodes[i], len(all))
	}
	r.refuseStranger()
}

// TestRouteOptions: each fault of routes is refused by a text that names it.
func TestRouteOptions(t *testing.T) {
	t.Parallel()
	near := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	far := []string{"n1:6222", "n2:6222", "n3:6222"}
	with := func(replicas int, ca, cert, listen string, own string, routes ...string) Options {
		return Options{Crawl: "c", Replicas: replicas, CA: ca, Seed: "s",
			Embed: &Embed{Dir: "d", Listen: listen, Cert: cert, Key: cert, Routes: routes, RouteListen: own}}
	}
	for i, o := range []Options{with(3, "", "", "127.0.0.1:0", near[1], near...),
		with(1, "", "", "127.0.0.1:0", near[1], near...), with(3, "ca", "c", "n1:4222", far[0], far...)} {
		if err := o.Validate(); err != nil {
			t.Errorf("good options %d: %v", i, err)
		}
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{with(3, "", "", "127.0.0.1:0", near[0], near[:2]...), "2 servers"},
		{with(3, "", "", "127.0.0.1:0", near[0]), "0 servers"},
		{with(3, "", "", "127.0.0.1:0", near[0], append(near, "127.0.0.1:4")...), "4 servers"},
		{with(3, "", "", "127.0.0.1:0", "", near...), "own"},
		{with(3, "", "", "127.0.0.1:0", "127.0.0.1:4", near...), "own"},
		{with(3, "", "", "", near[0], near...), "address for the nodes"},
		{with(4, "", "", "127.0.0.1:0", near[0], near...), "replicas"},
		{with(3, "", "", "127.0.0.1:0", near[0], near[0], near[0], near[1]), "different"},
		{with(3, "", "", "127.0.0.1:0", near[0], near[0], near[1], "127.0.0.1"), "port"},
		{with(3, "", "", "127.0.0.1:0", near[0], near[0], near[1], "127.0.0.1:0"), "port"},
		{with(3, "", "", "127.0.0.1:0", near[0], near[0], near[1], "127.0.0.1:99999"), "port"},
		{with(3, "", "", "127.0.0.1:0", near[0], near[0], near[1], ":7"), "different"},
		{with(3, "", "c", "127.0.0.1:0", near[0], near[0], near[1], far[0]), "loopback"},
		{with(3, "ca", "", "127.0.0.1:0", near[0], near[0], near[1], far[0]), "loopback"},
	} {
		if err := c.o.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o.Embed, err, c.want)
		}
	}
	if _, err := os.Stat("d"); err == nil {
		t.Error("refused options made a directory")
	}
}
