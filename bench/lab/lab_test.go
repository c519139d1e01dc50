package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// childMode in the environment makes the test binary be the command.
const childMode = "DRUMBEAT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		main()
	}
	os.Exit(m.Run())
}

// labCase is a command line, and what comes of it.
type labCase struct {
	args []string
	code int
	want []string
}

// check runs the command with each of the arguments.
func check(t *testing.T, command []string, cases ...labCase) {
	t.Helper()
	t.Setenv(childMode, "main")
	for _, c := range cases {
		var out bytes.Buffer
		l := &lab{stdout: &out, stderr: &out}
		if code := l.run(append(command[:len(command):len(command)], c.args...)); code != c.code {
			t.Errorf("%q: got exit code %d, want %d:\n%s", c.args, code, c.code, out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q: want %q in\n%s", c.args, want, out.String())
			}
		}
	}
}

// TestDrum: Pebble is measured in a process of its own, beside DRUM and in the same report.
func TestDrum(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	check(t, []string{"drum", "--dir=" + dir, "-q", "--known=3e4", "--links=5e4", "--ram=8MiB", "--disk=2MB"},
		labCase{[]string{"--forms=plain", "--against=pebble", "--out=" + out}, exitDone,
			[]string{"BenchmarkDrum/keys=3e4/ram=8MiB/form=plain \t", "form=pebble", "right, by number of each link"}},
		labCase{[]string{"--forms=abacus"}, exitUsage, []string{`no method "abacus"`}},
		labCase{[]string{"--against=abacus"}, exitUsage, []string{"--against"}},
		labCase{[]string{"--links=x"}, exitUsage, []string{"no number"}},
		labCase{[]string{"--ram=x"}, exitUsage, []string{"no size"}},
		labCase{[]string{"--disk=1000TB"}, exitFailure, []string{"lower --disk"}})
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("left %v, %v", names, err)
	}
	check(t, []string{"plot"}, labCase{[]string{filepath.Join(out, "drum.json")}, exitDone, nil},
		labCase{[]string{dir + "/none.json"}, exitFailure, []string{"no such file"}})
}

// TestUsage: help is help, and what isn't a command is refused.
func TestUsage(t *testing.T) {
	check(t, nil, labCase{[]string{"--help"}, exitDone, []string{"Compare drumbeat's parts"}},
		labCase{[]string{"juggle"}, exitUsage, []string{"juggle"}})
}

// TestFetch: every client gets the page of the server's process in every form, and many slow exchanges at once leave
// nothing behind.
func TestFetch(t *testing.T) {
	short := []string{"--time=2ms", "--repeat=1", "--goroutines=1", "--goroutines=3"}
	short = short[:len(short):len(short)]
	check(t, []string{"fetch", "-q"},
		labCase{append(short, "--schemes=http"), exitDone, []string{
			"BenchmarkFetch/scheme=http/conn=new/coding=identity/goroutines=3/client=ours",
			"scheme=http/conn=kept/coding=identity/goroutines=1/client=bare", "conn=new/coding=gzip/goroutines=3/client=fasthttp",
			"client=nethttp", "fetch with a new connection beside the bare loop's, goroutines=1"}},
		labCase{append(short, "--schemes=https", "--schemes=https-rsa", "--codings=identity"), exitDone, []string{
			"scheme=https/conn=new/coding=identity/goroutines=1/client=ours", "scheme=https/conn=resumed/coding=identity/goroutines=3/client=bare",
			"scheme=https-rsa/conn=new/coding=identity/goroutines=3/client=nethttp", "scheme=https/conn=kept/coding=identity/goroutines=3",
			"CPU of our fetch by https-rsa with a full handshake"}},
		labCase{[]string{"--schemes=http", "--conns=resumed"}, exitUsage, []string{"no form"}},
		labCase{append(short, "--schemes=http", "--clients=ours", "--codings=gzip", "--page=1000"), exitDone, []string{"client=ours"}},
		labCase{[]string{"--connections=50", "--check"}, exitDone, []string{"BenchmarkFetchMany/connections=50",
			"slow exchanges that got their page: 50.00", "goroutines left when the exchanges had ended: 0.000"}},
		labCase{[]string{"--clients=curl"}, exitUsage, []string{`no client "curl"`}},
		labCase{[]string{"--schemes=gopher"}, exitUsage, []string{`scheme "gopher"`}},
		labCase{[]string{"--goroutines=0"}, exitUsage, []string{"0 goroutines"}},
		labCase{[]string{"--page=1"}, exitUsage, []string{"page of 1 bytes"}},
		labCase{[]string{"--connections=many"}, exitUsage, []string{"want a number"}})
}

// TestDNS: each case is measured against the server in another process, and no lookup fails; the server ends.
func TestDNS(t *testing.T) {
	check(t, []string{"dns", "-q"},
		labCase{[]string{"--lookups=500", "--waiting=250", "--span=1s", "--repeat=1", "--in-flight=16",
			"--cases=hit,miss,nxdomain,aliases,tcp-10%,late-20ms-loss-2%"}, exitDone,
			[]string{"case=hit/client=ours/inflight=1 \t", "client=net.Resolver/inflight=16 \t", "client=bare-socket",
				"ok      lookups that failed, all cases: 0.000"}},
		labCase{[]string{"--cases=none"}, exitUsage, []string{`no case is named "none"`}},
		labCase{[]string{"--lookups=1e8"}, exitUsage, []string{"must lie between 1 and"}})
}

// TestDecode, like the tests below: what goes in and what comes out.
func TestDecode(t *testing.T) {
	out := t.TempDir()
	check(t, []string{"decode", "--quiet"},
		labCase{[]string{"--pages=5", "--levels=6", "--repeat=1", "--out=" + out}, exitDone, []string{"BenchmarkDecode/coding=gzip/level=6/decoder=ours"}},
		labCase{[]string{"--levels=10"}, exitUsage, []string{"level 10"}},
		labCase{[]string{"--corpus=" + out, "--pages=5"}, exitFailure, []string{"no HTML file in"}})
	checkSaved(t, out)
}

func checkSaved(t *testing.T, dir string) {
	t.Helper()
	if saved, err := os.ReadDir(dir); err != nil || len(saved) != 2 {
		t.Errorf("saved %v, %v, want text and JSON", saved, err)
	}
}

func TestParse(t *testing.T) {
	check(t, []string{"parse", "-q"},
		labCase{[]string{"--shape=10KB", "--repeat=1"}, exitDone, []string{"only generated pages are measured"}},
		labCase{[]string{"--corpus=" + t.TempDir() + "/none"}, exitFailure, []string{"no such file"}},
		labCase{[]string{"--shape=1"}, exitUsage, []string{"want 10,000"}})
}

func TestStore(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	check(t, []string{"store", "--quiet"},
		labCase{[]string{"--dir=" + dir, "--quick", "--pages=64", "--repeat=1", "--out=" + out}, exitDone, []string{"BenchmarkStore/page=gzip/way=ours"}},
		labCase{[]string{"--dir=" + dir, "--level=12"}, exitUsage, []string{"level 12"}},
		labCase{nil, exitUsage, []string{"no directory"}})
	checkSaved(t, out)
}

func TestURL(t *testing.T) {
	dir, out, empty := t.TempDir(), t.TempDir(), t.TempDir()
	page := `<base href="//h.example/d/"><a href="a b">x</a><a href=c#d>y</a><a href=c>z</a><a href=mailto:x@y>`
	if err := os.WriteFile(filepath.Join(dir, "a page.html"), []byte(page), 0o666); err != nil {
		t.Fatal(err)
	}
	check(t, []string{"url", "--quiet", "--repeat=1", "--pages=3"},
		labCase{[]string{"--corpus=" + dir, "--out=" + out}, exitDone, []string{"4 references of 1 pages, of which 4 are different on their page; 50.0 % of these are plain"}},
		labCase{nil, exitDone, []string{"made: 3 pages of 59 links"}},
		labCase{[]string{"--corpus=" + empty}, exitFailure, []string{"no HTML file in"}},
		labCase{[]string{"--corpus=" + dir + "/none"}, exitFailure, []string{"no such file"}},
		labCase{[]string{"--repeat=-1", "--pages=20000"}, exitUsage, []string{"want 1 to 10,000"}})
	checkSaved(t, out)
}
