package crawl

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/crawl"
	"drumbeat/crawl/outage"
	"drumbeat/internal/cmdtest"
	"drumbeat/internal/ports"
)

// TestModestPlan: a crawl of one site or of some pages gets less RAM and free space than one planned for a
// billion pages.
func TestModestPlan(t *testing.T) {
	m := term.Machine{RAMBytes: 64 << 30, RAMFrom: "physical memory"}
	plan := func(args ...string) (crawl.Plan, flags.Size) {
		var c commands
		cmdtest.Parse(t, &c,
			append([]string{"crawl", "--contact=me@example.org", "--resolver=127.0.0.1:9", "--disk=1TiB",
				"example.org"}, args...)...)
		if _, err := c.Crawl.Complete(m); err != nil {
			t.Fatal(err)
		}
		opt := c.Crawl.Options()
		opt.Limits.DiskBytes = 1 << 40
		made, err := MakePlan(&opt)
		must(t, err)
		return made, *c.Crawl.RAM
	}
	for _, args := range [][]string{{"--scope=host"}, {"--scope=pld"}, {"--max-pages=200"}} {
		if p, ram := plan(args...); ram > 11<<27 || p.KeepFreeBytes > 700<<20 {
			t.Errorf("%v: --ram %v, %d MiB to stay free", args, ram, p.KeepFreeBytes>>20)
		}
	}
	for _, args := range [][]string{{}, {"--max-pages=1e9"}} {
		if _, ram := plan(args...); ram != 32<<30 {
			t.Errorf("%v: --ram %v, want half of the machine's", args, ram)
		}
	}
	for _, size := range []string{"64MiB", "5GiB"} { // larger bodies are spooled
		if _, ram := plan("--scope=host", "--max-body="+size); ram < 2<<30 || ram > 5<<29 {
			t.Errorf("--max-body=%s: --ram %v", size, ram)
		}
	}
}

// TestHeldLimits: RAM holds as much of a body as its share allows, and at least the default of --max-body.
func TestHeldLimits(t *testing.T) {
	for _, c := range []struct {
		most       int
		room       int64
		least, top int
	}{
		{2 << 20, 1 << 30, 2 << 20, 2 << 20},
		{2 << 20, 1 << 20, 2 << 20, 2 << 20},
		{512 << 10, 1 << 20, 512 << 10, 512 << 10},
		{20 << 20, 1 << 30, 20 << 20, 20 << 20},
		{5 << 30, 64 << 20, 7 << 20, 9 << 20},
		{5 << 30, 1 << 20, 2 << 20, 2 << 20},
	} {
		l := heldLimits(c.most, c.room)
		if l.BodyBytes != c.most || l.HeldBytes < c.least || l.HeldBytes > c.top || l.DecodedBytes != 4*l.HeldBytes {
			t.Errorf("%d bytes, room for %d: %+v", c.most, c.room, l)
		}
	}
}

// TestPorts: --ports takes lists and ranges, may be repeated, and prints what it can read.
func TestPorts(t *testing.T) {
	c := parseCrawl(t, "--ports=8080,8000-8002", "--ports=65535")
	if got, want := fmt.Sprint(c.Ports, ports.New(c.Ports...)),
		"[8080 8000-8002 65535] 8000-8002,8080,65535"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, bad := range []string{"", "0", "-1", "65536", "x", "90-80", "80-", "0-5", "8080;9"} {
		var p ports.Range
		if err := p.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, p)
		}
	}
}

// TestZeroIsNotDefault: a flag for which 0 has a meaning keeps the value 0.
func TestZeroIsNotDefault(t *testing.T) {
	m := term.Machine{RAMBytes: 1 << 34, RAMFrom: "physical memory", Descriptors: 1 << 20}
	c := parseCrawl(t, "--host-delay=0", "--server-delay=0s", "--retries=0", "--max-depth=0", "--linger=0",
		"--drum=cache=0")
	notes, err := c.Complete(m)
	must(t, err)
	if *c.HostDelay.Usual != 0 || *c.HostDelay.Least != 0 || *c.ServerDelay.Usual != 0 || *c.ServerDelay.Least != 0 ||
		c.Retries != 0 || *c.MaxDepth != 0 || c.Linger != 0 || *c.Geometry.Cache != 0 || *c.PLDDelay.Usual != 0 ||
		*c.NetworkRate != 0 || *c.NetworkConnections != 0 || *c.HostDelayFactor != 0 {
		t.Errorf("got %+v, want zeros", c)
	}
	if !strings.Contains(strings.Join(notes, "\n"),
		"WARNING: a delay of 0 s between requests to a host, a delay of 0 s between requests to an address") {
		t.Errorf("got %q, want a warning of the delays", notes)
	}
}

// TestAdaptiveDelayFlag: --adaptive-delay is off by default, and needs a factor and room below --host-delay.
func TestAdaptiveDelayFlag(t *testing.T) {
	m := term.Machine{RAMBytes: 1 << 34, RAMFrom: "physical memory", Descriptors: 1 << 20}
	for _, c := range []struct {
		args []string
		on   bool
		err  string
	}{
		{nil, false, ""},
		{[]string{"--adaptive-delay"}, true, ""},
		{[]string{"--adaptive-delay", "--scope=host"}, true, ""},
		{[]string{"--adaptive-delay", "--host-delay-factor=0"}, false, "needs --host-delay-factor above 0"},
		{[]string{"--adaptive-delay", "--host-delay=0"}, false, "needs --host-delay-factor above 0"},
		{[]string{"--adaptive-delay", "--host-delay=min=40s"}, false, "both are 40 s"},
	} {
		cmd := parseCrawl(t, c.args...)
		_, err := cmd.Complete(m)
		if err != nil {
			if c.err == "" || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: got %v, want %q", c.args, err, c.err)
			}
			continue
		}
		if on := cmd.Options().Politeness.AdaptiveDelay; on != c.on || c.err != "" {
			t.Errorf("%v: adaptive: %t, want %t, and the error %q", c.args, on, c.on, c.err)
		}
	}
}

// TestReferenceFlag: --reference takes hosts and URLs, one at a time. A bad one, or one too many, is an error
// that names the flag.
func TestReferenceFlag(t *testing.T) {
	most := make([]string, outage.MaxReferences)
	for i := range most {
		most[i] = fmt.Sprintf("--reference=https://up%d.example/?a=1,2", i)
	}
	references := func(args ...string) []string {
		t.Helper()
		c := parseCrawl(t, args...)
		m := term.Machine{RAMBytes: 1 << 34, RAMFrom: "physical memory", Descriptors: 1 << 20}
		if _, err := c.Complete(m); err != nil {
			t.Fatal(err)
		}
		return c.Options().Limits.References
	}
	want := []string{"https://example.com/robots.txt"}
	if got := references("--reference=EXAMPLE.com"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := references(most...); len(got) != len(most) || got[1] != "https://up1.example/?a=1,2" {
		t.Errorf("%d references: got %q", len(most), got)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--reference="}, "--reference"},
		{[]string{"--reference=ftp://example.com/"}, `--reference: reference "ftp://example.com/"`},
		{[]string{"--reference=example.com:x"}, `reference "example.com:x": want a host`},
		{[]string{"--reference=a.example,b.example"}, `',' in the host`},
		{[]string{"--reference=https://me:secret@example.com/"}, "user names and passwords are not sent"},
		{[]string{"--reference=example.com", "--reference=*.example.com"}, `'*' in the host`},
		{append([]string{"--reference=example.com"}, most...), "--reference is given 9 times, want at most 8"},
	} {
		args := append([]string{"crawl", "--seeds=-", "--contact=a@example.org", "--resolver=127.0.0.1:9",
			"--dir=" + t.TempDir()}, c.args...)
		if _, stderr := wantExit(t, term.ExitUsage, "", args...); !strings.Contains(stderr, c.says) {
			t.Errorf("%q: got %q, want %q", c.args, stderr, c.says)
		}
	}
}

// TestCrawlReserves: the number of reserved descriptors follows from the flags.
func TestCrawlReserves(t *testing.T) {
	m := term.Machine{Descriptors: 1024}
	c := parseCrawl(t, "--dir", "a", "--dir", "b", "--drum", "workers=64", "--direct-io")
	if n, _ := c.reserve(m).Connections(10_000); n != 1024-(64+2*(2*(3*64+8)+6)) {
		t.Errorf("64 workers, 2 directories: %d connections", n)
	}
}

// TestComputedDefaults: the defaults that depend on the machine and the scope.
func TestComputedDefaults(t *testing.T) {
	m := term.Machine{RAMBytes: 1 << 34, RAMFrom: "physical memory", Descriptors: 1024}
	c := parseCrawl(t)
	notes, err := c.Complete(m)
	must(t, err)
	if *c.HostDelay.Usual != 40*time.Second || *c.HostDelay.Least != time.Second ||
		*c.ServerDelay.Usual != time.Second || *c.ServerDelay.Least != 200*time.Millisecond || *c.RAM != 1<<33 ||
		c.Connections.Most() != 768 || *c.Disk <= 0 {
		t.Errorf("got %v %v %v %v %v %v %v", *c.HostDelay.Usual, *c.HostDelay.Least, *c.ServerDelay.Usual,
			*c.ServerDelay.Least, *c.RAM, *c.Connections, *c.Disk)
	}
	if *c.PLDDelay.Usual != 500*time.Millisecond || *c.PLDDelay.Least != 20*time.Millisecond || *c.NetworkRate != 10 ||
		*c.NetworkConnections != 20 || *c.HostDelayFactor != 10 || c.MaxCrawlDelay != time.Hour {
		t.Errorf("got %v %v %v %v %v %v", *c.PLDDelay.Usual, *c.PLDDelay.Least, *c.NetworkRate, *c.NetworkConnections,
			*c.HostDelayFactor, c.MaxCrawlDelay)
	}
	said := strings.Join(notes, "\n")
	if !strings.Contains(said, "lowered from 2000 to 768") || !strings.Contains(said, "half of physical memory") ||
		strings.Contains(said, "WARNING") {
		t.Errorf("got %q", said)
	}
	for _, scope := range []string{"host", "pld"} {
		c = parseCrawl(t, "--scope="+scope)
		if notes, err = c.Complete(m); err != nil || *c.HostDelay.Usual != 2*time.Second ||
			!strings.Contains(strings.Join(notes, "\n"), "budgets are off") {
			t.Errorf("scope %s: got %v, %q, %v", scope, *c.HostDelay.Usual, notes, err)
		}
	}
	c = parseCrawl(t, "--scope=host", "--host-delay=30s")
	if _, err = c.Complete(m); err != nil || *c.HostDelay.Usual != 30*time.Second {
		t.Errorf("got %v, %v, want 30s", *c.HostDelay.Usual, err)
	}
}

// parseCrawl returns the command that args describe.
func parseCrawl(t *testing.T, args ...string) *Command {
	t.Helper()
	var c commands
	cmdtest.Parse(t, &c, append([]string{"crawl", "--seeds=-", "--contact=a@example.org",
		"--resolver=127.0.0.1:5353"}, args...)...)
	must(t, c.Crawl.check())
	return &c.Crawl
}

// TestNearFlags: --near-duplicates is refused where it has no effect, and says why.
func TestNearFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--near-duplicates=keep-one --store=none", "is for --store warc"},
		{"--near-duplicates=keep-one --content-seen=off", "is for --store warc"},
		{"--near-duplicates=keep-one,visits=8", "visits is for --recrawl"},
		{"--near-duplicates=off,store=all", "are for keep-one"},
		{"--near-duplicates=off,bits=2", "are for keep-one"},
		{"--near-duplicates=keep-one,visits=8,bits=0,store=all --recrawl", ""},
		{"--near-duplicates=keep-one --content-seen=skip", ""},
		{"", ""},
	} {
		var cmd commands
		cmdtest.Parse(t, &cmd, append([]string{"crawl", "--contact=me@example.org", "example.org"},
			strings.Fields(c.args)...)...)
		if err := cmd.Crawl.checkNear(); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}
