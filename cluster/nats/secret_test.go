//go:build !noembed

package nats

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"drumbeat/cluster"
)

var (
	testSecret  = []byte("0123456789abcdef")
	wrongSecret = []byte("0123456789abcdeF")
)

// TestSecret: an embedded server on loopback lets in the nodes that share its secret, of the same crawl, and
// nobody else.
func TestSecret(t *testing.T) {
	t.Parallel()
	owner := open(t, Options{Node: 0, Secret: testSecret,
		Embed: &Embed{Dir: t.TempDir(), Listen: "127.0.0.1:0", Sync: time.Minute}})
	url := "nats://" + owner.Addr().String()
	node := open(t, Options{Node: 1, Secret: testSecret, URLs: []string{url}, Warn: func(text string) {
		t.Error(text)
	}})
	if _, err := node.Put(t.Context(), cluster.BucketCrawl, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if v, err := owner.Get(t.Context(), cluster.BucketCrawl, "k"); err != nil || string(v.Data) != "v" {
		t.Errorf("the server's own node reads %q, %v", v.Data, err)
	}
	seed := filepath.Join(t.TempDir(), "seed")
	writeSeed(t, seed)
	for name, o := range map[string]Options{
		"no secret":     {},
		"wrong secret":  {Secret: wrongSecret},
		"another crawl": {Secret: testSecret, Crawl: "t2"},
		"another seed":  {Secret: testSecret, Seed: seed},
	} {
		o.URLs, o.StreamBytes, o.Node = []string{url}, testStream, 2
		if o.Crawl == "" {
			o.Crawl = "t1"
		}
		e, err := Open(o)
		if err == nil {
			if e.State().Connected {
				t.Errorf("%s: it is let in", name)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, natsgo.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, opts := range map[string][]natsgo.Option{
		"nothing": nil, "a password": {natsgo.UserInfo("drumbeat", string(testSecret))},
		"a token": {natsgo.Token(string(testSecret))},
	} {
		nc, err := natsgo.Connect(url, opts...)
		if err == nil {
			nc.Close()
			t.Errorf("a client with %s is let in", name)
		}
	}
}

// TestOpenServer: nodes with a secret use a server on loopback that asks for none, and warn once. When it
// comes back and asks, they connect again.
func TestOpenServer(t *testing.T) {
	t.Parallel()
	port := freePorts(t, 1)[0]
	listen := fmt.Sprint("127.0.0.1:", port)
	embed := Embed{Dir: t.TempDir(), Listen: listen, Sync: time.Minute}
	owner, err := Open(Options{Crawl: "t1", StreamBytes: testStream, Embed: &embed})
	must(t, err)
	warned := make(chan string, 100)
	node := open(t,
		Options{Node: 1, Secret: testSecret, URLs: []string{"nats://" + listen}, retry: 20 * time.Millisecond,
			Warn: func(text string) {
				if strings.Contains(text, "requires no credentials") {
					warned <- text
				}
			}})
	for i := range 2 {
		var err error
		for try := 0; try < 500; try++ {
			if _, err = node.Put(t.Context(), cluster.BucketCrawl, "k", []byte("v")); err == nil {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		if err != nil {
			t.Errorf("round %d: %v", i, err)
		}
		if len(warned) != 1 {
			t.Errorf("round %d: %d warnings, want 1", i, len(warned))
		}
		if err := owner.Close(); err != nil {
			t.Error(err)
		}
		if i == 0 {
			if owner, err = Open(Options{Crawl: "t1", Secret: testSecret, StreamBytes: testStream,
				Embed: &embed}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSecretRoutes: embedded servers that share a secret find each other, and their routes are closed to others.
func TestSecretRoutes(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers take some seconds to agree")
	}
	t.Parallel()
	ports := freePorts(t, 6)
	var routes []string
	for _, port := range ports[3:] {
		routes = append(routes, fmt.Sprint("127.0.0.1:", port))
	}
	var nodes []*Transport
	for i, route := range routes {
		nodes = append(nodes, open(t,
			Options{Node: i, Secret: testSecret, Replicas: 3, Embed: &Embed{Dir: t.TempDir(), Sync: time.Minute,
				Listen: fmt.Sprint("127.0.0.1:", ports[i]), Routes: routes, RouteListen: route}}))
	}
	var err error
	for try := 0; try < 300; try++ {
		if _, err = nodes[0].Put(t.Context(), cluster.BucketCrawl, "k", []byte("v")); err == nil {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	must(t, err)
	for name, connect := range map[string]string{"nothing": `{}`,
		"a wrong password": `{"user":"drumbeat","pass":"x"}`} {
		conn, err := net.Dial("tcp", routes[1])
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		fmt.Fprintf(conn, "INFO {\"server_id\":\"x\"}\r\nCONNECT %s\r\nPING\r\n", connect)
		said := ""
		for in := bufio.NewScanner(conn); in.Scan(); {
			said += in.Text() + "\n"
		}
		if !strings.Contains(said, "Authorization Violation") {
			t.Errorf("a route with %s: %.300q", name, said)
		}
		conn.Close()
	}
}

func writeSeed(t *testing.T, name string) {
	t.Helper()
	seed, err := NewSeed()
	must(t, err)
	must(t, os.WriteFile(name, seed, 0o600))
}
