package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/fetch"
	"drumbeat/internal/simweb"
	"drumbeat/warc"
)

// killRounds is how often TestKill kills the crawl. The places come in turn.
var killRounds = flag.Int("kills", 0, "rounds of TestKill (0: two for each place; six with -long)")

// killPages is how large each crawl of it is.
var killPages = flag.Int("kill-pages", 0, "URLs of each web of TestKill (0: 600; 2500 with -long)")

// killPlaces are where a child kills itself; "random" is any time, by the parent.
var killPlaces = []string{"seeds", "urlseen", "star", "checkpoint", "roll", "recovery", "rest", "outage", "random"}

const childEnv = "DRUMBEAT_CRAWL_TEST_CHILD"

// childJob is what a child process is told to do.
type childJob struct {
	Dirs        []string
	Seeds       string
	DNS         string
	HTTP, HTTPS uint16
	KillAt      string // place
	KillOn      int    // its occurrence
	RAMBytes    int64
	Small       bool
}

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		os.Exit(child(job))
	}
	flag.Parse()
	os.Exit(m.Run())
}

// child runs a crawl over real sockets and disks until it is done or kills itself.
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
	if err != nil && !errors.Is(err, ErrFinished) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (j *childJob) options() (Options, error) {
	client, err := fetch.New(fetch.Options{
		AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: []uint16{8080},
		MapPort: func(p uint16) uint16 {
			if p == 443 {
				return j.HTTPS
			}
			return j.HTTP
		},
	})
	if err != nil {
		return Options{}, err
	}
	var mu sync.Mutex
	seen := 0
	opt := Options{
		Dirs: j.Dirs, Seeds: j.Seeds, Agent: "drumbeat", Contact: "test@example.org", Fetcher: client,
		Resolver: netResolver(j.DNS), RAMBytes: j.RAMBytes, DiskBytes: 10 << 30, Connections: 64, Retries: 2,
		KeepAlive: 5 * time.Second, HostDelay: 30 * time.Millisecond, HostDelayMin: 20 * time.Millisecond, ServerDelay: 5 * time.Millisecond,
		ServerDelayMin: 4 * time.Millisecond, PLDDelay: 10 * time.Millisecond, PLDDelayMin: 5 * time.Millisecond,
		NetworkConnections: 40, Linger: 500 * time.Millisecond, CheckpointEvery: 100 * time.Millisecond, Store: true,
		CrawlLog: LogAll, StockTarget: 500, MaxDepth: Unlimited, WARCFileBytes: 50_000, Backoff: 50 * time.Millisecond,
		hook: func(place string) {
			mu.Lock()
			defer mu.Unlock()
			if place == j.KillAt {
				if seen++; seen >= j.KillOn {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {} // the signal is on its way
				}
			}
		},
	}
	if j.KillAt == "rest" {
		opt.FS = shortOfSpace{disk.OS()}
	}
	if j.Small {
		opt.DrumBufferBytes, opt.DrumBucketBytes, opt.DrumBuckets = 4<<10, 64<<10, 8
	}
	return opt, nil
}

// shortOfSpace is a file system that says that it is nearly full.
type shortOfSpace struct{ disk.FS }

// Space implements disk.FS.
func (shortOfSpace) Space(string) (free, total int64, err error) { return 1 << 20, 1 << 30, nil }

// goResolver is the standard library's resolver, pointed at the synthetic web's name server.
type goResolver struct{ r *net.Resolver }

func netResolver(server string) Resolver {
	return goResolver{&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
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

// killTest is TestKill at work: one crawl after the other.
type killTest struct {
	t      *testing.T
	tmp    string
	web    *simweb.Web
	server *simweb.Server
	job    childJob

	pages                   int // of each crawl's web
	crawls                  int
	requests                int // that the webs of crawls before this one answered
	urls, records, repeated int // compared
}

// begin makes a web and a crawl of it.
func (k *killTest) begin() {
	k.t.Helper()
	k.crawls++
	var err error
	k.web = smallWeb(k.t, func(o *simweb.Options) {
		o.Seed += uint64(k.crawls)
		o.Pages, o.Hosts, o.PLDs, o.IPs, o.Robots.ServerError = k.pages, 120, 40, 80, 0
	})
	if k.server, err = k.web.Start(k.t.Context(), simweb.ServerOptions{}); err != nil {
		k.t.Fatal(err)
	}
	dir := filepath.Join(k.tmp, fmt.Sprint(k.crawls))
	k.job = childJob{Dirs: []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}, Seeds: filepath.Join(k.tmp, "seeds"),
		DNS: k.server.DNSAddrs()[0].String(), HTTP: k.server.HTTPPort(), HTTPS: k.server.HTTPSPort(), RAMBytes: 128 << 20, Small: true}
	if err := os.WriteFile(k.job.Seeds, []byte(strings.Join(k.web.Seeds(), "\n")), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// finish compares a crawl that has ended with what it should have brought.
func (k *killTest) finish() {
	k.t.Helper()
	urls, records, repeated := finalChecks(k.t, k.web, &k.job)
	k.urls, k.records, k.repeated = k.urls+urls, k.records+records, k.repeated+repeated
	k.requests = k.total()
	if err := errors.Join(k.server.Close(), os.RemoveAll(filepath.Dir(k.job.Dirs[0]))); err != nil {
		k.t.Error(err)
	}
	if k.t.Failed() {
		k.t.Fatalf("crawl %d failed", k.crawls)
	}
}

// total is how many requests the webs have answered.
func (k *killTest) total() int {
	n, _, _ := k.web.Log().Totals()
	return k.requests + n
}

// prepare makes the next child kill itself at a place, and makes the place come.
func (k *killTest) prepare(rng *rand.Rand, place string, round int) {
	k.t.Helper()
	job := &k.job
	switch job.KillAt, job.KillOn = place, 1+rng.IntN(3); place {
	case "seeds": // new lines in the seed file make the feeder run again, once
		appendLine(k.t, job.Seeds, fmt.Sprintf("# round %d", round))
		job.KillOn = 1
	case "rest": // comes once
		job.KillOn = 1
	case "outage": // all connections are broken off, no name is answered
		k.web.SetOutage(simweb.Outage{All: true})
		job.KillOn = 1
	case "recovery":
		job.KillOn = 1 + rng.IntN(2)
	case "checkpoint": // three in each
		job.KillOn = 1 + rng.IntN(12)
	}
}

// TestKill kills a crawl over and over, at chosen places and at random, until it ends all the same: what was fetched, stored and
// accounted for must be as without. Then comes the next crawl, until all rounds are done.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	rounds := *killRounds
	if rounds == 0 {
		rounds = len(killPlaces) * longOr(6, 2)
	}
	k := &killTest{t: t, tmp: t.TempDir(), pages: *killPages}
	if k.pages == 0 {
		k.pages = longOr(2500, 600)
	}
	k.begin()
	rng := rand.New(rand.NewPCG(*seedFlag, 7))
	t.Logf("seed %d, %d rounds, crawls of about %d URLs", *seedFlag, rounds, k.pages)
	killed := map[string]int{}
	late := 0
	missing := func() (places []string) {
		for _, p := range killPlaces {
			if killed[p] == 0 {
				places = append(places, p)
			}
		}
		return places
	}
	var work []int // requests answered after each round
	// On a busy machine a place may not come in time in any of its rounds: it gets more of them, and each time longer.
	for round, more := 0, 0; round < rounds || more < 10 && len(missing()) > 0; round++ {
		place, limit := killPlaces[round%len(killPlaces)], placeLimit
		if round >= rounds {
			more++
			place, limit = missing()[0], time.Duration(1+more)*placeLimit
		}
		if place == "random" {
			limit = time.Duration(50+rng.IntN(600)) * time.Millisecond
		}
		k.prepare(rng, place, round)
		switch runChild(t, &k.job, limit) {
		case "killed":
			killed[place]++
		case "late":
			late++
		case "ended":
			k.finish()
			k.begin()
		}
		k.web.SetOutage(simweb.Outage{})
		work = append(work, k.total())
	}
	ended := k.crawls - 1
	k.job.KillAt = ""
	if got := runChild(t, &k.job, 10*time.Minute); got != "ended" {
		t.Fatalf("the last run: %s", got)
	}
	last := k.total() - work[len(work)-1]
	k.finish()
	sum := late
	for _, n := range killed {
		sum += n
	}
	if never := missing(); len(never) > 0 {
		t.Errorf("never killed at %q", never)
	}
	t.Logf("%d kills in %d crawls: %v, %d elsewhere, because the place didn't come; %d runs ended", sum, k.crawls, killed, late, ended)
	t.Logf("requests answered in each tenth of the rounds: %v, in the last run: %d", tenths(work), last)
	t.Logf("compared: %d URLs with %d records in the output; %d fetches were repeated", k.urls, k.records, k.repeated)
}

// tenths is how much a running total grew in each tenth of its steps.
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
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\n" + line); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// placeLimit is how long a child may take to come to the place where it kills itself: long enough for most, short enough for the
// crawl not to be done before the last round.
const placeLimit = 1500 * time.Millisecond

// runChild runs one child. The parent kills it after d: as it should when its place is "random", too late for any other. Without a
// place d bounds the run.
func runChild(t *testing.T, job *childJob, d time.Duration) string {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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

func finalChecks(t *testing.T, web *simweb.Web, job *childJob) (urls, stored, repeated int) {
	t.Helper()
	opt, err := job.options()
	if err != nil {
		t.Fatal(err)
	}
	// From the end of a response to the next request can be told over sockets; gaps from start to start can't, since the web's
	// goroutines read requests when the busy machine lets them. TestCutsAtRandom has both, in virtual time.
	checkDelays(t, web.Log().Snapshot(), &opt, opt.ServerDelayMin)
	return checkStored(t, web, disk.OS(), job.Dirs)
}

// checkStored asserts after any number of interruptions: every URL that a correct crawl fetches was fetched and is in the
// output once, no other is, and the audit balances.
func checkStored(t *testing.T, web *simweb.Web, fs disk.FS, dirs []string) (urls, stored, repeated int) {
	t.Helper()
	snap := web.Log().Snapshot()
	want := web.Expected("drumbeat")
	records := storedURLs(t, fs, dirs)
	bad := 0
	fault := func(format string, args ...any) {
		if bad++; bad <= 20 {
			t.Errorf(format, args...)
		}
	}
	for url := range want.FetchedURLs() {
		stored += records[url]
		repeated += max(0, snap.Fetches[url]-1)
		if snap.Fetches[url] == 0 {
			fault("not fetched: %s", url)
		}
		if records[url] != 1 {
			fault("%d records of %s in the output", records[url], url)
		}
		delete(records, url)
	}
	for url, n := range records {
		fault("%d records of %s in the output, which must not be fetched", n, url)
	}
	for url := range snap.Fetches {
		if fetched, _, _ := want.Has(url); !fetched {
			fault("fetched, but must not be: %s", url)
		}
	}
	rep, err := Audit(fs, dirs)
	if err != nil {
		t.Fatal(err)
	}
	if !rep.Balanced() {
		t.Errorf("audit: %v", rep.Bad)
	}
	return want.Fetched, stored, repeated
}

// storedURLs counts the response records of each URL in the output, final files and the open one alike.
func storedURLs(t *testing.T, fs disk.FS, dirs []string) map[string]int {
	t.Helper()
	urls := map[string]int{}
	for _, rec := range storedRecords(t, fs, dirs) {
		urls[rec.Get("WARC-Target-URI")]++
	}
	return urls
}

// storedRecords are the heads of the output's response records.
func storedRecords(t *testing.T, fs disk.FS, dirs []string) (heads []warc.Record) {
	t.Helper()
	count := func(rec *warc.Record) error {
		if rec.Type() == "response" {
			head := *rec
			head.Block = nil
			heads = append(heads, head)
		}
		return nil
	}
	set := disk.Set{FS: fs, Paths: dirs}
	paths, err := warc.Files(set)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if err := warc.ReadFile(fs, p, 1<<30, count); err != nil {
			t.Fatal(err)
		}
	}
	m, _, err := readManifest(set)
	if err != nil {
		t.Fatal(err)
	}
	st, err := statePart[warc.State](m, nameWARC)
	if err != nil {
		t.Fatal(err)
	}
	err = warc.Walk(warc.Options{Set: set, State: set}, st, 1<<30, func(_ string, rec *warc.Record) error { return count(rec) })
	if err != nil {
		t.Fatal(err)
	}
	return heads
}
