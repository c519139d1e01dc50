//go:build !noembed

package nats

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drumbeat/cluster"
	"drumbeat/cluster/transporttest"
)

// TestEmbedded runs the contract against an embedded server that the transport of a further node owns. It listens
// on loopback. Break closes that transport.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	transporttest.Run(t, func(t *testing.T) transporttest.Broker {
		o := Options{Crawl: "t1", Node: 99, StreamBytes: testStream,
			Embed: &Embed{Dir: filepath.Join(t.TempDir(), "broker"), Listen: "127.0.0.1:0", Sync: time.Minute}}
		var owner *Transport
		start := func() {
			var err error
			if owner, err = Open(o); err != nil {
				t.Fatal(err)
			}
			o.Embed.Listen = owner.Addr().String()
		}
		stop := func() {
			if err := owner.Close(); err != nil {
				t.Error(err)
			}
		}
		start()
		t.Cleanup(stop)
		return transporttest.Broker{
			Open: func(node int) cluster.Transport {
				return open(t,
					Options{Node: node, retry: 50 * time.Millisecond, URLs: []string{"nats://" + o.Embed.Listen}})
			},
			Break: stop, Restart: start,
			Wipe: func() {
				must(t, os.RemoveAll(o.Embed.Dir))
			},
			Keeps: true, StreamBytes: testStream,
		}
	})
}

// TestInProcess: without Listen there is no port, and the files serve the next start. Syncing always is the
// default.
func TestInProcess(t *testing.T) {
	t.Parallel()
	o := Options{Node: 3, Embed: &Embed{Dir: t.TempDir()}}
	var epoch int64
	for i := range 2 {
		e := open(t, o)
		if e.Addr() != nil {
			t.Errorf("it listens on %v", e.Addr())
		}
		must(t, <-e.Publish(t.Context(), 3, 3, "", []byte{byte(i)}))
		r, err := e.Read(t.Context(), 3, 1)
		must(t, err)
		if i == 0 {
			epoch = r.Stream().Epoch
		} else if r.Stream().Epoch != epoch {
			t.Errorf("epoch %d, was %d", r.Stream().Epoch, epoch)
		}
		for n := range i + 1 {
			m, err := r.Next(t.Context())
			if err != nil || m.Seq != uint64(n+1) || m.From != 3 || len(m.Data) != 1 || m.Data[0] != byte(n) {
				t.Fatalf("got %+v, %v", m, err)
			}
		}
		must(t, e.Close())
	}
}

// TestNoGoroutines: Close leaves none behind. It runs before the parallel tests.
func TestNoGoroutines(t *testing.T) {
	before := goleak.IgnoreCurrent()
	e := open(t, Options{Embed: &Embed{Dir: t.TempDir()}})
	must(t, <-e.Publish(t.Context(), 0, 0, "", nil))
	if _, err := e.Read(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Get(t.Context(), cluster.BucketNet, "k"); !errors.Is(err, cluster.ErrNotFound) {
		t.Fatal(err)
	}
	must(t, e.Close())
	goleak.VerifyNone(t, before)
}
