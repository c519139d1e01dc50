package nats

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/transporttest"
)

// testStream is the limit of streams in tests.
const testStream = 4 << 20

func open(t *testing.T, o Options) *Transport {
	t.Helper()
	if o.Crawl == "" {
		o.Crawl = "t1"
	}
	if o.StreamBytes == 0 {
		o.StreamBytes = testStream
	}
	e, err := Open(o)
	must(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// external is a nats-server process.
type external struct {
	t    testing.TB
	dir  string
	addr string // "" before the first start
	cmd  *exec.Cmd
}

// start starts the process and waits until it listens.
func (x *external) start() {
	args := []string{"-js", "-sd", filepath.Join(x.dir, "store"), "-a", "127.0.0.1", "-p", "-1", "-P",
		filepath.Join(x.dir, "pid"), "--ports_file_dir", x.dir}
	if x.addr != "" {
		args[6] = x.addr[strings.LastIndexByte(x.addr, ':')+1:]
	}
	old, _ := filepath.Glob(filepath.Join(x.dir, "*.ports"))
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			x.t.Fatal(err)
		}
	}
	x.cmd = exec.Command("nats-server", args...)
	if err := x.cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		names, _ := filepath.Glob(filepath.Join(x.dir, "*.ports"))
		if len(names) > 0 {
			if text, err := os.ReadFile(names[0]); err == nil && strings.Contains(string(text), "}") {
				_, rest, _ := strings.Cut(string(text), `"nats://`)
				x.addr, _, _ = strings.Cut(rest, `"`)
				return
			}
		}
		<-tick.C
	}
	x.t.Fatal("nats-server does not listen")
}

func (x *external) kill() {
	if err := x.cmd.Process.Kill(); err != nil {
		x.t.Error(err)
	}
	_ = x.cmd.Wait() // it reports the kill
}

// TestExternal runs the contract against processes of nats-server, which it kills.
func TestExternal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nats-server"); err != nil {
		t.Skip("no nats-server on PATH: go install github.com/nats-io/nats-server/v2")
	}
	transporttest.Run(t, func(t *testing.T) transporttest.Broker {
		x := &external{t: t, dir: t.TempDir()}
		x.start()
		t.Cleanup(func() { x.kill() })
		return transporttest.Broker{
			Open: func(node int) cluster.Transport {
				return open(t, Options{Node: node, retry: 50 * time.Millisecond, URLs: []string{"nats://" + x.addr}})
			},
			Break: x.kill, Restart: x.start,
			Wipe: func() {
				must(t, os.RemoveAll(filepath.Join(x.dir, "store")))
			},
			Keeps: true, StreamBytes: testStream,
		}
	})
}

// TestAwayAtStart: a node starts without its broker, and connects when the broker is there.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	e := open(t, Options{URLs: []string{"nats://127.0.0.1:1"}})
	if st := e.State(); st.Connected || st.Connects != 0 || st.Since.IsZero() {
		t.Errorf("state %+v", st)
	}
	if err := <-e.Publish(t.Context(), 0, 0, "", nil); !errors.Is(err, cluster.ErrAway) {
		t.Errorf("publish returns %v", err)
	}
	stop, err := e.Answer("x", nil)
	must(t, err)
	stop()
}
