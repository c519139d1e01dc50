//go:build !noembed

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"drumbeat/cluster"
	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
)

// secretsRig is the file of a cluster, and a directory for its secrets.
type secretsRig struct {
	t    *testing.T
	file string
	dir  string
	app  term.App
}

func newSecretsRig(t *testing.T) *secretsRig {
	dir := t.TempDir()
	r := &secretsRig{t: t, file: filepath.Join(dir, "cluster.json"), dir: filepath.Join(dir, "secrets")}
	r.app = term.App{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)}
	must(t, (&initCmd{File: r.file, Nodes: 3}).Run(&r.app))
	return r
}

func (r *secretsRig) path(name string) string { return filepath.Join(r.dir, name) }

// run makes the secrets.
func (r *secretsRig) run(servers ...string) error {
	return (&secretsCmd{File: r.file, Dir: r.dir, Server: servers}).Run(&r.app)
}

// files returns what the directory has.
func (r *secretsRig) files() map[string]string {
	r.t.Helper()
	list, err := os.ReadDir(r.dir)
	must(r.t, err)
	all := map[string]string{}
	for _, e := range list {
		text, err := os.ReadFile(r.path(e.Name()))
		must(r.t, err)
		all[e.Name()] = string(text)
	}
	return all
}

// TestSecretsStay: a second run replaces nothing, a deleted pair is made again by the same CA, and what does not fit
// is refused without a change.
func TestSecretsStay(t *testing.T) {
	t.Parallel()
	r := newSecretsRig(t)
	must(t, r.run("nats0", "10.0.0.1"))
	first := r.files()
	if len(first) != 9 {
		t.Errorf("%d files", len(first))
	}
	for name := range first {
		if info, err := os.Stat(r.path(name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(r.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	same := func(want map[string]string, but ...string) {
		t.Helper()
		for name, text := range r.files() {
			if changed := strings.Contains(strings.Join(but, " "), name); changed != (want[name] != text) {
				t.Errorf("%s: changed %t", name, !changed)
			}
		}
	}
	must(t, r.run("10.0.0.1"))
	same(first)
	refused := func(words string, servers ...string) {
		t.Helper()
		before := r.files()
		if err := r.run(servers...); term.ExitCode(err) != term.ExitUsage || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want %q", err, words)
		}
		same(before)
	}
	refused("not nats1: delete it", "nats0", "nats1")
	refused("without a port", "nats0:4222")
	refused("--server has 65 values", make([]string, 65)...)
	must(t, errors.Join(os.Remove(r.path("node.pem")), os.Remove(r.path("nats.key")), os.Remove(r.path("nats.pem"))))
	refused("node.key exists, but", "nats1")
	must(t, os.Remove(r.path("node.key")))
	must(t, r.run("nats1"))
	same(first, "node.pem", "node.key", "nats.pem", "nats.key")
	must(t, os.Rename(r.path("ca.key"), r.path("away")))
	refused("ca.pem exists, but", "nats1")
	must(t, os.Rename(r.path("ca.pem"), r.path("away.pem")))
	refused("ca.pem, which signed it, is missing", "nats1")
	must(t, errors.Join(os.Rename(r.path("away"), r.path("ca.key")), os.Rename(r.path("away.pem"), r.path("ca.pem"))))
	must(t, os.Remove(r.file))
	must(t, (&initCmd{File: r.file, Nodes: 3}).Run(&r.app))
	refused("users.conf belongs to another crawl", "nats1")
	must(t, os.WriteFile(r.path("ca.pem"), []byte("x"), 0o600))
	refused("ca.pem: ", "nats1")
}

const packaged = "../../packaging/docker/cluster/"

// packagedServers starts three servers with nats.conf of the compose file, and these secrets.
func (r *secretsRig) packagedServers() (urls []string, servers []*natsserver.Server) {
	t := r.t
	t.Helper()
	text, err := os.ReadFile(packaged + "nats.conf")
	must(t, err)
	var ports []int // a server of a cluster must know its routes at the start
	var hold []net.Listener
	for range 6 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		hold, ports = append(hold, l), append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range hold {
		must(t, l.Close())
	}
	for i := range 3 {
		t.Setenv("NATS_NAME", fmt.Sprint("nats", i))
		conf := strings.NewReplacer("/run/secrets/nats-cert", r.path("nats.pem"),
			"/run/secrets/nats-key", r.path("nats.key"), "/run/secrets/ca", r.path("ca.pem"),
			`"/data"`, fmt.Sprintf("%q", r.path(fmt.Sprint(i))),
			"0.0.0.0:4222", fmt.Sprint("127.0.0.1:", ports[i]), "0.0.0.0:6222", fmt.Sprint("127.0.0.1:", ports[3+i]),
			"http: 127.0.0.1:8222\n", "", "nats0:6222", fmt.Sprint("127.0.0.1:", ports[3]), "nats1:6222",
			fmt.Sprint("127.0.0.1:", ports[4]), "nats2:6222", fmt.Sprint("127.0.0.1:", ports[5])).Replace(string(text))
		name := r.path(fmt.Sprint(i, ".conf")) // users.conf is beside it, as in the container
		must(t, os.WriteFile(name, []byte(conf), 0o600))
		o, err := natsserver.ProcessConfigFile(name)
		must(t, err)
		if o.ServerName != fmt.Sprint("nats", i) || !o.SyncAlways || o.JetStreamMaxStore != 8<<30 || !o.TLSMap {
			t.Errorf("server %s: sync always %t, at most %d bytes, users by certificate %t", o.ServerName, o.SyncAlways,
				o.JetStreamMaxStore, o.TLSMap)
		}
		o.NoSigs = true
		s, err := natsserver.NewServer(o)
		must(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		urls, servers = append(urls, fmt.Sprint("tls://127.0.0.1:", ports[i])), append(servers, s)
	}
	return urls, servers
}

// TestPackagedCluster: three servers with the configuration of packaging/docker/cluster and the secrets of cluster
// secrets take a node, which keeps three copies, and one who may only read; nobody else.
func TestPackagedCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 10 s")
	}
	r := newSecretsRig(t)
	must(t, r.run("nats0", "nats1", "nats2"))
	urls, servers := r.packagedServers()
	f, err := read(r.file)
	must(t, err)
	open := func(o nats.Options) *nats.Transport {
		t.Helper()
		o.Crawl, o.URLs, o.Replicas, o.CA = f.Crawl, urls, 3, r.path("ca.pem")
		e, err := nats.Open(o)
		must(t, err)
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	retry := func(f func() error) {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for range 1200 {
			if err = f(); err == nil {
				return
			}
			<-tick.C
		}
		t.Fatal(err)
	}
	node := open(nats.Options{Cert: r.path("node.pem"), Key: r.path("node.key")})
	retry(func() error {
		_, err := node.Put(t.Context(), cluster.BucketCrawl, "k", []byte("v"))
		return err
	})
	get := func(e *nats.Transport) error {
		v, err := e.Get(t.Context(), cluster.BucketCrawl, "k")
		if err == nil && string(v.Data) != "v" {
			err = fmt.Errorf("got %q", v.Data)
		}
		return err
	}
	status := open(nats.Options{Cert: r.path("status.pem"), Key: r.path("status.key"), Observe: true})
	retry(func() error { return get(status) })
	users := map[string]int{}
	for _, s := range servers {
		z, err := s.Connz(&natsserver.ConnzOptions{Username: true})
		must(t, err)
		for _, c := range z.Conns {
			users[c.AuthorizedUser]++
		}
	}
	if len(users) != 2 || users["CN="+nodeUser] != 1 || users["CN="+statusUser] != 1 {
		t.Errorf("users: %v", users)
	}
	nobody, err := nats.Open(nats.Options{Crawl: f.Crawl, URLs: urls, CA: r.path("ca.pem"), Observe: true})
	if err == nil {
		if nobody.State().Connected {
			t.Error("a client without a certificate was let in")
		}
		_ = nobody.Close()
	}
	servers[0].Shutdown()
	servers[0].WaitForShutdown()
	retry(func() error { return get(node) }) // the others still have it
}
