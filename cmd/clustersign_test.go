package cmd

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/botauth"
	"drumbeat/cmd/term"
)

// verifiers are hosts of a test that verify each request, with the keys of a file at the time of the request.
type verifiers struct {
	t     *testing.T
	file  string
	hosts []string // with their ports
	seed  strings.Builder
	sites strings.Builder

	mu sync.Mutex          // guards by
	by map[string][]string // host to the ids of keys, without repetitions in a row
}

// startVerifiers starts n hosts on one port. Their pages have links without end.
func startVerifiers(t *testing.T, file string, n int) *verifiers {
	t.Helper()
	v := &verifiers{t: t, file: file, by: map[string][]string{}}
	_, port, _ := strings.Cut(brokerAddr(t), ":")
	for i := range n {
		ip := fmt.Sprint("127.0.1.", i+1)
		l, err := net.Listen("tcp", net.JoinHostPort(ip, port))
		must(t, err)
		server := httptest.NewUnstartedServer(v)
		must(t, server.Listener.Close())
		server.Listener = l
		server.StartTLS()
		t.Cleanup(server.Close)
		v.hosts = append(v.hosts, l.Addr().String())
		fmt.Fprintf(&v.seed, "https://%s/1\n", l.Addr())
		fmt.Fprintf(&v.sites, "[[site]]\nhost = '%s'\ncertificate = 'any'\n", ip)
	}
	return v
}

// ServeHTTP implements http.Handler.
func (v *verifiers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	keys, err := botauth.ReadKeys(v.file)
	if err != nil {
		v.t.Error(err)
		return
	}
	signed, err := botauth.Verify(botauth.RequestMessage(r), botauth.Policy{Now: now, MaxLife: botauth.Life,
		Key: func(agent, id string) (ed25519.PublicKey, error) {
			if agent != "https://bot.example.org"+botauth.DirectoryPath {
				return nil, botauth.ErrUnknownKey
			}
			return keys.Directory(now).Key(id, now)
		}})
	if err != nil {
		v.t.Errorf("%s%s: %v", r.Host, r.URL, err)
	}
	v.mu.Lock()
	if ids := v.by[r.Host]; len(ids) == 0 || ids[len(ids)-1] != signed.KeyID {
		v.by[r.Host] = append(ids, signed.KeyID)
	}
	v.mu.Unlock()
	if r.URL.Path == "/robots.txt" {
		http.NotFound(w, r)
		return
	}
	page := 0
	_, _ = fmt.Sscanf(r.URL.Path, "/%d", &page) // 0 for another path
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, `<html><a href="/%d">a</a><a href="/%d">b</a>`, 2*page, 2*page+1)
}

// await waits until each host has met the key with an id.
func (v *verifiers) await(ctx context.Context, f *fleet, id string) {
	v.t.Helper()
	for {
		met := 0
		v.mu.Lock()
		for _, host := range v.hosts {
			if ids := v.by[host]; len(ids) > 0 && ids[len(ids)-1] == id {
				met++
			}
		}
		v.mu.Unlock()
		if met == len(v.hosts) {
			return
		}
		select {
		case <-ctx.Done():
			v.t.Fatalf("%d of %d hosts have met key %s in time: %s", met, len(v.hosts), id,
				f.processes[0].said.String())
		case <-f.processes[0].ended:
			v.t.Fatalf("node 0 ended: %s", f.processes[0].said.String())
		case <-f.processes[1].ended:
			v.t.Fatalf("node 1 ended: %s", f.processes[1].said.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestClusterSigns: two processes with one key file sign with one key, which each host verifies. A rotation reaches
// both by a reload: the new key follows the old one at each host, and no host meets the old one again. Neither
// directory has the private keys.
func TestClusterSigns(t *testing.T) {
	notShort(t)
	t.Parallel()
	file, directory := keyFile(t)
	v := startVerifiers(t, file, 24) // each node owns some, but for one cluster in 8,000,000
	dir := t.TempDir()
	seeds, sites := filepath.Join(dir, "seeds"), filepath.Join(dir, "sites.toml")
	must(t, os.WriteFile(seeds, []byte(v.seed.String()), 0o600))
	must(t, os.WriteFile(sites, []byte(v.sites.String()), 0o600))
	f := &fleet{t: t, dir: dir, listen: brokerAddr(t), file: filepath.Join(dir, "cluster.json")}
	wantExit(t, term.ExitDone, "", "cluster", "init", "--nodes=2", f.file)
	f.ctx, f.cancel = context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(f.cancel)
	_, port, _ := net.SplitHostPort(v.hosts[0])
	f.args = []string{"crawl", "--seeds=" + seeds, "--sites=" + sites, "--contact=https://bot.example.org/",
		"--sign=" + file, "--allow-net=127.0.0.0/8", "--scope=host", "--host-delay=1s", "--server-delay=1ms",
		"--pld-delay=0", "--resolver=127.0.0.1", "--ports=" + port, "--disk=4GB", "--checkpoint-every=1s",
		"--linger=1m", "--connections=64", fmt.Sprintf("--cluster-stream=%d", fleetStream), "--cluster-file=" + f.file}
	f.start(0, f.embed()...)
	f.start(1, join(f.listen)...)
	old := directory.Keys[0].Kid
	v.await(f.ctx, f, old)

	wantExit(t, term.ExitDone, "", "keys", "rotate", "--after=0s", file)
	keys, err := botauth.ReadKeys(file)
	must(t, err)
	for node := range 2 {
		wantExit(t, term.ExitDone, "", "ctl", "--dir="+f.nodeDir(node), "reload")
	}
	v.await(f.ctx, f, keys[0].ID())
	for node := range 2 {
		out, _ := wantExit(t, term.ExitDone, "", "ctl", "--dir="+f.nodeDir(node), "--json", "status")
		var status struct{ Counters map[string]int64 }
		must(t, json.Unmarshal([]byte(out), &status))
		if status.Counters["signed_unasked"] == 0 {
			t.Errorf("node %d has signed nothing: %s", node, out)
		}
		wantExit(t, term.ExitDone, "", "ctl", "--dir="+f.nodeDir(node), "stop")
	}
	for node := range 2 {
		<-f.processes[node].ended // by then or when ctx ends
		hasNoKey(t, f.nodeDir(node), file)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for host, ids := range v.by {
		if want := fmt.Sprint([]string{old, keys[0].ID()}); fmt.Sprint(ids) != want {
			t.Errorf("%s met the keys %s, want %s", host, ids, want)
		}
	}
}
