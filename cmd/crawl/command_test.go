package crawl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/simweb"
)

// TestBadFlags: each fault is reported on one line, with exit code 2.
func TestBadFlags(t *testing.T) {
	seeds := t.TempDir() + "/seeds"
	must(t, os.WriteFile(seeds, []byte("example.org\n"), 0o600))
	good := []string{"crawl", "--seeds", seeds, "--contact", "a@example.org", "--dir", t.TempDir() + "/c",
		"--resolver", "192.0.2.1"}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--foo"}, "unknown flag --foo"},
		{[]string{"--ram=3x"}, `"3x" is not a size`},
		{[]string{"--ram=1MiB"}, "the minimum is"},
		{[]string{"--ram=0"}, "--ram can't be 0"},
		{[]string{"--max-body=0"}, "--max-body can't be 0"},
		{[]string{"--max-body=1MiB,2MiB"}, "two sizes for all types"},
		{[]string{"--max-body=image/*=1MiB"}, "has no size"},
		{[]string{"--max-body=1MiB,image/*=0"}, "--max-body image/*=0: remove the type"},
		{[]string{"--max-body=1MiB,image/*=2TiB"}, "--max-body 2.0 TiB: at most 1.0 TiB"},
		{[]string{"--max-body=1MiB,images=2MiB"}, `type "images": want a type such as`},
		{[]string{"--accept=html5,x"}, `type "html5": want a type such as`},
		{[]string{"--strip-params=a*b"}, `parameter "a*b": want a name`},
		{[]string{"--skip-extensions=tar.gz"}, `extension "tar.gz": want 1 to 8`},
		{[]string{"--budget=queue=-1"}, "queue=-1: want"},
		{[]string{"--guards=length=10"}, "--guards: length=10: want a whole number, 100 to 3500, as in length=2083"},
		{[]string{"--guards=repeats=1e9"}, "--guards: repeats=1e9: want a whole number, at most 3500, as in repeats=3"},
		{[]string{"--timeout=1"}, "has no unit"},
		{[]string{"--host-delay=-1s"}, `--host-delay: "-1s" is negative; want a duration`},
		{[]string{"--host-delay=1s,min=2s"}, "--host-delay: min=2s is more than 1s"},
		{[]string{"--contact="}, "--contact is missing"},
		{[]string{"--contact=a\nb"}, "is not allowed in a header"},
		{[]string{"--agent=my bot"}, "letters, - and _ only"},
		{[]string{"--agent=bot2"}, "letters, - and _ only"},
		{[]string{"--agent=IrlBot"}, "IRLbot was another crawler"},
		{[]string{"--tls=maybe"}, `--tls: maybe: want record or require, as in record`},
		{[]string{"--scope=site"}, "--scope must be one of"},
		{[]string{"--warc=level=0"}, `--warc: level=0: want fast, 1`},
		{[]string{"--ip=5"}, "--ip must be one of"},
		{[]string{"--accept-encoding=gzip,lzw"},
			`content coding "lzw" is not one of gzip, br, zstd, deflate, identity; give a list of these, or auto`},
		{[]string{"--accept-encoding=auto,br"}, `content coding "auto" is not one of`},
		{[]string{"--accept-encoding=br,br"}, "content coding br is given twice"},
		{[]string{"--accept-encoding="}, `content coding "" is not one of`},
		{[]string{"--allow-net=127.0.0.1/8"}, "did you mean 127.0.0.0/8"},
		{[]string{"--resolver=example"}, "is not an address such as"},
		{[]string{"--max-pages=-1"}, "want a whole number"},
		{[]string{"--budget=default=0"}, "default=0: want a whole number, 1 to"},
		{[]string{"--budget=max=5"}, "max=5 is less than default=10"},
		{[]string{"--drum=buckets=3"}, "want a power of 2"},
		{[]string{"--connections=0"}, "can't be 0"},
		{[]string{"--dir=a", "--dir=a"}, "directory a is given twice"},
		{[]string{"--seeds=no-such-file"}, "no-such-file"},
		{[]string{"extra"}, "not both"},
		{[]string{"--budget=ranks=2000000"}, "ranks=2000000: want a whole number, 1 to 1048576"},
		{[]string{"--budget=max=20000000"}, "max=20000000: want a whole number, 1 to 16777215"},
		{[]string{"--drum=chunk=1"}, "chunk=1: want a size, 4KiB to"},
		{[]string{"--drum=merge=1"}, "want room for one tuple or more"},
		{[]string{"--drum=merge=5GiB"}, "merge=5GiB: want a size, 1B to 4095MiB"},
		{[]string{"--history-bytes=1"}, "--history-bytes 1 B: must be 0 or at least 1.0 MiB"},
		{[]string{"--summary=/no/such/place"}, "--summary: /no/such does not exist"},
	} {
		code, out, errs := runApp(t, "", append(good, c.flags...)...)
		if code != term.ExitUsage || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: got %d, %q, %q, want 2 and one line with %q", c.flags, code, out, errs, c.want)
		}
	}
}

// TestLimits: --max-pages, --max-time and a signal each have their exit code, and the same command without
// them resumes.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, func(o *simweb.Options) { o.Pages = 600 })
	dir := filepath.Join(t.TempDir(), "crawl")
	flags = append(flags, "--seeds", cmdtest.SeedFile(t, web), "--dir", dir)
	out, _ := wantExit(t, term.ExitPages, "", append(flags, "--max-pages=20")...)
	if !strings.Contains(out, ": 20 pages") || !strings.Contains(out, "the same command resumes") {
		t.Errorf("--max-pages=20: %s", out)
	}
	wantExit(t, term.ExitTime, "", append(flags, "--max-time=1ms")...)
	var errs bytes.Buffer
	a := &term.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &errs,
		StopOnSignal: func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeoutCause(ctx, 50*time.Millisecond, term.ErrSignal)
			return ctx, func() { cancel() }
		}}
	if code := run(a, flags); code != term.ExitSignal {
		t.Errorf("a signal: got exit code %d, want %d: %s", code, term.ExitSignal, errs.String())
	}
	wantExit(t, term.ExitDone, "", flags...)
	if err := web.Log().Snapshot().CheckOnce(); err != nil {
		t.Error(err)
	}
	if err := web.Log().Snapshot().CheckFetched(web.Expected("drumbeat"), 1); err != nil {
		t.Error(err)
	}
}

// TestOneSite: --scope host crawls only the seed's host, by http and https; the seed may be a bare host name.
func TestOneSite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t,
		func(o *simweb.Options) { *o = simweb.Options{Seed: 1, ChainPages: 200, LogRequests: 1000} })
	dir := filepath.Join(t.TempDir(), "crawl")
	flags = append(flags, "--seeds=-", "--dir", dir, "--scope=host", "--host-delay=0", "--server-delay=0")
	out, errs := wantExit(t, term.ExitDone, web.ChainHost()+"\nhttp://[::1]/\n", flags...)
	if !strings.Contains(out, "200 pages") {
		t.Errorf("got %s", out)
	}
	if !strings.Contains(out, "http://[::1]/: ") {
		t.Errorf("the failed seed is not listed: %s", out)
	}
	if !strings.Contains(errs, "a delay of 0 s between requests to a host") {
		t.Errorf("no warning of delays: %s", errs)
	}
}

// TestPrintConfig: the printed configuration gives the same values when read again, has only values that
// differ from the defaults, and names what set each.
func TestPrintConfig(t *testing.T) {
	file := cmdtest.File(t, "c.toml",
		"contact = \"a@example.org\"\nresolver = [\"192.0.2.1\", \"[2001:db8::1]:5353\"]\n")
	out, errs := wantExit(t, term.ExitDone, "", "crawl", "--seeds=-", "--config="+file, "--preset=survey",
		`--dir=a \d"ir`, "--dir=b\\,c", "--ram=300MiB", "--disk=5GB", "--allow-net=10.0.0.0/8", "--connections=77",
		"--scope=host", "--drum=buffer=64KiB,cache=0", "--max-depth=0", "--max-pages=1e6", "--store=none,dns=off",
		"--max-redirects=20", "--print-config")
	if errs != "" {
		t.Errorf("got %q on standard error", errs)
	}
	for _, want := range []string{"# host-delay = \"2s,min=1s\"  # computed", "max-depth = 0  # command line",
		`drum = "buffer=64KiB,cache=0B"  # command line`, `dir = ["a \\d\"ir", "b,c"]  # command line`,
		`resolver = ["192.0.2.1:53", "[2001:db8::1]:5353"]  # ` + file + ":2",
		`contact = "a@example.org"  # ` + file + ":1", `connections = "77"  # command line`,
		"max-pages = 1000000  # command line", "store = \"none,dns=off\"  # command line"} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("lacks %s:\n%s", want, out)
		}
	}
	if strings.Contains(out, "max-redirects") || strings.Contains(out, "preset =") ||
		!strings.Contains(out, "predicted alpha") {
		t.Errorf("has defaults or the preset, or lacks the plan:\n%s", out)
	}
	again := cmdtest.File(t, "again.toml", out)
	twice, _ := wantExit(t, term.ExitDone, "", "crawl", "--config="+again, "--print-config")
	if got, want := values(twice), values(out); got != want {
		t.Errorf("read again:\ngot  %s\nwant %s", got, want)
	}
}

// values returns a printed configuration without sources.
func values(printed string) string {
	var b strings.Builder
	for line := range strings.Lines(printed) {
		text, _, _ := strings.Cut(strings.TrimPrefix(line, "# "), "  # ")
		b.WriteString(strings.TrimSpace(text) + "\n")
	}
	return b.String()
}

// TestEndsHaveCodes: each orderly end has an exit code.
func TestEndsHaveCodes(t *testing.T) {
	for stop, want := range map[string]int{crawl.StopDone: 0, crawl.StopCancelled: 11, crawl.StopPages: 14,
		crawl.StopTime: 15} {
		if got := term.ExitCode(EndOf(stop)); got != want {
			t.Errorf("%s: got %d, want %d", stop, got, want)
		}
	}
}

// TestNAT64Seeds: --nat64-prefix decides by the embedded address, and the advice names that one.
func TestNAT64Seeds(t *testing.T) {
	flags := append(cmdtest.OwnServer, "--dir", filepath.Join(t.TempDir(), "c"), "--nat64-prefix=2001:db8:64::/96",
		"--allow-net=64:ff9b:1::/48",
		"http://[2001:db8:64::a00:1]/", "http://[64:ff9b:1::a00:1]/")
	_, errs := wantExit(t, term.ExitNoSeed, "", flags...)
	for _, want := range []string{
		"2001:db8:64::a00:1 is a form of 10.0.0.1, which is not public: add --allow-net 10.0.0.1/32\n",
		"64:ff9b:1::a00:1 is a local NAT64 address, which only --nat64-prefix allows: --allow-net does not allow it\n",
		"No request was sent."} {
		if !strings.Contains(errs, want) {
			t.Errorf("got %q, want %q in it", errs, want)
		}
	}
}

// TestForgottenFlags: a crawl that lacks --allow-net and --ports fetches nothing, has its own exit code and
// names the flags; with them it continues in the same directory. Regression: it ended with code 0, and no
// flag retried the seeds.
func TestForgottenFlags(t *testing.T) {
	url, asked := cmdtest.TinySite(t, 5)
	port := url[strings.LastIndex(url, ":")+1:]
	seeds := filepath.Join(t.TempDir(), "seeds")
	must(t, os.WriteFile(seeds, []byte(url+"/\n"), 0o600))
	flags := append(cmdtest.OwnServer, "--seeds", seeds, "--dir", filepath.Join(t.TempDir(), "c"))
	for range 2 { // the second run finds a finished crawl
		_, errs := wantExit(t, term.ExitNoSeed, "", flags...)
		for _, want := range []string{"no page: the only seed is not allowed by this command\n",
			"port " + port + ": add --ports " + port + "\n",
			"127.0.0.1 is not public: add --allow-net 127.0.0.1/32\n", "No request was sent."} {
			if !strings.Contains(errs, want) {
				t.Errorf("got %q, want %q in it", errs, want)
			}
		}
	}
	_, errs := wantExit(t, term.ExitNoSeed, "", append(flags, "--ports="+port)...)
	if strings.Contains(errs, "add --ports") || !strings.Contains(errs, "--allow-net 127.0.0.1/32") {
		t.Errorf("got %q, want --allow-net alone in it", errs)
	}
	if got := asked(); len(got) > 0 {
		t.Errorf("asked for %v", got)
	}
	flags = append(flags, "--ports=8000,"+port, "--allow-net=127.0.0.0/8")
	wantExit(t, term.ExitDone, "", flags...)
	if got := asked(); got["/"] != 1 || got["/p4.html"] != 1 || len(got) != 7 {
		t.Errorf("asked for %v, want all pages once", got)
	}
	if out, _ := wantExit(t, term.ExitDone, "", flags...); !strings.Contains(out, "This crawl is finished") {
		t.Errorf("got %s", out)
	}
}

// TestNoSeedAtAll: a crawl without any response says so and why.
func TestNoSeedAtAll(t *testing.T) {
	seeds := filepath.Join(t.TempDir(), "seeds")
	for text, want := range map[string]string{
		"# nothing\n":         "the seeds contain no URL",
		"http://127.0.0.1:9/": "no seed could be fetched",
	} {
		must(t, os.WriteFile(seeds, []byte(text), 0o600))
		flags := append(cmdtest.OwnServer, "--seeds", seeds, "--dir", filepath.Join(t.TempDir(), "c"), "--ports=9",
			"--allow-net=127.0.0.1", "--max-pages=1")
		if _, errs := wantExit(t, term.ExitNoSeed, "", flags...); !strings.Contains(errs, want) {
			t.Errorf("%q: got %q, want %q in it", text, errs, want)
		}
	}
}

// TestModes: other users cannot read the files of a crawl, whatever the umask. An existing directory with
// wider permissions causes a warning and keeps them.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	web, flags := cmdtest.SmallWeb(t, nil)
	wide := filepath.Join(t.TempDir(), "wide")
	must(t, os.Mkdir(wide, 0o755))
	dir := filepath.Join(t.TempDir(), "new", "crawl")
	_, errs := wantExit(t, term.ExitDone, strings.Join(web.Seeds(), "\n"),
		append(flags, "--seeds=-", "--dir", dir, "--out", wide)...)
	for _, root := range []string{filepath.Dir(dir), wide} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == wide {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			want := fs.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has mode %o, want %o", path, got, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if want := fmt.Sprintf("directory %s can be read by others (mode 0755)", wide); !strings.Contains(errs, want) {
		t.Errorf("got %q, want a warning that %s", errs, want)
	}
	if info, err := os.Stat(wide); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode of the existing directory has changed: %v, %v", info, err)
	}
}

// TestOutMode: finished files have the mode of --out-mode, whatever the umask. Their directories grant the
// same access; the state grants none.
func TestOutMode(t *testing.T) {
	t.Parallel()
	defer syscall.Umask(syscall.Umask(0o077))
	web, flags := cmdtest.SmallWeb(t, nil)
	dir := filepath.Join(t.TempDir(), "crawl")
	_, errs := wantExit(t, term.ExitDone, strings.Join(web.Seeds(), "\n"),
		append(flags, "--seeds=-", "--dir", dir, "--out-mode=0660")...)
	if strings.Contains(errs, "can be") {
		t.Errorf("a warning about the requested mode: %s", errs)
	}
	finished := 0
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		switch rel, _ := filepath.Rel(dir, path); {
		case rel == ".":
			want = 0o750
		case rel == "warc" || rel == "log":
			want = 0o770
		case strings.HasPrefix(rel, "warc/") || strings.HasPrefix(rel, "log/"):
			want = 0o660
			finished++
		case d.IsDir():
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return nil
	}); err != nil || finished == 0 {
		t.Errorf("%d files of output, %v", finished, err)
	}
	for _, bad := range []string{"0666", "0400", "0750", "rw", "01640"} {
		wantExit(t, term.ExitUsage, "", "crawl", "--seeds=x", "--dir", dir, "--contact=a@example.org",
			"--out-mode="+bad)
	}
}

// TestWARCLevel: a crawl may resume with another level of --warc, which applies to the pages from then on.
func TestWARCLevel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	flags = append(flags, "--seeds", cmdtest.SeedFile(t, web))
	var size []int64
	for _, second := range []string{"--warc=level=fast", "--warc=level=9"} {
		dir := filepath.Join(t.TempDir(), "crawl")
		wantExit(t, term.ExitPages, "", append(flags, "--dir", dir, "--max-pages=5")...)
		wantExit(t, term.ExitDone, "", append(flags, "--dir", dir, second)...)
		files, err := filepath.Glob(dir + "/warc/*.warc.gz")
		if err != nil || len(files) < 2 {
			t.Fatalf("%s: files %v, %v", second, files, err)
		}
		sum := int64(0)
		for _, name := range files {
			info, err := os.Stat(name)
			must(t, err)
			sum += info.Size()
		}
		size = append(size, sum)
	}
	if size[1] >= size[0]*98/100 {
		t.Errorf("bytes of WARC files: %d at fast, %d at 9", size[0], size[1])
	}
}

// TestNamesAreAskedInMixedCase: DNS queries mix upper and lower case, which a forged reply must match.
func TestNamesAreAskedInMixedCase(t *testing.T) {
	t.Parallel()
	web, flags := cmdtest.SmallWeb(t, nil)
	upstream := slices.IndexFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--resolver=") })
	to := strings.TrimPrefix(flags[upstream], "--resolver=")
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	flags[upstream] = "--resolver=" + conn.LocalAddr().String()
	var asked, mixed atomic.Int64
	var forwarder sync.WaitGroup
	forwarder.Go(func() {
		for buf := make([]byte, 4096); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			asked.Add(1)
			if bytes.ContainsAny(buf[12:n], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
				mixed.Add(1)
			}
			if reply := askOnce(to, buf[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from) // one that is lost is asked for again
			}
		}
	})
	defer forwarder.Wait()
	defer conn.Close()
	wantExit(t, term.ExitDone, "", append(flags, "--dir", t.TempDir(), "--seeds", cmdtest.SeedFile(t, web))...)
	if mixed.Load() == 0 || mixed.Load() < asked.Load()/2 {
		t.Errorf("%d of %d questions in mixed case", mixed.Load(), asked.Load())
	}
}

// askOnce returns a name server's reply to a message; nil if there is none.
func askOnce(server string, msg []byte) []byte {
	conn, err := net.Dial("udp4", server)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second)) // the resolver repeats the query after that
	_, _ = conn.Write(msg)
	reply := make([]byte, 4096)
	n, err := conn.Read(reply)
	if err != nil {
		return nil
	}
	return reply[:n]
}
