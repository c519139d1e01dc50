package repair_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
	"drumbeat/state/audit"
	"drumbeat/state/repair"
)

// busyCrawl returns a crawl in the middle of its work, as kill -9 leaves it. A checkpoint made under full
// load has what was in RAM.
func busyCrawl(t *testing.T) (*simweb.Web, *memfs.FS, crawl.Options) {
	t.Helper()
	web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages, o.Robots.ServerError = 1500, 0.2 })
	fs := memfs.New(*testworld.Seed)
	opt := crawltest.SimOptions(t, web, fs)
	opt.Budgets.QueuePages, opt.Order.StockTarget, opt.Limits.MaxTime = crawl.Unlimited, 100, 13*time.Second
	opt.Budgets.QueueBlockBytes, opt.Disk.CheckpointEvery, opt.Budgets.Parts = 4096, time.Second, state.ByDirectories
	var killed *memfs.FS // copied before an orderly stop, which would close the output files
	time.AfterFunc(12500*time.Millisecond, func() { killed = fs.Fork(*testworld.Seed) })
	if _, err := crawl.Run(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	opt.Disk.FS, opt.Limits.MaxTime, opt.Budgets.QueuePages, opt.Limits.Linger = killed, 0, 0, 6*time.Hour
	return web, killed, opt
}

// kindOf returns the directory below state, or the kind of file, that a path belongs to.
func kindOf(file string) string {
	_, rest, ok := strings.Cut(file, "/state/")
	if !ok {
		return path.Base(path.Dir(file)) + path.Ext(strings.TrimSuffix(file, ".open"))
	}
	if strings.HasPrefix(rest, "tails-") {
		return "tails"
	}
	dir, name, ok := strings.Cut(rest, "/")
	if !ok {
		return rest
	}
	base, _, _ := strings.Cut(path.Base(name), "-")
	if strings.HasSuffix(base, ".seg") {
		base = "segment"
	}
	return dir + "/" + base
}

// TestRepairEachKindOfFile: with damaged, missing or truncated files of one kind, the crawl must either
// finish as if nothing had happened, or end with an error that names a file. After a repair it must
// balance, resume, end, and balance again.
func TestRepairEachKindOfFile(t *testing.T) {
	testworld.NotShort(t)
	t.Parallel()
	testworld.InBubble(t, func(t *testing.T) {
		_, fs, opt := busyCrawl(t)
		kinds := map[string][]string{}
		for _, dir := range opt.Disk.Dirs {
			files, err := repair.FilesIn(fs, dir, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if size, err := fs.Size(f); err == nil && size > 0 {
					kinds[kindOf(f)] = append(kinds[kindOf(f)], f)
				}
			}
		}
		for _, not := range []string{"MANIFEST", "SECRET"} {
			delete(kinds, not)
		}
		var names []string
		for k := range kinds {
			if !strings.HasSuffix(k, ".json") && !strings.HasSuffix(k, ".lock") {
				names = append(names, k)
			}
		}
		slices.Sort(names)
		t.Log(names)
		rng := rand.New(rand.NewPCG(*testworld.Seed, 23))
		for _, kind := range names {
			for _, how := range []string{"bytes", "cut", "gone"} {
				always := kind == "beast/segment" && how == "cut" || kind == "urlseen/cache" && how == "bytes" ||
					kind == "hostlinks/cache" && how == "gone"
				if !*testworld.Long && !always && rng.IntN(20) > 0 {
					continue
				}
				hurtAndRepair(t, rng, fs, opt, kind+": "+how, kinds[kind], how)
			}
		}
	})
}

func hurtAndRepair(t *testing.T, rng *rand.Rand, fs *memfs.FS, opt crawl.Options, what string,
	files []string, how string) {
	t.Helper()
	mem := fs.Fork(1)
	testworld.Hurt(t, rng, mem, files, how)
	asIs := mem.Fork(1)
	opt.Disk.FS = asIs
	if _, err := crawl.Run(t.Context(), opt); err != nil {
		if !slices.ContainsFunc(files, func(f string) bool { return strings.Contains(err.Error(), f) }) {
			t.Errorf("%s: the error names none of %q: %v", what, files, err)
		}
	} else if strings.Contains(what, "/state/") {
		if rep := testworld.Deep(t, asIs, opt.Disk.Dirs); !rep.Balanced() {
			t.Errorf("%s: the crawl continued: %q, %v", what, rep.Bad, rep.Damages)
		}
	}
	rep, err := testworld.Repair(t, mem, opt.Disk.Dirs, nil)
	if err != nil {
		if !strings.Contains(what, state.SuffixesName) {
			t.Errorf("%s: repair: %v", what, err)
		}
		return
	}
	check := func(when string) {
		after := testworld.Deep(t, mem, opt.Disk.Dirs)
		outOnly := !slices.ContainsFunc(after.Damages, func(d audit.Damage) bool {
			return d.Structure != state.NameWARC && d.Structure != state.NameCrawlLog &&
				d.Structure != state.NameSeedLog && d.Structure != state.NameRobotsLog
		})
		if !after.Balanced() && !(outOnly && len(rep.Left) > 0 && after.Report.Balanced()) {
			t.Errorf("%s: %s: %q, %v, %+v; %q", what, when, after.Bad, after.Damages, after.Keys, rep.Actions)
		}
	}
	check("repaired")
	opt.Disk.FS = mem
	res, err := crawl.Run(t.Context(), opt)
	if err != nil && !errors.Is(err, state.ErrFinished) {
		t.Errorf("%s: after the repair the crawl ends with %v; %q", what, err, rep.Actions)
		return
	}
	check("at the end")
	t.Log(what, len(rep.Actions), rep.Forgotten, rep.Unnamed, rep.Links, rep.Unseen,
		res.Snapshot.Place(state.PlaceFetched), fmt.Sprint(rep.Left))
}
