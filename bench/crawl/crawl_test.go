package crawl

import (
	"context"
	"errors"
	"flag"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"drumbeat/bench/benchtest"
	"drumbeat/crawl/account"
)

// goroot returns the directory of Go, which a test that was built with -trimpath does not know.
func goroot(t *testing.T) string {
	t.Helper()
	if dir := build.Default.GOROOT; dir != "" {
		return dir
	}
	dir, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	return strings.TrimSpace(string(dir))
}

// functionNames returns the functions of a package with their names in a profile.
func functionNames(t *testing.T, path string) (names []string) {
	t.Helper()
	dir, ok := strings.CutPrefix(path, "drumbeat")
	if dir = filepath.Join("../..", dir); !ok {
		dir = filepath.Join(goroot(t), "src", path)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("package %s: %d files in %s, %v", path, len(files), dir, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := path + "."
			if fn.Recv != nil {
				switch recv := fn.Recv.List[0].Type.(type) {
				case *ast.StarExpr:
					if id, ok := recv.X.(*ast.Ident); ok {
						name += "(*" + id.Name + ")."
					}
				case *ast.Ident:
					name += recv.Name + "."
				}
			}
			names = append(names, name+fn.Name.Name)
		}
	}
	return names
}

// TestStageRules: each rule matches an existing function, so a renamed function doesn't lose its samples;
// each stage has a rule.
func TestStageRules(t *testing.T) {
	known := map[string][]string{}
	stages := map[crawlStage]bool{stageRuntime: true, stageCheckpoint: true}
	for _, r := range append(stageRules[:len(stageRules):len(stageRules)], weakStageRules...) {
		stages[r.stage] = true
		slash := strings.LastIndexByte(r.prefix, '/')
		path := r.prefix[:slash+1+strings.IndexByte(r.prefix[slash+1:], '.')]
		if known[path] == nil {
			known[path] = functionNames(t, path)
		}
		if !slices.ContainsFunc(known[path], func(name string) bool { return strings.HasPrefix(name, r.prefix) }) {
			t.Errorf("no function is called %s: give its successor to stage %q", r.prefix, r.stage)
		}
	}
	for s := range numStages {
		if !stages[s] {
			t.Errorf("no rule is for stage %q", s)
		}
	}
}

// TestStages: partOfStage has exactly the stages that the crawl starts.
func TestStages(t *testing.T) {
	text, err := os.ReadFile("../../crawl/crawler.go")
	must(t, err)
	var started []string
	for _, m := range regexp.MustCompile(`c\.Start\(ctx, "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "dispatch" {
			started = append(started, m[1])
		}
	}
	slices.Sort(started)
	if want := slices.Sorted(maps.Keys(partOfStage)); !slices.Equal(started, want) {
		t.Errorf("crawl starts %q, stages are for %q", started, want)
	}
}

// stack returns a sample with these functions, the innermost first.
func stack(stage string, functions ...string) *profile.Sample {
	s := &profile.Sample{Value: []int64{1, 10e6}, Label: map[string][]string{}}
	if stage != "" {
		s.Label[account.StageLabel] = []string{stage}
	}
	for _, f := range functions {
		s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: f}}}})
	}
	return s
}

func TestStageOf(t *testing.T) {
	const store, fetchOne = "drumbeat/crawl.(*crawler).store", "drumbeat/crawl.(*crawler).fetchOne"
	const do = "drumbeat/fetch.(*Client).Do"
	m := stageMemory{}
	for _, c := range []struct {
		want  crawlStage
		stack *profile.Sample
	}{
		{stageConnect, stack("dispatch", "syscall.Connect", "net.(*Dialer).DialContext",
			"drumbeat/fetch.(*exchange).dial", do, fetchOne)},
		{stageConnect,
			stack("dispatch", "syscall.Close", "net.(*conn).Close", "drumbeat/fetch.(*conn).close", do, fetchOne)},
		{stageRead, stack("dispatch", "syscall.Read", "net.(*conn).Read", "drumbeat/fetch.(*conn).Read", do, fetchOne)},
		{stageDecode, stack("dispatch", "drumbeat/fetch.drain", "drumbeat/fetch.(*exchange).decode", do, fetchOne)},
		{stageTLS,
			stack("dispatch", "syscall.Read", "drumbeat/fetch.(*conn).Read", "crypto/tls.(*Conn).Read", do, fetchOne)},
		{stageParse, stack("dispatch", "indexbytebody", "drumbeat/parse.(*Parser).scan", store, fetchOne)},
		{stageCanonical, stack("dispatch", "drumbeat/weburl.(*Resolver).AppendResolve",
			"drumbeat/parse.(*Extractor).Extract", store)},
		{stageURLSeen, stack("dispatch", "siphash.Hash", "drumbeat/weburl.(*Hasher).URLKey",
			"drumbeat/admit.(*Batch).Add", store)},
		{stageURLSeen, stack("urlseen", "drumbeat/drum.(*pass).merge")},
		{stageURLSeen, stack("urlseen", "drumbeat/drum.(*Drum).pass", "drumbeat/crawl/seen.(*Stage).MergeSeen")},
		{stageStarBeast, stack("dispatch", "drumbeat/drum.(*Drum).Add", "drumbeat/star.(*Star).AddEdges",
			"drumbeat/crawl/seen.(*Stage).SendLinks", store)},
		{stageStarBeast, stack("star", "drumbeat/drum.(*pass).merge")},
		{stageDNS, stack("robotsfetch", "drumbeat/dnscache.(*Resolver).Lookup", "drumbeat/crawl.(*crawler).lookup")},
		{stageRobots, stack("robotsfetch", "syscall.Connect", "drumbeat/fetch.(*exchange).dial", do,
			"drumbeat/crawl.(*crawler).getRobots")},
		{stagePolite, stack("dispatch", "drumbeat/polite.(*Scheduler).Next",
			"drumbeat/crawl/dispatch.(*Dispatcher).nextGrant")},
		{stageStore, stack("dispatch", "flate.Encode", "drumbeat/warc.(*Encoder).Prepare", store)},
		{stageCrawler, stack("dispatch", "runtime.mallocgc", store)},
		{stageCheckpoint, stack("checkpoint", "drumbeat/crawl.(*crawler).checkpoint")},
		{stageGC, stack("", "runtime.scanobject", "runtime.gcBgMarkWorker")},
		{stageGC, stack("dispatch", "runtime.gcDrainN", "runtime.gcAssistAlloc", "runtime.mallocgc",
			"drumbeat/parse.(*Parser).scan")},
		{stageGenerator, stack("dispatch", "drumbeat/internal/simweb.(*FlatPainter).AppendPage",
			"drumbeat/bench.(*memoryConn).Write", do)},
		{stageRuntime, stack("", "runtime.epollwait", "runtime.findRunnable")},
	} {
		if got, _ := m.of(c.stack); got != c.want {
			t.Errorf("%s under %v: got %q, want %q", c.stack.Location[0].Line[0].Function.Name,
				c.stack.Label, got, c.want)
		}
	}
}

// TestCrawlCourse: tenths have equal numbers of pages, whichever points of the course were dropped.
func TestCrawlCourse(t *testing.T) {
	for _, looks := range []int64{100, 5000, 30_000} {
		var c crawlCourse
		for i := range looks + 1 {
			c.add(crawlTenth{Pages: 10 * i, Unique: 65 * i, DiskBytes: i, RSS: i % 1000, Wall: time.Duration(i * i),
				CPU: time.Duration(i)})
		}
		list := c.tenths()
		if len(list) != 10 || len(c.Points) > crawlPoints {
			t.Fatalf("%d looks: %d tenths, %d points", looks, len(list), len(c.Points))
		}
		for i, x := range list {
			if want := looks; x.Pages < want*95/100 || x.Pages > want*105/100 || i > 0 && x.Wall <= list[i-1].Wall ||
				x.RSS < min(999, looks/10) {
				t.Errorf("%d looks: tenth %d is %+v", looks, i+1, x)
			}
		}
	}
}

var crawlSeed = flag.Uint64("crawl-seed", 1, "seed of the web of the test of bench crawl")

func smallCrawl(t *testing.T) Options {
	return Options{
		Dirs: []string{t.TempDir()}, Transport: "inproc", Pages: 3000, Duration: time.Minute, RAMBytes: 128 << 20,
		DiskBytes: 4 << 30, Seed: *crawlSeed, Hosts: 400, Seeds: 200, PLDs: 130, Addrs: 100, PageBytes: 12_000,
		Links: 59, New: 6.5, NewHosts: 0.02, Connections: 64, Repeats: 1, Agent: "drumbeat", UserAgent: "drumbeat/test",
		GCPercent: 100,
	}
}

// TestCrawlInProcess: a crawl without sockets reaches its pages, stays polite, and leaves no files.
func TestCrawlInProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	c := smallCrawl(t)
	c.Pages = 20_000
	r, err := c.Measure(context.Background(), logTo(t))
	must(t, err)
	benchtest.Has(t, benchtest.Text(t, r), "BenchmarkCrawl/form=crawl/scheme=http/transport=inproc", "canonicalise",
		"politeness", "RSS throughout")
	// A crawl without sockets fetches thousands of pages between two looks, before the measurement and at the limit.
	if n := r.Lines[0].N; n < 1000 || n > 80_000 {
		t.Errorf("%d pages measured, want some 20,000", n)
	}
	benchtest.Empty(t, c.Dirs[0])
}

func TestCrawlRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(c *Options) { c.Dirs = nil }, "--dir: want"},
		{func(c *Options) { c.Pages = -1 }, "--pages and --urls"},
		{func(c *Options) { c.Duration = -1 }, "--duration -1 ns"},
		{func(c *Options) { c.Connections = 0 }, "at least 1"},
		{func(c *Options) { c.HTTPS = true }, "need --transport sockets"},
		{func(c *Options) { c.New = 1 }, "new links"},
		{func(c *Options) { c.NewHosts = 1.1 }, "to new hosts"},
		{func(c *Options) { c.Keep = true }, "--keep needs --resume"},
		{func(c *Options) { c.Resume, c.Repeats = true, 2 }, "--resume needs"},
		{func(c *Options) { c.Resume, c.Transport = true, "sockets" }, "--resume needs"},
		{func(c *Options) { c.URLs = 1e15 }, "free"},
		{func(c *Options) { c.RAMBytes = 1 << 20 }, "too little"},
	} {
		o := smallCrawl(t)
		c.change(&o)
		if _, err := o.Measure(context.Background(), logTo(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		benchtest.Empty(t, o.Dirs...)
	}
}

// TestCrawlStops: a cancelled crawl has no result and leaves no files.
func TestCrawlStops(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	c := smallCrawl(t)
	ctx, cancel := context.WithCancel(context.Background())
	c.Pages = 1e6
	told := false
	_, err := c.Measure(ctx, func(what string) {
		if strings.Contains(what, "pages/s") {
			told = true
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || !told {
		t.Errorf("got %v, told to end: %v", err, told)
	}
	benchtest.Empty(t, c.Dirs[0])
}

func logTo(t *testing.T) func(string) { return func(s string) { t.Log(s) } }

// must ends a test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
