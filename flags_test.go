package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write docs/FLAGS.md anew")

const flagsHead = `# Commands and flags

Made from the table in flags.go by ` + "`go test -run TestFlagsPage -update .`" + `; a test keeps the two equal.

Sizes take decimal and binary units and mean what they say: 2MB is 2,000,000 bytes, 2MiB is 2,097,152. Durations are
written 90s, 2m, 1h30m. Large numbers may be written 1e6 or 1_000_000. Each flag can be set by an environment variable:
` + "`--host-delay`" + ` by ` + "`DRUMBEAT_HOST_DELAY`" + `, those of demo by ` + "`DRUMBEAT_DEMO_…`" + ` and those of
bench by ` + "`DRUMBEAT_BENCH_…`" + `; what stands on the command line wins. A wrong value is one line on standard error and exit
code 2.
`

// flagsPage is docs/FLAGS.md.
func flagsPage(t *testing.T) string {
	t.Helper()
	var c cli
	p, err := newParser(&c)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(flagsHead)
	for _, command := range p.Model.Leaves(true) {
		fmt.Fprintf(&b, "\n## drumbeat %s\n\n%s\n", strings.TrimPrefix(command.Path(), "drumbeat "), command.Help)
		for _, arg := range command.Positional {
			fmt.Fprintf(&b, "\n- `%s`: %s", arg.Summary(), arg.Help)
		}
		if len(command.Positional) > 0 {
			b.WriteString("\n")
		}
		writeFlags(&b, command, "", "Flags")
		for _, g := range flagGroups {
			writeFlags(&b, command, g.Key, g.Title)
		}
	}
	return b.String()
}

func writeFlags(b *strings.Builder, command *kong.Node, group, title string) {
	head := fmt.Sprintf("\n**%s**\n\n| flag | default | what it does |\n|---|---|---|\n", title)
	for _, f := range command.Flags {
		key := ""
		if f.Group != nil {
			key = f.Group.Key
		}
		if f.Hidden || f.Name == "help" || key != group {
			continue
		}
		name := "--" + f.Name
		if !f.IsBool() {
			value := f.PlaceHolder
			if f.Enum != "" {
				value = strings.ReplaceAll(f.Enum, ",", "\\|")
			}
			name += "=" + value
		}
		def := f.Default
		if def == "" && f.IsBool() {
			def = "off"
		}
		fmt.Fprintf(b, "%s| `%s` | %s | %s |\n", head, name, def, f.Help)
		head = ""
	}
}

// TestFlagsPage: docs/FLAGS.md is what the flag table makes.
func TestFlagsPage(t *testing.T) {
	want := flagsPage(t)
	const name = "docs/FLAGS.md"
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("%s is not what flags.go says; run go test -run TestFlagsPage -update .", name)
	}
}

// TestSizes: decimal and binary units mean what they say, and String can be read again.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		text string
		want size
		back string
	}{{"2MiB", 2 << 20, "2MiB"}, {"2MB", 2e6, "2MB"}, {"1GiB", 1 << 30, "1GiB"}, {"1GB", 1e9, "1GB"}, {"8TB", 8e12, "8TB"},
		{"64KiB", 64 << 10, "64KiB"}, {"64kB", 64e3, "64kB"}, {"4096", 4096, "4KiB"}, {"1.5GiB", 3 << 29, "1536MiB"},
		{"0", 0, "0B"}, {"7B", 7, "7B"}, {"2 MiB", 2 << 20, "2MiB"}, {"2mib", 2 << 20, "2MiB"}} {
		var s, again size
		if err := s.UnmarshalText([]byte(c.text)); err != nil || s != c.want || s.String() != c.back {
			t.Errorf("%s: got %d, %q, %v, want %d, %q", c.text, s, s.String(), err, c.want, c.back)
		}
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%s: read again got %d, %v, want %d", s, again, err, s)
		}
	}
	for _, bad := range []string{"", "x", "-1", "3x", "1e99TB", "MiB", "1 2", "99999999999TB"} {
		var s size
		if err := s.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q: got %d, want an error", bad, s)
		}
	}
}

func TestCounts(t *testing.T) {
	for text, want := range map[string]count{"0": 0, "7": 7, "1e6": 1e6, "20_000": 20000, "2.5e3": 2500} {
		var c count
		if err := c.UnmarshalText([]byte(text)); err != nil || c != want {
			t.Errorf("%s: got %d, %v, want %d", text, c, err, want)
		}
	}
	for _, bad := range []string{"", "-1", "1.5", "x", "1e30", "NaN", "Inf"} {
		var c count
		if err := c.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q: got %d, want an error", bad, c)
		}
	}
}

// TestPorts: lists and ranges, repeated; each prints as what can be given again.
func TestPorts(t *testing.T) {
	c := parseCrawl(t, "--ports=8080,8000-8002", "--ports=65535")
	if got, want := fmt.Sprint(c.Ports, portList(c.Ports)), "[8080 8000-8002 65535] [8080 8000 8001 8002 65535]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, bad := range []string{"", "0", "-1", "65536", "x", "90-80", "80-", "0-5", "8080;9"} {
		var p portRange
		if err := p.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, p)
		}
	}
}

// parseCrawl returns the crawl flags that args make.
func parseCrawl(t *testing.T, args ...string) *crawlCmd {
	t.Helper()
	var c cli
	p, err := newParser(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse(append([]string{"crawl", "--seeds=-", "--contact=a@example.org", "--resolver=127.0.0.1:5353"}, args...)); err != nil {
		t.Fatal(err)
	}
	if err := c.Crawl.check(); err != nil {
		t.Fatal(err)
	}
	return &c.Crawl
}

// TestZeroIsNotDefault: where 0 has a meaning, it arrives as 0.
func TestZeroIsNotDefault(t *testing.T) {
	m := machine{ramBytes: 1 << 34, ramFrom: "physical memory", descriptors: 1 << 20}
	c := parseCrawl(t, "--host-delay=0", "--server-delay=0s", "--retries=0", "--max-depth=0", "--linger=0", "--cache-ram=0")
	notes, err := c.complete(m)
	if err != nil {
		t.Fatal(err)
	}
	if *c.HostDelay != 0 || *c.HostDelayMin != 0 || c.ServerDelay != 0 || *c.ServerDelayMin != 0 || c.Retries != 0 ||
		*c.MaxDepth != 0 || c.Linger != 0 || *c.CacheRAM != 0 || *c.PLDDelay != 0 || *c.NetworkRate != 0 || *c.NetworkConnections != 0 ||
		*c.HostDelayFactor != 0 {
		t.Errorf("got %+v, want zeros", c)
	}
	if !strings.Contains(strings.Join(notes, "\n"), "WARNING: a delay of 0s between visits to a host, a delay of 0s between visits to an address") {
		t.Errorf("got %q, want a warning of the delays", notes)
	}
}

// TestDescriptorsForFiles: many directories and workers leave fewer descriptors for connections.
func TestDescriptorsForFiles(t *testing.T) {
	m := machine{descriptors: 1024}
	for _, v := range []struct {
		dirs, outs, workers int
		direct              bool
		want                int64
	}{{1, 0, 3, false, 1024 - leastFiles}, {12, 12, 8, false, 1024 - 568}, {12, 12, 8, true, 1024 - 952}, {24, 0, 16, true, 1}} {
		if n, why := m.withFiles(v.dirs, v.outs, v.workers, v.direct).connections(10_000); n != v.want || why == "" {
			t.Errorf("%+v: got %d connections, %q", v, n, why)
		}
	}
	c := parseCrawl(t, "--dir", "a", "--dir", "b", "--drum-workers", "64", "--direct-io")
	if n, _ := m.forCrawl(c).connections(10_000); n != 1024-(64+2*(2*(3*64+8)+6)) {
		t.Errorf("64 workers, 2 directories: %d connections", n)
	}
}

// TestComputedDefaults: what the machine and the scope decide.
func TestComputedDefaults(t *testing.T) {
	m := machine{ramBytes: 1 << 34, ramFrom: "physical memory", descriptors: 1024}
	c := parseCrawl(t)
	notes, err := c.complete(m)
	if err != nil {
		t.Fatal(err)
	}
	if *c.HostDelay != 40*time.Second || *c.HostDelayMin != time.Second || c.ServerDelay != time.Second ||
		*c.ServerDelayMin != 200*time.Millisecond || *c.RAM != 1<<33 || c.Connections.most() != 1024-leastFiles || *c.Disk <= 0 {
		t.Errorf("got %v %v %v %v %v %v %v", *c.HostDelay, *c.HostDelayMin, c.ServerDelay, *c.ServerDelayMin, *c.RAM, *c.Connections, *c.Disk)
	}
	if *c.PLDDelay != 500*time.Millisecond || *c.PLDDelayMin != 20*time.Millisecond || *c.NetworkRate != 10 || *c.NetworkConnections != 20 ||
		*c.HostDelayFactor != 10 || c.MaxCrawlDelay != 300*time.Second {
		t.Errorf("got %v %v %v %v %v %v", *c.PLDDelay, *c.PLDDelayMin, *c.NetworkRate, *c.NetworkConnections, *c.HostDelayFactor, c.MaxCrawlDelay)
	}
	said := strings.Join(notes, "\n")
	if !strings.Contains(said, "lowered from 2000 to 768") || !strings.Contains(said, "half of physical memory") || strings.Contains(said, "WARNING") {
		t.Errorf("got %q", said)
	}
	for _, scope := range []string{"host", "pld"} {
		c = parseCrawl(t, "--scope="+scope)
		if notes, err = c.complete(m); err != nil || *c.HostDelay != 2*time.Second || !strings.Contains(strings.Join(notes, "\n"), "budgets are off") {
			t.Errorf("scope %s: got %v, %q, %v", scope, *c.HostDelay, notes, err)
		}
	}
	c = parseCrawl(t, "--scope=host", "--host-delay=30s")
	if _, err = c.complete(m); err != nil || *c.HostDelay != 30*time.Second {
		t.Errorf("got %v, %v, want 30s", *c.HostDelay, err)
	}
}

// TestEnvironment: a variable stands for a flag; the flag wins; demo's are apart.
func TestEnvironment(t *testing.T) {
	t.Setenv("DRUMBEAT_HOST_DELAY", "7s")
	t.Setenv("DRUMBEAT_MAX_PAGES", "5")
	if c := parseCrawl(t, "--max-pages=6"); *c.HostDelay != 7*time.Second || c.MaxPages != 6 {
		t.Errorf("got %v and %d, want 7s and 6", *c.HostDelay, c.MaxPages)
	}
	var c cli
	p, err := newParser(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse([]string{"demo"}); err != nil || c.Demo.HostDelay != 10*time.Millisecond {
		t.Errorf("demo: got %v, %v, want 10ms", c.Demo.HostDelay, err)
	}
}

func TestUserAgent(t *testing.T) {
	if got, want := userAgent("drumbeat", "a@example.org"), "drumbeat/"+versionNumber+" (+a@example.org)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
