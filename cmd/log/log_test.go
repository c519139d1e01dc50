package log

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/disk"
	"drumbeat/disk/memfs"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/crawllog"
)

// lines splits text into its lines.
func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(s string) bool { return s == "" })
}

// TestLines: a line for a person has time, outcome, bytes, duration, URL and target; --json prints it as it is
// stored.
func TestLines(t *testing.T) {
	w := newWorld(t, memfs.New(1), "/c", 1<<20)
	e := crawllog.Entry{URL: "http://a.test/x", Status: 301, Bytes: 12345, Elapsed: 87 * time.Millisecond,
		MIME: "text/html", Redirect: "http://a.test/y", Via: "http://a.test/"}
	w.add("crawl", 1, e)
	w.add("crawl", 2, crawllog.Entry{URL: "http://b.test/?q=\"\u202e\x1b[2J\nx", Reason: "robots"})
	w.add("robots", 1.5, crawllog.Entry{URL: "http://a.test/robots.txt", Status: 503, Reason: "unreachable"})
	w.checkpoint()
	out, errs, err := w.run(Command{Log: []string{"crawl", "robots", "crawl"}, Via: true})
	want :=
		`2026-11-21 22:00:01  301             12 KiB     87 ms  http://a.test/x -> http://a.test/y  on http://a.test/
2026-11-21 22:00:01  503 unreachable         -         -  http://a.test/robots.txt
2026-11-21 22:00:02  robots               -         -  http://b.test/?q="\u202e\u001b[2J x
`
	if out != want || errs != "" || err != nil {
		t.Errorf("got\n%s%s%v, want\n%s", out, errs, err, want)
	}
	out, _, err = w.run(Command{JSON: true, Status: []statusSpan{{300, 399}}})
	e.Time = began.Add(time.Second)
	if want := string(e.Append(nil)); out != want || err != nil {
		t.Errorf("got %s, %v, want %s", out, err, want)
	}
	out, errs, err = w.run(Command{Status: []statusSpan{{500, 599}}})
	if out != "" || !strings.Contains(errs, "no line matches") || err != nil {
		t.Errorf("got %s, %s, %v", out, errs, err)
	}
}

// TestSelect: each kind of rule, alone and together.
func TestSelect(t *testing.T) {
	w := newWorld(t, memfs.New(1), "/c", 1<<20)
	for i, e := range []crawllog.Entry{
		{URL: "http://example.org/", Status: 200, MIME: "text/html"},
		{URL: "https://www.example.org:8443/a.pdf", Status: 404, MIME: "Application/PDF"},
		{URL: "http://example.org/a?b=1,2", Status: 410, MIME: "text/plain"},
		{URL: "http://xn--bcher-kva.test/a.pdf", Reason: "robots"},
		{URL: "http://notexample.org/", Reason: "robots-unavailable"},
		{URL: "http://[::1]:8080/x", Status: 500},
	} {
		w.add("crawl", float64(i), e)
	}
	w.checkpoint()
	for _, c := range []struct{ args, want string }{
		{"", "012345"}, {"--status=404", "1"}, {"--status=4xx", "12"}, {"--status=4XX,200", "012"},
		{"--status=405-500", "25"}, {"--reason=robots", "3"}, {"--reason=robots*", "34"}, {"--reason=*", "34"},
		{"--reason=dns", ""}, {"--host=example.org", "02"}, {"--host=EXAMPLE.org.", ""}, {"--host=*.example.org", "1"},
		{"--host=*.example.org --host=Example.org", "012"}, {"--host=www.example.org:8443", "1"},
		{"--host=www.example.org:443", ""}, {"--host=bücher.test", "3"}, {"--host=[::1]", "5"},
		{"--host=[0::1]:8080", "5"}, {"--url=http://example.org/", "02"}, {"--url=*.pdf", "13"},
		{"--url=http*//*example.org*?*,2", "2"}, {"--url=http://example.org/*", "02"}, {"--mime=text/html", "0"},
		{"--mime=text/*,application/pdf", "012"}, {"--status=4xx --mime=text/* --host=example.org", "2"},
		{"--since=2026-11-21T22:00:02Z", "2345"}, {"--since=2026-11-22T00:00:03+02:00", "345"},
		{"--until=2026-11-21_22:00:02", "012"}, {"--since=2026-11-21_22:00:01 --until=2026-11-21_22:00:03", "123"},
		{"--since=2026-11-22", ""}, {"--since=0s", ""}, {"--since=36500d", "012345"},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		var table commands
		parse(t, &table, args)
		out, _, err := w.run(table.Log)
		got := ""
		for i, line := range lines(out) {
			if i < 9 {
				got += string(line[len("2026-11-21 22:00:0")])
			}
		}
		if got != c.want || err != nil {
			t.Errorf("%s: got lines %q, %v, want %q", c.args, got, err, c.want)
		}
	}
}

// TestBadFlags: each bad value is refused with a reason.
func TestBadFlags(t *testing.T) {
	for _, c := range [][2]string{
		{"--status=4", "HTTP status"}, {"--status=xx", "HTTP status"}, {"--status=500-400", "HTTP status"},
		{"--status=1000", "HTTP status"}, {"--status=-5", "HTTP status"}, {"--since=yesterday", "neither a duration"},
		{"--since=-1h", "neither a duration"}, {"--since=2026-13-01", "neither a duration"},
		{"--until=", "neither a duration"}, {"--since=1e9d", "neither a duration"},
		{"--url=example.org", "beginning of a URL"}, {"--url=", "beginning of a URL"},
		{"--host=http://x/", "not a host"}, {"--host=*", "not a host"}, {"--host=a*.test", "not a host"},
		{"--mime=html", "media type"}, {"--log=x", "must be one of"}, {"--since=1h --until=2h", "is after"},
		{"--follow --count", "--follow"}, {"--follow --until=1h", "--follow"},
	} {
		_, errs := wantExit(t, term.ExitUsage, append([]string{"log", t.TempDir()}, strings.Fields(c[0])...)...)
		if !strings.Contains(errs, c[1]) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: %q, want %q", c[0], errs, c[1])
		}
	}
}

// TestNoCrawl: directories without a crawl, without the first directory, without a checkpoint.
func TestNoCrawl(t *testing.T) {
	root := t.TempDir()
	newWorld(t, disk.OS(), root, 1<<20)
	for _, c := range [][2]string{{root + "/none", "does not exist"}, {t.TempDir(), "holds no crawl"},
		{root, "no drumbeat-dir.json"}, {root + "/a", "without a checkpoint"}, {root + "/b", "first directory"}} {
		_, errs := wantExit(t, term.ExitDirectory, "log", c[0])
		if !strings.Contains(errs, c[1]) {
			t.Errorf("%s: %q, want %q", c[0], errs, c[1])
		}
	}
}

// TestOrder: lines of two logs in many files, out of order by up to a minute, come by time, each once. With a
// window that is too small they come all the same.
func TestOrder(t *testing.T) {
	w := newWorld(t, memfs.New(1), "/c", 10_000)
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 20_000
	want := map[string]int{}
	for i := range n {
		at := float64(i)/10 - 60*rng.Float64()
		log := "crawl"
		if rng.IntN(3) == 0 {
			log = "robots"
		}
		url := fmt.Sprintf("http://%d.test/%x", i%100, rng.Uint64())
		w.add(log, at, crawllog.Entry{URL: url, Status: 200})
		want[url]++
		if i == n/2 {
			w.checkpoint()
		}
	}
	w.checkpoint()
	read := func(limit int) (times []time.Time) {
		x, err := openCrawl(w.set.FS, w.set.Paths, []string{"crawl", "robots"})
		w.must(err)
		defer x.close()
		x.complain = func(text string) { t.Error(text) }
		w.must(x.refresh())
		left := map[string]int{}
		for url, n := range want {
			left[url] = n
		}
		w.must(merge(x.readers, new(filter), limit, func(f *crawllog.Fields) error {
			times = append(times, f.Time)
			if left[string(f.URL)]--; left[string(f.URL)] == 0 {
				delete(left, string(f.URL))
			}
			return nil
		}))
		if len(left) > 0 || len(times) != n {
			t.Errorf("window of %d bytes: %d lines of %d, %d differ", limit, len(times), n, len(left))
		}
		return times
	}
	if times := read(windowBytes); !slices.IsSortedFunc(times, time.Time.Compare) {
		t.Error("the lines are out of order")
	}
	if times := read(10_000); slices.IsSortedFunc(times, time.Time.Compare) {
		t.Error("a window of 10 kB sorts a minute of lines: nothing is tested")
	}
}

// TestAbsent: log says how many files are not there, and nothing while all are.
func TestAbsent(t *testing.T) {
	w := newWorld(t, memfs.New(1), "/c", 10_000)
	for i := range 5000 {
		w.add("crawl", float64(i), crawllog.Entry{URL: fmt.Sprintf("http://a.test/%x", rand.Uint64()), Status: 200})
	}
	w.checkpoint()
	for _, c := range []Command{{Log: []string{"crawl"}}, {Log: []string{"crawl"}, Count: true}} {
		if _, errs, err := w.run(c); err != nil || errs != "" {
			t.Errorf("%+v: %v, %q", c, err, errs)
		}
	}
	w.must(removeFinals(w))
	for _, c := range []Command{{Log: []string{"crawl"}}, {Log: []string{"crawl"}, Count: true}} {
		if _, errs, err := w.run(c); err != nil || strings.Count(errs, "files of the crawl log are missing") != 1 {
			t.Errorf("%+v: %v, %q", c, err, errs)
		}
	}
}

// countFS counts the files that are open.
type countFS struct {
	disk.FS
	mu        sync.Mutex // guards the fields below
	open, top int
}

type countFile struct {
	disk.File
	fs *countFS
}

func (c *countFS) OpenRead(name string) (disk.File, error) {
	f, err := c.FS.OpenRead(name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	c.top = max(c.top, c.open)
	return countFile{f, c}, nil
}

func (f countFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.open--
	return f.File.Close()
}

// TestBounded: a log of many files takes no more RAM than the window and some frames, and few open files.
func TestBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	count := &countFS{FS: memfs.New(1)}
	w := newWorld(t, count, "/c", 20_000)
	const n = 300_000
	for i := range n {
		w.add("crawl", float64(i)/100,
			crawllog.Entry{Status: 200, MIME: "text/html", Bytes: int64(i), Via: strings.Repeat("v", 99)})
	}
	w.checkpoint()
	files, err := count.List("/c/a/log")
	w.must(err)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, lines := heap(), uint64(0), 0
	x, err := openCrawl(count, w.set.Paths, []string{"crawl"})
	w.must(err)
	defer x.close()
	x.complain = func(text string) { t.Error(text) }
	w.must(x.refresh())
	w.must(merge(x.readers, new(filter), windowBytes, func(*crawllog.Fields) error {
		if lines++; lines%50_000 == 1 {
			most = max(most, heap())
		}
		return nil
	}))
	used := int64(most) - int64(before)
	t.Logf("%d lines in %d files, %d MiB of heap, %d files open at once", lines, len(files), used>>20, count.top)
	if lines != n || len(files) < 100 || used > 2*windowBytes+8<<20 || count.top > 2 || count.open > 0 {
		t.Errorf("%d lines of %d, %d files, %d bytes of heap, %d files open at once, %d now", lines, n, len(files),
			used, count.top, count.open)
	}
}

// TestCount: the numbers by outcome, in words and as JSON.
func TestCount(t *testing.T) {
	w := newWorld(t, memfs.New(1), "/c", 1<<20)
	for i := range 1234 {
		w.add("crawl", float64(i), crawllog.Entry{Status: 200})
	}
	w.add("crawl", 1, crawllog.Entry{Status: 404})
	w.add("crawl", 1, crawllog.Entry{Reason: "dns"})
	w.add("crawl", 1, crawllog.Entry{Reason: "dns"})
	w.checkpoint()
	out, _, err := w.run(Command{Count: true})
	want := "          1,234  200\n              2  dns\n              1  404\n          1,237  total\n"
	if out != want || err != nil {
		t.Errorf("got\n%s%v, want\n%s", out, err, want)
	}
	out, _, err = w.run(Command{Count: true, JSON: true, Reason: []string{"d*"}})
	var got countReport
	w.must(json.Unmarshal([]byte(out), &got))
	if err != nil || got.Total != 2 || len(got.Outcomes) != 1 || got.Outcomes[0] != (counted{outcome{0, "dns"}, 2}) {
		t.Errorf("got %s, %v", out, err)
	}
}

// TestDamage: damage is named with file and offset, the rest is read, and the exit code tells.
func TestDamage(t *testing.T) {
	root := t.TempDir()
	w := newWorld(t, disk.OS(), root, 40_000)
	const n = 20_000
	for i := range n {
		w.add("crawl", float64(i), crawllog.Entry{Status: 200})
	}
	w.roll("crawl", n)
	w.checkpoint()
	files, err := w.set.FS.List(root + "/a/log")
	w.must(err)
	if len(files) < 3 {
		t.Fatal(files)
	}
	name := root + "/a/log/" + files[1]
	data, err := os.ReadFile(name)
	w.must(err)
	hit := len(data) / 2
	data[hit] ^= 0x40
	w.must(os.WriteFile(name, data, 0o600))
	out, errs := wantExit(t, term.ExitDamage, "log", root+"/a")
	if got := len(lines(out)); got >= n || got < n-1000 {
		t.Errorf("%d lines of %d", got, n)
	}
	if !strings.HasPrefix(errs, "drumbeat: damage: disk: "+name+" at ") || strings.Count(errs, "\n") != 1 {
		t.Errorf("got %s", errs)
	}
	if out, _ := wantExit(t, term.ExitDamage, "log", root+"/a", "--count"); !strings.Contains(out, "total") {
		t.Errorf("--count: %s", out)
	}
	w.must(os.WriteFile(root+"/a/state/MANIFEST", []byte("x"), 0o600)) // the copy in b counts
	wantExit(t, term.ExitDamage, "log", root+"/a", root+"/b")
	if _, errs := wantExit(t, term.ExitDamage, "log", root+"/a"); !strings.Contains(errs, "MANIFEST") {
		t.Errorf("without a manifest: %s", errs)
	}
}

// TestFollow: --follow prints each new line once while the log is flushed, rolled, checkpointed and moved
// away, and ends with its context.
func TestFollow(t *testing.T) {
	for _, since := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memfs.New(1), "/c", 30_000)
			next, first := 0, 0
			add := func(n int) {
				for range n {
					w.add("crawl", float64(next),
						crawllog.Entry{URL: fmt.Sprintf("http://x.test/%d", next), Status: 200})
					next++
				}
			}
			lock, err := w.set.FS.Lock("/c/a")
			w.must(err)
			defer lock.Close()
			add(3000)
			w.checkpoint()
			if !since {
				first = next
			}
			add(10) // not on disk yet
			var out, errs lockedBuilder
			ctx, cancel := context.WithCancel(t.Context())
			c := Command{CrawlDirs: flags.CrawlDirs{Dir: w.set.Paths[:1]}, Log: []string{"crawl", "robots"},
				Follow: true, JSON: true}
			if since {
				c.Since = &flags.Moment{At: began}
			}
			done := make(chan error)
			go func() { done <- c.run(ctx, term.NewApp(strings.NewReader(""), &out, &errs), w.set.FS) }()
			printed := func() int { return strings.Count(out.String(), "\n") }
			late := 0
			for i := range 60 {
				add(i * 7 % 900)
				switch i % 4 {
				case 1:
					w.roll("crawl", float64(next))
				case 2:
					w.checkpoint()
				}
				if i == 30 {
					w.must(removeFinals(w))
				}
				time.Sleep(pollEvery + time.Millisecond)
				synctest.Wait()
				if i%4 == 2 && printed() != next-first {
					t.Fatalf("step %d: after a checkpoint %d lines are printed, want %d", i, printed(), next-first)
				}
				late = max(late, next-first-printed())
			}
			if late > 3000 {
				t.Errorf("%d lines were late", late)
			}
			cancel()
			if err := <-done; err != nil || errs.String() != "" {
				t.Errorf("%v, %s", err, errs.String())
			}
			for i, line := range lines(out.String()) {
				if want := fmt.Sprintf(`"url":"http://x.test/%d"`, first+i); !strings.Contains(line, want) {
					t.Fatalf("line %d is %s, want %s", i, line, want)
				}
			}
		})
	}
}

// removeFinals moves the final files away, as an operator does.
func removeFinals(w *world) error {
	paths, err := crawllog.Files(w.set, "crawl")
	for _, path := range paths {
		if err == nil {
			err = w.set.FS.Remove(path)
		}
	}
	return err
}

// lockedBuilder is a strings.Builder for two goroutines.
type lockedBuilder struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestProcess: a closed pipe ends the command without a word, and SIGINT ends --follow with code 0.
func TestProcess(t *testing.T) {
	root := t.TempDir()
	w := newWorld(t, disk.OS(), root, 1<<30)
	for i := range 30_000 {
		w.add("crawl", float64(i), crawllog.Entry{Status: 200})
	}
	w.checkpoint()
	var errs strings.Builder
	cmd := cmdtest.Child(t.Context(), "log", root+"/a")
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	w.must(err)
	w.must(cmd.Start())
	_, err = out.Read(make([]byte, 100))
	w.must(err)
	w.must(out.Close())
	_ = cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if errs.String() != "" ||
		!(status.Exited() && status.ExitStatus() == 0 || status.Signaled() && status.Signal() == syscall.SIGPIPE) {
		t.Errorf("with a closed pipe: %v, %s", cmd.ProcessState, errs.String())
	}

	cmd = cmdtest.Child(t.Context(), "log", root+"/a", "-f", "--since=36500d")
	cmd.Stderr = nil
	out, err = cmd.StdoutPipe()
	w.must(err)
	w.must(cmd.Start())
	_, err = out.Read(make([]byte, 100))
	w.must(err)
	w.must(cmd.Process.Signal(syscall.SIGINT))
	go func() { // the pipe must not be full
		b := make([]byte, 1<<16)
		for err := error(nil); err == nil; {
			_, err = out.Read(b)
		}
	}()
	if err := cmd.Wait(); err != nil {
		t.Errorf("--follow after SIGINT: %v", err)
	}
}

// BenchmarkLog reads a log of 100,000 lines in RAM.
func BenchmarkLog(b *testing.B) {
	w := newWorld(b, memfs.New(1), "/c", 4<<20)
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 100_000
	for i := range n {
		e := crawllog.Entry{URL: fmt.Sprintf("https://www.example-%d.org/section/%x/page-%d.html", rng.IntN(900),
			rng.Uint32(), i), Key: rng.Uint64(), Status: 200, Page: true, Bytes: rng.Int64N(1e5), Depth: rng.IntN(9),
			Via:     fmt.Sprintf("https://www.example-%d.org/section/%x", rng.IntN(900), rng.Uint32()),
			Elapsed: time.Duration(rng.IntN(900)) * time.Millisecond, MIME: "text/html",
			File: "DRUMBEAT-20261121220000000-00001-host.warc.gz", Offset: int64(i) * 9000}
		if i%20 == 0 {
			e.Status = 404
		}
		w.add("crawl", float64(i)/100-30*rng.Float64(), e)
	}
	w.checkpoint()
	for _, c := range []struct {
		name string
		Command
	}{{"table", Command{}}, {"json", Command{JSON: true}}, {"count", Command{Count: true}},
		{"status=404", Command{Status: []statusSpan{{404, 404}}}}} {
		b.Run(c.name, func(b *testing.B) {
			c.Dir, c.Log = w.set.Paths, []string{"crawl"}
			a := term.NewApp(strings.NewReader(""), term.NewPlain(io.Discard), io.Discard)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.run(b.Context(), a, w.set.FS); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
