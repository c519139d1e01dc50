package crawl

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
)

// crawlFiles lists the files below state, in all directories, that want selects for damage.
func crawlFiles(t testing.TB, fs disk.FS, opt *Options, want func(path string) bool) []string {
	t.Helper()
	var all []string
	for _, dir := range opt.Dirs {
		files, err := repair.FilesIn(fs, dir+"/state", true)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if size, err := fs.Size(f); err == nil && size > 0 && want(f) {
				all = append(all, f)
			}
		}
	}
	return all
}

// spoil overwrites n random bytes of a file with wrong ones.
func spoil(t testing.TB, rng *rand.Rand, fs disk.FS, name string, n int) {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	off := rng.Int64N(size)
	b := make([]byte, min(int64(n), size-off))
	if err := disk.ReadFull(f, b, off); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] ^= byte(1 + rng.IntN(255))
	}
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func repairOf(t testing.TB, fs disk.FS, opt *Options, change func(*repair.Options)) (*repair.Report, error) {
	t.Helper()
	ro := repair.Options{Options: audit.Options{FS: fs, Dirs: opt.Dirs, RAMBytes: 1 << 20}}
	if change != nil {
		change(&ro)
	}
	return repair.Run(ro)
}

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
	notShort(t)
	t.Parallel()
	rounds, repaired, forgotten, missing, needed := 3, 0, int64(0), 0, false
	if *longRuns {
		rounds = 100
	}
	for i := range rounds {
		rng := rand.New(rand.NewPCG(*seedFlag, uint64(i)))
		inBubble(t, func(t *testing.T) {
			web := smallWeb(t, nil)
			fs := memfs.New(*seedFlag)
			opt := simOptions(t, web, fs)
			opt.QueuePages, opt.StockTarget, opt.MaxPages = Unlimited, 100, int64(50+rng.IntN(300))
			if _, err := Run(t.Context(), opt); err != nil {
				t.Fatal(err)
			}
			files := crawlFiles(t, fs, &opt, func(p string) bool {
				return !strings.HasSuffix(p, "MANIFEST") && !strings.HasSuffix(p, "SECRET")
			})
			most := 300
			// One round in ten hits needed data; about one in four of the others does too.
			if queues := crawlFiles(t, fs, &opt, func(p string) bool { return strings.Contains(p, "/beast/") }); i%10 == 0 && len(queues) > 0 {
				files, most, needed = queues, 1<<20, true
			}
			var hit []string
			for range 1 + rng.IntN(3) {
				name := files[rng.IntN(len(files))]
				hit = append(hit, name)
				spoil(t, rng, fs, name, 1+rng.IntN(most))
			}
			rep, err := repairOf(t, fs, &opt, nil)
			if err != nil {
				t.Fatalf("round %d: damage to %q: %v", i, hit, err)
			}
			if !rep.Nothing() {
				repaired++
			}
			forgotten += rep.Forgotten
			if after := deep(t, fs, &opt); !after.Balanced() {
				t.Fatalf("round %d: damage to %q: after the repair: %q, %v\nactions: %q", i, hit, after.Bad, after.Damages, rep.Actions)
			}
			// Hosts whose robots.txt failed recover.
			opt.MaxPages, opt.QueuePages, opt.Linger = 0, 0, 6*time.Hour
			res, err := Run(t.Context(), opt)
			if err != nil && !errors.Is(err, state.ErrFinished) {
				t.Fatalf("round %d: damage to %q: after the repair: %v", i, hit, err)
			}
			want := web.Expected("drumbeat").Fetched
			n, twice := fetches(web)
			lost := rep.Forgotten + rep.Unnamed + rep.Links
			missing += want - n
			if lost == 0 && n < want || n < want && rep.Nothing() || len(twice) > int(rep.Unseen) {
				t.Errorf("round %d: damage to %q: fetched %d of %d URLs, %d twice; %d lost, %q; %s, %v", i, hit, n, want, len(twice), lost, rep.Actions,
					res.Stop, res.Snapshot.Deferred)
			}
			if after := deep(t, fs, &opt); !after.Balanced() {
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
	inBubble(t, func(t *testing.T) {
		fs, opt := stoppedCrawl(t)
		if rep, err := repairOf(t, fs, &opt, nil); err != nil || !rep.Nothing() {
			t.Fatalf("undamaged crawl: %v, %+v", err, rep)
		}
		rng := rand.New(rand.NewPCG(*seedFlag, 4))
		content := func() map[string]string {
			all := map[string]string{}
			for _, dir := range opt.Dirs {
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
			for _, name := range crawlFiles(t, fs, &opt, isQueue) {
				spoil(t, rng, fs, name, 50)
			}
			before := content()
			rep, err := repairOf(t, fs, &opt, func(o *repair.Options) { o.DryRun = true })
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
	notShort(t)
	inBubble(t, func(t *testing.T) {
		fs, opt := stoppedCrawl(t)
		rng := rand.New(rand.NewPCG(*seedFlag, 5))
		damage := func() {
			for _, part := range []string{"/beast/", "/urlseen/", "/later/"} {
				files := crawlFiles(t, fs, &opt, func(p string) bool { return strings.Contains(p, part) })
				if len(files) > 0 {
					spoil(t, rng, fs, files[rng.IntN(len(files))], 100)
				}
			}
			if err := errors.Join(fs.SyncFS("d0"), fs.SyncFS("d1")); err != nil {
				t.Fatal(err)
			}
		}
		damage()
		whole := fs.Fork(*seedFlag)
		before := whole.Ops()
		rep, err := repairOf(t, whole, &opt, nil)
		for range 100 { // a hundred bytes may lie beyond the end that the manifest names
			if err != nil || !rep.Nothing() {
				break
			}
			damage()
			whole = fs.Fork(*seedFlag)
			before = whole.Ops()
			rep, err = repairOf(t, whole, &opt, nil)
		}
		if err != nil || rep.Nothing() {
			t.Fatalf("%v, %+v", err, rep)
		}
		ops, refused := whole.Ops()-before, 0
		cuts := 4
		if *longRuns {
			cuts = ops
		}
		for i := range cuts {
			cut := i * ops / cuts
			mem := fs.Fork(*seedFlag)
			mem.CrashAfter(cut + 1)
			if _, err := repairOf(t, mem, &opt, nil); !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("cut %d of %d: %v", cut, ops, err)
			}
			if mem = mem.Crash(); i%3 == 0 {
				mem = mem.Kill()
			}
			if _, err := audit.Run(mem, opt.Dirs); errors.Is(err, state.ErrRepairing) {
				refused++
				again := opt
				again.FS = mem
				if _, err := Run(t.Context(), again); !errors.Is(err, state.ErrRepairing) {
					t.Fatalf("cut %d: a crawl between two repairs: %v", cut, err)
				}
			}
			if _, err := repairOf(t, mem, &opt, nil); err != nil {
				t.Fatalf("cut %d of %d: the second repair: %v", cut, ops, err)
			}
			if after := deep(t, mem, &opt); !after.Balanced() {
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
	inBubble(t, func(t *testing.T) {
		fs, opt := stoppedCrawl(t)
		for _, name := range []string{state.ManifestName, state.SecretName} {
			mem := fs.Fork(*seedFlag)
			for _, dir := range opt.Dirs { // damage the copies too
				spoil(t, rand.New(rand.NewPCG(1, 1)), mem, dir+"/"+name, 20)
			}
			if _, err := repairOf(t, mem, &opt, nil); err == nil || !strings.Contains(err.Error(), "repair is impossible") {
				t.Errorf("damage to %s: %v", name, err)
			}
		}
		mem := fs.Fork(*seedFlag)
		spoil(t, rand.New(rand.NewPCG(1, 1)), mem, "d0/"+state.SuffixesName, 1<<20)
		rep, err := repairOf(t, mem, &opt, nil)
		if err != nil || !slices.ContainsFunc(rep.Actions, func(s string) bool { return strings.Contains(s, "suffix") }) {
			t.Errorf("damage to the suffix list: %v, %+v", err, rep)
		}
	})
}

// TestRepairWithoutOutput: without output that records which URLs ended, a repair can't name lost URLs or
// restore lost keys. It must report their numbers, and the crawl must balance and resume.
func TestRepairWithoutOutput(t *testing.T) {
	notShort(t)
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		web := smallWeb(t, func(o *simweb.Options) { o.Pages = 1500 })
		fs := memfs.New(*seedFlag)
		opt := simOptions(t, web, fs)
		opt.QueuePages, opt.StockTarget, opt.MaxPages = Unlimited, 100, 200
		opt.Store, opt.CrawlLog = false, state.LogOff
		if _, err := Run(t.Context(), opt); err != nil {
			t.Fatal(err)
		}
		opt.MaxPages = 0
		rng := rand.New(rand.NewPCG(*seedFlag, 6))
		unnamed, unseen := int64(0), int64(0)
		// Some damage hits nothing that counts.
		for round := 0; round < 5 && (unnamed == 0 || unseen == 0); round++ {
			for _, part := range []string{"/tails-", "/beast/", "/urlseen/cache"} {
				mem := fs.Fork(1)
				for _, name := range crawlFiles(t, mem, &opt, func(p string) bool { return strings.Contains(p, part) }) {
					spoil(t, rng, mem, name, 1<<20)
				}
				rep, err := repairOf(t, mem, &opt, nil)
				if err != nil {
					t.Fatal(err)
				}
				if rep.Forgotten > 0 {
					t.Errorf("damage to %s: %d URLs forgotten, although nothing records which ended", part, rep.Forgotten)
				}
				unnamed, unseen = unnamed+rep.Unnamed, unseen+rep.Unseen
				if after := deep(t, mem, &opt); !after.Balanced() {
					t.Errorf("damage to %s: %q, %v; %q", part, after.Bad, after.Damages, rep.Actions)
				}
				again := opt
				again.FS = mem
				if _, err := Run(t.Context(), again); err != nil {
					t.Errorf("damage to %s: after the repair the crawl ends with %v", part, err)
				}
				if after := deep(t, mem, &opt); !after.Balanced() {
					t.Errorf("damage to %s: at the end: %q, %v", part, after.Bad, after.Damages)
				}
			}
		}
		if unnamed == 0 || unseen == 0 {
			t.Errorf("%d URLs unnamed, %d keys unseen; want at least one of each", unnamed, unseen)
		}
	})
}
