//go:build !noembed

package nats

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"drumbeat/cluster"
	"drumbeat/cluster/transporttest"
)

// userWith starts a server that knows one user, who may do what p says. It returns the options of that user.
func userWith(t *testing.T, p Permissions) Options {
	t.Helper()
	seed, err := NewSeed()
	must(t, err)
	name := filepath.Join(t.TempDir(), "seed")
	must(t, os.WriteFile(name, seed, 0o600))
	pair, err := nkeys.FromSeed(slices.Clone(seed[:len(seed)-1]))
	must(t, err)
	key, err := pair.PublicKey()
	must(t, err)
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true,
		JetStream: true, StoreDir: t.TempDir(), MaxPayload: maxMessageBytes,
		Nkeys: []*natsserver.NkeyUser{{Nkey: key, Permissions: &natsserver.Permissions{
			Publish:   &natsserver.SubjectPermission{Allow: p.Publish},
			Subscribe: &natsserver.SubjectPermission{Allow: p.Subscribe}}}}})
	must(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	return Options{Crawl: "t1", URLs: []string{"nats://" + s.Addr().String()}, Seed: name, StreamBytes: testStream}
}

// refusals collects the permissions that a server refused.
type refusals struct {
	mu   sync.Mutex
	list []string
}

func (r *refusals) warn(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(strings.ToLower(text), "permission") {
		r.list = append(r.list, text)
	}
}

func (r *refusals) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.list, "; ")
}

// TestPermissions: the tests of the contract pass with exactly the permissions of a node, the server refuses
// nothing, and a node can change the limit of its stream.
func TestPermissions(t *testing.T) {
	t.Parallel()
	all, err := NeededPermissions("t1", 10, true)
	must(t, err)
	var refused refusals
	t.Run("contract", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T) transporttest.Broker {
			user := userWith(t, all)
			return transporttest.Broker{Open: func(node int) cluster.Transport {
				o := user
				o.Node, o.Warn = node, refused.warn
				return open(t, o)
			}, StreamBytes: testStream}
		})
	})
	o := userWith(t, all)
	o.Warn = refused.warn
	for _, o.StreamBytes = range []int64{testStream, 2 * testStream} {
		e := open(t, o)
		r, err := e.Read(t.Context(), 0, 1)
		must(t, err)
		r.Close()
		if info, err := e.StreamInfo(t.Context(), 0); err != nil || info.MaxBytes != o.StreamBytes {
			t.Errorf("the stream: %+v, %v; want a limit of %d bytes", info, err, o.StreamBytes)
		}
	}
	if text := refused.all(); text != "" {
		t.Errorf("refused: %s", text)
	}
}

// TestObserve: a transport that looks only reads values and streams with the permissions for that, makes
// nothing, and may not write.
func TestObserve(t *testing.T) {
	t.Parallel()
	look, err := NeededPermissions("t1", 2, false)
	must(t, err)
	node, err := NeededPermissions("t1", 2, true)
	must(t, err)
	for _, subject := range append(look.Publish, "db.t1.i.>") {
		if !slices.Contains(append(node.Publish, "db.t1.i.>"), subject) {
			t.Errorf("a node may not publish %s", subject)
		}
	}
	for _, subject := range look.Publish {
		if strings.HasPrefix(subject, "$KV.") || strings.Contains(subject, "STREAM.CREATE") ||
			strings.Contains(subject, "PURGE") || strings.HasPrefix(subject, "db.") {
			t.Errorf("who looks may publish %s", subject)
		}
	}
	// The server knows one user, who gets the permissions to write as well, but not those to make anything.
	both := Permissions{Publish: append(look.Publish, "$KV.DB_t1.>"), Subscribe: look.Subscribe}
	o := userWith(t, both)
	var refused refusals
	o.Observe, o.Warn = true, refused.warn
	e := open(t, o)
	if list, err := e.Values(t.Context(), cluster.BucketCrawl, ">"); err != nil || list != nil {
		t.Errorf("values of an empty broker: %v, %v", list, err)
	}
	if info, err := e.StreamInfo(t.Context(), 1); err != nil || !info.Missing {
		t.Errorf("a stream of an empty broker: %+v, %v", info, err)
	}
	if text := refused.all(); text != "" {
		t.Errorf("refused: %s", text)
	}
}

// TestValues: all values of a bucket come back, and the figures of a stream.
func TestValues(t *testing.T) {
	t.Parallel()
	e := open(t, Options{Embed: &Embed{Dir: t.TempDir(), Sync: time.Minute}})
	for _, key := range []string{"status.0", "status.1", "other"} {
		if _, err := e.Put(t.Context(), cluster.BucketCrawl, key, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, e.Delete(t.Context(), cluster.BucketCrawl, "status.1", 0))
	list, err := e.Values(t.Context(), cluster.BucketCrawl, "status.*")
	if err != nil || len(list) != 1 || string(list[0].Data) != "status.0" {
		t.Errorf("values %v, %v", list, err)
	}
	must(t, <-e.Publish(t.Context(), 0, 0, "", []byte("message")))
	if info, err := e.StreamInfo(t.Context(), 0); err != nil || info.Missing || info.Messages != 1 || info.Bytes == 0 ||
		info.Last.IsZero() {
		t.Errorf("the stream: %+v, %v", info, err)
	}
}
