package outlook

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"drumbeat/crawl/plan"
	"drumbeat/state"
	"drumbeat/state/snapshot"
)

// paper returns figures like those of the paper's crawl when it had 1e9 pages, on one disk of 4 TB.
func paper() *Figures {
	s := Span{Active: 6 * 3600, Pages: 6 * 3600 * 1000, PagesPerSecond: 1000, LinksPerPage: 59, UniqueShare: 0.11,
		UniquePerPage: 6.5, Misses: 0.33, URLBytes: 110, OutputBytes: 6000, EndedPerPage: 1.19, Requests: 1.19,
		Hosts: 0.1, PLDs: 0.014, Edges: 0.29}
	whole := s
	whole.Active, whole.Pages = 1e6, 1e9
	return &Figures{Crawl: "c", Dirs: []string{"d"}, State: state.StateRunning, Storing: true, Pages: 1e9, Links: 59e9,
		Unique: 6.5e9, Queued: 5.3e9, Hosts: 1e8, PLDs: 14e6, Edges: 290e6, RAMBytes: 4 << 30, DiskLimit: 40e12,
		DiskUsed: 6.1e12, DiskReserve: 1e9, Connections: 2000, Recent: s, Whole: whole, Merged: true, QueuedBytes: 30,
		Sizes: map[string]Size{"output": {6e12, 6e12}, "beast": {150e9, 150e9}, "urlseen": {20e9, 60e9},
			"pldindegree-edges": {4e9, 4e9}, "names": {2e9, 2e9}},
		Uses:   []Use{{"disk", 0.6}, {"exchange", 0.3}, {"parse and store", 0.1}},
		LinkIO: 33, PredictedLinkIO: 30, DiskRate: 300e6}
}

// planned plans as crawl does for one node that stores pages.
func planned(m Machine) (plan.Plan, error) {
	o := plan.Options{RAMBytes: m.RAMBytes, DiskBytes: m.DiskBytes, AllDirs: m.Dirs, Connections: 500, Nodes: 1,
		Lanes: 1, QueuesMax: 1024, QueueBlockBytes: 128 << 10, LeastStock: 8000, ContentSeen: state.ContentRecord,
		CrawlLog: state.LogErrors, Store: true, DrumWorkers: 3, CheckpointEvery: time.Minute}
	for len(o.Dirs) < m.Dirs {
		o.Dirs = append(o.Dirs, strings.Repeat("d", len(o.Dirs)+1))
	}
	return plan.Make(o)
}

// look makes the outlook of figures after change.
func look(t *testing.T, f *Figures, change func(*Input)) *Outlook {
	t.Helper()
	in := Input{Figures: f, Plan: planned, Dirs: f.Dirs, Now: time.Unix(1e9, 0), Machine: Machine{RAMBytes: f.RAMBytes,
		DiskBytes: f.DiskLimit, Dirs: len(f.Dirs)}}
	if change != nil {
		change(&in)
	}
	o, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestGrowing: a crawl whose queue grows has no end; its disk is full where output and queues say.
func TestGrowing(t *testing.T) {
	o := look(t, paper(), nil)
	if !o.Grows || o.End != nil || o.DiskFull == nil {
		t.Fatalf("grows %v, end %v, full %v", o.Grows, o.End, o.DiskFull)
	}
	// A page takes 6,000 bytes of output and 30 for each of 5.3 URLs more in the queues, and some in the stores.
	left := (40e12 - 1e9 - 6.216e12) / (6000 + 30*(6.5-1.19) + 300)
	if got := o.DiskFull.Pages - 1e9; math.Abs(got/left-1) > 0.05 {
		t.Errorf("full after %.4g pages more, want about %.4g", got, left)
	}
	if want := (o.DiskFull.Pages - 1e9) / 1000; math.Abs(o.DiskFull.Seconds-want) > 1 ||
		o.DiskFull.At.Unix() != 1e9+int64(want) {
		t.Errorf("full %+v, want after %v s", o.DiskFull, want)
	}
	if math.Abs(o.DiskThen/40e12-1) > 0.01 {
		t.Errorf("%.4g bytes when the disk is full", o.DiskThen)
	}
	if !strings.HasPrefix(o.Limit, "Merges on disk: 60 % of the connections wait for this, 40 % are busy.") ||
		!strings.Contains(o.Model, "33.0 bytes per link; the model predicted 30.0") {
		t.Errorf("%s; %s", o.Limit, o.Model)
	}
	twice := look(t, paper(), func(in *Input) { in.Given.MaxRate = 2000 })
	if math.Abs(2*twice.DiskFull.Seconds/o.DiskFull.Seconds-1) > 1e-6 {
		t.Errorf("full after %v s at twice the rate, %v s before", twice.DiskFull.Seconds, o.DiskFull.Seconds)
	}
}

// TestTheorem2: with little RAM for much disk, RAM lowers alpha and disk space does not; with little disk for much RAM
// it is the other way round. The disks' rate follows alpha and their speed.
func TestTheorem2(t *testing.T) {
	for _, c := range []struct {
		ram, disk int64
		want      Bound
		text      string
	}{
		{1 << 30, 100e12, ByRAM, "RAM bounds the passes of URLseen (Theorem 2, first case): twice the RAM lowers"},
		{256 << 30, 10e12, ByDisk, "Disk space bounds the passes of URLseen (Theorem 2, second case): twice the space"},
	} {
		o := look(t, paper(), func(in *Input) {
			in.Machine.RAMBytes, in.Machine.DiskBytes, in.Given.Pages = c.ram, c.disk, 1e11
		})
		now, ram, disks, fast := &o.Changes[0], &o.Changes[1], &o.Changes[2], &o.Changes[3]
		if o.Bound != c.want || !strings.HasPrefix(o.Theorem, c.text) {
			t.Errorf("RAM %d, disk %d: %s, %s", c.ram, c.disk, o.Bound, o.Theorem)
		}
		if helps := ram.Alpha < 0.97*now.Alpha; helps != (c.want == ByRAM) {
			t.Errorf("RAM %d, disk %d: alpha %v, %v with twice the RAM", c.ram, c.disk, now.Alpha, ram.Alpha)
		}
		if helps := disks.Alpha < 0.97*now.Alpha; helps != (c.want == ByDisk) {
			t.Errorf("RAM %d, disk %d: alpha %v, %v with twice the disks", c.ram, c.disk, now.Alpha, disks.Alpha)
		}
		if fast.DiskPages != 2*now.DiskPages || fast.Alpha != now.Alpha || disks.DiskPages < 2*now.DiskPages*0.99 {
			t.Errorf("disks allow %v, %v if twice as many, %v if twice as fast", now.DiskPages, disks.DiskPages,
				fast.DiskPages)
		}
		if limited := o.DisksLimitAt > 0; limited != (c.want == ByRAM) {
			t.Errorf("the disks keep up with 1,000 pages/s until %v pages: %+v", o.DisksLimitAt, now)
		}
	}
}

// TestGiven: what the operator gives replaces what was measured.
func TestGiven(t *testing.T) {
	o := look(t, paper(), func(in *Input) {
		in.Given = plan.Load{Pages: 2e9, LinksPerPage: 20, UniqueFraction: 0.05, Misses: 0.5, URLBytes: 80,
			PageBytes: 9000}
		in.Elsewhere = true
	})
	if o.Target != 2e9 || o.Reached.Seconds != 1e6 || o.DiskRateBy != RateAssumed || o.Ahead.UniquePerPage != 1 ||
		o.Ahead.Misses != 0.5 || o.Ahead.URLBytes != 80 || o.Ahead.OutputBytes != 9000 || o.Grows {
		t.Errorf("%+v", o)
	}
	// 0.19 URLs fewer with each page.
	if o.End == nil || math.Abs(o.End.Pages-1e9-5.3e9/0.19) > 1e7 || o.End.Fading != 0 {
		t.Errorf("end %+v", o.End)
	}
	if o := look(t, paper(), func(in *Input) { in.NoOutput = true }); o.Ahead.OutputBytes != 0 ||
		o.Parts[0].Then != o.Parts[0].Now {
		t.Errorf("without output: %+v", o.Parts)
	}
	for _, c := range []struct {
		change func(*Input)
		want   string
	}{
		{func(in *Input) { in.Given.Pages = 5e8 }, "--pages 500000000: the crawl has 1000000000 already"},
		{func(in *Input) { in.Figures.Recent.PagesPerSecond = 0 }, "no pages arrived in the last hours"},
		{func(in *Input) { in.Machine.RAMBytes = 1 << 20 }, "too little"},
	} {
		in := Input{Figures: paper(), Plan: planned, Machine: Machine{RAMBytes: 4 << 30, DiskBytes: 40e12, Dirs: 1}}
		c.change(&in)
		if _, err := Make(in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// TestFading: new URLs that become rarer end a crawl whose queue grows now.
func TestFading(t *testing.T) {
	f := paper()
	f.Fade = 0.9
	o := look(t, f, func(in *Input) { in.NoOutput = true })
	// 6.5/0.1·((n/1e9)^0.1 - 1) - 1.19(n/1e9 - 1) + 5.3 = 0 for n = 26.4e9.
	if !o.Grows || o.End == nil || math.Abs(o.End.Pages/26.4e9-1) > 0.03 {
		t.Errorf("grows %v, end %+v", o.Grows, o.End)
	}
}

// TestBeyond: more pages than the web in scope has are planned with the new URLs of the whole crawl.
func TestBeyond(t *testing.T) {
	f := paper()
	f.Fade, f.Recent.UniqueShare, f.DiskLimit = 0.9, 0.01, 100e12
	o := look(t, f, func(in *Input) { in.Given.Pages = 1e11 })
	if o.End == nil || o.End.Pages > 1e10 || !o.Beyond || o.Target != 1e11 {
		t.Fatalf("end %+v, target %v", o.End, o.Target)
	}
	if o.DiskFull == nil || o.DiskFull.Pages <= o.End.Pages || !strings.Contains(strings.Join(o.Notes, "\n"),
		"The web in scope has fewer pages: the queue is empty at") {
		t.Errorf("full %+v, notes %q", o.DiskFull, o.Notes)
	}
	// 5.3 URLs per page more in the queues, 30 bytes each.
	if queues := o.Parts[1]; math.Abs(queues.Then/((6.49-1.19)*30*99e9)-1) > 0.1 {
		t.Errorf("queues %+v", queues)
	}
}

// TestLimits: what idle connections wait for has a text, and busy ones say that there are too few.
func TestLimits(t *testing.T) {
	for _, use := range snapshot.SlotUses() {
		f := paper()
		f.Uses = []Use{{use.String(), 0.9}, {snapshot.SlotRead.String(), 0.1}}
		o := &Outlook{Figures: f, Changes: []Change{{DiskPages: 1234}}}
		got := o.limit()
		if want := "The number of connections limits the crawl"; works(f.Uses[0]) != strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", use, got)
		}
		if strings.HasPrefix(got, ":") || !strings.HasSuffix(got, "the disks allow 1,230 pages/s.") {
			t.Errorf("%s: %s", use, got)
		}
	}
}

// TestFarTarget: a full disk between the pages so far and a target far away is found.
func TestFarTarget(t *testing.T) {
	f := paper()
	f.Pages, f.Links, f.Unique, f.Queued, f.DiskUsed, f.Recent.Pages = 1e4, 59e4, 65e3, 53e3, 6e7, 5e3
	f.Sizes = map[string]Size{"output": {6e7, 6e7}}
	o := look(t, f, func(in *Input) { in.Given.Pages = 1e10 })
	if o.DiskFull == nil || math.Abs(o.DiskFull.Pages/(40e12/6460)-1) > 0.1 {
		t.Errorf("full %+v", o.DiskFull)
	}
}

// TestNoLinks: a crawl of a list of URLs, whose links are not followed, has an end and finite figures.
func TestNoLinks(t *testing.T) {
	f := paper()
	f.Links, f.Unique, f.Queued = 0, 1.19e9, 5e8
	for _, s := range []*Span{&f.Recent, &f.Whole} {
		s.LinksPerPage, s.UniqueShare, s.UniquePerPage, s.Misses, s.URLBytes = 0, 0, 0, 0, 0
	}
	o := look(t, f, nil)
	if o.End == nil || math.Abs(o.End.Pages-1e9-5e8/1.19) > 1e6 || o.DiskFull != nil {
		t.Errorf("end %+v, full %+v", o.End, o.DiskFull)
	}
	if _, err := json.Marshal(o); err != nil {
		t.Error(err)
	}
}

// TestFreeSpace: the file system that is full first decides, unless the plan is for other directories.
func TestFreeSpace(t *testing.T) {
	f := paper()
	f.FreeFor = Dir{"/disk1", 1e6}
	if o := look(t, f, nil); o.FullDir != "/disk1" || o.DiskFull.Pages != 1.001e9 {
		t.Errorf("full %+v %q", o.DiskFull, o.FullDir)
	}
	if o := look(t, f, func(in *Input) { in.Elsewhere = true }); o.FullDir != "" || o.DiskFull.Pages < 2e9 {
		t.Errorf("full %+v %q", o.DiskFull, o.FullDir)
	}
}
