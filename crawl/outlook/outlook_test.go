package outlook_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/crawl/crawltest"
	"drumbeat/crawl/options"
	"drumbeat/crawl/outlook"
	"drumbeat/crawl/plan"
	"drumbeat/crawl/testworld"
	"drumbeat/disk/memfs"
	"drumbeat/internal/simweb"
	"drumbeat/state"
)

// slow returns the options of a crawl that takes an hour of virtual time, with a history.
func slow(t *testing.T) (*memfs.FS, crawl.Options) {
	web := testworld.SmallWeb(t, func(o *simweb.Options) { o.Pages, o.Hosts, o.PLDs = 1500, 60, 40 })
	fs := memfs.New(*testworld.Seed)
	opt := crawltest.SimOptions(t, web, fs)
	opt.Observe.HistoryBytes, opt.Disk.CheckpointEvery = 4<<20, 2*time.Minute
	opt.Politeness.HostDelay, opt.Politeness.HostDelayMin = time.Minute, 40*time.Second
	return fs, opt
}

// runFor crawls for some virtual time, or to the end.
func runFor(t *testing.T, opt crawl.Options, d time.Duration) *crawl.Result {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	return crawltest.MustRun(t, ctx, opt)
}

// ahead returns the outlook of a crawl after change.
func ahead(t *testing.T, f *outlook.Figures, opt *crawl.Options, change func(*outlook.Input)) *outlook.Outlook {
	t.Helper()
	in := outlook.Input{Figures: f, Dirs: f.Dirs, Now: time.Now(), Machine: outlook.Machine{RAMBytes: f.RAMBytes,
		DiskBytes: f.DiskLimit, Dirs: len(f.Dirs)},
		Plan: func(m outlook.Machine) (plan.Plan, error) {
			o := *opt
			o.Limits.RAMBytes, o.Limits.DiskBytes = m.RAMBytes, m.DiskBytes
			return crawl.MakePlan(&o)
		}}
	if change != nil {
		change(&in)
	}
	o, err := outlook.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// near reports whether got is want up to a share of it.
func near(got, want, share float64) bool { return got >= want*(1-share) && got <= want*(1+share) }

// TestEnd: the figures are those of the crawl, and it ends where and when the outlook of its middle says.
func TestEnd(t *testing.T) {
	testworld.NotShort(t)
	testworld.InBubble(t, func(t *testing.T) {
		fs, opt := slow(t)
		res := runFor(t, opt, 15*time.Minute)
		f, err := outlook.Read(fs, opt.Disk.Dirs)
		if err != nil {
			t.Fatal(err)
		}
		s := &res.Snapshot
		links := s.Count(state.CountLinksCached) + s.Count(state.CountLinksChecked)
		if int64(f.Pages) != s.Count(state.CountPages) || int64(f.Links) != links || int64(f.Unique) != s.Unique ||
			int64(f.Queued) != s.Queued()-s.Place(state.PlaceHeld) || f.RAMBytes != opt.Limits.RAMBytes ||
			f.DiskLimit != opt.Limits.DiskBytes || f.Connections != opt.Network.Connections || f.State != "stopped" ||
			!f.Storing || f.Node || f.Visits || f.Done != "" {
			t.Errorf("figures %+v of %+v", f, s)
		}
		if !near(f.Whole.Active, 15*60, 0.01) || !near(f.Recent.Active, 7.5*60, 0.1) ||
			!near(f.Whole.UniqueShare, s.UniqueShare, 0.1) || f.Fade <= 0 ||
			f.Recent.UniqueShare >= f.Whole.UniqueShare {
			t.Errorf("whole %+v, recent %+v, fade %v", f.Whole, f.Recent, f.Fade)
		}
		o := ahead(t, f, &opt, nil)
		if o.End == nil || o.DiskFull != nil || o.Target != o.End.Pages {
			t.Fatalf("end %v, full %v, target %v", o.End, o.DiskFull, o.Target)
		}
		if !strings.HasPrefix(o.Limit, "The delays of hosts and servers") {
			t.Errorf("limit %s", o.Limit)
		}
		res = crawltest.MustRun(t, t.Context(), opt)
		pages, took := float64(res.Snapshot.Count(state.CountPages)), res.Snapshot.Elapsed.Seconds()
		t.Logf("at %.0f pages: the end at %.0f pages after %.0f to %.0f s; it was at %.0f after %.0f", f.Pages,
			o.End.Pages, o.End.Seconds, o.End.Fading, pages, took)
		if !near(o.End.Pages, pages, 0.1) || took < 0.8*o.End.Seconds || took > 2.5*o.End.Fading {
			t.Errorf("end %+v, but the crawl had %v pages after %v s", o.End, pages, took)
		}
		if f, err = outlook.Read(fs, opt.Disk.Dirs); err != nil || f.Done != "done" || f.State != "finished" {
			t.Errorf("figures of the ended crawl %+v, %v", f, err)
		}
	})
}

// TestDiskFull: fetching pauses for --disk at about the number of pages that the outlook says, and with twice
// the disks it does not.
func TestDiskFull(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		fs, opt := slow(t)
		opt.Limits.DiskBytes, opt.Disk.WhenFull = 7<<20, options.WhenFullStop
		runFor(t, opt, 15*time.Minute)
		f, err := outlook.Read(fs, opt.Disk.Dirs)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, size := range f.Sizes {
			sum += size.Now
		}
		for _, name := range []string{state.NameURLSeen, "pldindegree-edges", "pldindegree", state.NameRobotsCache,
			state.NameRobotsRequested, state.NameNames, state.NameContent, state.NameBeast, "output"} {
			if _, known := f.Sizes[name]; !known || !near(sum, float64(f.DiskUsed), 0.01) {
				t.Errorf("sizes %v lack %s, or are not %d together", f.Sizes, name, f.DiskUsed)
			}
		}
		o := ahead(t, f, &opt, nil)
		res := crawltest.MustRun(t, t.Context(), opt)
		pages := float64(res.Snapshot.Count(state.CountPages))
		if o.DiskFull == nil || !near(o.DiskFull.Pages, pages, 0.15) || o.Target != o.DiskFull.Pages {
			t.Errorf("full %+v, but the crawl stood still at %v pages", o.DiskFull, pages)
		}
	})
}

// TestTooLittle: directories that tell too little get an error that says how much is needed.
func TestTooLittle(t *testing.T) {
	testworld.InBubble(t, func(t *testing.T) {
		check := func(fs *memfs.FS, want string) {
			t.Helper()
			if _, err := outlook.Read(fs, []string{"d0", "d1"}); !errors.Is(err, state.ErrIncompatible) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		check(memfs.New(1), "d0 holds no crawl")
		fs, opt := slow(t)
		runFor(t, opt, 3*time.Minute)
		check(fs, "has 3 min of crawling and")
		check(fs, "plan --from needs 10 min and 500 pages: try again after 7 min more of crawling")
		fs, opt = slow(t)
		opt.Observe.HistoryBytes = 0
		runFor(t, opt, time.Minute)
		check(fs, "has no history of figures (the crawl ran with --history-bytes 0); plan --from needs 10 min")
	})
}
