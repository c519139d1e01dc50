// Package cmdtest runs commands in tests, and serves webs for them.
//
// T is the table of the commands that a test runs: a struct with a field for each, like package cmd's table
// of all. So the tests of a command are in its package, depend on no other command but those that they name,
// and can use unexported identifiers; cmd's own tests run several commands. A package's TestMain calls Main,
// which makes the test binary run as the command if the environment says so: for tests of signals and exit
// codes, and for commands that start themselves as a child.
//
// Run and WantExit run a command within the test, with its own streams; tests may do so in parallel. They
// touch nothing of the process except its signals, which stop a crawl here too. WantExitAlone runs the
// command in its own process, for commands that check the RAM and the CPU time of their process.
//
// Terminal makes a pseudo-terminal, for commands that draw on one.
//
// SmallWeb serves a synthetic web of some hundred pages over sockets, with name servers, and returns the
// flags for a crawl of a second or two; its log has all requests. TinySite serves a page with some links,
// for crawls of a single host. Both end with the test. SeedFile writes a web's seeds into a file for
// --seeds. Several webs may run at once, since each has its own ports.
package cmdtest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/simweb"
)

// atOnce is the least number of parallel tests that run at once. They wait for processes, leases and rests longer than
// they compute: with one for each core, go test's default, a machine of two cores would idle for half of the time.
const atOnce = 4

// Main is the TestMain of a package whose tests start the commands T in their own process. Without -parallel, atOnce or
// more of its parallel tests run at once.
func Main[T any](m *testing.M) {
	if os.Getenv(term.ChildMode) == "main" {
		os.Exit(flags.Run(term.Process(), new(T), os.Args[1:]))
	}
	debug.SetGCPercent(400) // hundreds of small heaps: collections would take a third of the CPU time
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given && runtime.GOMAXPROCS(0) < atOnce {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			panic(err) // package testing has no such flag any more
		}
	}
	os.Exit(m.Run())
}

// Parser returns the parser of a table of commands.
func Parser(t testing.TB, table any) *kong.Kong {
	t.Helper()
	p, err := flags.NewParser(table)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Parse fills a table from arguments, without the commands' own checks.
func Parse(t testing.TB, table any, args ...string) {
	t.Helper()
	if _, err := Parser(t, table).Parse(args); err != nil {
		t.Fatal(args, err)
	}
}

// Run runs the command with args and input.
func Run[T any](t *testing.T, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = flags.Run(term.NewApp(strings.NewReader(input), &out, &errs), new(T), args)
	return code, out.String(), errs.String()
}

// WantExit runs the command and checks its exit code.
func WantExit[T any](t *testing.T, code int, input string, args ...string) (stdout, stderr string) {
	t.Helper()
	began := time.Now()
	got, out, errs := Run[T](t, input, args...)
	t.Log(args[0], time.Since(began), args[len(args)-1])
	if got != code {
		t.Fatalf("%v:\ngot exit code %d, want %d\n%s%s", args, got, code, out, errs)
	}
	return out, errs
}

// WantExitAlone runs the command in its own process and checks its exit code. It needs Main.
func WantExitAlone(t *testing.T, code int, args ...string) (stdout string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := Child(t.Context(), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%v:\ngot exit code %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
	}
	return out.String()
}

// Child returns the command as a process that is not started yet. It needs Main.
func Child(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), term.ChildMode+"=main")
	return cmd
}

// Terminal returns both ends of a pseudo-terminal of this size: what a person types and sees, and the
// command's standard input and output.
func Terminal(t *testing.T, columns, rows uint16) (person, terminal *os.File) {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Skip("no pseudo-terminals: ", err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	person = open("/dev/ptmx")
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
	if err != nil {
		t.Fatal(err)
	}
	return person, open(fmt.Sprintf("/dev/pts/%d", number))
}

// SmallWeb serves a web of some hundred pages and returns the flags that crawl it.
func SmallWeb(t testing.TB, change func(*simweb.Options)) (*simweb.Web, []string) {
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
	args := []string{"crawl", "--contact=test@example.org", "--allow-net=127.0.0.0/8", "--host-delay=5ms",
		// Short after a 5xx.
		"--server-delay=1ms", "--network-rate=0", "--network-connections=0", "--host-delay-factor=0", "--backoff=50ms",
		"--linger=200ms", "--ram=192MiB", "--connections=64", "--log-level=warn", "--crawl-log=all",
		"--skip-extensions=none", "--accept=*/*", "--resolver=" + server.DNSAddrs()[0].String()}
	for _, p := range []int{80, 8080} {
		args = append(args, fmt.Sprintf("--map-port=%d=%d", p, server.HTTPPort()))
	}
	args = append(args, fmt.Sprintf("--map-port=443=%d", server.HTTPSPort()), "--ports=8080")
	return web, args
}

// SeedFile writes the web's seeds into a file.
func SeedFile(t testing.TB, web *simweb.Web) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "seeds.txt")
	if err := os.WriteFile(name, []byte("# seeds\n"+strings.Join(web.Seeds(), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TinySite serves a page with links on loopback and counts the requests by path.
func TinySite(t *testing.T, pages int) (url string, asked func() map[string]int) {
	t.Helper()
	var mu sync.Mutex // guards got
	got := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got[r.URL.Path]++
		mu.Unlock()
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html><title>x</title>")
		for i := range pages {
			fmt.Fprintf(w, `<a href="/p%d.html">p</a>`, i)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(got)
	}
}

// File writes text into a file of that name and returns its path.
func File(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// OwnServer are the flags for a quick crawl of a server on loopback.
var OwnServer = []string{"crawl", "--contact=me@example.org", "--scope=host", "--host-delay=0s", "--server-delay=0s",
	"--pld-delay=0s", "--linger=0s", "--ram=128MiB", "--connections=8", "--log-level=warn", "--resolver=127.0.0.1:9"}
