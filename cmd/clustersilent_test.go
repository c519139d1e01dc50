package cmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// cable is a connection to the broker that can be cut.
type cable struct {
	to string

	mu    sync.Mutex // guards the fields below
	ends  map[net.Conn]bool
	isCut bool
}

// newCable listens for one node, and returns its address.
func newCable(t *testing.T, to string) (*cable, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := &cable{to: to, ends: map[net.Conn]bool{}}
	t.Cleanup(func() { l.Close(); c.cut(true) })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.carry(conn)
		}
	}()
	return c, l.Addr().String()
}

// cut closes all connections, and new ones at once, until it is called with false.
func (c *cable) cut(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = on
	for conn := range c.ends {
		conn.Close()
	}
}

func (c *cable) hold(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[conn] = true
	return !c.isCut
}

func (c *cable) carry(conn net.Conn) {
	defer conn.Close()
	if !c.hold(conn) {
		return
	}
	up, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer up.Close()
	if !c.hold(up) {
		return
	}
	go func() {
		_, _ = io.Copy(up, conn)
		up.Close()
	}()
	_, _ = io.Copy(conn, up)
}

// TestClusterSilent: of three processes one is frozen, and one is cut off from the broker, each for longer than
// --cluster-lease. By the web's log the delay of addresses holds over all of them, but for requests that a frozen
// process was about to send. Each URL is fetched once.
func TestClusterSilent(t *testing.T) {
	notShort(t)
	t.Parallel()
	web, webArgs := cmdtest.SmallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.IPs, o.LogRequests = 20, 40, 500, 6, 100_000
		o.Robots.ServerError = 0
	})
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.json")
	wantExit(t, term.ExitDone, "", "cluster", "init", "--nodes=3", file)
	broker := brokerAddr(t)
	wire, away := newCable(t, broker)
	seeds := cmdtest.SeedFile(t, web)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	const delay = 200 * time.Millisecond
	var all sync.WaitGroup
	start := func(node int, more ...string) *syscallProcess {
		args := append(slices.Clone(webArgs), "--dir="+filepath.Join(dir, fmt.Sprint(node)),
			"--seeds="+seeds, "--disk=4GB", "--cluster-stream=64MiB", "--checkpoint-every=1s", "--linger=2s",
			"--admin=127.0.0.1:0", "--host-delay=200ms", fmt.Sprintf("--server-delay=%v", delay), "--cluster-lease=5s",
			"--cluster-file="+file, fmt.Sprintf("--node=%d", node))
		cmd := cmdtest.Child(ctx, append(args, more...)...)
		var said bytes.Buffer
		cmd.Stderr = &said
		must(t, cmd.Start())
		all.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Errorf("node %d: %v: %s", node, err, said.String())
				cancel()
			}
		})
		return &syscallProcess{cmd.Process.Pid}
	}
	start(0, "--ram=448MiB", "--cluster=embed", "--cluster-listen="+broker)
	frozen := start(1, "--ram=192MiB", "--cluster=nats://"+broker)
	start(2, "--ram=192MiB", "--cluster=nats://"+away)
	for n := 0; n < 60 && ctx.Err() == nil; n, _, _ = web.Log().Totals() {
		<-time.After(10 * time.Millisecond)
	}
	frozen.signal(t, syscall.SIGSTOP)
	<-time.After(8 * time.Second)
	frozen.signal(t, syscall.SIGCONT)
	wire.cut(true)
	<-time.After(8 * time.Second)
	wire.cut(false)
	all.Wait()
	snap, want, wrong := web.Log().Snapshot(), web.Expected("drumbeat"), 0
	for url := range want.FetchedURLs() {
		if n := snap.Fetches[url]; n != 1 {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d URLs were not fetched once", wrong, want.Fetched)
	}
	// Two nodes that visit an address at once for the 3 s by which each is silent longer than the lease get
	// ahead by 3 s. A loaded machine may hold up a request, so that it is followed early, and each request
	// that a frozen process was about to send takes the delay of one.
	o := outside{limits: outsideLimits{address: delay, late: 2 * time.Second}, log: snap, pld: web.PLD}
	o.gaps()
	t.Logf("%d requests to %s", len(snap.Requests), o.places)
	for _, fault := range o.faults {
		t.Error(fault)
	}
}

// syscallProcess is a process that gets signals.
type syscallProcess struct{ pid int }

func (p *syscallProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.pid, s); err != nil {
		t.Errorf("signal %v: %v", s, err)
	}
}
