package repair_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
)

// fetches returns the number of fetched URLs of the web, and the URLs fetched more than once.
func fetches(web *simweb.Web) (n int, twice []string) {
	for url, k := range web.Log().Snapshot().Fetches {
		n++
		if k > 1 {
			twice = append(twice, url)
		}
	}
	return n, twice
}

// TestRepair: a stopped crawl with wrong bytes at random places must either finish as if nothing had
// happened, since no needed byte was hit, or report the damage. After a repair it must balance, resume and
// end, and must miss at most the number of URLs that the repair reports as lost.
func TestRepair(t *testing.T) {
	testworld.NotShort(t)
	t.Parallel()
	rounds, repaired, forgotten, missing, needed := 3, 0, int64(0), 0, false
	if *testworld.Long {
		rounds = 100
	}
	for i := range rounds {
		rng := rand.New(rand.NewPCG(*testworld.Seed, uint64(i)))
		testworld.InBubble(t, func(t *testing.T) {
			web := testworld.SmallWeb(t, nil)
			fs := memfs.New(*testworld.Seed)
			opt := crawltest.SimOptions(t, web, fs)
			opt.Budgets.QueuePages, opt.Order.StockTarget, opt.Limits.MaxPages = crawl.Unlimited, 100,
				int64(50+rng.IntN(300))
			if _, err := crawl.Run(t.Context(), opt); err != nil {
				t.Fatal(err)
			}
			files := testworld.StateFiles(t, fs, opt.Disk.Dirs, func(p string) bool {
				return !strings.HasSuffix(p, "MANIFEST") && !strings.HasSuffix(p, "SECRET")
			})
			most := 300
			// One round in ten hits needed data; about one in four of the others does too.
			if queues := testworld.StateFiles(t, fs, opt.Disk.Dirs,
				func(p string) bool { return strings.Contains(p, "/beast/") }); i%10 == 0 && len(queues) > 0 {
				files, most, needed = queues, 1<<20, true
			}
			var hit []string
			for range 1 + rng.IntN(3) {
				name := files[rng.IntN(len(files))]
				hit = append(hit, name)
				testworld.Spoil(t, rng, fs, name, 1+rng.IntN(most))
			}
			rep, err := testworld.Repair(t, fs, opt.Disk.Dirs, nil)
			if err != nil {
				t.Fatalf("round %d: damage to %q: %v", i, hit, err)
			}
			if !rep.Nothing() {
				repaired++
			}
			forgotten += rep.Forgotten
			if after := testworld.Deep(t, fs, opt.Disk.Dirs); !after.Balanced() {
				t.Fatalf("round %d: damage to %q: after the repair: %q, %v\nactions: %q", i, hit, after.Bad,
					after.Damages, rep.Actions)
			}
			// Hosts whose robots.txt failed recover.
			opt.Limits.MaxPages, opt.Budgets.QueuePages, opt.Limits.Linger = 0, 0, 6*time.Hour
			res, err := crawl.Run(t.Context(), opt)
			if err != nil && !errors.Is(err, state.ErrFinished) {
				t.Fatalf("round %d: damage to %q: after the repair: %v", i, hit, err)
			}
			want := web.Expected("drumbeat").Fetched
			n, twice := fetches(web)
			lost := rep.Forgotten + rep.Unnamed + rep.Links
			missing += want - n
			if lost == 0 && n < want || n < want && rep.Nothing() || len(twice) > int(rep.Unseen) {
				t.Errorf("round %d: damage to %q: fetched %d of %d URLs, %d twice; %d lost, %q; %s, %v", i, hit, n,
					want, len(twice), lost, rep.Actions, res.Stop, res.Snapshot.Deferred)
			}
			if after := testworld.Deep(t, fs, opt.Disk.Dirs); !after.Balanced() {
				t.Errorf("round %d: damage to %q: at the end: %q, %v", i, hit, after.Bad, after.Damages)
			}
		})
	}
	t.Logf("%d of %d crawls needed a repair, %d URLs forgotten, %d not fetched", repaired, rounds, forgotten, missing)
	if repaired == 0 && (needed || rounds >= 50) {
		t.Error("no damage needed a repair")
	}
}

// isQueue reports whether a file is of one of the queues that hold most URLs of a stopped crawl, or of
// their tails. Each may be empty.
func isQueue(p string) bool {
	return strings.Contains(p, "/beast/") || strings.Contains(p, "/later/") || strings.Contains(p, "/ready/") ||
		strings.Contains(p, "/awaitrobots/") || strings.Contains(p, "/tails-")
}

// TestRepairChangesNothing: a dry run must change no byte, and an undamaged crawl must need no repair.
func TestRepairChangesNothing(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fs, opt := crawltest.StoppedCrawl(t)
		if rep, err := testworld.Repair(t, fs, opt.Disk.Dirs, nil); err != nil || !rep.Nothing() {
			t.Fatalf("undamaged crawl: %v, %+v", err, rep)
		}
		rng := rand.New(rand.NewPCG(*testworld.Seed, 4))
		content := func() map[string]string {
			all := map[string]string{}
			for _, dir := range opt.Disk.Dirs {
				files, err := repair.FilesIn(fs, dir, true)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					data, err := disk.ReadFile(fs, f)
					if err != nil {
						t.Fatal(err)
					}
					all[f] = string(data)
				}
			}
			return all
		}
		// Damage of a file of tails may miss the queues, which may have no other files. So it is added until
		// a repair would lose URLs.
		forgotten := int64(0)
		for round := 0; forgotten == 0; round++ {
			if round == 50 {
				t.Fatal("no damage of the queues costs a URL")
			}
			for _, name := range testworld.StateFiles(t, fs, opt.Disk.Dirs, isQueue) {
				testworld.Spoil(t, rng, fs, name, 50)
			}
			before := content()
			rep, err := testworld.Repair(t, fs, opt.Disk.Dirs, func(o *repair.Options) { o.DryRun = true })
			if err != nil || rep.Nothing() {
				t.Fatalf("%v, %+v", err, rep)
			}
			forgotten = int64(rep.Forgotten)
			after := content()
			for name := range before {
				if before[name] != after[name] {
					t.Errorf("a dry run changed %s", name)
				}
			}
			if len(before) != len(after) {
				t.Errorf("a dry run made or deleted files: %d before, %d after", len(before), len(after))
			}
		}
	})
}

// TestRepairCutOff: after a crash at any operation a repair must either have changed nothing or be finished
// by the next repair. Until then no crawl may start.
func TestRepairCutOff(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		fs, opt := crawltest.StoppedCrawl(t)
		rng := rand.New(rand.NewPCG(*testworld.Seed, 5))
		damage := func() {
			for _, part := range []string{"/beast/", "/urlseen/", "/later/"} {
				files := testworld.StateFiles(t, fs, opt.Disk.Dirs,
					func(p string) bool { return strings.Contains(p, part) })
				if len(files) > 0 {
					testworld.Spoil(t, rng, fs, files[rng.IntN(len(files))], 100)
				}
			}
			if err := errors.Join(fs.SyncFS("d0"), fs.SyncFS("d1")); err != nil {
				t.Fatal(err)
			}
		}
		damage()
		whole := fs.Fork(*testworld.Seed)
		before := whole.Ops()
		rep, err := testworld.Repair(t, whole, opt.Disk.Dirs, nil)
		for range 100 { // a hundred bytes may lie beyond the end that the manifest names
			if err != nil || !rep.Nothing() {
				break
			}
			damage()
			whole = fs.Fork(*testworld.Seed)
			before = whole.Ops()
			rep, err = testworld.Repair(t, whole, opt.Disk.Dirs, nil)
		}
		if err != nil || rep.Nothing() {
			t.Fatalf("%v, %+v", err, rep)
		}
		ops, refused := whole.Ops()-before, 0
		cuts := 4
		if *testworld.Long {
			cuts = ops
		}
		for i := range cuts {
			cut := i * ops / cuts
			mem := fs.Fork(*testworld.Seed)
			mem.CrashAfter(cut + 1)
			if _, err := testworld.Repair(t, mem, opt.Disk.Dirs, nil); !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("cut %d of %d: %v", cut, ops, err)
			}
			if mem = mem.Crash(); i%3 == 0 {
				mem = mem.Kill()
			}
			if _, err := audit.Run(mem, opt.Disk.Dirs); errors.Is(err, state.ErrRepairing) {
				refused++
				again := opt
				again.Disk.FS = mem
				if _, err := crawl.Run(t.Context(), again); !errors.Is(err, state.ErrRepairing) {
					t.Fatalf("cut %d: a crawl between two repairs: %v", cut, err)
				}
			}
			if _, err := testworld.Repair(t, mem, opt.Disk.Dirs, nil); err != nil {
				t.Fatalf("cut %d of %d: the second repair: %v", cut, ops, err)
			}
			if after := testworld.Deep(t, mem, opt.Disk.Dirs); !after.Balanced() {
				t.Fatalf("cut %d of %d: %q, %v", cut, ops, after.Bad, after.Damages)
			}
		}
		if refused == 0 {
			t.Error("no cut hit a rename of files")
		}
	})
}

// TestRepairSaysWhatItCannot: without the secret or the manifest a repair must fail and say that nothing
// can be done.
func TestRepairSaysWhatItCannot(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fs, opt := crawltest.StoppedCrawl(t)
		for _, name := range []string{state.ManifestName, state.SecretName} {
			mem := fs.Fork(*testworld.Seed)
			for _, dir := range opt.Disk.Dirs { // damage the copies too
				testworld.Spoil(t, rand.New(rand.NewPCG(1, 1)), mem, dir+"/"+name, 20)
			}
			if _, err := testworld.Repair(t, mem, opt.Disk.Dirs, nil); err == nil ||
				!strings.Contains(err.Error(), "repair is impossible") {
				t.Errorf("damage to %s: %v", name, err)
			}
		}
		mem := fs.Fork(*testworld.Seed)
		testworld.Spoil(t, rand.New(rand.NewPCG(1, 1)), mem, "d0/"+state.SuffixesName, 1<<20)
		rep, err := testworld.Repair(t, mem, opt.Disk.Dirs, nil)
		if err != nil ||
			!slices.ContainsFunc(rep.Actions, func(s string) bool { return strings.Contains(s, "suffix") }) {
			t.Errorf("damage to the suffix list: %v, %+v", err, rep)
		}
	})
}

// TestRepairWithoutOutput: without output that records which URLs ended, a repair can't name lost URLs or
// restore lost keys. It must report their numbers, and the crawl must balance and resume.
func TestRepairWithoutOutput(t *testing.T) {
	testworld.NotShort(t)
	t.Parallel()
	testworld.InBubble(t, func(t *testing.T) {
		web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages = 1500 })
		fs := memfs.New(*testworld.Seed)
		opt := crawltest.SimOptions(t, web, fs)
		opt.Budgets.QueuePages, opt.Order.StockTarget, opt.Limits.MaxPages = crawl.Unlimited, 100, 200
		opt.Output.Store, opt.Output.CrawlLog = false, state.LogOff
		if _, err := crawl.Run(t.Context(), opt); err != nil {
			t.Fatal(err)
		}
		opt.Limits.MaxPages = 0
		rng := rand.New(rand.NewPCG(*testworld.Seed, 6))
		unnamed, unseen := int64(0), int64(0)
		// Some damage hits nothing that counts.
		for round := 0; round < 5 && (unnamed == 0 || unseen == 0); round++ {
			for _, part := range []string{"/tails-", "/beast/", "/urlseen/cache"} {
				mem := fs.Fork(1)
				for _, name := range testworld.StateFiles(t, mem, opt.Disk.Dirs,
					func(p string) bool { return strings.Contains(p, part) }) {
					testworld.Spoil(t, rng, mem, name, 1<<20)
				}
				rep, err := testworld.Repair(t, mem, opt.Disk.Dirs, nil)
				if err != nil {
					t.Fatal(err)
				}
				if rep.Forgotten > 0 {
					t.Errorf("damage to %s: %d URLs forgotten, although nothing records which ended",
						part, rep.Forgotten)
				}
				unnamed, unseen = unnamed+rep.Unnamed, unseen+rep.Unseen
				if after := testworld.Deep(t, mem, opt.Disk.Dirs); !after.Balanced() {
					t.Errorf("damage to %s: %q, %v; %q", part, after.Bad, after.Damages, rep.Actions)
				}
				again := opt
				again.Disk.FS = mem
				if _, err := crawl.Run(t.Context(), again); err != nil {
					t.Errorf("damage to %s: after the repair the crawl ends with %v", part, err)
				}
				if after := testworld.Deep(t, mem, opt.Disk.Dirs); !after.Balanced() {
					t.Errorf("damage to %s: at the end: %q, %v", part, after.Bad, after.Damages)
				}
			}
		}
		if unnamed == 0 || unseen == 0 {
			t.Errorf("%d URLs unnamed, %d keys unseen; want at least one of each", unnamed, unseen)
		}
	})
}
