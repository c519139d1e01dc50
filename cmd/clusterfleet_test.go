package cmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drumbeat/cluster"
	"drumbeat/cluster/nats"
	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

const (
	fleetNodes  = 3
	fleetStream = 64 << 20 // --cluster-stream
)

// fleet is the processes of a cluster: three nodes, and a broker unless a node embeds it.
type fleet struct {
	t      *testing.T
	ctx    context.Context // ends all processes
	cancel context.CancelFunc
	web    *simweb.Web
	dir    string // has a directory for each node, and one for the broker
	file   string // of the cluster
	listen string // address of the broker
	args   []string
	// program is that of nodes; "": this one.
	program string

	processes [fleetNodes]*process // the running ones; nil: killed
	broker    *process
	kills     []kill // of nodes
}

// process is a command under way.
type process struct {
	*exec.Cmd
	said  sayings
	ended chan struct{} // closed after err is set
	err   error
	saves *checkpoints // of a node
}

// sayings are what a process writes, for other goroutines to read.
type sayings struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *sayings) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *sayings) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// says waits until a process has written words.
func (f *fleet) says(p *process, words string) {
	f.t.Helper()
	for !strings.Contains(p.said.String(), words) {
		select {
		case <-p.ended:
			f.t.Fatalf("it ended: %v: %s", p.err, p.said.String())
		case <-f.ctx.Done():
			f.t.Fatalf("it did not say %q in time: %s", words, p.said.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// newFleet makes the file of a cluster for this web. more are flags of all nodes.
func newFleet(t *testing.T, web *simweb.Web, webArgs []string, more ...string) *fleet {
	return newFleetOf(t, fleetNodes, web, webArgs, more...)
}

// newFleetOf is newFleet with another number of nodes at first, fleetNodes at most.
func newFleetOf(t *testing.T, nodes int, web *simweb.Web, webArgs []string, more ...string) *fleet {
	f := &fleet{t: t, web: web, dir: t.TempDir(), listen: brokerAddr(t)}
	f.file = filepath.Join(f.dir, "cluster.json")
	wantExit(t, term.ExitDone, "", "cluster", "init", fmt.Sprintf("--nodes=%d", nodes), f.file)
	f.args = slices.Concat(webArgs,
		[]string{"--seeds=" + cmdtest.SeedFile(t, web), "--disk=4GB", "--checkpoint-every=1s", "--linger=2s",
			"--admin=127.0.0.1:0", fmt.Sprintf("--cluster-stream=%d", fleetStream), "--cluster-file=" + f.file}, more)
	f.ctx, f.cancel = context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(f.cancel)
	return f
}

func (f *fleet) nodeDir(node int) string { return filepath.Join(f.dir, fmt.Sprint(node)) }

// embed are the flags of a node that runs the broker: 256 MiB are for it.
func (f *fleet) embed() []string {
	return []string{"--ram=448MiB", "--cluster=embed", "--cluster-listen=" + f.listen}
}

// join are the flags of a node that connects to a broker.
func join(addr string) []string { return []string{"--ram=192MiB", "--cluster=nats://" + addr} }

// start starts a node. If it ends by itself and fails, so does the test.
func (f *fleet) start(node int, more ...string) *process {
	f.t.Helper()
	args := slices.Concat(f.args, []string{"--dir=" + f.nodeDir(node), fmt.Sprintf("--node=%d", node)}, more)
	cmd := cmdtest.Child(f.ctx, args...)
	if f.program != "" {
		cmd = exec.CommandContext(f.ctx, f.program, args...)
	}
	p := f.run(cmd)
	p.saves = watchCheckpoints(filepath.Join(f.nodeDir(node), "manifest"), p.ended)
	f.processes[node] = p
	return p
}

// run starts a process.
func (f *fleet) run(cmd *exec.Cmd) *process {
	f.t.Helper()
	p := &process{Cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &p.said
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p
}

// kill kills a node that runs by kill -9, and notes it.
func (f *fleet) kill(node int) {
	f.t.Helper()
	p := f.processes[node]
	k := kill{node: node, from: time.Now()}
	select {
	case <-p.ended:
		f.t.Fatalf("node %d ended too early: %v: %s", node, p.err, p.said.String())
	default:
	}
	_ = p.Process.Kill() // it may have ended
	<-p.ended
	k.to, k.saved = time.Now(), p.saves.lastButOne()
	if code := p.ProcessState.ExitCode(); code != -1 { // -1: by a signal
		f.t.Fatalf("node %d ended before it was killed: %v: %s", node, p.err, p.said.String())
	}
	f.kills = append(f.kills, k)
	f.processes[node] = nil
}

// startBroker starts a broker as a process of its own.
func (f *fleet) startBroker() {
	f.t.Helper()
	cmd := exec.CommandContext(f.ctx, os.Args[0], f.brokerDir(), f.listen)
	cmd.Env = append(os.Environ(), term.ChildMode+"=broker")
	if _, err := cmd.StdinPipe(); err != nil { // it ends with this process
		f.t.Fatal(err)
	}
	f.broker = f.run(cmd)
}

func (f *fleet) brokerDir() string { return filepath.Join(f.dir, "broker") }

// restartBroker kills the broker by kill -9, empties its directory if wipe is set, and starts it again.
func (f *fleet) restartBroker(wipe bool) {
	f.t.Helper()
	select {
	case <-f.broker.ended:
		f.t.Fatalf("the broker ended: %v: %s", f.broker.err, f.broker.said.String())
	default:
	}
	_ = f.broker.Process.Kill() // it may have ended
	<-f.broker.ended
	if wipe {
		if err := os.RemoveAll(f.brokerDir()); err != nil {
			f.t.Fatal(err)
		}
	}
	f.startBroker()
}

// requests waits until the web has had so many.
func (f *fleet) requests(least int) {
	f.t.Helper()
	for n := 0; n < least; n, _, _ = f.web.Log().Totals() {
		for node, p := range f.processes {
			if p == nil {
				continue
			}
			select {
			case <-p.ended:
				f.t.Fatalf("node %d ended after %d requests: %v: %s", node, n, p.err, p.said.String())
			case <-f.ctx.Done():
				f.t.Fatalf("%d of %d requests came in time", n, least)
			default:
			}
		}
		<-time.After(5 * time.Millisecond)
	}
}

// wait waits for the end of the crawl, and reports whether all nodes ended well.
func (f *fleet) wait() bool {
	f.t.Helper()
	var all sync.WaitGroup
	for node, p := range f.processes {
		if p == nil {
			continue
		}
		all.Go(func() {
			<-p.ended
			if p.err != nil {
				f.t.Errorf("node %d: %v: %s", node, p.err, p.said.String())
				f.cancel()
			}
		})
	}
	all.Wait()
	return !f.t.Failed()
}

// check compares the web's log with the pages on disk, and audits all nodes.
func (f *fleet) check(limits outsideLimits) {
	f.t.Helper()
	o := outside{limits: limits, log: f.web.Log().Snapshot(), pld: f.web.PLD, want: map[string]bool{}, kills: f.kills}
	for url := range f.web.Expected("drumbeat").FetchedURLs() {
		o.want[url] = true
	}
	for node := range fleetNodes {
		records, err := readRecords(node, filepath.Join(f.nodeDir(node), "warc"))
		if err != nil {
			f.t.Error(err)
		}
		o.records = append(o.records, records...)
	}
	faults := o.check()
	f.t.Logf("%d kills of nodes: %s", len(f.kills), o.summary())
	for _, fault := range faults[:min(len(faults), 20)] {
		f.t.Error(fault)
	}
	if len(faults) > 20 {
		f.t.Errorf("and %d more faults", len(faults)-20)
	}
	checkClusterAudit(f.t, f.dir, f.file, fleetNodes)
}

// brokerProcess is the process of startBroker. It ends with its standard input.
func brokerProcess(dir, listen string) {
	e, err := nats.Open(nats.Options{Crawl: "broker", Observe: true, Embed: &nats.Embed{Dir: dir, Listen: listen,
		// Kill -9 loses nothing of the system's.
		StoreBytes: cluster.BrokerDisk(fleetNodes, fleetStream, cluster.DefaultLeasesBytes), Sync: time.Minute}})
	if err == nil {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error ends it, too
		err = e.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(term.ExitFailure)
	}
}

// checkpoints are the times of a node's last two checkpoints.
type checkpoints struct {
	name string
	done chan struct{}

	last, before time.Time // of the goroutine, until done is closed
}

// watchCheckpoints looks at a manifest until the process has ended.
func watchCheckpoints(manifest string, ended <-chan struct{}) *checkpoints {
	c := &checkpoints{name: manifest, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for over := false; !over; {
			select {
			case <-ended:
				over = true
			case <-tick.C:
			}
			if info, err := os.Stat(c.name); err == nil && !info.ModTime().Equal(c.last) {
				c.last, c.before = info.ModTime(), c.last
			}
		}
	}()
	return c
}

// lastButOne returns the time of the last checkpoint but one; zero if there is none. What was done by then is
// in the last one.
func (c *checkpoints) lastButOne() time.Time {
	<-c.done
	return c.before
}

// brokerAddr returns an address for a broker that a process will start: one that no listener on port 0 gets meanwhile.
func brokerAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		// Below Linux's range for port 0.
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20_000+rand.IntN(12_000)))
		if err != nil {
			continue
		}
		must(t, l.Close())
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}
