package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"drumbeat/crawl"
	"drumbeat/disk"
	"drumbeat/internal/simweb"
)

func TestMain(m *testing.M) {
	switch os.Getenv(childMode) {
	case "main":
		main()
	case "signals":
		ctx, _ := stopOnSignal(context.Background())
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("stopping")
		select {}
	case "bug":
		commandWithBug()
	case "hangup":
		again, release := onHangup()
		fmt.Println("ready")
		<-again
		fmt.Println("again")
		release()
		select {}
	}
	os.Exit(m.Run())
}

// TestBadFlags: each is one clear line and exit code 2.
func TestBadFlags(t *testing.T) {
	seeds := t.TempDir() + "/seeds"
	if err := os.WriteFile(seeds, []byte("example.org\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{"crawl", "--seeds", seeds, "--contact", "a@example.org", "--dir", t.TempDir() + "/c", "--resolver", "192.0.2.1"}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--foo"}, "unknown flag --foo"},
		{[]string{"--ram=3x"}, `"3x" is no size`},
		{[]string{"--ram=1MiB"}, "the least that works is"},
		{[]string{"--ram=0"}, "--ram can't be 0"},
		{[]string{"--max-body=0"}, "--max-body can't be 0"},
		{[]string{"--max-body=1MiB,2MiB"}, "two sizes for all types"},
		{[]string{"--max-body=image/*=1MiB"}, "has no size"},
		{[]string{"--max-body=1MiB,image/*=0"}, "--max-body image/*=0: leave the type out"},
		{[]string{"--max-body=1MiB,image/*=2GiB"}, "--max-body 2GiB: at most 1GiB"},
		{[]string{"--max-body=1MiB,images=2MiB"}, `type "images": want a type such as`},
		{[]string{"--accept=html5,x"}, `type "html5": want a type such as`},
		{[]string{"--strip-params=a*b"}, `parameter "a*b": want a name`},
		{[]string{"--skip-extensions=tar.gz"}, `extension "tar.gz": want 1 to 8`},
		{[]string{"--max-url-length=10"}, "--max-url-length 10: must lie between 100 and"},
		{[]string{"--max-repeats=1e9"}, "--max-repeats 1000000000: must lie between 0 and"},
		{[]string{"--timeout=1"}, "missing unit in duration"},
		{[]string{"--host-delay=-1s"}, "--host-delay -1s is negative"},
		{[]string{"--host-delay=1s", "--host-delay-min=2s"}, "--host-delay-min 2s is more than --host-delay 1s"},
		{[]string{"--contact="}, "--contact is missing"},
		{[]string{"--contact=a\nb"}, "can't stand in a header"},
		{[]string{"--agent=my bot"}, "letters, - and _ only"},
		{[]string{"--agent=bot2"}, "letters, - and _ only"},
		{[]string{"--agent=IrlBot"}, "IRLbot was another crawler"},
		{[]string{"--tls=maybe"}, `--tls must be one of "record","require"`},
		{[]string{"--scope=site"}, "--scope must be one of"},
		{[]string{"--ip=5"}, "--ip must be one of"},
		{[]string{"--allow-net=127.0.0.1/8"}, "did you mean 127.0.0.0/8"},
		{[]string{"--resolver=example"}, "is no address such as"},
		{[]string{"--max-pages=-1"}, "is negative"},
		{[]string{"--budget-default=0"}, "--budget-default 0: must lie between 1 and"},
		{[]string{"--budget-max=5"}, "--budget-max 5: must lie between 10 and"},
		{[]string{"--drum-buckets=3"}, "must be a power of 2"},
		{[]string{"--connections=0"}, "can't be 0"},
		{[]string{"--dir=a", "--dir=a"}, "directory a is given twice"},
		{[]string{"--seeds=no-such-file"}, "no-such-file"},
		{[]string{"extra"}, "not both"},
		{[]string{"--queues-max=1000"}, "--queues-max 1000: must be a power of 2"},
		{[]string{"--budget-ranks=2000000"}, "--budget-ranks 2000000: must lie between 1 and 1048576"},
		{[]string{"--budget-max=20000000"}, "--budget-max 20000000: must lie between 10 and 16777215"},
		{[]string{"--drum-chunk=1"}, "--drum-chunk 1B: must lie between"},
		{[]string{"--drum-bucket=1"}, "want at least one tuple"},
		{[]string{"--drum-bucket=5GiB"}, "--drum-bucket 5GiB: must be less than 4GiB"},
		{[]string{"--trace-links=x", "--trace-limit=1"}, "--trace-limit 1B: want"},
		{[]string{"--summary=/no/such/place"}, "--summary: stat /no/such"},
	} {
		code, out, errs := runApp(t, "", append(good, c.flags...)...)
		if code != exitUsage || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: got %d, %q, %q, want 2 and one line with %q", c.flags, code, out, errs, c.want)
		}
	}
	for _, args := range [][]string{nil, {"crawll"}, {"explain"}, {"crawl"}} {
		if code, out, errs := runApp(t, "", args...); code != exitUsage || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: got %d, %q, %q, want 2 and one line", args, code, out, errs)
		}
	}
	if code, out, _ := runApp(t, "", "crawl", "--help"); code != 0 || !strings.Contains(out, "--host-delay") {
		t.Errorf("--help: got %d, %q", code, out)
	}
}

// smallWeb serves a web of some hundred pages and returns the flags that crawl it.
func smallWeb(t *testing.T, change func(*simweb.Options)) (*simweb.Web, []string) {
	t.Helper()
	o := simweb.Defaults(1)
	o.PLDs, o.Hosts, o.Pages, o.IPs, o.HTTPS, o.SeedURLs = 10, 30, 300, 10, 0, 3
	o.CrawlDelay = 20 * time.Millisecond
	if change != nil {
		change(&o)
	}
	web, err := simweb.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server, err := web.Start(t.Context(), simweb.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	flags := []string{"crawl", "--contact=test@example.org", "--allow-net=127.0.0.0/8", "--host-delay=5ms", "--server-delay=1ms", "--network-rate=0",
		"--network-connections=0", "--host-delay-factor=0", "--backoff=50ms", // hosts that answer 5xx are to hold nobody up
		"--linger=200ms", "--ram=192MiB", "--connections=64", "--log-level=warn", "--crawl-log=all", "--skip-extensions=none", "--accept=*/*",
		"--resolver=" + server.DNSAddrs()[0].String()}
	for _, p := range []int{80, 8080} {
		flags = append(flags, fmt.Sprintf("--map-port=%d=%d", p, server.HTTPPort()))
	}
	flags = append(flags, fmt.Sprintf("--map-port=443=%d", server.HTTPSPort()), "--ports=8080")
	return web, flags
}

func seedFile(t *testing.T, web *simweb.Web) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "seeds.txt")
	if err := os.WriteFile(name, []byte("# seeds\n"+strings.Join(web.Seeds(), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// wantExit runs the command and checks its exit code.
func wantExit(t *testing.T, code int, input string, args ...string) (stdout, stderr string) {
	t.Helper()
	began := time.Now()
	got, out, errs := runApp(t, input, args...)
	t.Log(args[0], time.Since(began), args[len(args)-1])
	if got != code {
		t.Fatalf("%v:\ngot exit code %d, want %d\n%s%s", args, got, code, out, errs)
	}
	return out, errs
}

// TestCrawlCommand: a crawl by the command fetches what can be reached; the same command says that it is finished; audit
// balances.
func TestCrawlCommand(t *testing.T) {
	web, flags := smallWeb(t, func(o *simweb.Options) { o.LinksPerPage = 60 })
	dir := filepath.Join(t.TempDir(), "crawl")
	flags = append(flags, "--seeds", seedFile(t, web), "--dir", dir)
	figures := filepath.Join(t.TempDir(), "figures.json")
	trace := filepath.Join(t.TempDir(), "links")
	out, _ := wantExit(t, exitDone, "", append(flags, "--summary", figures, "--trace-links", trace)...)
	if err := web.Log().Snapshot().CheckFetched(web.Expected(defaultAgent), 1); err != nil {
		t.Error(err)
	}
	var sum summaryJSON
	data, err := os.ReadFile(figures)
	if err == nil {
		err = json.Unmarshal(data, &sum)
	}
	if m := &sum.Model; err != nil || sum.Pages == 0 || sum.Unique == 0 || sum.Places["fetched"] == 0 || m.Links != sum.LinksChecked ||
		m.Bytes <= 0 || m.Predicted <= 0 || m.PredictedPageBytes <= 0 {
		t.Errorf("--summary: %v, %s", err, data)
	}
	for _, want := range []string{"pages/s by wall time", "model       URLseen I/O ", "unique URLs", dir + "/warc/*.warc.gz", "drumbeat audit " + dir,
		" files finished, ", dir + "/log/crawl-"} {
		if !strings.Contains(out, want) {
			t.Errorf("the summary lacks %q:\n%s", want, out)
		}
	}
	replay, _ := wantExit(t, exitDone, "", "bench", "cache", "-q", "--trace", trace, "--entries=16384", "--tree-entries=0", "--repeat=1")
	if links := fmt.Sprintf("links: %d of a crawl's trace, 1 generations", sum.LinksChecked+sum.LinksCached-int64(len(web.Seeds()))); !strings.Contains(replay, links) ||
		!strings.Contains(replay, "policy=ours/entries=512") {
		t.Errorf("bench cache --trace: got\n%s\nwant %q and hit rates", replay, links)
	}
	host, _ := os.Hostname()
	if files, err := filepath.Glob(filepath.Join(dir, "warc", "*-"+host+".warc.gz")); err != nil || len(files) == 0 {
		t.Errorf("no WARC file of %s: %v", host, err)
	}
	if out, _ = wantExit(t, exitDone, "", flags...); !strings.Contains(out, "This crawl is finished") {
		t.Errorf("the second run doesn't say that the crawl is finished:\n%s", out)
	}
	if out, _ = wantExit(t, exitDone, "", "audit", dir); !strings.Contains(out, "balanced") {
		t.Errorf("audit: %s", out)
	}
	if out, _ = wantExit(t, exitDone, "", "audit", "--deep", dir); !strings.Contains(out, "keys: 0 not in URLseen") ||
		!regexp.MustCompile(`\([1-9]\d* of robots.txt files, [1-9]\d* DNS answers\)`).MatchString(out) {
		t.Errorf("audit --deep: %s", out)
	}
	var deep struct {
		Balanced bool
		Output   struct{ Responses int64 }
	}
	out, _ = wantExit(t, exitDone, "", "audit", "--deep", "--json", "--ram", "1MiB", dir)
	if err := json.Unmarshal([]byte(out), &deep); err != nil || !deep.Balanced || deep.Output.Responses == 0 {
		t.Errorf("audit --deep --json: %v, %+v\n%s", err, deep, out)
	}
	if _, errs := wantExit(t, exitDirectory, "", append(flags, "--new")...); !strings.Contains(errs, "exists") {
		t.Errorf("--new: %s", errs)
	}
	lock, err := disk.OS().Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	wantExit(t, exitDirectory, "", flags...)
	wantExit(t, exitDirectory, "", "audit", dir)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	wantExit(t, exitDone, "", "repair", dir) // nothing to do
	caches, err := filepath.Glob(filepath.Join(dir, "state", "urlseen", "cache-*"))
	if err != nil || len(caches) == 0 {
		t.Fatal(caches, err)
	}
	for _, name := range caches { // its keys are known from the output
		if err := os.Truncate(name, 4096); err != nil {
			t.Fatal(err)
		}
	}
	if _, errs := wantExit(t, exitDamage, "", "audit", dir); !strings.Contains(errs, "drumbeat repair") {
		t.Errorf("audit of a damaged crawl doesn't say what to do: %s", errs)
	}
	wantExit(t, exitDamage, "", "audit", "--deep", dir)
	if out, _ = wantExit(t, exitFailure, "", "repair", "--dry-run", dir); !strings.Contains(out, "nothing was changed") {
		t.Errorf("repair --dry-run: %s", out)
	}
	if out, _ = wantExit(t, exitDone, "", "repair", dir); !strings.Contains(out, "lost: 0 URLs") {
		t.Errorf("repair: %s", out)
	}
	wantExit(t, exitDone, "", "audit", "--deep", dir)
	manifest := filepath.Join(dir, "state", "MANIFEST")
	data, err = os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(manifest, data, 0o600); err != nil {
		t.Fatal(err)
	}
	wantExit(t, exitDamage, "", flags...)
	wantExit(t, exitDamage, "", "audit", dir)
}

// TestForeignDirectory: what isn't a crawl is left alone.
func TestForeignDirectory(t *testing.T) {
	web, flags := smallWeb(t, nil)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantExit(t, exitDirectory, "", append(flags, "--seeds", seedFile(t, web), "--dir", dir)...)
	wantExit(t, exitDirectory, strings.Join(web.Seeds(), "\n"), append(flags, "--seeds=-", "--dir", dir)...)
	wantExit(t, exitDirectory, "", "audit", dir)
}

// TestLimits: --max-pages, --max-time and a signal each have their code, and the same command without them goes on.
func TestLimits(t *testing.T) {
	web, flags := smallWeb(t, func(o *simweb.Options) { o.Pages = 600 })
	dir := filepath.Join(t.TempDir(), "crawl")
	flags = append(flags, "--seeds", seedFile(t, web), "--dir", dir)
	out, _ := wantExit(t, exitPages, "", append(flags, "--max-pages=20")...)
	if !strings.Contains(out, ": 20 pages") || !strings.Contains(out, "the same command goes on") {
		t.Errorf("--max-pages=20: %s", out)
	}
	wantExit(t, exitTime, "", append(flags, "--max-time=1ms")...)
	var errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &errs,
		stopOnSignal: func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeoutCause(ctx, 50*time.Millisecond, errSignal)
			return ctx, func() { cancel() }
		}}
	if code := a.run(flags); code != exitSignal {
		t.Errorf("a signal: got exit code %d, want %d: %s", code, exitSignal, errs.String())
	}
	wantExit(t, exitDone, "", flags...)
	if err := web.Log().Snapshot().CheckOnce(); err != nil {
		t.Error(err)
	}
	if err := web.Log().Snapshot().CheckFetched(web.Expected(defaultAgent), 1); err != nil {
		t.Error(err)
	}
}

// TestMoreMachine: with other RAM, one more directory and output elsewhere the same crawl goes on to the same set.
func TestMoreMachine(t *testing.T) {
	web, flags := smallWeb(t, nil)
	tmp := t.TempDir()
	flags = append(flags, "--seeds", seedFile(t, web), "--dir="+tmp+"/a", "--out="+tmp+"/out")
	wantExit(t, exitPages, "", append(flags, "--max-pages=40")...)
	flags = append(flags, "--add-dir="+tmp+"/b", "--ram=400MiB")
	wantExit(t, exitPages, "", append(flags, "--max-pages=80")...)
	wantExit(t, exitDone, "", append(flags, "--ram=160MiB")...)
	if err := web.Log().Snapshot().CheckFetched(web.Expected(defaultAgent), 1); err != nil {
		t.Error(err)
	}
	wantExit(t, exitDone, "", "audit", tmp+"/b", tmp+"/a")
	wantExit(t, exitDirectory, "", "audit", tmp+"/a")
	if files, _ := filepath.Glob(tmp + "/out/warc/*.warc.gz"); len(files) == 0 {
		t.Error("no WARC files under --out")
	}
	if files, _ := filepath.Glob(tmp + "/*/warc/*.open"); len(files) != 0 {
		t.Errorf("files left open: %v", files)
	}
}

// TestDepth: with --max-depth=0 the seeds alone are fetched; and without archives of anything else, pages alone stored.
func TestDepth(t *testing.T) {
	web, flags := smallWeb(t, nil)
	dir := t.TempDir() + "/c"
	wantExit(t, exitDone, "", append(flags, "--seeds", seedFile(t, web), "--dir="+dir, "--max-depth=0", "--no-archive-robots", "--no-archive-dns")...)
	if out, _ := wantExit(t, exitDone, "", "audit", "--deep", dir); !strings.Contains(out, "(0 of robots.txt files, 0 DNS answers)") {
		t.Errorf("with nothing but pages to be stored, the audit says:\n%s", out)
	}
	seeds := web.Seeds()
	for url := range web.Log().Fetches() {
		if !slices.Contains(seeds, url) {
			t.Errorf("fetched %s, which is no seed", url)
		}
	}
}

// TestSeedsFromInput: standard input is kept in the directory; no input resumes with what was kept; new input adds.
func TestSeedsFromInput(t *testing.T) {
	web, flags := smallWeb(t, nil)
	dir := filepath.Join(t.TempDir(), "crawl")
	flags = append(flags, "--seeds=-", "--dir", dir)
	seeds := web.Seeds()
	wantExit(t, exitDone, seeds[0]+"\n", flags...)
	copied := filepath.Join(dir, seedsCopy)
	same := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(copied); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	same(seeds[0] + "\n")
	if out, _ := wantExit(t, exitDone, "", flags...); !strings.Contains(out, "finished") {
		t.Errorf("no input: %s", out)
	}
	wantExit(t, exitDone, seeds[0]+"\n", flags...)
	same(seeds[0] + "\n")
	wantExit(t, exitDirectory, seeds[0], append(flags, "--new")...)
	other := web.Root(web.Hosts()[len(web.Hosts())-1])
	wantExit(t, exitDone, other+"\n", flags...)
	same(seeds[0] + "\n\n" + other + "\n")
}

// TestOneSite: with --scope host only the seed's host is crawled, by its http and https names; a bare name will do.
func TestOneSite(t *testing.T) {
	web, flags := smallWeb(t, func(o *simweb.Options) { *o = simweb.Options{Seed: 1, ChainPages: 200, LogRequests: 1000} })
	dir := filepath.Join(t.TempDir(), "crawl")
	flags = append(flags, "--seeds=-", "--dir", dir, "--scope=host", "--host-delay=0", "--server-delay=0")
	out, errs := wantExit(t, exitDone, web.ChainHost()+"\nno.such.host.test\n", flags...)
	if !strings.Contains(out, "200 pages") {
		t.Errorf("got %s", out)
	}
	if !strings.Contains(out, "https://no.such.host.test/: ") && !strings.Contains(out, "http://no.such.host.test/: ") {
		t.Errorf("the seed without yield isn't listed: %s", out)
	}
	if !strings.Contains(errs, "a delay of 0s between visits to a host") {
		t.Errorf("no warning of delays: %s", errs)
	}
}

// TestPrintConfig: what it prints are flags that give the same values again.
func TestPrintConfig(t *testing.T) {
	args := []string{"crawl", "--seeds=-", "--contact=a@example.org", "--dir=a dir", "--dir=b", "--ram=300MiB", "--disk=5GB",
		"--resolver=192.0.2.1", "--resolver=[2001:db8::1]:5353", "--allow-net=10.0.0.0/8", "--connections=77", "--scope=host",
		"--drum-buffer=64KiB", "--max-depth=0", "--cache-ram=0", "--print-config"}
	out, errs := wantExit(t, exitDone, "", args...)
	if errs != "" {
		t.Errorf("got %q on standard error", errs)
	}
	again := []string{"crawl", "--print-config"}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if !strings.HasPrefix(line, "#") {
			again = append(again, line)
		}
	}
	for _, want := range []string{"--host-delay=2s", "--max-depth=0", "--cache-ram=0B", "--ram=300MiB", "--disk=5GB", "--dir=a dir",
		"--resolver=192.0.2.1:53", "--connections=77"} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("lacks %s:\n%s", want, out)
		}
	}
	if !strings.Contains(out, "# ") || !strings.Contains(out, "predicted alpha") {
		t.Errorf("lacks the plan:\n%s", out)
	}
	if twice, _ := wantExit(t, exitDone, "", again...); twice != out {
		t.Errorf("read again:\ngot  %s\nwant %s", twice, out)
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {errors.New("x"), 1}, {usageError{errors.New("x")}, 2},
		{fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}), 3},
		{fmt.Errorf("write: %w", syscall.EDQUOT), 3},
		{fmt.Errorf("x: %w", disk.ErrLocked), 4}, {fmt.Errorf("x: %w", crawl.ErrIncompatible), 4}, {fmt.Errorf("x: %w", crawl.ErrExists), 4},
		{fmt.Errorf("x: %w", &disk.CorruptError{Path: "x"}), 5},
		{errors.Join(fmt.Errorf("x: %w", crawl.ErrIncompatible), &disk.CorruptError{Path: "x"}), 5},
		{endOf(crawl.StopDone), 0}, {endOf(crawl.StopCancelled), 11}, {endOf(crawl.StopPages), 14}, {endOf(crawl.StopTime), 15},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: got %d, want %d", c.err, got, c.want)
		}
	}
}

// TestSignals: the first signal stops in order; one that comes with it is the same one; a later one stops at once.
func TestSignals(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"=signals")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
	}
	next("ready")
	for range 2 {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	next("stopping")
	<-time.After(2 * sameSignal)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitForced {
		t.Errorf("got %v, want exit code %d", err, exitForced)
	}
}

// TestDemo: the demo's own checks pass, over real sockets, and the directory that it leaves is a sound crawl.
func TestDemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	out, _ := wantExit(t, exitDone, "", "demo", "--quiet", "--pages=600", "--hosts=60", "--plds=20", "--dir", dir, "--connections=64", "--ram=256MiB")
	for _, want := range []string{"least gap", "each once", "pages/s by wall time"} {
		if !strings.Contains(out, want) {
			t.Errorf("the summary lacks %q:\n%s", want, out)
		}
	}
	wantExit(t, exitDone, "", "audit", dir)
}

// TestProgress: a block of lines on a terminal, rewritten in place and kept below what is logged; no control characters
// elsewhere.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	v := newView(&out, false, 0)
	s := &crawl.Snapshot{Time: time.Now().Add(time.Minute), Waiting: "politeness", Later: map[string]int64{"timeout": 3, "robots": 7}}
	s.SlotsNow.Samples, s.SlotsNow.Use[crawl.SlotPolite], s.SlotsNow.Use[crawl.SlotRead] = 100, 750, 250
	v.show(s)
	if got := out.String(); !strings.Contains(got, "msg=progress") || !strings.Contains(got, "waits_for=politeness") || strings.Contains(got, "\x1b") {
		t.Errorf("not a terminal: got %q", got)
	}
	out.Reset()
	v.width = func() int { return 60 }
	v.show(s)
	block := out.String()
	if !strings.Contains(block, "waits for politeness\n") || !strings.Contains(block, "later 0 (robots 7, timeout 3)\n") ||
		!strings.Contains(block, "slots     politeness 75 %, exchange 25 %\n") {
		t.Errorf("got %q", block)
	}
	for _, line := range strings.Split(block, "\n") {
		if len([]rune(line)) >= 60 {
			t.Errorf("a line of %d columns on a terminal of 60: %q", len([]rune(line)), line)
		}
	}
	out.Reset()
	v.note("hello")
	n := strings.Count(block, "\n")
	if got, erase := out.String(), fmt.Sprintf("\x1b[%dF\x1b[J", n); !strings.HasPrefix(got, erase) || !strings.HasSuffix(got, block) || !strings.Contains(got, "hello") {
		t.Errorf("got %q, want the line between %q and the block", got, erase)
	}
}

// TestCgroupMemory: the least limit of a group and those above it, for both versions.
func TestCgroupMemory(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want int64, ok bool) {
		t.Helper()
		if got, is := cgroupMemory(os.DirFS(root)); is != ok || ok && got != want {
			t.Errorf("got %d, %t, want %d, %t", got, is, want, ok)
		}
	}
	check(0, false)
	write("proc/self/cgroup", "0::/a/b\n")
	check(0, false)
	write("sys/fs/cgroup/a/b/memory.max", "max\n")
	check(0, false)
	write("sys/fs/cgroup/a/memory.max", "1000\n")
	check(1000, true)
	write("sys/fs/cgroup/a/b/memory.max", "500\n")
	check(500, true)
	write("proc/self/cgroup", "4:cpu,memory:/x\n3:pids:/y\n")
	write("sys/fs/cgroup/memory/memory.limit_in_bytes", "700\n")
	check(700, true)
}
