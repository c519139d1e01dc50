package crawl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/bench/benchtest"
	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/state"
)

const resumeChild = "DRUMBEAT_TEST_BENCH_CRAWL"

// TestMain runs a crawl that kills itself, if a test has started this process for that.
func TestMain(m *testing.M) {
	if job := os.Getenv(resumeChild); job != "" {
		pages, dir, _ := strings.Cut(job, " ")
		at, err := strconv.ParseInt(pages, 10, 64)
		if err == nil {
			o := endingCrawl(dir)
			o.tests.look = killAt(at)
			_, err = o.Measure(context.Background(), func(string) {})
		}
		fmt.Println("was not killed:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// endingHosts hosts of endingPages pages are the web of endingCrawl.
const (
	endingHosts = 200
	endingPages = 100
)

// endingCrawl is a crawl with --resume of a web that ends, so its URLs can be counted.
func endingCrawl(dir string) Options {
	return Options{
		Dirs: []string{dir}, Transport: "inproc", Resume: true, URLs: 1e6, Duration: time.Hour, RAMBytes: 128 << 20,
		DiskBytes: 4 << 30, Seed: 1, Hosts: endingHosts, Seeds: endingHosts, PLDs: 60, Addrs: 100, PageBytes: 12_000,
		Links: 41, New: 6.5, DrumDiskBytes: 32 << 20, Connections: 64, Repeats: 1, Agent: "drumbeat",
		UserAgent: "drumbeat/test", GCPercent: 100, tests: testOptions{watch: 10 * time.Millisecond,
			save: 20 * time.Millisecond, checkpoint: 40 * time.Millisecond, hostPages: endingPages},
	}
}

// killAt kills this process at a number of pages, if a checkpoint has come after half of them.
func killAt(pages int64) func(*crawl.Snapshot) {
	half := uint64(0)
	return func(s *crawl.Snapshot) {
		n := s.Count(state.CountPages)
		if half == 0 && n >= pages/2 {
			half = s.Checkpoint.Number
		}
		if n >= pages && half > 0 && s.Checkpoint.Number > half+1 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until the signal comes
		}
	}
}

// kill runs the crawl in a process that is killed, and returns the pages in its last manifest.
func kill(t *testing.T, dir string, pages int) int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", resumeChild, pages, dir))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("got %v, want a killed process:\n%s", err, out)
	}
	set := disk.Set{FS: disk.OS(), Paths: []string{filepath.Join(dir, resumeName, resumeState)}}
	m, _, err := state.ReadManifest(set)
	if err != nil || m == nil {
		t.Fatalf("manifest after a kill: %v, %v", m, err)
	}
	return m.Accounts.Counters[state.CountPages]
}

// TestCrawlResumes: a crawl that is killed twice sees each URL of its web once, as one without kills; its course never
// goes back, and its parts add up to it. Other flags and a damaged course are refused, and complete crawls are reported
// again.
func TestCrawlResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	dir := t.TempDir()
	first := kill(t, dir, 4000)
	second := kill(t, dir, 10_000)
	if first < 2000 || second < max(first, 5000) {
		t.Fatalf("the kills left %d and %d pages, want 2000 and 5000 or more", first, second)
	}
	t.Run("refused", func(t *testing.T) { refusals(t, dir) })
	o := endingCrawl(dir)
	o.Keep = true
	r, err := o.Measure(t.Context(), logTo(t))
	must(t, err)
	text := benchtest.Text(t, r)
	benchtest.Has(t, text, "Parts of the crawl: 3", endKilled, "complete", "Growth, by tenth", seenKeysPart,
		"alpha predicted", "41e9", "at equal new URLs")
	var s resumed
	data, err := os.ReadFile(filepath.Join(dir, resumeName, courseName))
	if err == nil {
		err = s.decode(data)
	}
	if err != nil || !s.Over {
		t.Fatalf("course: over %v, %v", s.Over, err)
	}
	if run := s.Result; run.AllUnique != endingHosts*endingPages || run.AllPages < run.AllUnique {
		t.Errorf("%d URLs, %d pages; want %d, each fetched", run.AllUnique, run.AllPages, endingHosts*endingPages)
	}
	wantForward(t, &s.Course)
	wantSums(t, &s)
	s.path, s.Over, s.Result = filepath.Join(dir, resumeName, courseName), false, nil
	if err := s.save(); err != nil { // as if a kill had come after the crawl's end and before the report
		t.Fatal(err)
	}
	if r, err = o.Measure(t.Context(), logTo(t)); err != nil {
		t.Fatal(err)
	}
	text = benchtest.Text(t, r)
	benchtest.Has(t, text, "Parts of the crawl: 4", "found 20,000 URLs")
	o = endingCrawl(dir) // without Keep
	if r, err = o.Measure(t.Context(), logTo(t)); err != nil {
		t.Fatal(err)
	}
	if again := benchtest.Text(t, r); tablesOf(again) != tablesOf(text) {
		t.Errorf("the report of a complete crawl differs:\n%s\nwas\n%s", again, text)
	}
	benchtest.Empty(t, dir)
}

func tablesOf(text string) string { return text[strings.Index(text, "Pages/s"):] }

// wantForward checks that a course never goes back.
func wantForward(t *testing.T, c *crawlCourse) {
	t.Helper()
	var last crawlTenth
	for i, p := range c.Points {
		if p.Pages < last.Pages || p.Unique < last.Unique || p.Wall < last.Wall || p.CPU < last.CPU ||
			p.DiskBytes < last.DiskBytes {
			t.Errorf("point %d is %+v, after %+v", i, p, last)
		}
		last = p
	}
}

// wantSums checks that the parts of a crawl add up to the end of its course.
func wantSums(t *testing.T, s *resumed) {
	t.Helper()
	last := s.Course.last()
	var sum crawlTenth
	for _, p := range s.Parts {
		sum.Pages, sum.Unique, sum.Wall, sum.CPU = sum.Pages+p.Pages, sum.Unique+p.Unique,
			sum.Wall+p.Wall, sum.CPU+p.CPU
		if p.Pages <= 0 || p.Wall <= 0 || p.CPU <= 0 {
			t.Errorf("part %+v", p)
		}
	}
	if sum.Pages != last.Pages || sum.Unique != last.Unique || sum.Wall != last.Wall || sum.CPU != last.CPU {
		t.Errorf("parts have %+v, the course %+v", sum, last)
	}
}

// refusals checks what is refused for a crawl that has begun. It leaves the crawl as it was.
func refusals(t *testing.T, dir string) {
	refused := func(what string, change func(*Options), wants ...string) {
		o := endingCrawl(dir)
		change(&o)
		_, err := o.Measure(t.Context(), logTo(t))
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", what, err, want)
			}
		}
	}
	for name, change := range map[string]func(*Options){
		"new": func(o *Options) { o.New = 7 }, "seed": func(o *Options) { o.Seed++ },
		"hosts": func(o *Options) { o.Hosts++ }, "plds": func(o *Options) { o.PLDs++ }, "links": func(o *Options) {
			o.Links++
		}, "new-hosts": func(o *Options) { o.NewHosts = 0.5 }, "page-bytes": func(o *Options) { o.PageBytes++ },
		"addrs": func(o *Options) { o.Addrs++ }, "ram": func(o *Options) { o.RAMBytes++ },
		"drum-disk": func(o *Options) { o.DrumDiskBytes++ }, "connections": func(o *Options) { o.Connections++ },
		"store": func(o *Options) { o.Store = new(string); *o.Store = "warc" },
		"dir":   func(o *Options) { o.Dirs = append(o.Dirs, t.TempDir()) },
	} {
		refused(name, change, "--"+name+" ", "repeat its flags")
	}
	path := filepath.Join(dir, resumeName, courseName)
	good, err := os.ReadFile(path)
	must(t, err)
	for what, bad := range map[string][]byte{"empty": {}, "cut": good[:len(good)-1], "a bit": flip(good, len(good)/2),
		"the version": flip(good, len(courseMagic)+1)} {
		must(t, os.WriteFile(path, bad, 0o600))
		refused(what, func(*Options) {}, "is damaged", "Remove this file")
	}
	must(t, os.WriteFile(path, good, 0o600))
	lock, err := disk.OS().Lock(filepath.Join(dir, resumeName))
	must(t, err)
	refused("another process", func(*Options) {}, "another process")
	must(t, lock.Close())
}

func flip(b []byte, at int) []byte {
	b = append([]byte(nil), b...)
	b[at] ^= 1
	return b
}

// TestCrawlStopsAndResumes: a signal ends a part in order; a crawl whose course is missing says so.
func TestCrawlStopsAndResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	dir := t.TempDir()
	o := endingCrawl(dir)
	ctx, cancel := context.WithCancel(t.Context())
	o.tests.look = func(s *crawl.Snapshot) {
		if s.Count(state.CountPages) > 3000 {
			cancel()
		}
	}
	if _, err := o.Measure(ctx, logTo(t)); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want a cancelled crawl", err)
	}
	o = endingCrawl(dir)
	must(t, o.Complete())
	r, err := o.openResumed()
	if err == nil {
		err = r.close(false)
	}
	must(t, err)
	if len(r.Parts) != 2 || r.Parts[0].Ended != "signal" || r.Parts[0].Lost.Pages != 0 ||
		r.Parts[0].Pages != r.pages {
		t.Fatalf("got %+v at %d pages, want a part that a signal ended", r.Parts, r.pages)
	}
	must(t, os.Remove(filepath.Join(dir, resumeName, courseName)))
	o = endingCrawl(dir)
	report, err := o.Measure(t.Context(), logTo(t))
	must(t, err)
	benchtest.Has(t, benchtest.Text(t, report), "The file of the course was missing after", "20,000")
	benchtest.Empty(t, dir)
}

// TestGoBack: the course of a crawl returns to the counters of its last checkpoint.
func TestGoBack(t *testing.T) {
	course := func(n int64) *crawlCourse {
		c := &crawlCourse{}
		for i := range n {
			c.add(crawlTenth{Pages: 100 * i, Unique: 1000 * i, DiskBytes: 10 * i, RSS: 5, Wall: time.Duration(1000 * i),
				CPU: time.Duration(2000 * i)})
		}
		return c
	}
	for _, c := range []struct {
		what               string
		n, pages, unique   int64
		wall, cpu, lostCPU time.Duration
	}{
		{"at the end", 11, 1000, 10_000, 10_000, 20_000, 0},
		{"between two points", 11, 450, 4500, 4500, 9000, 11_000},
		{"at a point", 11, 400, 4000, 4000, 8000, 12_000},
		{"fewer URLs than the pages tell", 11, 499, 3900, 4990, 9980, 10_020},
		{"beyond the end", 11, 1050, 10_500, 10_500, 21_000, 0},
		{"far beyond", 41, 6000, 60_000, 60_000, 120_000, 0},
		{"at the beginning", 11, 0, 0, 0, 0, 20_000},
		{"no points", 0, 500, 5000, 0, 0, 0},
	} {
		x := course(c.n)
		lost := x.goBack(c.pages, c.unique)
		at := x.last()
		if at.Pages != c.pages || at.Unique != c.unique || at.Wall != c.wall || at.CPU != c.cpu ||
			lost.CPU != c.lostCPU {
			t.Errorf("%s: at %+v, lost %+v; want wall %d, CPU %d, lost CPU %d", c.what, at, lost, c.wall,
				c.cpu, c.lostCPU)
		}
		wantForward(t, x)
	}
}

// TestSizeAt: the sizes of a larger crawl follow the rules of each part.
func TestSizeAt(t *testing.T) {
	r := &Result{AllUnique: 1 << 20, AllPages: 1 << 18,
		Sizes: diskSizes{{seenKeysPart, 1 << 20, 0}, {beastPart, 300, 3}, {beastQFPart, 100, 1},
			{"pldindegree" + waitingEnd, 5000, 50}, {"names", 1 << 10, 0}}}
	n := float64(1 << 30)
	for i, want := range []float64{n * (64 - 30 + 1.44) / (64 - 20 + 1.44), 75 * 0.75 * n, 25 * 0.75 * n,
		5000, 1 << 20} {
		if got := r.sizeAt(i, n); got < want*0.999 || got > want*1.001 {
			t.Errorf("%s: got %v, want %v", r.Sizes[i].Name, got, want)
		}
	}
}

// TestURLCPU: the CPU of a new URL is found in tenths that also grow by their number.
func TestURLCPU(t *testing.T) {
	var list []crawlTenth
	for i := range 10 {
		fresh := []int64{1, 7, 6, 11, 5, 9, 4, 5, 9, 4}[i]
		list = append(list,
			crawlTenth{Pages: 1000, Unique: 1000 * fresh, CPU: 1000 * time.Duration(50_000+1500*fresh+300*int64(i))})
	}
	if got := urlCPU(list); got < 1.499 || got > 1.501 {
		t.Errorf("got %v us a URL, want 1.5", got)
	}
	for i := range list {
		list[i].Unique = 6000
	}
	if got := urlCPU(list); got != 0 {
		t.Errorf("equal numbers of URLs: got %v, want 0", got)
	}
}
