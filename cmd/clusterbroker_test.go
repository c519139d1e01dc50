package cmd

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

var (
	clusterSeed  = flag.Uint64("cluster.seed", 0, "seed of TestClusterKillRandom; 0: a new one")
	clusterKills = flag.Int("cluster.kills", 7, "number of kills in TestClusterKillRandom")
)

// fleetLimits are the limits of brokerFleet.
var fleetLimits = outsideLimits{host: 50 * time.Millisecond, pld: 50 * time.Millisecond, address: 50 * time.Millisecond,
	rate: 60, connections: 8, late: 700 * time.Millisecond}

// brokerFleet starts three nodes and a broker of its own, on a web of six networks that all nodes visit. It
// returns about how many requests the crawl takes.
func brokerFleet(t *testing.T) (f *fleet, requests int) {
	web, webArgs := cmdtest.SmallWeb(t, func(o *simweb.Options) {
		o.PLDs, o.Hosts, o.Pages, o.IPs, o.Networks, o.SeedURLs = 30, 45, 450, 24, 6, 30
		o.LinksPerPage = 40      // short ways to all pages: a link to another node's waits for a checkpoint
		o.Robots.ServerError = 0 // would be waited for
	})
	f = newFleet(t, web, webArgs, "--host-delay=50ms", "--pld-delay=50ms,min=50ms", "--server-delay=50ms",
		"--network-rate=60", "--network-connections=8", "--cluster-lease=5s")
	f.startBroker()
	for node := range fleetNodes {
		f.start(node, join(f.listen)...)
	}
	return f, web.Expected("drumbeat").Fetched
}

// TestClusterBroker: a broker is killed by kill -9 and loses all that it has, and later is killed again.
// Three nodes crawl on meanwhile and fetch each URL once.
func TestClusterBroker(t *testing.T) {
	notShort(t)
	t.Parallel()
	f, n := brokerFleet(t)
	f.requests(n / 4)
	f.restartBroker(true)
	f.requests(n * 2 / 3)
	f.restartBroker(false)
	if f.wait() {
		f.check(fleetLimits)
	}
}

// TestClusterGiveUp: a node is killed and never started again. The others stop, give it up, and end without
// it, each with all of its own URLs that do not hang on those of the lost node; it is refused from then on.
func TestClusterGiveUp(t *testing.T) {
	notShort(t)
	t.Parallel()
	f, n := brokerFleet(t)
	f.requests(n / 3)
	const lost = fleetNodes - 1
	f.kill(lost)
	for node := range lost {
		p := f.processes[node]
		must(t, p.Process.Signal(syscall.SIGTERM))
		if <-p.ended; p.ProcessState.ExitCode() != term.ExitSignal {
			t.Fatalf("node %d: %v: %s", node, p.err, p.said.String())
		}
	}
	giveUp := append(join(f.listen), fmt.Sprintf("--give-up-node=%d", lost))
	f.says(f.start(0, append(giveUp, "--cluster-reconfigure")...), "has replaced the configuration")
	f.start(1, giveUp...)
	back := f.start(lost, join(f.listen)...)
	f.processes[lost] = nil
	if <-back.ended; back.ProcessState.ExitCode() != term.ExitDirectory ||
		!strings.Contains(back.said.String(), "abandoned") {
		t.Errorf("the lost node: %v: %s", back.err, back.said.String())
	}
	if !f.wait() {
		return
	}
	for node := range lost {
		wantExit(t, term.ExitDone, "", "audit", "--deep", f.nodeDir(node))
	}
	had, _, _ := f.web.Log().Totals()
	t.Logf("%d of %d requests without node %d", had, n, lost)
	if had <= n/3 {
		t.Error("nothing was fetched without the lost node")
	}
}

// TestClusterKillRandom: nodes and broker are killed by kill -9 at random moments. Half of the brokers lose
// all that they have.
func TestClusterKillRandom(t *testing.T) {
	notShort(t)
	t.Parallel()
	f, n := brokerFleet(t)
	seed := *clusterSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("-cluster.seed %d", seed)
	at := make([]int, *clusterKills)
	for i := range at {
		at[i] = random.IntN(n * 9 / 10)
	}
	slices.Sort(at)
	for _, least := range at {
		f.requests(least)
		<-time.After(time.Duration(random.IntN(100)) * time.Millisecond)
		switch victim := random.IntN(fleetNodes + 2); victim {
		case fleetNodes, fleetNodes + 1:
			f.restartBroker(victim == fleetNodes)
			t.Logf("after %d requests: the broker, emptied: %t", least, victim == fleetNodes)
		default:
			f.kill(victim)
			f.start(victim, join(f.listen)...)
			t.Logf("after %d requests: node %d", least, victim)
		}
	}
	if f.wait() {
		f.check(fleetLimits)
	}
}
