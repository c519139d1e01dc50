package crawl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drumbeat/crawl/account"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/strategy"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/health"
	"drumbeat/internal/hook"
	"drumbeat/internal/simweb"
	"drumbeat/internal/walk"
	"drumbeat/state"
)

// The crash simulation runs whole crawls in virtual time on a file system in RAM. The file system cuts a
// crawl off at a mutating operation and comes back in a state that kill -9 or a power cut can leave.
// TestCutsAtRandom cuts crawls many times, also during recovery. TestCutsInTurn cuts one crawl before each
// of its operations. checkCut and checkEnd define what must survive.
//
// -seed determines each world, its web, its options, the places of the cuts, and what a cut leaves of
// unsynced data. It does not determine how goroutines are scheduled: the same seed cuts the same crawl at
// other moments. To reproduce a fault exactly, write the files that the failed run found with -image and
// resume from them with -replay.

// cutWorld is a small web and the options of its crawls. One crawl takes about 50 ms of CPU. M, r, files
// and budgets are so small that crawls have passes, rounds, file rolls, slots and scans of QF (see
// TestCutWorlds). It is immutable after newCutWorld and undisturbed.
type cutWorld struct {
	seed       uint64
	web        simweb.Options
	want       *simweb.Expected
	dirs, out  []string
	buckets    int
	blockBytes int
	robotsIll  bool
	quota      bool             // lives with cuts sometimes reach a quota that statfs doesn't show
	trouble    trouble          // of the network, of names, or of some servers
	spools     bool             // most pages are spooled
	asksHook   bool             // a hook is asked about pages
	suffixes   bool             // use the whole public suffix list: 10 ms per read
	walks      bool             // a random walk, so long that it visits all pages
	refuses    bool             // sites refuse that their pages train models, and those are not stored
	once       *Result          // of the crawl without a cut
	steps      int              // mutating operations of that crawl
	strange    map[string]int64 // its life.strange
}

func newCutWorld(t *testing.T, seed uint64) *cutWorld {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0x637574))
	w := &cutWorld{seed: seed, dirs: []string{"d0", "d1"}[:1+seed%2], buckets: 1 << rng.IntN(3),
		blockBytes: 30 + rng.IntN(150), robotsIll: seed%4 == 0, suffixes: seed%8 == 1, spools: seed%6 == 1,
		quota: seed%4 == 3, asksHook: seed%12 == 3 || seed%12 == 10, walks: seed%12 == 7, trouble: troubleOf(seed),
		refuses: seed%12 == 1 || seed%12 == 4 || seed%12 == 8}
	if seed%3 == 0 {
		w.out = []string{"o0", "o1"}
	}
	o := simweb.Defaults(seed)
	o.PLDs, o.Hosts, o.Pages, o.IPs, o.LinksPerPage, o.PageBytes, o.SeedURLs = 5, 12, 70, 6, 25, 500, 2
	o.HTTPS, o.LogRequests, o.CrawlDelay = 0, 1, 3*time.Second
	o.Robots.ServerError, o.Robots.CrawlDelay = 0, 0.1
	o.Page.NonHTML, o.Page.Copies = 0.3, 0.7
	o.Hostile, o.Signals = []string{"welcome-few"}, w.refuses
	w.web = o
	web, err := simweb.New(o)
	must(t, err)
	w.want = web.Expected("drumbeat")
	return w
}

// empty returns a file system without a crawl.
func (w *cutWorld) empty(t testing.TB, seed uint64) *memfs.FS {
	t.Helper()
	fs := memfs.New(seed)
	if w.suffixes {
		return fs
	}
	for _, dir := range append(w.out, w.dirs[1:]...) { // separate disks: a sync of one doesn't sync another
		must(t, fs.Mount(dir))
	}
	for _, dir := range w.dirs {
		must(t, fs.MkdirAll(dir))
	}
	m, err := disk.MatchIdentities(fs, w.dirs, state.KindState)
	if err == nil {
		_, err = disk.Label(m, "00112233445566778899aabbccddeeff", state.KindState)
	}
	must(t, err)
	must(t, fs.MkdirAll(w.dirs[0]+"/state"))
	must(t, disk.WriteFileAtomic(fs, w.dirs[0]+"/"+state.SuffixesName, []byte("example\n")))
	must(t, fs.SyncFS("."))
	return fs
}

func (w *cutWorld) options(t testing.TB, fs disk.FS) (Options, *witness) {
	t.Helper()
	web, err := simweb.New(w.web)
	must(t, err)
	opt := simOptions(t, web, fs)
	small(&opt)
	opt.Admission.SeedLines = append(slices.Clone(opt.Admission.SeedLines), web.HostileSeeds()...)
	opt.Health.HostFailures, opt.Health.HostRests, opt.Health.HostRefusals, opt.tests.tunePolicy = 3, 2, 3, cutPolicy
	opt.Health.Retries = 10 // the crawl gives up a failing host before any of its URLs
	opt.Admission.SeedLines = append(opt.Admission.SeedLines, w.trouble.strangers()...)
	client := w.client(t, web)
	opt.Network.Resolver, opt.Network.AllowedAddr, opt.Network.Ports = troubledNames{opt.Network.Resolver, w.trouble},
		client.AllowedAddr, client.Ports()
	wit := &witness{inner: client, seed: w.seed, robotsIll: w.robotsIll}
	wit.begin(0)
	opt.Network.Fetcher = wit
	opt.Disk.Dirs, opt.Disk.Out = w.dirs, w.out
	opt.Drum.BucketBytes, opt.Drum.Buckets = 4<<10, w.buckets
	opt.Drum.CacheRAMBytes = Unlimited // no cache
	opt.Output.WARCFileBytes = 15_000
	opt.Network.Connections, opt.Network.RobotsInFlight, opt.Order.StockTarget = 8, 4, 12
	opt.Budgets.QueuesMax, opt.Budgets.Default, opt.Budgets.Max, opt.Budgets.QueuePages = 8, 2, 6, Unlimited
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Second, 500*time.Millisecond
	opt.Politeness.ServerDelay, opt.Politeness.ServerDelayMin = 100*time.Millisecond, 20*time.Millisecond
	opt.Disk.CheckpointEvery, opt.Limits.Linger = 2*time.Second, time.Hour // no host becomes unreachable for good
	if w.seed%2 == 1 {
		opt.Order.StockTarget = 2 // BEAST stops within a queue, and `deferred` returns URLs one by one
	} else {
		opt.Output.RollEvery, opt.Budgets.TrapScore, opt.Output.Simhash = 3*time.Second, w.seed%4 == 0, true
		opt.Output.NearDuplicates = state.NearDuplicates{KeepOne: true, Bits: state.MaxNearBits}
	}
	if w.seed%5 < 2 {
		opt.Budgets.Policy = "supporters"
	}
	opt.Budgets.Parts = []state.BudgetParts{3: state.ByHosts, 4: state.ByDirectories}[w.seed%5]
	if w.seed%3 == 2 {
		opt.Output.ContentSeen = state.ContentSkip
	}
	switch {
	case w.walks:
		opt.Order.Strategy, opt.Order.Walk = strategy.RandomWalk, walk.Options{Walkers: 10, URLs: 2000}
	case w.seed%4 == 3:
		opt.Order.Priority = "depth"
	}
	if w.asksHook {
		opt.opened.asker = &fakeHook{wants: hook.Wants{Links: true}, think: hookThinks, answer: erraticAnswer}
	}
	opt.Output.ArchiveRobots, opt.Output.ArchiveDNS = w.seed%4 < 3, w.seed%4 > 0
	if w.refuses {
		opt.Output.TDMRep, opt.Output.Usage.AITrain = true, state.UsageDrop
	}
	if w.seed%3 == 1 {
		opt.Politeness.PLDDelay, opt.Politeness.PLDDelayMin, opt.Politeness.HostDelayFactor = 300*time.Millisecond,
			50*time.Millisecond, 10
		opt.Politeness.NetworkRate, opt.Politeness.NetworkConnections = 20, 3
		opt.Politeness.AdaptiveDelay = w.seed%2 == 0
	}
	opt.tests.tune = func(p *plan.Plan) {
		p.URLSeen.BucketBytes, p.Edges.BucketBytes, p.Indegree.BucketBytes, p.Names.BucketBytes = 1<<10,
			1<<10, 1<<10, 1<<10
		p.HostLinks.BucketBytes, p.QueueBlockBytes = 1<<10, w.blockBytes
		if w.seed%2 == 0 {
			p.ContentFilterBytes = 64 // nearly all pages wait for their verdict
		}
		if w.seed%2 == 1 {
			p.OutputBufferBytes = 4 << 10 // so that output files grow between checkpoints
		}
	}
	return opt, wit
}

// hookThinks is how long the hook of a world takes for a page. Its pages wait for a worker at most once as long.
const hookThinks = 20 * time.Millisecond

// lag is the most time between the end of a visit and its transaction.
func (w *cutWorld) lag() time.Duration {
	if w.asksHook {
		return 3 * hookThinks
	}
	return 0
}

// cutPolicy shortens the back-offs of hosts that fail or refuse so that they end within a life.
func cutPolicy(p *health.Policy) {
	p.LongRest, p.LongRestMax = 70*time.Second, 100*time.Second
	p.Unwelcome = [2]time.Duration{80 * time.Second, 150 * time.Second}
}

// undisturbed crawls the world once without a cut.
func (w *cutWorld) undisturbed(t *testing.T) (l *life) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		l = newLife(t, w, 0, w.empty(t, 0))
		must(t, l.crawl(0))
		if faults := l.checkEnd(); len(faults) > 0 {
			t.Fatalf("world %d, without a cut:\n%s", w.seed, strings.Join(faults, "\n"))
		}
	})
	w.once, w.steps, w.strange = l.result, len(l.steps), l.strange
	return l
}

// undisturbedWorlds caches worlds that several tests use, with the crawl of each without a cut.
var undisturbedWorlds struct {
	sync.Mutex
	worlds [numCutWorlds]*cutWorld
	lives  [numCutWorlds]*life
}

// undisturbedWorld makes a world and crawls it once without a cut. It caches the first numCutWorlds worlds.
func undisturbedWorld(t *testing.T, seed uint64) (w *cutWorld, l *life) {
	t.Helper()
	n := seed - *seedFlag
	if n < numCutWorlds {
		undisturbedWorlds.Lock()
		defer undisturbedWorlds.Unlock()
		if w = undisturbedWorlds.worlds[n]; w != nil {
			return w, undisturbedWorlds.lives[n]
		}
	}
	w = newCutWorld(t, seed)
	l = w.undisturbed(t)
	if n < numCutWorlds && !t.Failed() {
		undisturbedWorlds.worlds[n] = w
		undisturbedWorlds.lives[n] = &life{world: w, wit: &witness{visits: l.wit.visits}, steps: l.steps,
			result: l.result, strange: l.strange}
	}
	return w, l
}

// TestCutWorlds: crawls of the worlds must make passes by size, scans of QF, file rolls, queue segments and
// slots, so that cuts hit them.
func TestCutWorlds(t *testing.T) {
	notShort(t)
	var sum struct{ full, scans, rolled, segments, slots int }
	for seed := *seedFlag; seed < *seedFlag+numCutWorlds; seed++ {
		w, l := undisturbedWorld(t, seed)
		var rolled, segments, slots int
		for _, s := range l.steps {
			switch {
			case s.Op == memfs.OpRename && strings.HasSuffix(s.Name, ".warc.gz"):
				rolled++
			case s.Op == memfs.OpCreate && strings.HasSuffix(s.Name, ".seg"):
				segments++
				if strings.Contains(s.Name, "/later/") {
					slots++
				}
			}
		}
		s := &l.result.Snapshot
		t.Logf("world %d %s: %d operations, %v, %d visits, %d fetched, %d checkpoints, %d passes of URLseen (%d by "+
			"size), %d queues, "+
			"%d scans of QF, %d WARC files, %d queue segments, %d of slots; %d retries, %d deferrals; refused %v", seed,
			w.trouble, len(l.steps), s.Elapsed, len(l.wit.visits), s.Place(state.PlaceFetched),
			s.Count(state.CountCheckpoints), s.URLSeenPasses, s.URLSeenFullPasses, s.Queue, s.Scans, rolled, segments,
			slots, s.Count(state.CountRetries), s.Count(state.CountDeferrals), s.Refused)
		if s.Refused["not-welcome"] != 3 || s.Refused["host-given-up"]-l.strange["host-given-up"] != simweb.FewURLs {
			t.Errorf("world %d: refused %v, want all URLs of the failing host and three of the refusing host",
				seed, s.Refused)
		}
		if (s.Count(state.CountHookDropped) > 5 && s.Count(state.CountHookLinks) > 20) != w.asksHook {
			t.Errorf("world %d: the hook dropped %d pages and added %d links", seed, s.Count(state.CountHookDropped),
				s.Count(state.CountHookLinks))
		}
		if n := s.Count(state.CountUsageDropped); n != w.refused(t) || (n > 10) != w.refuses {
			t.Errorf("world %d: --usage drops %d pages, want %d", seed, n, w.refused(t))
		}
		if n := s.Count(state.CountSpooled); (n > s.Place(state.PlaceFetched)/4) != w.spools {
			t.Errorf("world %d: %d bodies spooled", seed, n)
		}
		sum.full, sum.scans = sum.full+int(s.URLSeenFullPasses), sum.scans+int(s.Scans)
		sum.rolled, sum.segments, sum.slots = sum.rolled+rolled, sum.segments+segments, sum.slots+slots
	}
	if min(sum.full, sum.scans, sum.rolled, sum.segments) < numCutWorlds || sum.slots == 0 {
		t.Errorf("seed %d: %+v in %d worlds, want on average one of each per world, and at least one slot", *seedFlag,
			sum, numCutWorlds)
	}
}

// refused returns the number of pages that are not stored because their sites refuse a use of them.
func (w *cutWorld) refused(t *testing.T) (n int64) {
	t.Helper()
	web, err := simweb.New(w.web)
	must(t, err)
	for url := range w.want.FetchedURLs() {
		if use := web.UseOf(url); w.refuses && (strings.Contains(use.ContentSignal, "ai-train=no") ||
			strings.Contains(use.ContentUsage, "train-ai=n") || use.RobotsValues != "" || use.TDMReservation == "1") {
			n++
		}
	}
	return n
}

// numCutWorlds is the number of worlds; consecutive lives use consecutive worlds.
const numCutWorlds = 12

// squeeze sets a quota slightly above the used space and lifts it after at most 200 s; it does so three
// times.
func squeeze(ctx context.Context, fs *memfs.FS) {
	for range 3 {
		account.Sleep(ctx, time.Duration(rand.IntN(20_000))*time.Millisecond)
		fs.SetQuota(fs.Used() + 1 + rand.Int64N(20_000))
		account.Sleep(ctx, time.Duration(rand.IntN(200))*time.Second)
		fs.SetQuota(0)
	}
}

// rolledBack records that a crawl went back to its last checkpoint in the same process after a failed
// write. What follows counts as another run.
func (l *life) rolledBack() {
	n := l.fs.QuotaErrors()
	if n == l.quotaErrors {
		return // the program has just started
	}
	_, m, err := l.manifest()
	if err != nil {
		return // the cut has happened
	}
	l.quotaErrors = n
	if m.Gen > l.gen {
		l.wit.cover(l.run, l.frozenAt(m).Add(-l.world.lag())) // opening the crawl made it durable
		l.gen, l.active, l.sureGen = m.Gen, m.Active, m.Gen
	}
	l.began = time.Now()
	l.hooks.Store(0)
	l.run++
	l.back++
	l.wit.begin(l.run)
	l.story = append(l.story, fmt.Sprintf("run %d: back to checkpoint %d", l.run, m.Gen))
}

// life is one crawl from start to end, through any number of cuts, in one bubble.
type life struct {
	t      *testing.T
	world  *cutWorld
	opt    Options
	wit    *witness
	fs     *memfs.FS
	parsed *sync.Map    // of outputOf: checksum of a file -> []string
	image  *memfs.FS    // the files that the run found
	steps  []memfs.Step // operations of the last run
	story  []string
	result *Result

	// before is called before each operation, while all others wait: see memfs.FS.Watch.
	before   func(s memfs.Step, fork func(uint64) *memfs.FS)
	run      int
	again    bool      // cut it in its recovery
	began    time.Time // of this run
	cutAt    time.Time
	squeezed bool           // it sometimes reaches a quota
	hooks    atomic.Int64   // calls of the hook "checkpoint" in this run: three per checkpoint
	gen      uint64         // of the manifest that this run found
	active   int64          // Active of that manifest
	stored   map[string]int // records of each URL in its output
	storedAt int            // number of visits when the run found it

	strange map[string]int64 // refused URLs of strangers, by reason

	quotaErrors int // before the current round of Run
	back        int // rounds that ended with a quota error

	sureGen    uint64         // the last checkpoint known to be durable
	sureStored map[string]int // records of each URL in its output
	unsure     []frozenMoment // manifests that may not be durable yet
}

// frozenMoment is the time at which a run froze a checkpoint.
type frozenMoment struct {
	gen uint64
	run int
	at  time.Time
}

func newLife(t *testing.T, w *cutWorld, run int, fs *memfs.FS) *life {
	t.Helper()
	l := &life{t: t, world: w, run: run, fs: fs, parsed: new(sync.Map)}
	l.opt, l.wit = w.options(t, fs)
	l.watchCheckpoints()
	return l
}

func (l *life) watchCheckpoints() {
	l.opt.tests.hook = func(place string) {
		disturb()
		switch place {
		case "checkpoint":
			l.hooks.Add(1)
		case "recovery":
			l.rolledBack()
		case "ahead": // in mutants only: stands for a pause of a busy machine
			time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
		}
		if url, ok := strings.CutPrefix(place, "canary "); ok {
			l.wit.toCanary(url)
		}
	}
}

// longestRun is far longer than any run, and shorter than the six hours after which a lost robots request
// is repeated.
const longestRun = 2 * time.Hour

// disturb sometimes lets other goroutines run in the middle of an operation, as a slow disk does. Without
// it two goroutines that each run briefly would rarely interleave.
func disturb() {
	for range rand.IntN(4) {
		runtime.Gosched()
	}
}

// crawl runs the program until it ends or, if n is not 0, until its n-th mutating operation.
func (l *life) crawl(n int) error {
	l.image = l.fs.Fork(0)
	l.wit.begin(l.run)
	l.began, l.cutAt = time.Now(), time.Time{}
	l.hooks.Store(0)
	l.steps = l.steps[:0]
	l.fs.Watch(func(s memfs.Step, fork func(uint64) *memfs.FS) {
		l.steps = append(l.steps, s)
		if l.before != nil {
			l.before(s, fork)
		}
		if len(l.steps) == n {
			l.cutAt = time.Now()
			l.wit.die()
		}
	})
	l.fs.CrashAfter(n)
	l.opt.Disk.FS = memfs.NewFault(l.fs, func(memfs.Op, string) error { disturb(); return nil })
	ctx, cancel := context.WithTimeout(l.t.Context(), longestRun)
	defer cancel()
	if l.squeezed {
		go squeeze(ctx, l.fs)
	}
	l.quotaErrors = 0
	res, err := Run(ctx, l.opt)
	l.run++
	l.result = res
	return err
}

// live runs the crawl and cuts it at the operation that next returns, counted from the start of each run,
// until next returns 0. It returns the faults found.
func (l *life) live(rng *rand.Rand, next func() int, count func(memfs.Step, bool)) []string {
	for {
		n := next()
		err := l.crawl(n)
		if n == 0 || err == nil || errors.Is(err, state.ErrFinished) {
			if err != nil && !errors.Is(err, state.ErrFinished) {
				return []string{fmt.Sprintf("run %d ended: %v", l.run-1, err)}
			}
			return l.checkEnd()
		}
		if !errors.Is(err, disk.ErrCrashed) && !errors.Is(err, errCut) {
			return []string{fmt.Sprintf("run %d: %v", l.run-1, err)}
		}
		power := rng.IntN(3) > 0
		step := l.fs.Last()
		l.story = append(l.story,
			fmt.Sprintf("run %d: at %v operation %d: %v %s, power cut %t", l.run-1, l.cutAt.Sub(l.began), n,
				step.Op, step.Name, power))
		count(step, power)
		if power {
			l.fs = l.fs.Crash()
		} else {
			l.fs = l.fs.Kill()
		}
		if power && rng.IntN(4) == 0 { // the copy is durable
			l.loseManifest()
		}
		if faults := l.checkCut(power); len(faults) > 0 {
			return faults
		}
	}
}

// loseManifest damages the first manifest if a durable copy remains. The copy may be one generation older
// if the last checkpoint was cut off before it wrote the copies.
func (l *life) loseManifest() {
	paths := state.CopyPaths(disk.Set{FS: l.fs, Paths: l.opt.Disk.Dirs}, state.ManifestName)
	var m *state.Manifest
	data, err := disk.ReadFile(l.fs, paths[len(paths)-1])
	if err == nil {
		m, err = state.DecodeManifest("copy", data)
	}
	if len(paths) < 2 || err != nil || m.Gen < max(l.sureGen, l.gen+uint64(l.hooks.Load()/3)) {
		return
	}
	if err := disk.WriteFileAtomic(l.fs, paths[0], data[:len(data)/2]); err != nil {
		l.t.Fatal(err)
	}
	l.story = append(l.story, "the first manifest is lost")
}

// fail reports the faults with what is needed to find the cause.
func (l *life) fail(faults []string) {
	l.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "world %d\n%s\n", l.world.seed, strings.Join(l.story, "\n"))
	for _, s := range l.steps[max(0, len(l.steps)-20):] {
		fmt.Fprintf(&b, "operation %d: %v %s\n", s.Number, s.Op, s.Name)
	}
	if l.result != nil {
		fmt.Fprintf(&b, "refused %v, deferred %v\n", l.result.Snapshot.Refused, l.result.Snapshot.Deferred)
	}
	b.WriteString(strings.Join(faults[:min(len(faults), 20)], "\n"))
	if *imageDir != "" {
		if err := saveImage(l.image, *imageDir, b.String()); err != nil {
			fmt.Fprintf(&b, "\n-image: %v", err)
		}
	}
	l.t.Fatal(b.String())
}

// cutCount counts cuts by operation and place.
type cutCount struct {
	mu          sync.Mutex // guards all
	ops, places map[string]int
	cuts, lives int
	power, back int
}

func (c *cutCount) add(s memfs.Step, power bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ops == nil {
		c.ops, c.places = map[string]int{}, map[string]int{}
	}
	c.cuts++
	c.power += boolInt(power)
	c.ops[s.Op.String()]++
	c.places[placeOf(s.Name)]++
}

// ended counts a crawl that ran to its end and how often it went back to a checkpoint without a cut.
func (c *cutCount) ended(back int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lives++
	c.back += back
}

// placeOf names the structure that a file belongs to.
func placeOf(name string) string {
	_, rest, below := strings.Cut(name, "/")
	if !below {
		return "directory"
	}
	place, _, _ := strings.Cut(strings.TrimPrefix(rest, "state/"), "/")
	place, _, _ = strings.Cut(place, "-")
	return strings.TrimSuffix(place, ".tmp")
}

func (c *cutCount) log(t *testing.T, what string) {
	t.Helper()
	t.Logf("%s: %d cuts of %d crawls, %d of them power cuts, %d returns to a checkpoint for lack of space; by "+
		"operation %v; by place %v", what, c.cuts, c.lives, c.power, c.back, c.ops, c.places)
}
