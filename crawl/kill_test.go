package crawl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drumbeat/crawl/outage"
	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/revisit"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// killRounds is the number of times TestKill kills a child in each world. Worlds run in parallel; the
// rounds of a world go through killPlaces in order.
var killRounds = flag.Int("kills", 0, "rounds of TestKill in each world (0: 3; 8 with -long)")

// killPages is the size of each crawl of TestKill.
var killPages = flag.Int("kill-pages", 0, "URLs of each web of TestKill (0: 300; 1500 with -long)")

// killPlaces are the places at which a child kills itself. For "random" the parent kills it at any time.
var killPlaces = []string{"seeds", "urlseen", "star", "checkpoint", "roll", "recovery", "rest", "outage", "random"}

// exitFull is the exit code of a child that found too little disk space at its start.
const exitFull = 3

const childEnv = "DRUMBEAT_CRAWL_TEST_CHILD"

// childJob is the JSON that tells a child process what to do.
type childJob struct {
	Dirs        []string
	Seeds       string
	DNS         string
	HTTP, HTTPS uint16
	KillAt      string        // place of the kill
	KillOn      int           // number of the occurrence that kills
	KillAfter   time.Duration // occurrences count from this time after the child's start
	RAMBytes    int64
	Small       bool
	World       trouble
	Window      window        // time window of the trouble
	Errno       syscall.Errno // error during the trouble
	Met         string        // file that the child makes when it meets the trouble
	Recrawl     *revisit.Policy
	MaxTime     time.Duration
	WalkURLs    int // of a random walk
	Parts       state.BudgetParts
	Near        state.NearDuplicates
}

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		os.Exit(child(job))
	}
	flag.Parse()
	if testing.Short() { // hundreds of small heaps: collections would take a tenth of the CPU time
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}

// child runs a crawl over real sockets and disks until the crawl ends or the child kills itself.
func child(text string) int {
	var job childJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	opt, err := job.options()
	if err == nil {
		_, err = Run(context.Background(), opt)
	}
	if err != nil && !errors.Is(err, state.ErrFinished) {
		fmt.Fprintln(os.Stderr, err)
		if state.IsFull(err) {
			return exitFull
		}
		return 1
	}
	return 0
}

func (j *childJob) options() (Options, error) {
	client, err := fetch.New(j.fetchOptions())
	if err != nil {
		return Options{}, err
	}
	var mu sync.Mutex
	seen, began := 0, time.Now()
	opt := Options{
		Disk:      DiskOptions{Dirs: j.Dirs, CheckpointEvery: 100 * time.Millisecond},
		Admission: AdmissionOptions{Seeds: j.Seeds},
		Identity:  IdentityOptions{Agent: "drumbeat", Contact: "test@example.org"},
		Network: NetworkOptions{Fetcher: client, Resolver: netResolver(j.DNS), Connections: 64,
			KeepAlive: 5 * time.Second},
		Limits: LimitsOptions{RAMBytes: j.RAMBytes, DiskBytes: 10 << 30, Linger: 500 * time.Millisecond,
			MaxDepth: Unlimited},
		Health: HealthOptions{Retries: 2, Backoff: 50 * time.Millisecond},
		Politeness: PolitenessOptions{HostDelay: 30 * time.Millisecond, HostDelayMin: 20 * time.Millisecond,
			ServerDelay: 5 * time.Millisecond, ServerDelayMin: 4 * time.Millisecond, PLDDelay: 10 * time.Millisecond,
			PLDDelayMin: 5 * time.Millisecond, NetworkConnections: 40},
		Output: OutputOptions{Store: true, CrawlLog: state.LogAll, WARCFileBytes: 50_000},
		Order:  OrderOptions{StockTarget: 500},
		tests: testOptions{hook: func(place string) {
			mu.Lock()
			defer mu.Unlock()
			if place == j.KillAt && time.Since(began) >= j.KillAfter {
				if seen++; seen >= j.KillOn {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {} // wait for the signal
				}
			}
		}},
	}
	opt.Recrawl, opt.Limits.MaxTime, opt.Budgets.Parts = j.Recrawl, j.MaxTime, j.Parts
	opt.Output.NearDuplicates = j.Near
	if j.KillAt == "rest" {
		opt.Disk.FS = shortOfSpace{disk.OS()}
	}
	j.inTrouble(&opt)
	if j.Small {
		opt.Drum.BufferBytes, opt.Drum.BucketBytes, opt.Drum.Buckets = 4<<10, 64<<10, 8
	}
	return opt, nil
}

// shortOfSpace is a file system that reports that it is nearly full.
type shortOfSpace struct{ disk.FS }

// Space implements disk.FS.
func (shortOfSpace) Space(string) (free, total int64, err error) { return 1 << 20, 1 << 30, nil }

// goResolver is the standard library's resolver with the name server of the synthetic web.
type goResolver struct{ r *net.Resolver }

func netResolver(server string) outage.Resolver {
	return goResolver{&net.Resolver{PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 200 * time.Millisecond}).DialContext(ctx, network, server)
		}}}
}

func (g goResolver) LookupHost(ctx context.Context, host, _ string) (Lookup, error) {
	addrs, err := g.r.LookupNetIP(ctx, "ip4", host+".")
	if err != nil {
		var de *net.DNSError
		return Lookup{}, &LookupError{Host: host, Err: err, NotFound: errors.As(err, &de) && de.IsNotFound,
			NoAnswer: de != nil && de.IsTimeout}
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return Lookup{Addrs: addrs, Expires: time.Now().Add(time.Hour)}, nil
}

// killTest runs TestKill in one world, one crawl after another.
type killTest struct {
	t         *testing.T
	sum       *killSum
	world     trouble
	tmp       string
	rng       *rand.Rand
	web       *simweb.Web
	server    *simweb.Server
	strangers *strangersServers
	job       childJob
	calm      func() // ends what trouble began

	pages, rounds           int // URLs of each crawl's web; rounds so far
	more                    int // extra rounds so far
	places                  map[string]bool
	met, killed             bool // whether a child met the trouble; whether one was killed
	full                    int  // children that found too little disk space at their start
	crawls                  int
	requests                int // requests that the webs of earlier crawls answered
	urls, records, repeated int // compared
	strange                 map[string]int64
}

// killSum adds up the kills of all worlds.
type killSum struct {
	mu     sync.Mutex // guards all below
	killed map[string]int
	late   int // killed by the parent, because the child didn't reach the place
}

func (s *killSum) add(place string, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if late {
		s.late++
	} else {
		s.killed[place]++
	}
}

// missing returns the places of a world at which no child, of any world, was killed. If there is none,
// but the world has not met its trouble or had a kill, it returns "random".
func (k *killTest) missing() (places []string) {
	k.sum.mu.Lock()
	defer k.sum.mu.Unlock()
	for p := range k.places {
		if k.sum.killed[p] == 0 {
			places = append(places, p)
		}
	}
	slices.Sort(places)
	if len(places) == 0 && (!k.killed || k.world != noTrouble && k.world != walking && !k.met) {
		places = append(places, "random")
	}
	return places
}

// begin starts a web and prepares the job of a new crawl of it.
func (k *killTest) begin() {
	k.t.Helper()
	k.crawls++
	var err error
	k.web = smallWeb(k.t, func(o *simweb.Options) {
		hosts := min(120, k.pages/5)
		o.Seed = k.rng.Uint64()
		o.Pages, o.Hosts, o.PLDs, o.IPs, o.Robots.ServerError = k.pages, hosts, hosts/3, 2*hosts/3, 0
		o.Page.NonHTML, o.Page.Copies = 0.2, 0.7
	})
	if k.server, err = k.web.Start(k.t.Context(), simweb.ServerOptions{}); err != nil {
		k.t.Fatal(err)
	}
	k.strangers = startStrangers(k.t, k.world, k.server.HTTPPort())
	dir := filepath.Join(k.tmp, fmt.Sprint(k.crawls))
	k.job = childJob{Dirs: []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")},
		Seeds: filepath.Join(k.tmp, "seeds"), DNS: k.server.DNSAddrs()[0].String(), HTTP: k.server.HTTPPort(),
		HTTPS: k.server.HTTPSPort(), RAMBytes: 128 << 20, Small: true, World: k.world, Met: filepath.Join(k.tmp, "met"),
		Parts: map[trouble]state.BudgetParts{"": state.ByDirectories}[k.world]}
	if k.world == walking {
		k.job.WalkURLs = k.web.Expected("drumbeat").Fetched * 3 / 4
	}
	seeds := append(k.web.Seeds(), k.world.strangers()...)
	if err := os.WriteFile(k.job.Seeds, []byte(strings.Join(seeds, "\n")), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// run runs one child in the trouble of its world.
func (k *killTest) run(limit time.Duration) string {
	k.t.Helper()
	k.calm = func() {}
	k.trouble()
	// Once the child knows some servers, connections break and names get no answer.
	if k.job.KillAt == "outage" {
		now := time.Now()
		k.breakOff(simweb.Outage{All: true}, window{now.Add(limit / 3), now.Add(limit)})
	}
	got := runChild(k.t, &k.job, limit)
	if got == "full" { // the child ended at its start; make room for the next one
		k.full++
		k.job.Window.Until = time.Now()
		got = runChild(k.t, &k.job, limit)
	}
	k.calm()
	k.drain()
	k.rounds++
	if _, err := os.Stat(k.job.Met); err == nil || k.strangers != nil && k.strangers.met.Load() {
		k.met = true
	}
	return got
}

// drain waits until the web has dealt with the connections of a dead child. On a busy machine it may
// otherwise read a request of that child beside the first ones of the next child.
func (k *killTest) drain() {
	const tick, quiet = 5 * time.Millisecond, 4
	last, same := [3]int{}, 0
	for range 2000 {
		requests, conns, open := k.web.Log().Totals()
		if now := [3]int{requests, conns, open}; now != last || open > 0 {
			last, same = now, 0
		} else if same++; same == quiet {
			return
		}
		<-time.After(tick)
	}
}

// finish compares the output, log and audit of a crawl that has ended with what a correct crawl yields.
func (k *killTest) finish() {
	k.t.Helper()
	opt, err := k.job.options()
	if err != nil {
		k.t.Fatal(err)
	}
	snap := k.web.Log().Snapshot()
	// Over sockets the test can measure the time from the end of a response to the next request. It can't
	// measure the time between starts: on a busy machine the web's goroutines read requests late.
	// TestCutsAtRandom checks both, in virtual time.
	checkDelays(k.t, snap, &opt, opt.Politeness.ServerDelayMin)
	if k.world == walking {
		k.checkWalked(&opt, snap)
		return
	}
	end := endOf{fs: disk.OS(), dirs: k.job.Dirs, trouble: k.world, want: k.web.Expected("drumbeat"),
		parsed: new(sync.Map)}
	faults := end.check()
	repeated, bad := checkServed(end.want, snap)
	// The last ones, of the audit and the accounts, say the most.
	if faults = append(bad, faults...); len(faults) > 0 {
		k.t.Error(strings.Join(faults[max(0, len(faults)-20):], "\n"))
	}
	k.urls, k.records, k.repeated = k.urls+end.want.Fetched+len(k.world.strangers()), k.records+len(end.stored),
		k.repeated+repeated
	for why, n := range end.strange {
		k.strange[why] += n
	}
	k.strange["waiting"] += end.waiting
	k.close()
}

// close removes a crawl that was compared, and its web.
func (k *killTest) close() {
	k.t.Helper()
	k.requests = k.total()
	k.strangers.close()
	if err := errors.Join(k.server.Close(), os.RemoveAll(filepath.Dir(k.job.Dirs[0]))); err != nil {
		k.t.Error(err)
	}
	if k.t.Failed() {
		k.t.Fatalf("crawl %d failed", k.crawls)
	}
}

// total is the number of requests that the webs have answered.
func (k *killTest) total() int {
	n, _, _ := k.web.Log().Totals()
	return k.requests + n
}

// prepare sets the place at which the next child kills itself, and makes sure that the child reaches it.
func (k *killTest) prepare(place string, round int) {
	k.t.Helper()
	job := &k.job
	job.KillAfter = 0
	switch job.KillAt, job.KillOn = place, 1+k.rng.IntN(3); place {
	case "urlseen", "star", "roll":
		job.KillAfter = time.Duration(k.rng.IntN(1000)) * time.Millisecond
	case "seeds": // a new line in the seed file makes the feeder run once more
		appendLine(k.t, job.Seeds, fmt.Sprintf("# round %d", round))
		job.KillOn = 1
	case "rest": // occurs once
		job.KillOn = 1
	case "outage": // see run
		job.KillOn = 1
	case "recovery":
		job.KillOn = 1 + k.rng.IntN(2)
	case "checkpoint": // three occurrences per checkpoint
		job.KillOn, job.KillAfter = 1+k.rng.IntN(12), time.Duration(k.rng.IntN(500))*time.Millisecond
	}
}

// TestKill: a crawl that is killed many times, at chosen places and at random, must fetch, store and account
// for the same as a crawl that was never killed. Each world has its own trouble, during which the kills
// happen. Within a world one crawl follows another until all rounds are done; the worlds run in parallel.
func TestKill(t *testing.T) {
	t.Parallel()
	notShort(t)
	rounds := (*killRounds + len(killWorlds) - 1) / len(killWorlds)
	if rounds == 0 {
		rounds = longOr(8, 2)
	}
	pages := *killPages
	if pages == 0 {
		pages = longOr(1500, 200)
	}
	t.Logf("seed %d, %d rounds in each world, crawls of about %d URLs", *seedFlag, rounds, pages)
	sum := &killSum{killed: map[string]int{}}
	var worlds sync.WaitGroup
	for i, world := range killWorlds {
		worlds.Go(func() {
			t.Run(cmp.Or(string(world), "no trouble"), func(t *testing.T) {
				k := &killTest{t: t, sum: sum, world: world, tmp: t.TempDir(),
					rng: rand.New(rand.NewPCG(*seedFlag, uint64(i))), pages: pages, places: map[string]bool{},
					strange: map[string]int64{}}
				k.kill(rounds, i*rounds)
			})
		})
	}
	worlds.Wait()
	kills := sum.late
	for _, n := range sum.killed {
		kills += n
	}
	t.Logf("%d kills: %v, %d elsewhere, because the child didn't reach the place", kills, sum.killed, sum.late)
}

// kill runs the rounds of a world, from the place with number first on.
func (k *killTest) kill(rounds, first int) {
	k.begin()
	var work []int // requests answered after each round
	// On a busy machine a child may not reach a place in any round. Each extra round for it gives the child
	// more time.
	for round, ended := 0, 0; round < rounds || k.more < 10 && len(k.missing()) > 0; round++ {
		place, limit := killPlaces[(first+round)%len(killPlaces)], placeLimit
		if round >= rounds {
			k.more++
			place, limit = k.missing()[0], time.Duration(1+k.more)*placeLimit
		}
		k.places[place] = true
		if place == "random" {
			limit = time.Duration(1+k.more) * time.Duration(50+k.rng.IntN(1200)) * time.Millisecond
		}
		k.prepare(place, round)
		switch got := k.run(limit); got {
		case "ended":
			ended++
			k.finish()
			k.begin()
		case "killed", "late":
			k.killed = true
			k.sum.add(place, got == "late")
		}
		work = append(work, k.total())
	}
	if never := k.missing(); len(never) > 0 {
		k.t.Errorf("never killed at %q; killed at all: %t; met its trouble: %t", never, k.killed, k.met)
	}
	k.job.KillAt = ""
	if got := k.run(10 * time.Minute); got != "ended" {
		k.t.Fatalf("the last run: %s", got)
	}
	last := k.total() - work[len(work)-1]
	k.finish()
	k.t.Logf("%d rounds in %d crawls; requests answered in each tenth of the rounds: %v, in the last run: %d",
		len(work), k.crawls, tenths(work), last)
	k.t.Logf("compared %d URLs with %d records in the output; %d repeated fetches; refused of strangers %v; %d "+
		"starts without disk space", k.urls, k.records, k.repeated, k.strange, k.full)
}

// tenths returns the growth of a running total in each tenth of its values.
func tenths(total []int) (grown []int) {
	last := 0
	for i := 1; i <= 10; i++ {
		if at := i*len(total)/10 - 1; at >= 0 {
			grown = append(grown, total[at]-last)
			last = total[at]
		}
	}
	return grown
}

func appendLine(t *testing.T, path, line string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	if _, err := f.WriteString("\n" + line); err != nil {
		t.Fatal(err)
	}
	must(t, f.Close())
}

// placeLimit is the time that a child has to reach the place where it kills itself. Most children reach it
// in time, and the crawl doesn't end before the last round.
const placeLimit = 1500 * time.Millisecond

// runChild runs one child. The parent kills it after d. That is the expected kill if the place is "random",
// and a late one for any other place. Without a place d limits the run.
func runChild(t *testing.T, job *childJob, d time.Duration) string {
	t.Helper()
	text, err := json.Marshal(job)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	var out strings.Builder
	cmd.Stderr = &out
	must(t, cmd.Start())
	var late atomic.Bool
	timer := time.AfterFunc(d, func() {
		late.Store(job.KillAt != "random")
		_ = cmd.Process.Kill()
	})
	err = cmd.Wait()
	timer.Stop()
	if err == nil {
		return "ended"
	}
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		if ws, ok := ee.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			if late.Load() {
				return "late"
			}
			return "killed"
		}
		if ee.ExitCode() == exitFull {
			return "full"
		}
	}
	t.Fatalf("child: %v\n%s", err, out.String())
	return ""
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
